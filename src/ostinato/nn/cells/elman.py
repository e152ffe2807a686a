"""The simple recurrent network."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from ostinato.nn.cells.base import cells
from ostinato.nn.cells.recurrent import RecurrentCell

ACTIVATIONS = {"tanh": torch.tanh, "relu": torch.relu, "sigmoid": torch.sigmoid, "gelu": nn.functional.gelu}
FUSED = {"tanh": torch.rnn_tanh, "relu": torch.rnn_relu}


class ElmanState(NamedTuple):
    hidden: Tensor  # [B, hidden_size]


class ElmanGates(NamedTuple):
    hidden: Tensor  # [B, hidden_size], in the range of the activation


@cells.register("rnn")
class Elman(RecurrentCell):
    """Simple recurrent unit.

    state  h' = f(W x + U h + b), f = tanh, relu, sigmoid or gelu

    Source: [Elman1990], whose f is the sigmoid; tanh and relu as in torch.nn.RNN.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        activation: Literal["tanh", "relu", "sigmoid", "gelu"] = "tanh",
        biases: Literal[1, 2] = 1,
    ):
        super().__init__(input_size, hidden_size, 1, biases)
        self.activation = activation

    def init_state(self, batch: int) -> ElmanState:
        return ElmanState(self.zeros(batch))

    def activate(self, state: ElmanState, read: Tensor) -> ElmanGates:
        return ElmanGates(ACTIVATIONS[self.activation](read + self.from_hidden(state.hidden)))

    def update(self, state: ElmanState, gates: ElmanGates) -> tuple[Tensor, ElmanState]:
        return gates.hidden, ElmanState(gates.hidden)

    def scan(self, state: ElmanState, xs: Tensor) -> tuple[Tensor, ElmanState]:
        if self.activation not in FUSED:
            return super().scan(state, xs)
        read, weights = FUSED[self.activation], self.torch_weights()
        outputs, hidden = read(xs, state.hidden[None], weights, True, 1, 0.0, self.training, False, True)
        return outputs, ElmanState(hidden[0])
