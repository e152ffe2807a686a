"""What is trained in the benchmark of training: sizes, text, and the weights both sides begin with. No torch here."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import ConfigError
from ostinato.text.corpora import prepare
from ostinato.text.options import DataOptions

TOKENS = 1_000_000
"""Of a text that is made; it is read again and again."""

SEED = 1111


@dataclass(frozen=True)
class TrainCase:
    """A recurrent language model with tied embeddings, trained by SGD on rows of consecutive text."""

    name: str
    hidden: int
    vocabulary: int = 10_000
    layers: int = 2
    rows: int = 20
    bptt: int = 35
    kind: str = "lstm"
    tokeniser: Literal["word", "char"] = "word"
    residual: bool = False
    dropout: float = 0.2
    rate: float = 20.0
    clip: float = 0.25

    @property
    def tokens(self) -> int:
        """Read in an update."""
        return self.rows * self.bptt

    @property
    def flops(self) -> int:
        """Of the matrix products of an LSTM's update: forward, and twice as much back."""
        return 6 * self.tokens * (8 * self.hidden**2 * self.layers + self.vocabulary * self.hidden)


CASES = {
    case.name: case
    for case in (
        TrainCase("lstm-200", 200),
        TrainCase("lstm-650", 650),
        TrainCase("lstm-200-33k", 200, 33_278),
        TrainCase("char-512", 512, 65, rows=50, bptt=50, tokeniser="char"),
    )
}
"""Beside the example of PyTorch; its sizes, two of its vocabularies, and the usual size for characters."""

EQUAL = {
    "min-gru": TrainCase("min-gru", 256, kind="min-gru", layers=8, residual=True, rate=1.0),
    "min-lstm": TrainCase("min-lstm", 256, kind="min-lstm", layers=5, residual=True, rate=1.0),
}
"""Cells whose states need no matrix, beside `LSTM`, which has about as many parameters."""

LSTM = TrainCase("lstm-256", 256, rate=1.0)


def zipf_ids(vocabulary: int, tokens: int = TOKENS, seed: int = SEED) -> NDArray[np.int64]:
    """Ids [tokens] below `vocabulary`, drawn independently, the probability of id n in proportion to 1 / (n + 1)."""
    shares = np.cumsum(1 / np.arange(1, vocabulary + 1))
    drawn = np.random.default_rng(seed).random(tokens) * shares[-1]
    ids: NDArray[np.int64] = np.minimum(np.searchsorted(shares, drawn), vocabulary - 1)
    return ids


def text_ids(text: Path, case: TrainCase) -> NDArray[np.int64]:
    """A text as ids, all but the commonest pieces unknown. Raises ConfigError if there is none, DataError."""
    if not text.is_file():
        raise ConfigError(f"{text}: there is no such file; leave --text out for a text that is made")
    options = DataOptions(
        (str(text),), tokeniser=case.tokeniser, min_count=1, limit=case.vocabulary - 2, regime="stream"
    )
    with tempfile.TemporaryDirectory() as folder:
        ids: NDArray[Any] = prepare(options, Path(folder) / "text").train.ids
        return np.asarray(ids, np.int64)


def initial_weights(case: TrainCase, seed: int = SEED) -> dict[str, NDArray[np.float32]]:
    """The LSTM's weights as PyTorch's example begins: embeddings within 0.1, all else of nn.LSTM within 1/sqrt(H).

    embedding [V, H], output_bias [V], and for each layer n input.n, hidden.n [4H, H] and the biases input_bias.n,
    hidden_bias.n [4H], rows i, f, g, o.
    """
    chance, bound, hidden = np.random.default_rng(seed), case.hidden**-0.5, case.hidden

    def uniform(limit: float, *shape: int) -> NDArray[np.float32]:
        return chance.uniform(-limit, limit, shape).astype(np.float32)

    weights = {
        "embedding": uniform(0.1, case.vocabulary, hidden),
        "output_bias": np.zeros(case.vocabulary, np.float32),
    }
    for layer in range(case.layers):
        for name in ("input", "hidden"):
            weights[f"{name}.{layer}"] = uniform(bound, 4 * hidden, hidden)
            weights[f"{name}_bias.{layer}"] = uniform(bound, 4 * hidden)
    return weights
