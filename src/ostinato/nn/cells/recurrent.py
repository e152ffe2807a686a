"""What the cells have in common whose gates read the hidden state through matrices."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from ostinato.nn.cells.base import Cell
from ostinato.nn.gathered import StepLinear, gathered


class RecurrentCell(Cell):
    """A cell of `blocks` gates; each reads W x + U h + b, and the products of all of them are one.

    A cell defines `activate` and `update`. biases: 1, or 2 as in torch.nn (a further one beside U, the same
    sum), or 0 for a cell that has its biases elsewhere.
    """

    no_bias: Tensor

    def __init__(self, input_size: int, hidden_size: int, blocks: int, biases: Literal[0, 1, 2]):
        super().__init__(input_size, hidden_size)
        self.blocks = blocks
        self.from_input = nn.Linear(input_size, blocks * hidden_size, bias=biases > 0)
        self.from_hidden = StepLinear(hidden_size, blocks * hidden_size, bias=biases == 2)
        self.register_buffer("no_bias", torch.zeros(blocks * hidden_size), persistent=False)

    def read(self, x: Tensor) -> Tensor:
        """What all gates get from the inputs alone: [..., input_size] to [..., blocks * hidden_size]."""
        product: Tensor = self.from_input(x)
        return product

    def activate(self, state: Any, read: Tensor) -> Any:
        """The gates of one step, of what was read [B, blocks * hidden_size]."""
        raise NotImplementedError

    def update(self, state: Any, gates: Any) -> tuple[Tensor, Any]:
        """The output [B, hidden_size] and the new state that the gates make of the old."""
        raise NotImplementedError

    def gates(self, state: Any, x: Tensor) -> Any:
        return self.activate(state, self.read(x))

    def step(self, state: Any, x: Tensor) -> tuple[Tensor, Any]:
        return self.update(state, self.gates(state, x))

    def scan(self, state: Any, xs: Tensor) -> tuple[Tensor, Any]:
        outputs = []
        with gathered(self):
            for read in self.read(xs).unbind(dim=1):  # the inputs of all steps are one product
                output, state = self.update(state, self.activate(state, read))
                outputs.append(output)
        return torch.stack(outputs, dim=1), state

    def recurrent_matrices(self) -> list[Tensor]:
        return list(self.from_hidden.weight.chunk(self.blocks))

    def input_matrices(self) -> list[Tensor]:
        return list(self.from_input.weight.chunk(self.blocks))

    def hidden_bias(self) -> Tensor:
        """The bias [blocks * hidden_size] beside U h; zeros if there is none."""
        bias: Tensor | None = self.from_hidden.bias
        return self.no_bias if bias is None else bias

    def torch_weights(self) -> list[Tensor]:
        """W, U and the two biases, as the functions of torch take them."""
        return [self.from_input.weight, self.from_hidden.weight, self.from_input.bias, self.hidden_bias()]
