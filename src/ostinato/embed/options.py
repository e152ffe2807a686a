"""Options of training word vectors. The command line reads this for its help."""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self, TypeAlias

from annotated_types import Ge, Gt, Le
from pydantic import AfterValidator, model_validator
from pydantic.dataclasses import dataclass

from ostinato.core.config import STRICT


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("must be a finite number")
    return value


Finite = Annotated[float, AfterValidator(_finite)]
Amount = Annotated[float, Ge(0), AfterValidator(_finite)]
Count = Annotated[int, Ge(1)]
Share = Annotated[float, Ge(0), Le(1)]

Model: TypeAlias = Literal["skip-gram", "cbow-mean", "cbow-sum"]
Loss: TypeAlias = Literal["negative-sampling", "hierarchical-softmax", "softmax"]
Shrink: TypeAlias = Literal["uniform", "harmonic", "none"]
Formula: TypeAlias = Literal["word2vec.c", "published"]

RATES = {"skip-gram": 0.025, "cbow-mean": 0.05, "cbow-sum": 0.025}
"""The learning rate used when none is given, by model; those of word2vec.c for the first two."""


@dataclass(frozen=True, config=STRICT)
class VectorOptions:
    """How word vectors are trained."""

    model: Model = "skip-gram"
    """skip-gram: a word predicts those around it; cbow-mean, cbow-sum: the mean or sum of those around predicts it."""
    loss: Loss = "negative-sampling"
    """negative-sampling; hierarchical-softmax: on a Huffman tree; softmax: over all words, if they are few."""
    dimensions: Count = 100
    """Numbers of a vector."""
    window: Annotated[int, Ge(1), Le(100)] = 5
    """Words on either side that count as context, at most."""
    shrink: Shrink = "uniform"
    """Window sizes drawn for each word: uniform: 1 to window alike, as word2vec; harmonic: distance d with chance 1/d;
    none: always window."""
    negatives: Annotated[int, Ge(1), Le(200)] = 5
    """Words drawn against each word, shared by its window."""
    exponent: Finite = 0.75
    """They are drawn in proportion to count^exponent; 0 draws all words alike."""
    reuse: Count = 4
    """How often a set of drawn words is used, eight words apart; 1 draws anew for every word."""
    sample: Amount = 1e-3
    """Words more frequent than this share are thinned out; 0 keeps all."""
    formula: Formula = "word2vec.c"
    """Chance of keeping a word of frequency f: word2vec.c: (sqrt(f/t) + 1) t/f; published: sqrt(t/f)."""
    exact: bool = False
    """cbow-mean, subwords: divide the gradient by the number of vectors in a mean, which the programs of old do not."""
    subwords: bool = False
    """A word is the mean of its own vector and those of its character n-grams, as in fastText."""
    least: Count = 3
    """subwords: letters of the shortest n-gram, with the marks < and > around the word."""
    most: Count = 6
    """subwords: letters of the longest."""
    buckets: Count = 2_000_000
    """subwords: vectors that n-grams are hashed to."""
    learning_rate: Amount | None = None
    """Where it begins; None for 0.025 (cbow-mean: 0.05). It falls in a straight line."""
    floor: Amount = 1e-4
    """Where the learning rate ends."""
    epochs: Count = 5
    """Passes over the text."""
    seed: Annotated[int, Ge(0)] = 1
    """Random numbers begin here; with one thread the same seed gives the same vectors, bit for bit."""
    threads: Count | None = None
    """Threads that train at once, without locks (Hogwild); None for one a processor."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.most < self.least:
            raise ValueError(f"most, {self.most}, must not be below least, {self.least}")
        if self.exact and self.model != "cbow-mean" and not self.subwords:
            raise ValueError("exact is for means: choose cbow-mean or subwords, or leave exact out")
        if not self.subwords and (self.least, self.most, self.buckets) != (3, 6, 2_000_000):
            raise ValueError("least, most and buckets are for subwords: set subwords too, or leave them out")
        negative = (self.negatives, self.exponent, self.reuse) != (5, 0.75, 4)
        if negative and self.loss != "negative-sampling":
            raise ValueError(f"negatives, exponent and reuse do not apply to {self.loss}; leave them out")
        if self.rate < self.floor:
            raise ValueError(f"learning_rate, {self.rate}, must not be below floor, {self.floor}")
        return self

    @property
    def rate(self) -> float:
        """The learning rate at the beginning."""
        return RATES[self.model] if self.learning_rate is None else self.learning_rate


@dataclass(frozen=True, config=STRICT)
class TextOptions:
    """Which text word vectors are trained on, and which of its words get one."""

    text: tuple[str, ...] = ()
    """Files, one sentence a line, words between blanks (.gz, .zst too); - is standard input."""
    min_count: Annotated[int, Ge(1)] = 5
    """Words seen less often are left out."""
    limit: Count | None = None
    """So many of the most frequent words at most."""
    phrases: Annotated[int, Ge(0), Le(5)] = 0
    """Passes that join pairs of words that often stand together, as new_york."""
    phrase_threshold: Annotated[float, Gt(0)] = 10.0
    """The score from which on a pair is joined."""
