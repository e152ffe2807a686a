"""Long short-term memory in all its forms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ostinato.core.state import State
from ostinato.stream import ops
from ostinato.stream.cells.base import RecurrentCell, cells
from ostinato.stream.matrix import Weights


class LSTMState(NamedTuple):
    hidden: Any  # [B, hidden_size]
    cell: Any  # [B, hidden_size]


class MemoryCell(RecurrentCell):
    """A cell that keeps a memory c beside h."""

    def init_state(self, batch: int) -> LSTMState:
        return LSTMState(self.zeros(batch), self.zeros(batch))


def opened(output: Any, cell: Any) -> tuple[Any, LSTMState]:
    """h' = sigmoid(output) * tanh(c'), and the state that holds both."""
    hidden = ops.sigmoid(output) * np.tanh(cell)
    return hidden, LSTMState(hidden, cell)


@cells.register("lstm")
class LSTM(MemoryCell):
    """c' = f * c + i * g."""

    blocks = 4

    def advance(self, state: State, read: Any) -> tuple[Any, LSTMState]:
        h, c = state
        i, f, g, o = ops.split(read + self.from_hidden(h), 4)
        return opened(o, ops.sigmoid(f) * c + ops.sigmoid(i) * np.tanh(g))


@cells.register("lstm-1997")
class LSTM1997(MemoryCell):
    """c' = c + i * g."""

    blocks = 3

    def advance(self, state: State, read: Any) -> tuple[Any, LSTMState]:
        h, c = state
        i, g, o = ops.split(read + self.from_hidden(h), 3)
        return opened(o, c + ops.sigmoid(i) * np.tanh(g))


@cells.register("lstm-peephole")
class PeepholeLSTM(MemoryCell):
    """c' = f * c + i * g; i and f see c, o sees c'."""

    blocks = 4

    def __init__(self, weights: Weights, input_size: int, hidden_size: int, options: Mapping[str, Any]):
        super().__init__(weights, input_size, hidden_size, options)
        self.from_cell = weights.vector("from_cell", 3, hidden_size)

    def advance(self, state: State, read: Any) -> tuple[Any, LSTMState]:
        h, c = state
        p_i, p_f, p_o = self.from_cell
        i, f, g, o = ops.split(read + self.from_hidden(h), 4)
        cell = ops.sigmoid(f + p_f * c) * c + ops.sigmoid(i + p_i * c) * np.tanh(g)
        return opened(o + p_o * cell, cell)


@cells.register("lstm-coupled")
class CoupledLSTM(MemoryCell):
    """c' = (1 - i) * c + i * g."""

    blocks = 3

    def advance(self, state: State, read: Any) -> tuple[Any, LSTMState]:
        h, c = state
        i, g, o = ops.split(read + self.from_hidden(h), 3)
        write = ops.sigmoid(i)
        return opened(o, (1 - write) * c + write * np.tanh(g))


@cells.register("lstm-layer-norm")
class LayerNormLSTM(MemoryCell):
    """(i, f, g, o) = N(W x) + N(U h) + b, h' = o * tanh(N(c') + d)."""

    blocks = 4

    def __init__(self, weights: Weights, input_size: int, hidden_size: int, options: Mapping[str, Any]):
        super().__init__(weights, input_size, hidden_size, options)
        self.norm_input = weights.norm("norm_input", 4 * hidden_size)
        self.norm_hidden = weights.norm("norm_hidden", 4 * hidden_size)
        self.norm_cell = weights.norm("norm_cell", hidden_size)

    def read(self, x: Any) -> Any:
        return self.norm_input(self.from_input(x))

    def advance(self, state: State, read: Any) -> tuple[Any, LSTMState]:
        h, c = state
        i, f, g, o = ops.split(read + self.norm_hidden(self.from_hidden(h)), 4)
        cell = ops.sigmoid(f) * c + ops.sigmoid(i) * np.tanh(g)
        hidden = ops.sigmoid(o) * np.tanh(self.norm_cell(cell))
        return hidden, LSTMState(hidden, cell)
