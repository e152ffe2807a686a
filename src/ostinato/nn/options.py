"""Options of the neural models. No torch here: the command line reads this for its help."""

from __future__ import annotations

from typing import Annotated, Literal

from annotated_types import Ge, Le, Lt
from pydantic.dataclasses import dataclass

from ostinato.core.config import STRICT

Size = Annotated[int, Ge(1), Le(1 << 16)]
Share = Annotated[float, Ge(0), Lt(1)]


@dataclass(frozen=True, config=STRICT)
class RecurrentOptions:
    """What every recurrent language model can be given."""

    hidden: Size = 256
    layers: Size = 1
    embedding: Size | None = None  # None: as `hidden`
    tied: bool = True
    dropout: Share = 0.2
    recurrent_init: Literal["orthogonal", "uniform"] = "orthogonal"
    residual: bool = False
    layer_norm: bool = False


@dataclass(frozen=True, config=STRICT)
class ElmanOptions(RecurrentOptions):
    """Options of the simple recurrent network."""

    activation: Literal["tanh", "relu"] = "tanh"


@dataclass(frozen=True, config=STRICT)
class LSTMOptions(RecurrentOptions):
    """Options of the LSTM."""

    forget_bias: Annotated[float, Ge(-100), Le(100)] = 1.0


@dataclass(frozen=True, config=STRICT)
class GRUOptions(RecurrentOptions):
    """Options of the GRU."""


@dataclass(frozen=True, config=STRICT)
class NPLMOptions:
    """Options of the feed-forward neural language model."""

    order: Annotated[int, Ge(2)] = 5
    hidden: Size = 128
    embedding: Size = 64
    direct: bool = False
    dropout: Share = 0.2
