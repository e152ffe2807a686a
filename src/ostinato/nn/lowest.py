"""Steps of a decoder's cells, the lowest of which knows part of what it reads before the first step."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from ostinato.nn.cells import Cell
from ostinato.nn.cells.recurrent import RecurrentCell
from ostinato.nn.gathered import Steps


class Lowest:
    """The lowest cell, reading [y; c] of which y is known for all steps before the first."""

    def __init__(self, cell: Cell, known: int):
        self.cell, self.linear = cell, isinstance(cell, RecurrentCell) and type(cell).read is RecurrentCell.read
        if self.linear:
            linear: Any = cell.from_input
            self.weight, beside = torch.split(linear.weight, [known, linear.in_features - known], dim=1)
            self.beside = Steps(beside)
            self.bias: Tensor | None = linear.bias

    def hoist(self, words: Tensor) -> Tensor:
        """What steps need of `words` [N, known]."""
        return nn.functional.linear(words, self.weight, self.bias) if self.linear else words

    def step(self, state: Any, word: Tensor, beside: Tensor) -> tuple[Tensor, Any]:
        """The output and the new state of a step on some of what `hoist` gave and on `beside` [B, m]."""
        if not self.linear:
            return step(self.cell, state, torch.cat([word, beside], dim=-1))
        assert isinstance(self.cell, RecurrentCell)
        read = word + self.beside(beside)
        return self.cell.update(state, self.cell.activate(state, read))


def step(cell: Cell, state: Any, x: Tensor) -> tuple[Tensor, Any]:
    """`cell.step`, whatever autocast wants of the cell."""
    with settled(cell):
        return cell.step(state, x.to(dtype_of(cell)))


def settled(cell: Cell) -> AbstractContextManager[Any]:
    """What a cell steps in: a state that is made by products stays as wide as it is, without autocast."""
    if isinstance(cell, RecurrentCell):
        return nullcontext()
    return torch.autocast(next(cell.parameters()).device.type, enabled=False)


def dtype_of(cell: Cell) -> torch.dtype:
    """The type of a cell's parameters."""
    return next(cell.parameters()).dtype
