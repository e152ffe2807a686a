"""The configuration of a language model run: one tree for files, command line and help. No torch here."""

from __future__ import annotations

import dataclasses
from dataclasses import field
from typing import Any, Literal

from pydantic.dataclasses import dataclass

from ostinato.core.config import STRICT, build
from ostinato.core.errors import ConfigError
from ostinato.ngram.options import NGramOptions, SmoothingName
from ostinato.nn.options import ElmanOptions, GRUOptions, LSTMOptions, NPLMOptions
from ostinato.text.options import DataOptions
from ostinato.train.options import TrainOptions

KINDS: dict[str, type[Any]] = {
    "ngram": NGramOptions,
    "nplm": NPLMOptions,
    "rnn": ElmanOptions,
    "lstm": LSTMOptions,
    "gru": GRUOptions,
}
"""The options of every kind of model."""


@dataclass(frozen=True, config=STRICT)
class ModelOptions:
    """The model. A key that is left out has the default of its kind; one that does not apply is refused."""

    kind: Literal["ngram", "nplm", "rnn", "lstm", "gru"] = "lstm"
    """ngram: back-off n-gram; nplm: feed-forward neural model; rnn: Elman; lstm; gru."""
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
    """rnn, lstm, gru (256), nplm (128): hidden units."""
    layers: int | None = None
    """rnn, lstm, gru (1)."""
    embedding: int | None = None
    """rnn, lstm, gru (as hidden), nplm (64): size of the word vectors."""
    tied: bool | None = None
    """rnn, lstm, gru (true): the output layer uses the word vectors."""
    dropout: float | None = None
    """rnn, lstm, gru, nplm (0.2): share of inputs and outputs dropped in training."""
    recurrent_init: Literal["orthogonal", "uniform"] | None = None
    """rnn, lstm, gru (orthogonal): how the recurrent matrices begin."""
    residual: bool | None = None
    """rnn, lstm, gru (false): add a layer's input to its output."""
    layer_norm: bool | None = None
    """rnn, lstm, gru (false): normalise what each layer hands on."""
    activation: Literal["tanh", "relu"] | None = None
    """rnn (tanh)."""
    forget_bias: float | None = None
    """lstm (1.0): where the forget gate's bias begins."""
    direct: bool | None = None
    """nplm (false): connect the word vectors to the output directly."""

    def resolve(self) -> Any:
        """The options of this kind. Raises ConfigError for a key that does not apply to it or is out of range."""
        kind = KINDS[self.kind]
        known = {field.name for field in dataclasses.fields(kind)}
        given = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name != "kind" and getattr(self, field.name) is not None
        }
        for name in given:
            if name not in known:
                applies = ", ".join(
                    other for other in KINDS if name in {f.name for f in dataclasses.fields(KINDS[other])}
                )
                raise ConfigError(f"model.{name} does not apply to {self.kind}; it is for {applies}")
        return build(kind, given, "model")


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
