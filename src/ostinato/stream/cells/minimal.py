"""Units whose gates do not see the state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from ostinato.core.state import State
from ostinato.stream import ops
from ostinato.stream.cells.base import StreamCell, cells
from ostinato.stream.matrix import Weights


class ScanState(NamedTuple):
    hidden: Any  # [B, hidden_size]


class ScanCell(StreamCell):
    """A cell of `blocks` products of the input alone."""

    blocks: ClassVar[int]

    def __init__(self, weights: Weights, input_size: int, hidden_size: int, options: Mapping[str, Any]):
        super().__init__(weights, input_size, hidden_size, options)
        rows = self.blocks * hidden_size
        self.from_input = weights.linear("from_input", rows, input_size)
        self.second_bias = weights.vector("second_bias", rows) if "second_bias" in weights else None

    def init_state(self, batch: int) -> ScanState:
        return ScanState(self.zeros(batch))

    def read(self, x: Any) -> Any:
        product = self.from_input(x)
        return product if self.second_bias is None else product + self.second_bias


def positive(x: Any) -> Any:
    """x + 0.5 where x >= 0, else sigmoid(x)."""
    return ops.relu(x) + ops.sigmoid(-ops.relu(-x))


@cells.register("min-gru")
class MinGRU(ScanCell):
    """h' = (1 - z) * h + z * n, n positive."""

    blocks = 2

    def advance(self, state: State, read: Any) -> tuple[Any, ScanState]:
        (h,) = state
        z, n = ops.split(read, 2)
        update = ops.sigmoid(z)
        hidden = (1 - update) * h + update * positive(n)
        return hidden, ScanState(hidden)


@cells.register("min-lstm")
class MinLSTM(ScanCell):
    """h' = f * h + i * n, n positive, i and f scaled to sum 1."""

    blocks = 3

    def advance(self, state: State, read: Any) -> tuple[Any, ScanState]:
        (h,) = state
        i, f, n = ops.split(read, 3)
        odds = ops.softplus(-f) - ops.softplus(-i)  # log(sigmoid(i) / sigmoid(f))
        hidden = ops.sigmoid(-odds) * h + ops.sigmoid(odds) * positive(n)
        return hidden, ScanState(hidden)
