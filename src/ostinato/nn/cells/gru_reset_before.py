"""The gated recurrent unit as first published: its reset before the product."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from ostinato.nn.cells.base import cells
from ostinato.nn.cells.gru import GRUCell, GRUGates, GRUState


@cells.register("gru-reset-before")
class ResetBeforeGRU(GRUCell):
    """Gated recurrent unit, reset before the product.

    reset      r = sigmoid(Wr x + Ur h + br)
    update     z = sigmoid(Wz x + Uz h + bz)
    candidate  n = tanh(Wn x + Un (r * h) + bn)
    state      h' = (1 - z) * n + z * h

    Two hidden products a step, since Un waits for r. Source: [Cho2014] eq. 5-8. Differs: biases. Rows r, z, n.
    """

    def __init__(self, input_size: int, hidden_size: int, biases: Literal[1, 2] = 1):
        super().__init__(input_size, hidden_size, 3, biases)

    def activate(self, state: GRUState, read: Tensor) -> GRUGates:
        sizes = [2 * self.hidden_size, self.hidden_size]  # r and z, then n
        gates_x, n_x = torch.split(read, sizes, dim=-1)
        gates_weight, n_weight = torch.split(self.from_hidden.weight, sizes)
        gates_bias, n_bias = torch.split(self.hidden_bias(), sizes)
        r, z = (gates_x + nn.functional.linear(state.hidden, gates_weight, gates_bias)).chunk(2, dim=-1)
        reset = torch.sigmoid(r)
        n = n_x + nn.functional.linear(reset * state.hidden, n_weight, n_bias)
        return GRUGates(reset, torch.sigmoid(z), torch.tanh(n))
