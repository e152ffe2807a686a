"""Gated recurrent units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ostinato.core.state import State
from ostinato.stream import ops
from ostinato.stream.cells.base import RecurrentCell, cells
from ostinato.stream.matrix import Weights


class GRUState(NamedTuple):
    hidden: Any  # [B, hidden_size]


class GRUCell(RecurrentCell):
    """What both forms share: the state h."""

    blocks = 3

    def init_state(self, batch: int) -> GRUState:
        return GRUState(self.zeros(batch))


@cells.register("gru")
class GRU(GRUCell):
    """n = tanh(Wn x + bn + r * (Un h + cn)), h' = (1 - z) * n + z * h."""

    def __init__(self, weights: Weights, input_size: int, hidden_size: int, options: Mapping[str, Any]):
        super().__init__(weights, input_size, hidden_size, options)
        own = "candidate_bias" in weights  # cn alone, where r and z have no second bias
        self.candidate_bias = weights.vector("candidate_bias", hidden_size) if own else None

    def advance(self, state: State, read: Any) -> tuple[Any, GRUState]:
        (h,) = state
        r_x, z_x, n_x = ops.split(read, 3)
        r_h, z_h, n_h = ops.split(self.from_hidden(h), 3)
        if self.candidate_bias is not None:
            n_h = n_h + self.candidate_bias
        reset, update = ops.sigmoid(r_x + r_h), ops.sigmoid(z_x + z_h)
        hidden = (1 - update) * np.tanh(n_x + reset * n_h) + update * h
        return hidden, GRUState(hidden)


@cells.register("gru-reset-before")
class ResetBeforeGRU(GRUCell):
    """n = tanh(Wn x + Un (r * h) + bn), h' = (1 - z) * n + z * h."""

    def __init__(self, weights: Weights, input_size: int, hidden_size: int, options: Mapping[str, Any]):
        super().__init__(weights, input_size, hidden_size, options)
        self.gates_from_hidden = self.from_hidden.part(0, 2 * hidden_size)
        self.candidate_from_hidden = self.from_hidden.part(2 * hidden_size, 3 * hidden_size)

    def advance(self, state: State, read: Any) -> tuple[Any, GRUState]:
        (h,) = state
        r_x, z_x, n_x = ops.split(read, 3)
        r_h, z_h = ops.split(self.gates_from_hidden(h), 2)
        reset, update = ops.sigmoid(r_x + r_h), ops.sigmoid(z_x + z_h)
        hidden = (1 - update) * np.tanh(n_x + self.candidate_from_hidden(reset * h)) + update * h
        return hidden, GRUState(hidden)
