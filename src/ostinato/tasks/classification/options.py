"""The configuration of a classifier: one tree for files, command line and help. No torch here."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Literal, Self

from annotated_types import Ge, Le
from pydantic import model_validator
from pydantic.dataclasses import dataclass

from ostinato.core.config import STRICT
from ostinato.nn.options import Share
from ostinato.tasks.splitting import SplitOptions
from ostinato.tasks.stacks import StackOptions
from ostinato.tasks.text_options import PieceOptions
from ostinato.tasks.words import WordOptions
from ostinato.train.options import TaskTrainOptions

PoolingName = Literal["last", "mean", "max", "attention"]


@dataclass(frozen=True, config=STRICT)
class DataOptions(PieceOptions, SplitOptions):
    """Texts with a label each, and how a text becomes pieces."""

    form: Literal["tsv", "jsonl", "fasttext", "first"] | None = None
    """How a line says label and text: tab-separated columns, JSON objects, `__label__x text`, or `x text` (TREC, SST).
    None: found out from the file."""
    label: str | None = None
    """The column (a number from 0, or a name of the header) or key of the label. None: found out."""
    text: str | None = None
    """The column or key of the text. None: found out."""
    labels: Literal["fine", "coarse"] = "fine"
    """coarse: of a label like DESC:manner only what stands before the colon."""


@dataclass(frozen=True, config=STRICT)
class ModelOptions(WordOptions, StackOptions):
    """The network."""

    pooling: tuple[PoolingName, ...] = ("max",)
    """How the outputs of all steps become one vector; several stand side by side."""
    hidden_words: Share = 0.0
    """Share of words that training reads as unknown, each time others."""
    subwords: bool = False
    """The vector of a word is its own and the mean of those of its character n-grams, which unknown words have too."""
    least: Annotated[int, Ge(1), Le(16)] = 3
    """subwords: letters of the shortest n-gram, with the marks < and > around the word."""
    most: Annotated[int, Ge(1), Le(16)] = 5
    """subwords: letters of the longest."""
    buckets: Annotated[int, Ge(1), Le(1 << 24)] = 20_000
    """subwords: vectors that n-grams are hashed to."""
    from_run: str | None = None
    """A recurrent language model to start from: its vocabulary, word vectors and layers are copied."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not self.pooling or len(set(self.pooling)) < len(self.pooling):
            raise ValueError("pooling names one or more different ways: last, mean, max, attention")
        if not self.subwords and (self.least, self.most, self.buckets) != (3, 5, 20_000):
            raise ValueError("least, most and buckets are for subwords: set subwords too, or leave them out")
        if self.most < self.least:
            raise ValueError(f"most, {self.most}, must not be below least, {self.least}")
        if self.from_run and self.vectors:
            raise ValueError("the word vectors come from from_run or from vectors, not both; leave one out")
        return self


@dataclass(frozen=True, config=STRICT)
class TrainOptions(TaskTrainOptions):
    """How it is trained."""

    keep: Literal["best", "last"] = "best"
    """best: the weights of the epoch with the best accuracy on the validation data; last: of the last epoch, for few
    examples, whose validation data are too few to tell good epochs from lucky ones."""

    @model_validator(mode="after")
    def _needs_no_best(self) -> Self:
        if self.keep == "best":
            return self
        compared = {
            "patience": self.patience > 0,
            "validate_every": self.validate_every is not None,
            "schedule plateau": self.schedule == "plateau",
            "average nt-asgd": self.average == "nt-asgd",
        }
        for name in (name for name, given in compared.items() if given):
            raise ValueError(f"keep last compares no epochs, which {name} is for; leave one of the two out")
        return self


@dataclass(frozen=True, config=STRICT)
class Config:
    """Everything the training of a classifier is told."""

    data: DataOptions = field(default_factory=DataOptions)
    model: ModelOptions = field(default_factory=ModelOptions)
    train: TrainOptions = field(default_factory=TrainOptions)
