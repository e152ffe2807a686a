"""How weights begin."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from ostinato.nn.cells import Cell


def uniform_(matrices: list[Tensor]) -> None:
    """Draw each matrix uniform in +-1/sqrt(rows), the rows of a gate being its hidden units."""
    for matrix in matrices:
        bound = len(matrix) ** -0.5
        nn.init.uniform_(matrix, -bound, bound)


def orthogonal_(matrices: list[Tensor]) -> None:
    """Make each square matrix orthogonal on its own, one a gate, so that norms neither grow nor vanish.

    Source: [Saxe2014]; done gate by gate, since a stacked [4H, H] block is not orthogonal for any gate.
    """
    with torch.no_grad():
        for matrix in matrices:
            matrix.copy_(nn.init.orthogonal_(torch.empty_like(matrix)))


def glorot_(matrices: list[Tensor]) -> None:
    """Draw each matrix on its own, uniform in +-sqrt(6 / (rows + columns)).

    Source: [Glorot2010] eq. 16; done gate by gate, since the rows of a stacked block would count all gates.
    """
    for matrix in matrices:
        bound = math.sqrt(6 / sum(matrix.shape))
        nn.init.uniform_(matrix, -bound, bound)


def identity_(matrices: list[Tensor]) -> None:
    """Make each square matrix the identity: with relu and no bias a state is kept as it is [Le2015]."""
    for matrix in matrices:
        nn.init.eye_(matrix)


SCHEMES: dict[str, Callable[[list[Tensor]], None]] = {
    "uniform": uniform_,
    "orthogonal": orthogonal_,
    "glorot": glorot_,
    "identity": identity_,
}


def cell_(cell: Cell, recurrent: str = "orthogonal", inputs: str = "uniform") -> None:
    """Initialise a cell: its matrices as asked for, the biases beside them zero.

    What is neither (a norm's gain, a peephole) stays as the cell made it.
    """
    SCHEMES[inputs](cell.input_matrices())
    SCHEMES[recurrent](cell.recurrent_matrices())
    for name, parameter in cell.named_parameters():
        if name in ("from_input.bias", "from_hidden.bias"):
            nn.init.zeros_(parameter)
