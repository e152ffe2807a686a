"""Options of the recurrent layers inside a task's network. No torch here: the command line reads this for its help."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Literal, TypeAlias

from pydantic.dataclasses import dataclass

from ostinato.core.config import STRICT, build
from ostinato.core.errors import ConfigError
from ostinato.nn.options import KINDS, RecurrentOptions

Kind: TypeAlias = Literal[
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

STRUCTURE = (
    *("hidden", "layers", "embedding", "biases", "residual", "skip", "layer_norm", "feed_forward", "activation"),
    *("heads", "window"),
)
"""Options that say what arrays a stack has, beside the direction; the others are noise and beginnings."""


@dataclass(frozen=True, config=STRICT)
class StackOptions:
    """Recurrent layers over vectors. A key left out has the default of its kind; one that does not apply is refused."""

    kind: Kind | None = None
    """None: lstm. rnn: Elman's; lstm: of 2000; lstm-1997: without forget gate; lstm-coupled: forgets what it writes;
    gru: reset after the product, as in PyTorch; min-gru, min-lstm: gates that read the input alone; gated-delta: linear
    attention with a matrix for a state."""
    hidden: int | None = None
    """256: hidden units of each direction."""
    layers: int | None = None
    """1."""
    embedding: int | None = None
    """As hidden: size of the word vectors."""
    bidirectional: bool = False
    """A second cell in every layer reads from the end; such a network answers whole texts only."""
    dropout: float | None = None
    """0.2: share of inputs and outputs dropped in training."""
    variational: bool | None = None
    """false: the masks of dropout stay the same over a text."""
    embedding_dropout: float | None = None
    """0: share of words dropped wherever they stand in a batch."""
    recurrent_dropout: float | None = None
    """rnn, lstm*, gru* (0): share of the hidden state no gate sees, the same over a text; slow, step by step."""
    weight_dropout: float | None = None
    """rnn, lstm*, gru* (0): share of the recurrent weights dropped, the same over a batch."""
    zoneout: float | None = None
    """All but gated-delta (0): share of the state that stays as it was at a step; slow, step by step."""
    input_init: Literal["uniform", "glorot"] | None = None
    """uniform: how the matrices that read the input begin."""
    recurrent_init: Literal["orthogonal", "glorot", "uniform", "identity"] | None = None
    """rnn, lstm*, gru* (orthogonal): how the recurrent matrices begin."""
    biases: int | None = None
    """All but gated-delta (1; gru 2): 2 gives each gate a second bias, as PyTorch does."""
    residual: bool | None = None
    """false: add a layer's input to its output."""
    skip: bool | None = None
    """false: every layer reads the word vectors too, and what comes after reads all layers."""
    layer_norm: bool | None = None
    """false: normalise the outputs of each layer."""
    feed_forward: Literal["none", "relu", "gelu", "swiglu"] | None = None
    """none: a block of two matrices after each layer."""
    activation: Literal["tanh", "relu", "sigmoid", "gelu"] | None = None
    """rnn (tanh)."""
    forget_bias: float | None = None
    """lstm, lstm-peephole, lstm-coupled, lstm-layer-norm, min-lstm (1.0): where the forget gate's bias begins."""
    heads: int | None = None
    """gated-delta (of 64 or 32 numbers): how many matrices the state has."""
    window: int | None = None
    """gated-delta (4): steps that its convolution over keys, queries and values reads; 1 for none."""

    def resolve(self, taken: Mapping[str, Any] | None = None, source: str = "") -> tuple[str, RecurrentOptions]:
        """The kind of cell and all its options.

        taken: `kind` and options of what the stack starts from, from `source`; they must agree with what was given.
        Raises ConfigError for a key that does not apply to the kind, is out of range or contradicts.
        """
        given, before = self.given(), dict(taken or {})
        for name in given.keys() & before.keys():
            if given[name] != before[name]:
                raise ConfigError(
                    f"model.{name} is {given[name]}, but {source}, which the network starts from, has {before[name]}; "
                    f"leave model.{name} out"
                )
        given = before | given
        kind = str(given.pop("kind", "lstm"))
        if not given["bidirectional"]:
            del given["bidirectional"]
        refuse_foreign(kind, given)
        made = build(KINDS[kind], given, "model")
        assert isinstance(made, RecurrentOptions)
        return kind, made

    def given(self) -> dict[str, Any]:
        """The options of the stack that were set."""
        names = [field.name for field in dataclasses.fields(StackOptions)]
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


def refuse_foreign(kind: str, given: Mapping[str, Any]) -> None:
    """Raise ConfigError for an option that the kind does not have."""
    for name in given:
        if name not in _names(KINDS[kind]):
            applies = ", ".join(other for other in KINDS if other != "nplm" and name in _names(KINDS[other]))
            raise ConfigError(f"model.{name} does not apply to {kind}; it is for {applies}")


def _names(kind: type[Any]) -> set[str]:
    return {field.name for field in dataclasses.fields(kind)}


def structure(kind: str, options: RecurrentOptions) -> dict[str, Any]:
    """What a stack of these options must share with one that starts from it, for `resolve`."""
    values = asdict(options) | {"embedding": options.embedding or options.hidden}
    return {"kind": kind} | {name: values[name] for name in STRUCTURE if values.get(name) is not None}
