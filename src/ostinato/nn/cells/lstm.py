"""Long short-term memory with a forget gate, and what its other forms share with it."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from ostinato.nn.cells.base import ForgetGate, cells
from ostinato.nn.cells.recurrent import RecurrentCell


class LSTMState(NamedTuple):
    hidden: Tensor  # [B, hidden_size]
    cell: Tensor  # [B, hidden_size]


class LSTMGates(NamedTuple):
    input: Tensor  # all [B, hidden_size]; gates in (0, 1)
    forget: Tensor
    candidate: Tensor  # in (-1, 1)
    output: Tensor


def remember(cell: Tensor, write: Tensor, forget: Tensor, candidate: Tensor) -> Tensor:
    """The new memory c' = f * c + i * g, `write` being the input gate i; all [B, hidden_size]."""
    return forget * cell + write * candidate


class MemoryCell(RecurrentCell):
    """A cell that keeps a memory c beside the hidden state h; both start at zero."""

    def init_state(self, batch: int) -> LSTMState:
        return LSTMState(self.zeros(batch), self.zeros(batch))

    def biases_of(self, block: int) -> list[Tensor]:
        """Views [hidden_size] of the one or two biases of a gate."""
        found: list[Tensor | None] = [self.from_input.bias, self.from_hidden.bias]
        return [bias.chunk(self.blocks)[block] for bias in found if bias is not None]


class ForgettingCell(ForgetGate, MemoryCell):
    """A memory cell with the four gates of `LSTMGates`; the biases of the forget gate are those of block 1."""

    def update(self, state: LSTMState, gates: LSTMGates) -> tuple[Tensor, LSTMState]:
        cell = remember(state.cell, gates.input, gates.forget, gates.candidate)
        hidden = gates.output * torch.tanh(cell)
        return hidden, LSTMState(hidden, cell)

    def forget_biases(self) -> list[Tensor]:
        return self.biases_of(1)


@cells.register("lstm")
class LSTM(ForgettingCell):
    """Long short-term memory.

    input      i = sigmoid(Wi x + Ui h + bi)
    forget     f = sigmoid(Wf x + Uf h + bf)
    candidate  g = tanh(Wg x + Ug h + bg)
    output     o = sigmoid(Wo x + Uo h + bo)
    state      c' = f * c + i * g
               h' = o * tanh(c')

    Source: [Hochreiter1997] with the forget gate of [Gers2000]. Rows i, f, g, o as in torch.nn.LSTM.
    """

    def __init__(self, input_size: int, hidden_size: int, biases: Literal[1, 2] = 1):
        super().__init__(input_size, hidden_size, 4, biases)

    def activate(self, state: LSTMState, read: Tensor) -> LSTMGates:
        i, f, g, o = (read + self.from_hidden(state.hidden)).chunk(4, dim=-1)
        return LSTMGates(torch.sigmoid(i), torch.sigmoid(f), torch.tanh(g), torch.sigmoid(o))

    def scan(self, state: LSTMState, xs: Tensor) -> tuple[Tensor, LSTMState]:
        start = (state.hidden[None], state.cell[None])
        outputs, hidden, cell = torch.lstm(xs, start, self.torch_weights(), True, 1, 0.0, self.training, False, True)
        return outputs, LSTMState(hidden[0], cell[0])
