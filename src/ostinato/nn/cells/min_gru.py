"""The minimal gated recurrent unit."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from ostinato.nn.cells.base import cells
from ostinato.nn.cells.parallel_scan import AverageState, AveragingCell, positive


class MinGRUGates(NamedTuple):
    update: Tensor  # all [B, hidden_size]; in (0, 1)
    candidate: Tensor  # above 0


@cells.register("min-gru")
class MinGRU(AveragingCell):
    """Gated recurrent unit whose gates do not see the state, so that a sequence is read by a parallel scan.

    update     z = sigmoid(Wz x + bz)
    candidate  n = g(Wn x + bn), g(a) = a + 0.5 where a >= 0, else sigmoid(a)
    state      h' = (1 - z) * h + z * n

    Source: [Feng2024] section 3.1 and appendix B. Differs: the scan takes no logarithms, so a state of any
    sign can be the start, and `scan` and `step` agree from every start (there, the start passes through g
    in one of the two only). Rows z, n.
    """

    def __init__(self, input_size: int, hidden_size: int, biases: Literal[1, 2] = 1):
        super().__init__(input_size, hidden_size, 2, biases)

    def gates(self, state: AverageState, x: Tensor) -> MinGRUGates:
        return MinGRUGates(*self.weight_and_values(self.read(x, state.hidden.dtype)))

    def weight_and_values(self, read: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        z, n = read
        return torch.sigmoid(z), positive(n)
