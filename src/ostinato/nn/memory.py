"""What attention looks at."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Memory(NamedTuple):
    """What is attended to; keys are made once of the values, by the attention that will read them."""

    keys: Tensor  # [B, S, key size]
    values: Tensor  # [B, S, value size]
    mask: Tensor  # [B, S], true where there is something


class Grouped(NamedTuple):
    """A memory of few rows for many queries, several of them looking at one row; nothing is copied for that."""

    memory: Memory  # of M rows
    places: Tensor  # [N], where each query stands among M rows of `width` places each
    width: int


def grouped(memory: Memory, rows: Tensor) -> Grouped:
    """The memory for queries [N] that look at `rows` [N] of it, in any order."""
    order = torch.argsort(rows, stable=True)
    ascending = rows[order]
    place = torch.empty_like(rows)
    place[order] = torch.arange(len(rows), device=rows.device) - torch.searchsorted(ascending, ascending)
    width = int(place.max()) + 1 if len(rows) else 1
    return Grouped(memory, rows * width + place, width)
