"""The gated recurrent unit."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from ostinato.nn.cells.base import Cell, cells


class GRUState(NamedTuple):
    hidden: Tensor  # [B, hidden_size]


class GRUGates(NamedTuple):
    reset: Tensor  # all [B, hidden_size]; gates in (0, 1)
    update: Tensor
    candidate: Tensor  # in (-1, 1)


@cells.register("gru")
class GRU(Cell):
    """Gated recurrent unit, reset after the product.

    reset      r = sigmoid(Wr x + Ur h + br)
    update     z = sigmoid(Wz x + Uz h + bz)
    candidate  n = tanh(Wn x + bn + r * (Un h + cn))
    state      h' = (1 - z) * n + z * h

    Source: [Cho2014] eq. 5-8. Differs: the bias cn, and r applied after Un, as in torch.nn.GRU. The
    recurrent rows of r and z carry a bias too, so that weights of torch.nn.GRU fit as they are.
    """

    def __init__(self, input_size: int, hidden_size: int):
        super().__init__(input_size, hidden_size)
        self.from_input = nn.Linear(input_size, 3 * hidden_size)  # rows: r, z, n
        self.from_hidden = nn.Linear(hidden_size, 3 * hidden_size)

    def init_state(self, batch: int) -> GRUState:
        return GRUState(self.zeros(batch))

    def gates(self, state: GRUState, x: Tensor) -> GRUGates:
        r_x, z_x, n_x = self.from_input(x).chunk(3, dim=-1)
        r_h, z_h, n_h = self.from_hidden(state.hidden).chunk(3, dim=-1)
        reset = torch.sigmoid(r_x + r_h)
        return GRUGates(reset, torch.sigmoid(z_x + z_h), torch.tanh(n_x + reset * n_h))

    def step(self, state: GRUState, x: Tensor) -> tuple[Tensor, GRUState]:
        gates = self.gates(state, x)
        hidden = (1 - gates.update) * gates.candidate + gates.update * state.hidden
        return hidden, GRUState(hidden)

    def scan(self, state: GRUState, xs: Tensor) -> tuple[Tensor, GRUState]:
        weights = [self.from_input.weight, self.from_hidden.weight, self.from_input.bias, self.from_hidden.bias]
        outputs, hidden = torch.gru(xs, state.hidden[None], weights, True, 1, 0.0, self.training, False, True)
        return outputs, GRUState(hidden[0])

    def recurrent_matrices(self) -> list[Tensor]:
        return list(self.from_hidden.weight.chunk(3))
