"""The minimal long short-term memory."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from ostinato.nn.cells.base import ForgetGate, cells
from ostinato.nn.cells.parallel_scan import AverageState, AveragingCell, positive


class MinLSTMGates(NamedTuple):
    input: Tensor  # all [B, hidden_size]; input + forget = 1
    forget: Tensor
    candidate: Tensor  # above 0


@cells.register("min-lstm")
class MinLSTM(ForgetGate, AveragingCell):
    """Long short-term memory whose gates do not see the state, so that a sequence is read by a parallel scan.

    input      i = sigmoid(Wi x + bi) / s
    forget     f = sigmoid(Wf x + bf) / s, s such that i + f = 1
    candidate  n = g(Wn x + bn), g(a) = a + 0.5 where a >= 0, else sigmoid(a)
    state      h' = f * h + i * n

    Source: [Feng2024] section 3.2 and appendix B, the length-independent form. Differs: as MinGRU. i and f come
    from the difference of the logarithms, so that two shut gates are no 0 / 0. Rows i, f, n.
    """

    def __init__(self, input_size: int, hidden_size: int, biases: Literal[1, 2] = 1):
        super().__init__(input_size, hidden_size, 3, biases)

    def gates(self, state: AverageState, x: Tensor) -> MinLSTMGates:
        weight, candidate = self.weight_and_values(self.read(x, state.hidden.dtype))
        return MinLSTMGates(weight, 1 - weight, candidate)

    def weight_and_values(self, read: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        i, f, n = read
        return torch.sigmoid(logsigmoid(i) - logsigmoid(f)), positive(n)

    def forget_biases(self) -> list[Tensor]:
        found = [bias for bias in (self.from_input.bias, self.second_bias) if bias is not None]
        return [bias.chunk(self.blocks)[1] for bias in found]
