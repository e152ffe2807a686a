"""Long short-term memory whose gates see the memory."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from ostinato.nn.cells.base import cells
from ostinato.nn.cells.lstm import ForgettingCell, LSTMGates, LSTMState, remember


@cells.register("lstm-peephole")
class PeepholeLSTM(ForgettingCell):
    """Long short-term memory with peepholes.

    input      i = sigmoid(Wi x + Ui h + pi * c + bi)
    forget     f = sigmoid(Wf x + Uf h + pf * c + bf)
    candidate  g = tanh(Wg x + Ug h + bg)
    state      c' = f * c + i * g
    output     o = sigmoid(Wo x + Uo h + po * c' + bo)
               h' = o * tanh(c')

    The output gate sees the new memory, the others the old; pi, pf, po are vectors, the rows of `from_cell`.
    Source: [Gers2002]. Differs: tanh of g and of c' and the whole gradient, as [Greff2017]; one cell a block.
    """

    def __init__(self, input_size: int, hidden_size: int, biases: Literal[1, 2] = 1):
        super().__init__(input_size, hidden_size, 4, biases)  # rows: i, f, g, o
        bound = hidden_size**-0.5
        self.from_cell = nn.Parameter(torch.empty(3, hidden_size).uniform_(-bound, bound))

    def activate(self, state: LSTMState, read: Tensor) -> LSTMGates:
        i, f, g, o = (read + self.from_hidden(state.hidden)).chunk(4, dim=-1)
        p_i, p_f, p_o = self.from_cell.unbind()
        write = torch.sigmoid(i + p_i * state.cell)
        forget = torch.sigmoid(f + p_f * state.cell)
        candidate = torch.tanh(g)
        cell = remember(state.cell, write, forget, candidate)
        return LSTMGates(write, forget, candidate, torch.sigmoid(o + p_o * cell))
