"""What is stepped in the benchmark of streaming: an LSTM language model with drawn weights. No torch here."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostinato.core.vocabulary import Ids, Vocabulary
from ostinato.nn.options import LSTMOptions
from ostinato.stream.model import StreamModel

SEED = 1


@dataclass(frozen=True)
class StreamCase:
    """Layers of LSTM between embeddings and a softmax that shares them; so many sessions read a token each a step."""

    hidden: int
    sessions: int = 1
    layers: int = 2
    vocabulary: int = 10_000

    @property
    def parameters(self) -> int:
        """Numbers learnt, a bias for each gate."""
        return (
            (self.vocabulary + 2) * self.hidden + self.vocabulary + self.layers * (8 * self.hidden**2 + 4 * self.hidden)
        )


def weights(case: StreamCase) -> dict[str, NDArray[np.float32]]:
    """The arrays of a model by the names that training gives them; rows i, f, g, o.

    Drawn wider than at the start of training, so that distributions are about as sharp as those of trained models, and
    what a precision costs can be seen.
    embedding.weight has two rows more than there are words, for what can only be read.
    """
    chance, hidden = np.random.default_rng(SEED), case.hidden

    def uniform(bound: float, *shape: int) -> NDArray[np.float32]:
        return (2 * bound * (chance.random(shape, np.float32) - np.float32(0.5))).astype(np.float32)

    arrays = {
        "embedding.weight": uniform(1.0, case.vocabulary + 2, hidden),
        "head.bias": uniform(1.0, case.vocabulary),
    }
    for layer in range(case.layers):
        for name, shape in (("input.weight", (4 * hidden, hidden)), ("hidden.weight", (4 * hidden, hidden))):
            arrays[f"stack.layers.{layer}.from_{name}"] = uniform(4 * hidden**-0.5, *shape)
        arrays[f"stack.layers.{layer}.from_input.bias"] = uniform(4 * hidden**-0.5, 4 * hidden)
    return arrays


def model(case: StreamCase) -> StreamModel:
    """Our model of these weights, in float32."""
    options: dict[str, Any] = asdict(LSTMOptions(hidden=case.hidden, layers=case.layers))
    vocabulary = Vocabulary(map(str, range(case.vocabulary - 2)))
    return StreamModel("lstm", options, weights(case), vocabulary)


def tokens(case: StreamCase, steps: int = 4096) -> Ids:
    """Words [steps, sessions], each as likely as any other."""
    drawn: Ids = np.random.default_rng(SEED).integers(0, case.vocabulary, (steps, case.sessions))
    return drawn
