"""Inputs that are moved against a network: what it gets wrong first, it had better learn."""

from __future__ import annotations

from torch import Tensor

from ostinato.nn.pooling import inside

LEAST = 1e-12
"""Of a gradient's length: below, it says nothing and nothing is moved far."""


def opposed(xs: Tensor, errors: Tensor, lengths: Tensor, share: float) -> Tensor:
    """Vectors `xs` [B, T, D], each row moved by `share` of its own length the way its loss grows fastest.

    errors: [B, T, D], the gradient of the loss by xs. lengths: [B]; what lies beyond stays where it is. The way counts
    as given: no gradient runs through it. Source: [Miyato2017] section 3. Differs: a share of the row's length, where
    they normalise word vectors and give the distance.
    """
    there = inside(lengths, xs.shape[1])[:, :, None]
    length, way = (part.detach() * there for part in (xs, errors))
    distance = share * length.flatten(1).norm(dim=1) / way.flatten(1).norm(dim=1).clamp(min=LEAST)
    moved: Tensor = xs + distance[:, None, None] * way
    return moved
