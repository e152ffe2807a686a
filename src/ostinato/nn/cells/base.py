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

    @property
    def output_size(self) -> int:
        """The width of what `step` and `scan` return."""
        return self.hidden_size

    def init_state(self, batch: int) -> Any:
        """The state [batch, ...] of rows that have read nothing."""
        raise NotImplementedError

    def gates(self, state: Any, x: Tensor) -> Any:
        """The activations of one step on `x` [B, input_size], a NamedTuple of tensors [B, hidden_size]."""
        raise NotImplementedError

    def step(self, state: Any, x: Tensor) -> tuple[Tensor, Any]:
        """Read `x` [B, input_size]; return the output [B, output_size] and the new state."""
        raise NotImplementedError

    def scan(self, state: Any, xs: Tensor) -> tuple[Tensor, Any]:
        """Read `xs` [B, T, input_size], T at least 1; return the outputs [B, T, output_size] and the last state."""
        outputs = []
        for x in xs.unbind(dim=1):
            output, state = self.step(state, x)
            outputs.append(output)
        return torch.stack(outputs, dim=1), state

    def recurrent_matrices(self) -> list[Tensor]:
        """Views of the matrices [hidden_size, hidden_size] that carry the hidden state, one a gate; [] if none do."""
        raise NotImplementedError

    def input_matrices(self) -> list[Tensor]:
        """Views of the matrices [hidden_size, input_size] that read the input, one a gate."""
        raise NotImplementedError

    def zeros(self, batch: int) -> Tensor:
        """Zeros [batch, hidden_size] of this cell's dtype and device."""
        return next(self.parameters()).new_zeros(batch, self.hidden_size)


class ForgetGate:
    """What a cell with a forget gate adds: its bias can be set."""

    def forget_biases(self) -> list[Tensor]:
        """Views [hidden_size] of the biases whose sum the forget gate reads."""
        raise NotImplementedError

    def set_forget_bias(self, value: float) -> None:
        """Set the forget gate's bias, so that the cell remembers from the start [Jozefowicz2015]."""
        with torch.no_grad():
            first, *others = self.forget_biases()
            first.fill_(value)
            for other in others:
                other.zero_()


cells: Registry[type[Cell]] = Registry("cell")
