"""What a recurrent cell is."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ostinato.core.registry import Registry


class Cell(nn.Module):
    """Reads one vector a step and keeps a state of fixed size.

    A cell defines `init_state` and `gates`, the activations of one step, and `step`, which turns them into
    the next state. `scan` reads a whole sequence; it may be faster than a loop of `step`, never different.
    """

    def __init__(self, input_size: int, hidden_size: int):
        super().__init__()
        self.input_size, self.hidden_size = input_size, hidden_size

    def init_state(self, batch: int) -> Any:
        """The state [batch, ...] of rows that have read nothing."""
        raise NotImplementedError

    def gates(self, state: Any, x: Tensor) -> Any:
        """The activations of one step on `x` [B, input_size], a NamedTuple of tensors [B, hidden_size]."""
        raise NotImplementedError

    def step(self, state: Any, x: Tensor) -> tuple[Tensor, Any]:
        """Read `x` [B, input_size]; return the output [B, hidden_size] and the new state."""
        raise NotImplementedError

    def scan(self, state: Any, xs: Tensor) -> tuple[Tensor, Any]:
        """Read `xs` [B, T, input_size]; return the outputs [B, T, hidden_size] and the last state."""
        outputs = []
        for x in xs.unbind(dim=1):
            output, state = self.step(state, x)
            outputs.append(output)
        return torch.stack(outputs, dim=1), state

    def recurrent_matrices(self) -> list[Tensor]:
        """The square matrices [hidden_size, hidden_size] that carry the hidden state, one a gate."""
        raise NotImplementedError

    def zeros(self, batch: int) -> Tensor:
        """Zeros [batch, hidden_size] of this cell's dtype and device."""
        return next(self.parameters()).new_zeros(batch, self.hidden_size)


cells: Registry[type[Cell]] = Registry("cell")
