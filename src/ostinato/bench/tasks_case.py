"""What the benchmark of sequence tasks works on: drawn pairs and sentences, and our networks for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostinato.bench.train_case import SEED, zipf_ids
from ostinato.core.vocabulary import Vocabulary
from ostinato.tasks.translation.data import Corpus, Pair
from ostinato.tasks.translation.options import Config, DataOptions, ModelOptions, TrainOptions
from ostinato.tasks.translation.sides import Side
from ostinato.text.normalise import Normaliser
from ostinato.text.pipeline import Pipeline
from ostinato.text.tokenise import make_tokeniser
from ostinato.train.device import settle

NEVER = 1 << 40


@dataclass(frozen=True)
class TranslateCase:
    """A translator of drawn pairs: an LSTM that reads from both ends, and one with additive attention that says.

    One vocabulary, whose vectors are the output layer too. length: pieces of a source, in the mean. tokens: of a batch,
    padding included.
    """

    name: str = "translator"
    vocabulary: int = 6000
    size: int = 256  # of word vectors, of each direction, of the decoder, of the attention
    length: int = 15
    tokens: int = 2000
    pairs: int = 2000
    rate: float = 0.001
    dropout: float = 0.2

    @property
    def what(self) -> str:
        """In a report."""
        return f"LSTM {self.size}, additive attention, V = {self.vocabulary:,}"


def drawn_pairs(case: TranslateCase, seed: int = SEED) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Sources and targets of ids from Zipf's law: lengths spread about a third around the mean, targets about as long.

    Ids below vocabulary - 2, which are pieces.
    """
    random = np.random.default_rng(seed)
    sources = np.clip(random.gamma(9.0, case.length / 9.0, case.pairs), 3, 4 * case.length).round().astype(int)
    targets = np.clip(sources * random.normal(1.0, 0.15, case.pairs), 2, 5 * case.length).round().astype(int)
    ids = zipf_ids(case.vocabulary - 2, int(sources.sum() + targets.sum()), seed)
    parts = np.split(ids, np.cumsum(np.stack([sources, targets], axis=1).ravel())[:-1])
    return list(zip(parts[::2], parts[1::2], strict=True))


def corpus_of(case: TranslateCase) -> Corpus:
    """The drawn pairs as a corpus: a piece is a number."""
    vocabulary = Vocabulary(map(str, range(case.vocabulary - 2)))
    side = Side(Pipeline(Normaliser(()), make_tokeniser("blank")), vocabulary)
    texts = [[" ".join(map(str, ids.tolist())) for ids in pair] for pair in drawn_pairs(case)]
    pairs = [Pair(source, (target,), f"drawn:{number}") for number, (source, target) in enumerate(texts, 1)]
    return Corpus({"train": pairs, "valid": pairs[:1]}, {"train": "drawn", "valid": "drawn"}, side, side, True, 1.0)


def config_of(case: TranslateCase, precision: str, threads: int) -> Config:
    """What `ostinato train` would be told."""
    model = ModelOptions(
        kind="lstm", embedding=case.size, hidden=case.size, attention_size=case.size, shared=True, dropout=case.dropout
    )
    options: dict[str, Any] = {"precision": precision, "threads": threads, "tokens": case.tokens, "rows": case.tokens}
    train = TrainOptions(
        epochs=1,
        optimiser="adam",
        learning_rate=case.rate,
        schedule="constant",
        validate_every=NEVER,
        checkpoint_every=NEVER,
        seed=SEED,
        device="cpu",
        **options,
    )
    return Config(DataOptions(tokeniser="blank", joint=True), model, settle(train))


@dataclass(frozen=True)
class TagCase:
    """A tagger of drawn sentences, of the sizes of configs/tagging.toml.

    length: words of a sentence, in the mean. rows: sentences of a batch. types: words there are.
    """

    name: str = "tagger"
    output: str = "softmax"
    length: int = 13
    rows: int = 64
    sentences: int = 2000
    types: int = 20000
    labels: int = 17


def drawn_sentences(case: TagCase, count: int, seed: int = SEED) -> str:
    """So many sentences in columns, a word and its label: words of drawn letters, from Zipf's law."""
    random = np.random.default_rng(seed)
    words = drawn_words(case.types)
    lengths = np.clip(random.gamma(2.0, case.length / 2.0, count), 1, 5 * case.length).round().astype(int)
    ids = zipf_ids(case.types, int(lengths.sum()), seed)
    lines = [f"{words[one]}\tL{one % case.labels}" for one in ids.tolist()]
    ends = np.cumsum(lengths).tolist()
    return "".join("\n".join(lines[first:last]) + "\n\n" for first, last in zip([0, *ends[:-1]], ends, strict=True))


def drawn_words(types: int, seed: int = SEED) -> list[str]:
    """Different words, the commonest the shortest, as in language."""
    random = np.random.default_rng(seed)
    found: dict[str, None] = {}
    while len(found) < types:
        size = 1 + int(np.log2(1 + len(found)) / 2) + int(random.integers(0, 5))
        found["".join(chr(97 + letter) for letter in random.integers(26, size=size).tolist())] = None
    return list(found)
