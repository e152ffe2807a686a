"""Targets of different length read step by step: the rows that have ended are left out of the steps that follow."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import torch
from torch import Tensor

BLOCK = 16
"""Steps have a multiple of so many rows: a library that prepares every shape of a product meets few of them."""


class Ragged:
    """Which rows of [B, T] each step reads: the first `sizes[t]` of them, fewer and fewer."""

    def __init__(self, sizes: Sequence[int]):
        self.sizes = tuple(sizes)

    @classmethod
    def full(cls, rows: int, steps: int) -> Ragged:
        """All rows at every step."""
        return cls([rows] * steps)

    @classmethod
    def of(cls, weight: Tensor, block: int = BLOCK) -> Ragged:
        """Those where `weight` [B, T] is not zero at the step or later, and what is between; few if the longest rows
        come first. block: what the rows of a step are a multiple of, unless there are no more."""
        going = (weight > 0).flip(1).cummax(1).values.flip(1)
        rows = torch.arange(1, len(weight) + 1, device=weight.device)[:, None]
        last: list[int] = (going * rows).amax(dim=0).tolist() if len(weight) else [0] * weight.shape[1]
        return cls([min(len(weight), -(-size // block) * block) for size in last if size])

    def packed(self, xs: Tensor) -> Tensor:
        """The places of `xs` [B, T, ...] that are read, step after step [N, ...]."""
        begin, parts = 0, []
        for size, steps in groupby(self.sizes):
            end = begin + len(list(steps))
            parts.append(xs[:size, begin:end].transpose(0, 1).flatten(0, 1))
            begin = end
        return torch.cat(parts) if parts else xs[:0, :0].flatten(0, 1)
