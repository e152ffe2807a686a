"""The configuration of a translator: one tree for files, command line and help. No torch here."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Literal, Self

from annotated_types import Ge, Le
from pydantic import model_validator
from pydantic.dataclasses import dataclass

from ostinato.core.config import STRICT, narrowed
from ostinato.nn.encoder_decoder_options import EncoderDecoderOptions
from ostinato.nn.options import Share
from ostinato.tasks.splitting import SplitOptions
from ostinato.tasks.words import check_frozen
from ostinato.text.options import TokeniserName
from ostinato.train.options import Count, TaskTrainOptions

MeasureName = Literal["bleu", "chrf", "wer", "per", "exact"]
OVERLAP: tuple[MeasureName, ...] = ("bleu", "chrf")
"""Measures of overlapping pieces; the others count edits."""

LEARNED = ("bpe", "byte")
"""Tokenisers that know their pieces."""

SHARED_PIECES = 6000


@dataclass(frozen=True, config=STRICT)
class DataOptions(SplitOptions):
    """Pairs of a source and a target, and how either becomes pieces.

    Two files are parallel: line n of the source's belongs to line n of the target's; more are more such pairs of
    files. One file has both in columns.
    """

    form: Literal["parallel", "columns"] | None = None
    """parallel: files in pairs, source and target; columns: parted by tabs. None: parallel, or columns if the number
    of files is odd."""
    columns: tuple[int, ...] = (0, 1)
    """The columns of source and target, from 0 (-1 is the last); others are not read."""
    normalise: tuple[str, ...] = ("nfc",)
    """Changes made to sources: nfc, nfkc, lower, casefold, stem:LANGUAGE, lemma:LANGUAGE, or none."""
    target_normalise: tuple[str, ...] | None = None
    """Changes made to targets; answers are written as they are learnt. None: as normalise."""
    target_without: str = ""
    """Characters that targets lose, as 0123456789 for phones without the digits of their stress."""
    tokeniser: TokeniserName = "bpe"
    """How a source is cut: blank (at white space), word, char, byte, or bpe (learned)."""
    target_tokeniser: TokeniserName | None = None
    """How a target is cut. None: as tokeniser."""
    bpe_pieces: Annotated[int, Ge(257)] = SHARED_PIECES
    """How many pieces the tokeniser bpe learns."""
    joint: bool | None = None
    """One tokeniser and vocabulary for both sides. None: for the tokeniser bpe on both sides."""
    min_count: Annotated[int, Ge(1)] = 1
    """Pieces seen less often in training are unknown (not for byte and bpe, which know all)."""
    limit: Annotated[int, Ge(2)] | None = None
    """Keep only that many pieces of either side, the most frequent ones."""
    bleu: Literal["13a", "intl", "zh", "ja-mecab", "ko-mecab", "char"] = "13a"
    """How BLEU cuts text: 13a for languages with blanks, zh for Chinese."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(self.columns) != 2 or self.columns[0] == self.columns[1]:
            raise ValueError("columns names two different ones, of source and target, as 0 1")
        if self.is_joint and (self.target_kind != self.tokeniser or self.target_changes != self.normalise):
            raise ValueError("joint is one tokeniser for both sides: leave target_tokeniser and target_normalise out")
        kinds = (self.tokeniser, self.target_kind)
        if self.bpe_pieces != SHARED_PIECES and "bpe" not in kinds:
            raise ValueError("bpe_pieces is for the tokeniser bpe; set it, or leave bpe_pieces out")
        if all(kind in LEARNED for kind in kinds) and (self.min_count > 1 or self.limit is not None):
            raise ValueError(f"min_count and limit have no use, since {' and '.join(kinds)} know their pieces")
        return self

    @property
    def target_kind(self) -> TokeniserName:
        """The tokeniser of targets."""
        return self.target_tokeniser or self.tokeniser

    @property
    def target_changes(self) -> tuple[str, ...]:
        """The normalisers of targets."""
        return self.normalise if self.target_normalise is None else self.target_normalise

    @property
    def is_joint(self) -> bool:
        """Whether both sides have one vocabulary."""
        same = self.tokeniser == self.target_kind == "bpe" and self.target_changes == self.normalise
        return same if self.joint is None else self.joint

    def in_pairs(self, paths: tuple[str, ...]) -> bool:
        """Whether these are parallel files."""
        return len(paths) % 2 == 0 if self.form is None else self.form == "parallel"


