"""Long short-term memory as first published: no forget gate."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from ostinato.nn.cells.base import cells
from ostinato.nn.cells.lstm import LSTMState, MemoryCell


class LSTM1997Gates(NamedTuple):
    input: Tensor  # all [B, hidden_size]; gates in (0, 1)
    candidate: Tensor  # in (-1, 1)
    output: Tensor


@cells.register("lstm-1997")
class LSTM1997(MemoryCell):
    """Long short-term memory without a forget gate: the memory only ever adds up.

    input      i = sigmoid(Wi x + Ui h + bi)
    candidate  g = tanh(Wg x + Ug h + bg)
    output     o = sigmoid(Wo x + Uo h + bo)
    state      c' = c + i * g
               h' = o * tanh(c')

    The derivative of c' by c along the memory is 1: the constant error carousel.
    Source: [Hochreiter1997] section 4. Differs: tanh for the two squashing functions, 4 sigmoid(a) - 2 and
    2 sigmoid(a) - 1 there; one cell a block; the gradient is not truncated. Rows i, g, o.
    """

    def __init__(self, input_size: int, hidden_size: int, biases: Literal[1, 2] = 1):
        super().__init__(input_size, hidden_size, 3, biases)

    def activate(self, state: LSTMState, read: Tensor) -> LSTM1997Gates:
        i, g, o = (read + self.from_hidden(state.hidden)).chunk(3, dim=-1)
        return LSTM1997Gates(torch.sigmoid(i), torch.tanh(g), torch.sigmoid(o))

    def update(self, state: LSTMState, gates: LSTM1997Gates) -> tuple[Tensor, LSTMState]:
        cell = state.cell + gates.input * gates.candidate
        hidden = gates.output * torch.tanh(cell)
        return hidden, LSTMState(hidden, cell)
