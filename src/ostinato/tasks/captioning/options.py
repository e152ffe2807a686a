"""The configuration of a captioner: one tree for files, command line and help. No torch here."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Literal, Self

from annotated_types import Ge, Le
from pydantic import model_validator
from pydantic.dataclasses import dataclass

from ostinato.core.config import STRICT, narrowed
from ostinato.nn.captioner_options import CaptionerOptions
from ostinato.tasks.splitting import SplitOptions
from ostinato.tasks.words import check_frozen
from ostinato.text.options import TokeniserName
from ostinato.train.options import Count, TaskTrainOptions

MeasureName = Literal["bleu", "exact"]
PIECES = 1000


@dataclass(frozen=True, config=STRICT)
class DataOptions(SplitOptions):
    """Pictures or features with captions, and how a caption becomes pieces.

    Each is a .npz file with `images` [N, H, W] or [N, H, W, channels], or `features` [N, D], [N, P, D] (with `places`
    [N] where some have fewer than P) or [N, rows, columns, D], and `captions` [N] or [N, several]; or lines
    FILE<TAB>CAPTION with the pictures' files beside them; or a folder of pictures with such lines in captions.tsv.
    """

    normalise: tuple[str, ...] = ("nfc",)
    """Changes made to captions, which are written as they are learnt: nfc, nfkc, lower, casefold, or none."""
    tokeniser: TokeniserName = "word"
    """How a caption is cut: blank (at white space), word, char, byte, or bpe (learned)."""
    bpe_pieces: Annotated[int, Ge(257)] = PIECES
    """How many pieces the tokeniser bpe learns."""
    min_count: Annotated[int, Ge(1)] = 1
    """Pieces seen less often in training are unknown (not for byte and bpe, which know all)."""
    limit: Annotated[int, Ge(2)] | None = None
    """Keep only that many pieces, the most frequent ones."""
    colour: bool = True
    """Read files of pictures in colour; or in shades of grey."""
    height: Count | None = None
    """Bring files of pictures to this height (with width). None: all must have one size."""
    width: Count | None = None
    """Bring files of pictures to this width (with height)."""
    bleu: Literal["13a", "intl", "zh", "ja-mecab", "ko-mecab", "char"] = "13a"
    """How BLEU cuts text: 13a for languages with blanks, zh for Chinese."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.height is None) != (self.width is None):
            raise ValueError("height and width go together; give both, or neither")
        if self.bpe_pieces != PIECES and self.tokeniser != "bpe":
            raise ValueError("bpe_pieces is for the tokeniser bpe; set it, or leave bpe_pieces out")
        if self.tokeniser in ("bpe", "byte") and (self.min_count > 1 or self.limit is not None):
            raise ValueError(f"min_count and limit have no use, since {self.tokeniser} knows its pieces")
        return self


@dataclass(frozen=True, config=STRICT)
class ModelOptions(CaptionerOptions):
    """The network, and what it knows of words before it is trained."""

    vectors: str | None = None
    """Word vectors that the words of captions begin with: a run of `ostinato vectors train`, a folder of ours,
    word2vec's, GloVe's or fastText's files, of model.embedding numbers."""
    frozen: bool = False
    """Leave the word vectors as they begin (with tied false)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_frozen(self.frozen, self.vectors, self.tied)

    @property
    def network(self) -> CaptionerOptions:
        """The network's own options."""
        return narrowed(CaptionerOptions, self)


@dataclass(frozen=True, config=STRICT)
class TrainOptions(TaskTrainOptions):
    """How a captioner is trained; tokens and longest count pieces of captions."""

    rows: Count = 64
    """Captions of a batch, at most."""
    longest: Count = 200
    """Pieces of a caption beyond which it is left out of training, and counted."""
    measure: MeasureName = "bleu"
    """What the best weights and a run are judged by: bleu, which counts up to four words in a row; or exact, the share
    of captions that equal a given one."""
    validate_limit: Annotated[int, Ge(1)] = 2000
    """Validation pictures that are described, at most, each time."""


@dataclass(frozen=True, config=STRICT)
class SearchOptions:
    """How captions are searched for."""

    beam: Annotated[int, Ge(1), Le(1000)] = 5
    """Hypotheses kept; 1: greedy."""
    length_penalty: Annotated[float, Ge(0), Le(10)] = 0.0
    """How much longer captions are favoured, see `Beam`."""


@dataclass(frozen=True, config=STRICT)
class Config:
    """Everything the training of a captioner is told."""

    data: DataOptions = field(default_factory=DataOptions)
    model: ModelOptions = field(default_factory=ModelOptions)
    train: TrainOptions = field(default_factory=TrainOptions)
    search: SearchOptions = field(default_factory=SearchOptions)
