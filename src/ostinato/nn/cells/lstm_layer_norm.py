"""Long short-term memory with its sums normalised."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from ostinato.nn.cells.base import cells
from ostinato.nn.cells.lstm import ForgettingCell, LSTMGates, LSTMState, remember


@cells.register("lstm-layer-norm")
class LayerNormLSTM(ForgettingCell):
    """Long short-term memory with layer normalisation N, each with a gain of its own.

    sums       (i, f, g, o) = N(W x) + N(U h) + b
    state      c' = sigmoid(f) * c + sigmoid(i) * tanh(g)
               h' = sigmoid(o) * tanh(N(c') + d)

    N takes mean and variance over all four gates together, [4 * hidden_size]. biases: 2 adds one beside N(U h);
    the paper has three, of the same sum. Rows i, f, g, o. Source: [Ba2016], its LSTM in the supplement.
    """

    def __init__(self, input_size: int, hidden_size: int, biases: Literal[1, 2] = 1):
        super().__init__(input_size, hidden_size, 4, 0)  # a bias before a norm would be normalised too
        self.norm_input = nn.LayerNorm(4 * hidden_size)
        self.norm_hidden = nn.LayerNorm(4 * hidden_size, bias=biases == 2)
        self.norm_cell = nn.LayerNorm(hidden_size)

    def read(self, x: Tensor) -> Tensor:
        normed: Tensor = self.norm_input(self.from_input(x))
        return normed

    def activate(self, state: LSTMState, read: Tensor) -> LSTMGates:
        i, f, g, o = (read + self.norm_hidden(self.from_hidden(state.hidden))).chunk(4, dim=-1)
        return LSTMGates(torch.sigmoid(i), torch.sigmoid(f), torch.tanh(g), torch.sigmoid(o))

    def update(self, state: LSTMState, gates: LSTMGates) -> tuple[Tensor, LSTMState]:
        cell = remember(state.cell, gates.input, gates.forget, gates.candidate)
        hidden = gates.output * torch.tanh(self.norm_cell(cell))
        return hidden, LSTMState(hidden, cell)

    def biases_of(self, block: int) -> list[Tensor]:
        found: list[Tensor | None] = [self.norm_input.bias, self.norm_hidden.bias]
        return [bias.chunk(self.blocks)[block] for bias in found if bias is not None]
