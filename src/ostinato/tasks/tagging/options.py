"""The configuration of a tagger: one tree for files, command line and help. No torch here."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Literal, Self

from annotated_types import Ge, Gt, Le
from pydantic import AfterValidator, model_validator
from pydantic.dataclasses import dataclass

from ostinato.core.config import STRICT
from ostinato.core.errors import ConfigError
from ostinato.nn.options import Share, Size
from ostinato.tasks.splitting import SplitOptions
from ostinato.tasks.stacks import StackOptions
from ostinato.tasks.words import WordOptions
from ostinato.text.schemes import check_scheme
from ostinato.train.options import TaskTrainOptions


def _scheme(name: str) -> str:
    try:
        return check_scheme(name)
    except ConfigError as fault:
        raise ValueError(str(fault)) from None


SchemeName = Annotated[str, AfterValidator(_scheme)]


@dataclass(frozen=True, config=STRICT)
class DataOptions(SplitOptions):
    """Sentences whose words have labels, or whose words are to be found."""

    form: Literal["conll", "conllu", "segmented"] | None = None
    """conll: columns, a word a line; conllu: CoNLL-U; segmented: a sentence a line, words parted by blanks. None: found
    out from the file."""
    unit: Literal["word", "character"] = "word"
    """What has a label. character: text without blanks is cut into words."""
    column: str | None = None
    """The column of the labels: a number from 0 (-1 is the last), or a name of CoNLL-U. None: the last; in CoNLL-U
    upos; with unit character none, so that words are only cut."""
    auxiliary: tuple[str, ...] = ()
    """Further columns of the training data, given like column, that training learns to tell from the same states, so
    that those come to know more [Plank2016]; answers have none of them. none: no such columns."""
    scheme: SchemeName | None = None
    """How labels write spans: iob1, bio, bioes, bilou, bmes, or none for labels of single words. None: found out."""
    normalise: tuple[str, ...] = ("nfc",)
    """Changes made to a word before its vector is looked up: nfc, nfkc, lower, casefold, stem:LANGUAGE, lemma:LANGUAGE,
    or none. Its letters and shape are read as they stand."""
    min_count: Annotated[int, Ge(1)] = 1
    """Words seen less often in training are unknown."""
    limit: Annotated[int, Ge(2)] | None = None
    """Keep only that many words, the most frequent ones."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.form == "segmented" and self.unit == "word":
            raise ValueError("segmented text has no labels of words; set unit character, which learns where they end")
        if self.form == "segmented" and self.column is not None:
            raise ValueError("segmented text has no columns; leave column out")
        if self.unit == "character" and self.scheme not in (None, "bmes"):
            raise ValueError("characters are labelled in the scheme bmes; leave scheme out")
        if self.unit == "character" and self.further:
            raise ValueError("auxiliary columns are labels of words, and data.unit is character; leave auxiliary out")
        if len(set(self.auxiliary)) < len(self.auxiliary):
            raise ValueError("auxiliary names a column twice")
        return self

    @property
    def further(self) -> tuple[str, ...]:
        """The auxiliary columns that are asked for."""
        return () if self.auxiliary == ("none",) else self.auxiliary


@dataclass(frozen=True, config=STRICT)
class ModelOptions(WordOptions, StackOptions):
    """The network: what it reads of a word, its layers, and how labels are chosen."""

    bidirectional: bool = True
    """A second cell in every layer reads from the end; such a network answers whole sentences only."""
    letters: Literal["cnn", "lstm", "none"] | None = None
    """What reads the letters of a word. None: cnn, and none with data.unit character."""
    letter_size: Size = 32
    """Numbers in the vector of a letter."""
    letter_hidden: Size = 64
    """Filters of the cnn, or hidden units of each direction of the lstm."""
    affixes: Annotated[int, Ge(0), Le(16)] = 0
    """Beginnings and ends of a word up to that length, in lower case, have vectors; 0: none."""
    affix_size: Size = 32
    """Numbers in the vector of an affix."""
    affix_count: Annotated[int, Ge(1)] = 3
    """Affixes of fewer words are unknown."""
    shapes: bool | None = None
    """How a word is capitalised has a vector. None: true, and false with data.unit character."""
    pairs: bool | None = None
    """A word together with the one before it has a vector. None: false, and true with data.unit character."""
    pair_size: Size = 64
    """Numbers in the vector of a pair."""
    pair_count: Annotated[int, Ge(1)] = 2
    """Pairs seen less often in training are unknown."""
    hidden_words: Share = 0.0
    """Share of words that training reads as unknown, each time others."""
    hidden_rare: Annotated[float, Ge(0)] = 0.25
    """Training also reads words as unknown the more often the rarer they are: a word seen n times with the probability
    hidden_rare / (hidden_rare + n)."""
    auxiliary_weight: Annotated[float, Gt(0)] = 1.0
    """How much each auxiliary column counts beside the labels."""
    output: Literal["softmax", "crf"] = "softmax"
    """softmax: each label by itself; crf: the labels of a sentence together."""
    scheme: SchemeName | None = None
    """The scheme that spans are learned in; answers are in that of the data. None: that of the data."""


@dataclass(frozen=True, config=STRICT)
class Config:
    """Everything the training of a tagger is told."""

    data: DataOptions = field(default_factory=DataOptions)
    model: ModelOptions = field(default_factory=ModelOptions)
    train: TaskTrainOptions = field(default_factory=TaskTrainOptions)