@dataclass(frozen=True, config=STRICT)
class ModelOptions(EncoderDecoderOptions):
    """The network, and what is done with its answers."""

    copy_unknown: bool = False
    """Where it answers with the unknown word, take the source's word that attention looks at most [Luong2015b]."""
    vectors: str | None = None
    """Word vectors that the source's words begin with: a run of `ostinato vectors train`, a folder of ours, word2vec's,
    GloVe's or fastText's files, of model.embedding numbers; for pieces that are words."""
    target_vectors: str | None = None
    """The same for the target's words."""
    frozen: bool = False
    """Leave the word vectors as they begin."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shared and self.target_vectors:
            raise ValueError("with shared, vectors are those of both sides; leave target_vectors out")
        target = self.target_vectors or (self.vectors if self.shared else None)
        check_frozen(self.frozen, self.vectors or target, self.tied and target is not None)
        if self.copy_unknown and self.attention == "none":
            raise ValueError("copy_unknown takes the word that attention looks at, and there is none; leave one out")

    @property
    def network(self) -> EncoderDecoderOptions:
        """The network's own options."""
        return narrowed(EncoderDecoderOptions, self)


@dataclass(frozen=True, config=STRICT)
class TrainOptions(TaskTrainOptions):
    """How a translator is trained; tokens and longest count pieces of the longer side."""

    rows: Count = 128
    """Pairs of a batch, at most."""
    longest: Count = 200
    """Pieces of a source or target beyond which a pair is left out of training, and counted; no longer source is
    answered."""
    scheduled_sampling: Share = 0.0
    """Share of the words read in training that are the network's own, not those of the target [Bengio2015]."""
    sampling_from: Annotated[float, Ge(0), Le(1)] = 0.0
    """The share of training after which that share begins to rise from 0."""
    sampling_to: Annotated[float, Ge(0), Le(1)] = 0.5
    """The share of training after which it is reached."""
    measure: MeasureName | None = None
    """What the best weights and a run are judged by. bleu, chrf; wer: wrong answers, in percent; per: edits, in percent
    of the symbols; exact: right answers. None: bleu for word and bpe, exact for others."""
    validate_limit: Annotated[int, Ge(1)] = 2000
    """Validation sources that are answered, at most, each time."""

    @model_validator(mode="after")
    def _rises(self) -> Self:
        if self.sampling_to < self.sampling_from:
            raise ValueError("sampling_to must not lie before sampling_from")
        return self


@dataclass(frozen=True, config=STRICT)
class SearchOptions:
    """How answers are searched for."""

    beam: Annotated[int, Ge(1), Le(1000)] = 5
    """Hypotheses kept; 1: greedy."""
    length_penalty: Annotated[float, Ge(0), Le(10)] | None = None
    """How much longer answers are favoured, see `Beam`. None: as tuned on the validation data, or else 0."""


@dataclass(frozen=True, config=STRICT)
class Config:
    """Everything the training of a translator is told."""

    data: DataOptions = field(default_factory=DataOptions)
    model: ModelOptions = field(default_factory=ModelOptions)
    train: TrainOptions = field(default_factory=TrainOptions)
    search: SearchOptions = field(default_factory=SearchOptions)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.model.shared and not self.data.is_joint:
            raise ValueError(
                "model.shared: one table of word vectors needs one vocabulary; set data.joint, or leave it"
            )
        kinds = (self.data.tokeniser, self.data.target_kind)
        if self.model.copy_unknown and not set(kinds) <= {"word", "blank"}:
            raise ValueError(
                f"model.copy_unknown copies whole words, but data.tokeniser is {kinds[0]} and targets are cut by "
                f"{kinds[1]}; set both to word or blank, or leave it out"
            )
        return self

    @property
    def measure(self) -> MeasureName:
        """What the run is judged by."""
        worded = self.data.target_kind in ("word", "bpe")
        return self.train.measure or ("bleu" if worded else "exact")
