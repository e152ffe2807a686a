"""Options of the neural models. No torch here: the command line reads this for its help."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from annotated_types import Ge, Le, Lt
from pydantic.dataclasses import dataclass

from ostinato.core.config import STRICT
from ostinato.nn.heads.options import HeadOptions

Size = Annotated[int, Ge(1), Le(1 << 16)]
Share = Annotated[float, Ge(0), Lt(1)]
Biases = Annotated[int, Ge(1), Le(2)]
Bias = Annotated[float, Ge(-100), Le(100)]
BIDIRECTIONAL = "a bidirectional network would read the words it must predict, so it is no language model; leave it out"


class Noise(NamedTuple):
    """What falls on the recurrence of a stack."""

    recurrent_dropout: float
    weight_dropout: float
    zoneout: float


@dataclass(frozen=True, config=STRICT)
class RecurrentOptions:
    """What every recurrent model can be given."""

    of_cell: ClassVar[tuple[str, ...]] = ()  # the options that are the cell's own

    hidden: Size = 256
    layers: Size = 1
    embedding: Size | None = None  # None: as `hidden`
    tied: bool = True
    head: HeadOptions = field(default_factory=HeadOptions)
    dropout: Share = 0.2
    variational: bool = False
    embedding_dropout: Share = 0.0
    input_init: Literal["uniform", "glorot"] = "uniform"
    residual: bool = False
    skip: bool = False
    layer_norm: bool = False
    feed_forward: Literal["none", "relu", "gelu", "swiglu"] = "none"
    bidirectional: bool = False

    def __post_init__(self) -> None:
        if self.skip and self.layers == 1:
            raise ValueError("skip connects layers, so it needs at least two: set layers or leave skip out")
        if self.variational and not self.dropout:
            raise ValueError("variational holds the masks of dropout, which is 0: set dropout or leave variational out")

    @property
    def noise(self) -> Noise:
        """The noise on the recurrence; none of a kind that a cell cannot have."""
        return Noise(*(getattr(self, name, 0.0) for name in Noise._fields))

    def cell_options(self) -> dict[str, Any]:
        """What the cell is made with beside its sizes."""
        return {name: getattr(self, name) for name in self.of_cell}


@dataclass(frozen=True, config=STRICT)
class ScanOptions(RecurrentOptions):
    """Options of a cell whose state is one vector that no gate reads."""

    of_cell: ClassVar[tuple[str, ...]] = ("biases",)

    zoneout: Share = 0.0
    biases: Biases = 1


@dataclass(frozen=True, config=STRICT)
class HiddenOptions(ScanOptions):
    """Options of a cell whose gates read the hidden state through matrices."""

    recurrent_init: Literal["orthogonal", "glorot", "uniform", "identity"] = "orthogonal"
    recurrent_dropout: Share = 0.0
    weight_dropout: Share = 0.0


@dataclass(frozen=True, config=STRICT)
class ElmanOptions(HiddenOptions):
    """Options of the simple recurrent network."""

    of_cell: ClassVar[tuple[str, ...]] = ("biases", "activation")

    activation: Literal["tanh", "relu", "sigmoid", "gelu"] = "tanh"


@dataclass(frozen=True, config=STRICT)
class LSTMOptions(HiddenOptions):
    """Options of the forms of the LSTM that forget."""

    forget_bias: Bias = 1.0


@dataclass(frozen=True, config=STRICT)
class GRUOptions(HiddenOptions):
    """Options of the GRU."""

    biases: Biases = 2


@dataclass(frozen=True, config=STRICT)
class MinLSTMOptions(ScanOptions):
    """Options of the minimal LSTM."""

    forget_bias: Bias = 1.0


@dataclass(frozen=True, config=STRICT)
class GatedDeltaOptions(RecurrentOptions):
    """Options of the gated delta rule."""

    of_cell: ClassVar[tuple[str, ...]] = ("heads", "window")

    heads: Size | None = None  # None: of at most 64 numbers
    window: Annotated[int, Ge(1), Le(64)] = 4


@dataclass(frozen=True, config=STRICT)
class NPLMOptions:
    """Options of the feed-forward neural language model."""

    order: Annotated[int, Ge(2)] = 5
    hidden: Size = 128
    embedding: Size = 64
    direct: bool = False
    head: HeadOptions = field(default_factory=HeadOptions)
    dropout: Share = 0.2


KINDS: dict[str, type[RecurrentOptions] | type[NPLMOptions]] = {
    "nplm": NPLMOptions,
    "rnn": ElmanOptions,
    "lstm": LSTMOptions,
    "lstm-1997": HiddenOptions,
    "lstm-peephole": LSTMOptions,
    "lstm-coupled": LSTMOptions,
    "lstm-layer-norm": LSTMOptions,
    "gru": GRUOptions,
    "gru-reset-before": HiddenOptions,
    "min-gru": ScanOptions,
    "min-lstm": MinLSTMOptions,
    "gated-delta": GatedDeltaOptions,
}
"""The options of every kind of neural model."""
