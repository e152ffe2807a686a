"""How weights begin."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ostinato.nn.cells import Cell


def orthogonal_(matrices: list[Tensor]) -> None:
    """Make each square matrix orthogonal on its own, one a gate, so that norms neither grow nor vanish.

    Source: [Saxe2014]; done gate by gate, since a stacked [4H, H] block is not orthogonal for any gate.
    """
    with torch.no_grad():
        for matrix in matrices:
            matrix.copy_(nn.init.orthogonal_(torch.empty_like(matrix)))


def cell_(cell: Cell, recurrent: str) -> None:
    """Initialise a cell: uniform in +-1/sqrt(H), then orthogonal recurrent matrices if asked for."""
    bound = cell.hidden_size**-0.5
    for name, parameter in cell.named_parameters():
        if name.endswith("bias"):
            nn.init.zeros_(parameter)
        else:
            nn.init.uniform_(parameter, -bound, bound)
    if recurrent == "orthogonal":
        orthogonal_(cell.recurrent_matrices())
