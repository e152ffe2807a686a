"""Long short-term memory with a forget gate."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from ostinato.nn.cells.base import Cell, cells


class LSTMState(NamedTuple):
    hidden: Tensor  # [B, hidden_size]
    cell: Tensor  # [B, hidden_size]


class LSTMGates(NamedTuple):
    input: Tensor  # all [B, hidden_size]; gates in (0, 1)
    forget: Tensor
    candidate: Tensor  # in (-1, 1)
    output: Tensor


@cells.register("lstm")
class LSTM(Cell):
    """Long short-term memory.

    input      i = sigmoid(Wi x + Ui h + bi)
    forget     f = sigmoid(Wf x + Uf h + bf)
    candidate  g = tanh(Wg x + Ug h + bg)
    output     o = sigmoid(Wo x + Uo h + bo)
    state      c' = f * c + i * g
               h' = o * tanh(c')

    Source: [Hochreiter1997] with the forget gate of [Gers2000]. The four products are one; rows i, f, g, o
    as in torch.nn.LSTM, whose two biases are one here.
    """

    no_bias: Tensor

    def __init__(self, input_size: int, hidden_size: int):
        super().__init__(input_size, hidden_size)
        self.from_input = nn.Linear(input_size, 4 * hidden_size)
        self.from_hidden = nn.Linear(hidden_size, 4 * hidden_size, bias=False)
        self.register_buffer("no_bias", torch.zeros(4 * hidden_size), persistent=False)

    def init_state(self, batch: int) -> LSTMState:
        return LSTMState(self.zeros(batch), self.zeros(batch))

    def gates(self, state: LSTMState, x: Tensor) -> LSTMGates:
        i, f, g, o = (self.from_input(x) + self.from_hidden(state.hidden)).chunk(4, dim=-1)
        return LSTMGates(torch.sigmoid(i), torch.sigmoid(f), torch.tanh(g), torch.sigmoid(o))

    def step(self, state: LSTMState, x: Tensor) -> tuple[Tensor, LSTMState]:
        gates = self.gates(state, x)
        cell = gates.forget * state.cell + gates.input * gates.candidate
        hidden = gates.output * torch.tanh(cell)
        return hidden, LSTMState(hidden, cell)

    def scan(self, state: LSTMState, xs: Tensor) -> tuple[Tensor, LSTMState]:
        weights = [self.from_input.weight, self.from_hidden.weight, self.from_input.bias, self.no_bias]
        start = (state.hidden[None], state.cell[None])
        outputs, hidden, cell = torch.lstm(xs, start, weights, True, 1, 0.0, self.training, False, True)
        return outputs, LSTMState(hidden[0], cell[0])

    def recurrent_matrices(self) -> list[Tensor]:
        return list(self.from_hidden.weight.chunk(4))

    def set_forget_bias(self, value: float) -> None:
        """Set the forget gate's bias, so that the cell remembers from the start [Jozefowicz2015]."""
        with torch.no_grad():
            self.from_input.bias[self.hidden_size : 2 * self.hidden_size] = value
