"""The gated recurrent unit, its reset after the product."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from ostinato.nn.cells.base import cells
from ostinato.nn.cells.recurrent import RecurrentCell


class GRUState(NamedTuple):
    hidden: Tensor  # [B, hidden_size]


class GRUGates(NamedTuple):
    reset: Tensor  # all [B, hidden_size]; gates in (0, 1)
    update: Tensor
    candidate: Tensor  # in (-1, 1)


class GRUCell(RecurrentCell):
    """What both forms of the unit share: the state h and h' = (1 - z) * n + z * h."""

    def init_state(self, batch: int) -> GRUState:
        return GRUState(self.zeros(batch))

    def update(self, state: GRUState, gates: GRUGates) -> tuple[Tensor, GRUState]:
        hidden = (1 - gates.update) * gates.candidate + gates.update * state.hidden
        return hidden, GRUState(hidden)


@cells.register("gru")
class GRU(GRUCell):
    """Gated recurrent unit, reset after the product.

    reset      r = sigmoid(Wr x + Ur h + br)
    update     z = sigmoid(Wz x + Uz h + bz)
    candidate  n = tanh(Wn x + bn + r * (Un h + cn))
    state      h' = (1 - z) * n + z * h

    biases: 1 is the four above, since cn stands inside the reset and is no double of bn; 2 gives the
    recurrent rows of r and z one too, so that weights of torch.nn.GRU fit as they are.
    Source: [Cho2014] eq. 5-8. Differs: biases, and r applied after Un, as in torch.nn.GRU.
    """

    def __init__(self, input_size: int, hidden_size: int, biases: Literal[1, 2] = 2):
        super().__init__(input_size, hidden_size, 3, biases)  # rows: r, z, n
        self.candidate_bias = nn.Parameter(torch.zeros(hidden_size)) if biases == 1 else None

    def activate(self, state: GRUState, read: Tensor) -> GRUGates:
        r_x, z_x, n_x = read.chunk(3, dim=-1)
        products = self.from_hidden.product(state.hidden, self.hidden_bias())
        r_h, z_h, n_h = products.chunk(3, dim=-1)
        reset = torch.sigmoid(r_x + r_h)
        return GRUGates(reset, torch.sigmoid(z_x + z_h), torch.tanh(n_x + reset * n_h))

    def scan(self, state: GRUState, xs: Tensor) -> tuple[Tensor, GRUState]:
        weights = self.torch_weights()
        outputs, hidden = torch.gru(xs, state.hidden[None], weights, True, 1, 0.0, self.training, False, True)
        return outputs, GRUState(hidden[0])

    def hidden_bias(self) -> Tensor:
        if self.candidate_bias is None:
            return super().hidden_bias()
        return torch.cat([self.no_bias[: 2 * self.hidden_size], self.candidate_bias])
