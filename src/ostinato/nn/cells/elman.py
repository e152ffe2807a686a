"""The simple recurrent network."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from ostinato.nn.cells.base import Cell, cells


class ElmanState(NamedTuple):
    hidden: Tensor  # [B, hidden_size]


class ElmanGates(NamedTuple):
    hidden: Tensor  # [B, hidden_size], in (-1, 1) for tanh, not negative for relu


@cells.register("rnn")
class Elman(Cell):
    """Simple recurrent unit.

    state  h' = f(W x + U h + b), f = tanh or relu

    Source: [Elman1990]; the relu form as in torch.nn.RNN, whose two biases are one here.
    """

    no_bias: Tensor

    def __init__(self, input_size: int, hidden_size: int, activation: Literal["tanh", "relu"] = "tanh"):
        super().__init__(input_size, hidden_size)
        self.activation = activation
        self.from_input = nn.Linear(input_size, hidden_size)
        self.from_hidden = nn.Linear(hidden_size, hidden_size, bias=False)
        self.register_buffer("no_bias", torch.zeros(hidden_size), persistent=False)

    def init_state(self, batch: int) -> ElmanState:
        return ElmanState(self.zeros(batch))

    def gates(self, state: ElmanState, x: Tensor) -> ElmanGates:
        total = self.from_input(x) + self.from_hidden(state.hidden)
        return ElmanGates(torch.relu(total) if self.activation == "relu" else torch.tanh(total))

    def step(self, state: ElmanState, x: Tensor) -> tuple[Tensor, ElmanState]:
        hidden = self.gates(state, x).hidden
        return hidden, ElmanState(hidden)

    def scan(self, state: ElmanState, xs: Tensor) -> tuple[Tensor, ElmanState]:
        read = torch.rnn_relu if self.activation == "relu" else torch.rnn_tanh
        weights = [self.from_input.weight, self.from_hidden.weight, self.from_input.bias, self.no_bias]
        outputs, hidden = read(xs, state.hidden[None], weights, True, 1, 0.0, self.training, False, True)
        return outputs, ElmanState(hidden[0])

    def recurrent_matrices(self) -> list[Tensor]:
        return [self.from_hidden.weight]
