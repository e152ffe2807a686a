"""Long short-term memory that forgets as much as it writes."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from ostinato.nn.cells.base import cells
from ostinato.nn.cells.lstm import ForgettingCell, LSTMGates, LSTMState


@cells.register("lstm-coupled")
class CoupledLSTM(ForgettingCell):
    """Long short-term memory with one gate for writing and forgetting.

    input      i = sigmoid(Wi x + Ui h + bi)
    forget     f = 1 - i
    candidate  g = tanh(Wg x + Ug h + bg)
    output     o = sigmoid(Wo x + Uo h + bo)
    state      c' = f * c + i * g
               h' = o * tanh(c')

    The memory is an average of candidates, so it stays in (-1, 1).
    Source: [Greff2017], the variant CIFG; differs: no peepholes. Rows i, g, o.
    """

    def __init__(self, input_size: int, hidden_size: int, biases: Literal[1, 2] = 1):
        super().__init__(input_size, hidden_size, 3, biases)

    def activate(self, state: LSTMState, read: Tensor) -> LSTMGates:
        i, g, o = (read + self.from_hidden(state.hidden)).chunk(3, dim=-1)
        write = torch.sigmoid(i)
        return LSTMGates(write, 1 - write, torch.tanh(g), torch.sigmoid(o))

    def forget_biases(self) -> list[Tensor]:
        """The biases of the input gate; the forget gate reads them with the opposite sign."""
        return self.biases_of(0)

    def set_forget_bias(self, value: float) -> None:
        super().set_forget_bias(-value)  # 1 - sigmoid(a) = sigmoid(-a)
