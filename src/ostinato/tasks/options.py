"""The configuration of a language model run: one tree for files, command line and help. No torch here."""

from __future__ import annotations

import dataclasses
from dataclasses import field
from typing import Any, Literal

from pydantic.dataclasses import dataclass

from ostinato.core.config import STRICT, build
from ostinato.core.errors import ConfigError
from ostinato.ngram.options import NGramOptions, SmoothingName
from ostinato.nn.heads.options import HeadOptions
from ostinato.nn.options import BIDIRECTIONAL
from ostinato.nn.options import KINDS as NEURAL
from ostinato.text.options import DataOptions
from ostinato.train.options import TrainOptions

KINDS: dict[str, type[Any]] = {
    "ngram": NGramOptions,
    **NEURAL,
}
"""The options of every kind of model."""

BEGINNING = ("vectors", "frozen")
"""Options of what a network begins with, which do not belong to the network itself."""

Kind = Literal[
    "ngram",
    "nplm",
    "rnn",
    "lstm",
    "lstm-1997",
    "lstm-peephole",
    "lstm-coupled",
    "lstm-layer-norm",
    "gru",
    "gru-reset-before",
    "min-gru",
    "min-lstm",
    "gated-delta",
]


@dataclass(frozen=True, config=STRICT)
class ModelOptions:
    """The model. A key that is left out has the default of its kind; one that does not apply is refused."""

    kind: Kind = "lstm"
    """ngram: back-off n-gram; nplm: feed-forward neural model; the others are recurrent. rnn: Elman's; lstm: of 2000;
    lstm-1997: without forget gate; lstm-coupled: forgets what it writes; gru: reset after the product, as in PyTorch;
    min-gru, min-lstm: gates that read the input alone; gated-delta: linear attention with a matrix for a state."""
    order: int | None = None
    """ngram (5), nplm (5): how many tokens an n-gram or window has, the predicted one included."""
    smoothing: SmoothingName | None = None
    """ngram (modified-kneser-ney)."""
    prune: tuple[int, ...] | None = None
    """ngram (0): drop n-grams of order 1, 2, ... seen so often or less; the last number holds for higher orders."""
    memory: str | None = None
    """ngram (as much as it takes): stay near that much memory, as 500M or 2G; the rest goes to files meanwhile."""
    unknown: Literal["kenlm", "srilm", "closed"] | None = None
    """ngram (kenlm): the mass of unseen words goes to every word alike, all to the unknown word, or none to that."""
    hidden: int | None = None
    """recurrent (256), nplm (128): hidden units."""
    layers: int | None = None
    """recurrent (1)."""
    embedding: int | None = None
    """recurrent (as hidden), nplm (64): size of the word vectors."""
    tied: bool | None = None
    """recurrent (true, with frozen false): the output layer uses the word vectors."""
    vectors: str | None = None
    """recurrent, nplm: word vectors that the embedding begins with, a run, folder or file as in `ostinato vectors`; it
    has their size."""
    frozen: bool | None = None
    """recurrent, nplm (false): training leaves the vectors of `vectors` as they are; words without one do learn."""
    head: HeadOptions = field(default_factory=HeadOptions)
    dropout: float | None = None
    """recurrent, nplm (0.2): share of inputs and outputs dropped in training."""
    variational: bool | None = None
    """recurrent (false): the masks of dropout stay the same over a window of train.bptt steps."""
    embedding_dropout: float | None = None
    """recurrent (0): share of words dropped wherever they stand."""
    recurrent_dropout: float | None = None
    """rnn, lstm*, gru* (0): share of the hidden state no gate sees, the same over a window; slow, step by step."""
    weight_dropout: float | None = None
    """rnn, lstm*, gru* (0): share of the recurrent weights dropped, the same over a window."""
    zoneout: float | None = None
    """recurrent but gated-delta (0): share of the state that stays as it was at a step; slow, step by step."""
    input_init: Literal["uniform", "glorot"] | None = None
    """recurrent (uniform): how the matrices that read the input begin."""
    recurrent_init: Literal["orthogonal", "glorot", "uniform", "identity"] | None = None
    """rnn, lstm*, gru* (orthogonal): how the recurrent matrices begin."""
    biases: int | None = None
    """recurrent but gated-delta (1; gru 2): 2 gives each gate a second bias, as PyTorch does."""
    residual: bool | None = None
    """recurrent (false): add a layer's input to its output."""
    skip: bool | None = None
    """recurrent (false): every layer reads the word vectors too, and the output layer reads all layers."""
    layer_norm: bool | None = None
    """recurrent (false): normalise the outputs of each layer."""
    feed_forward: Literal["none", "relu", "gelu", "swiglu"] | None = None
    """recurrent (none): a block of two matrices after each layer."""
    bidirectional: bool | None = None
    """Not for a language model, which may not read what it predicts."""
    activation: Literal["tanh", "relu", "sigmoid", "gelu"] | None = None
    """rnn (tanh)."""
    forget_bias: float | None = None
    """lstm, lstm-peephole, lstm-coupled, lstm-layer-norm, min-lstm (1.0): where the forget gate's bias begins."""
    heads: int | None = None
    """gated-delta (of 64 or 32 numbers): how many matrices the state has."""
    window: int | None = None
    """gated-delta (4): steps that its convolution over keys, queries and values reads; 1 for none."""
    direct: bool | None = None
    """nplm (false): connect the word vectors to the output directly."""

    def resolve(self) -> Any:
        """The options of this kind. Raises ConfigError for a key that does not apply to it or is out of range."""
        kind, given = KINDS[self.kind], self.given()
        known = {field.name for field in dataclasses.fields(kind)}
        for name in given:
            if name not in known:
                applies = ", ".join(
                    other for other in KINDS if name in {f.name for f in dataclasses.fields(KINDS[other])}
                )
                raise ConfigError(f"model.{name} does not apply to {self.kind}; it is for {applies}")
        if self.bidirectional:
            raise ConfigError(f"model.bidirectional: {BIDIRECTIONAL}")
        self._check_vectors()
        if self.frozen and "tied" in known:
            given["tied"] = False
        return build(kind, given, "model")

    def _check_vectors(self) -> None:
        """Raise ConfigError if `vectors` or `frozen` cannot be."""
        for name in BEGINNING:
            if getattr(self, name) and self.kind not in NEURAL:
                raise ConfigError(f"model.{name} does not apply to {self.kind}; it is for {', '.join(NEURAL)}")
        if self.frozen and self.vectors is None:
            raise ConfigError("model.frozen holds what model.vectors gives: name vectors, or leave it out")
        if self.frozen and self.tied:
            raise ConfigError(
                "model.frozen would hold the output layer too, since model.tied makes it of the word vectors; "
                "leave out one of them"
            )

    def given(self) -> dict[str, Any]:
        """The options of the network that were set, the output layer's as a table."""
        others = ("kind", "head", *BEGINNING)
        names = [field.name for field in dataclasses.fields(self) if field.name not in others]
        found = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        return found if self.head == HeadOptions() else found | {"head": dataclasses.asdict(self.head)}


@dataclass(frozen=True, config=STRICT)
class Config:
    """Everything a training run is told."""

    data: DataOptions = field(default_factory=DataOptions)
    model: ModelOptions = field(default_factory=ModelOptions)
    train: TrainOptions = field(default_factory=TrainOptions)

    def check(self) -> None:
        """Raise ConfigError for options that contradict each other or would have no effect."""
        self.model.resolve()
        if self.model.kind == "ngram":
            for name in (field.name for field in dataclasses.fields(self.train)):
                if name not in ("seed", "threads") and getattr(self.train, name) != getattr(TrainOptions(), name):
                    raise ConfigError(
                        f"train.{name} does not apply to ngram: it is estimated from counts in one pass; leave it out"
                    )
