"""What a cell that steps without torch is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ostinato.core.registry import Registry
from ostinato.core.state import State
from ostinato.stream.matrix import Weights


class StreamCell:
    """A cell of nn/cells, made of its trained arrays; the equations and sources stand there.

    A cell defines `init_state`, `read`, what all gates get from the input alone, and `advance`, the rest of a step.
    options: those of the model that the cell knows, such as the activation.
    """

    def __init__(self, weights: Weights, input_size: int, hidden_size: int, options: Mapping[str, Any]):
        self.input_size, self.hidden_size, self.options = input_size, hidden_size, options

    @property
    def output_size(self) -> int:
        """The width of what `advance` returns."""
        return self.hidden_size

    def init_state(self, batch: int) -> State:
        """The state [batch, ...] of rows that have read nothing."""
        raise NotImplementedError

    def read(self, x: Any) -> Any:
        """What the gates get from inputs: [B, input_size] to [B, R]."""
        raise NotImplementedError

    def advance(self, state: State, read: Any) -> tuple[Any, State]:
        """The output [B, output_size] and the new state, from the old and what was read [B, R]."""
        raise NotImplementedError

    def zeros(self, batch: int) -> NDArray[np.float32]:
        """Zeros [batch, hidden_size]."""
        return np.zeros((batch, self.hidden_size), np.float32)


class RecurrentCell(StreamCell):
    """A cell of `blocks` gates that read the hidden state through one matrix; a second bias is there or not."""

    blocks: ClassVar[int]

    def __init__(self, weights: Weights, input_size: int, hidden_size: int, options: Mapping[str, Any]):
        super().__init__(weights, input_size, hidden_size, options)
        rows = self.blocks * hidden_size
        self.from_input = weights.linear("from_input", rows, input_size)
        self.from_hidden = weights.linear("from_hidden", rows, hidden_size)

    def read(self, x: Any) -> Any:
        return self.from_input(x)


cells: Registry[type[StreamCell]] = Registry("cell")
