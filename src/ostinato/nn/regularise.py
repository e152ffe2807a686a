"""Noise of training that keeps a recurrent network from learning its text by heart; all of it is off in evaluation,
except zoneout, whose expectation is taken there.

Masks that stay the same over a sequence are drawn once a call of `scan`, that is once a window of
backpropagation, each row with its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from ostinato.core.state import map_leaves
from ostinato.nn.cells import Cell
from ostinato.nn.cells.recurrent import RecurrentCell


class Dropout(nn.Module):
    """Drops a share of the numbers of [B, T, D] and scales the others up, so that the mean stays.

    fixed: one mask for all steps of a row [Gal2016]; otherwise each step has its own [Srivastava2014].
    """

    def __init__(self, share: float, fixed: bool = False):
        super().__init__()
        self.share, self.fixed = share, fixed

    def forward(self, xs: Tensor) -> Tensor:
        """`xs` [B, T, D] with its mask; as it is in evaluation."""
        if not (self.training and self.share):
            return xs
        return xs * mask(xs[:, :1] if self.fixed else xs, self.share)


def mask(like: Tensor, share: float) -> Tensor:
    """Zeros in that share of places and 1 / (1 - share) in the others, of that shape, type and device.

    On a processor a seed is drawn from torch's generator and every place hashed with it by our own kernel, which takes
    a fifteenth of the time of drawing them.
    """
    if like.device.type != "cpu" or not share:
        return nn.functional.dropout(torch.ones_like(like), share)
    from ostinato.kernels.recurrent import draw_mask

    seed, scale = np.uint32(int(torch.randint(1 << 32, ()))), torch.tensor(1 / (1 - share), dtype=like.dtype)
    threshold = np.uint32(min(round(share * (1 << 32)), (1 << 32) - 1))
    if like.dtype == torch.bfloat16:
        bits = np.empty(like.numel(), np.uint16)
        draw_mask(seed, threshold, np.uint16(int(scale.view(torch.int16))), bits)
        return torch.from_numpy(bits.view(np.int16)).view(torch.bfloat16).view(like.shape)
    drawn = np.empty(like.numel(), np.float64 if like.dtype == torch.float64 else np.float32)
    draw_mask(seed, threshold, drawn.dtype.type(float(scale)), drawn)
    return torch.from_numpy(drawn).view(like.shape).to(like.dtype)


def drop_words(xs: Tensor, ids: Tensor, words: int, share: float) -> Tensor:
    """Word vectors [B, T, D] of `ids` [B, T] below `words`, whole words dropped wherever they stand.

    Source: [Gal2016] section 4: a word is a row of the embedding, dropped for the whole batch.
    """
    return xs * mask(xs.new_ones(words, 1), share)[ids]


def zoned(before: Any, after: Any, share: float, training: bool) -> Any:
    """The state `after` a step, that share of its numbers as they were `before` it; the mean of both in evaluation.

    Source: [Krueger2017] section 3.
    """

    def keep(old: Tensor, new: Tensor) -> Tensor:
        return torch.where(torch.rand_like(new) < share, old, new) if training else torch.lerp(new, old, share)

    return map_leaves(keep, before, after)


def masked_step(cell: RecurrentCell, state: Any, x: Tensor, keep: Tensor) -> tuple[Tensor, Any]:
    """A step whose gates see the hidden state through the mask `keep` [B, H]; what is carried on stays whole.

    Source: [Gal2016] section 4, the masks of all gates one and the same.
    """
    gates = cell.activate(state._replace(hidden=state.hidden * keep), cell.read(x))
    return cell.update(state, gates)


Scan = Callable[[Cell, Any, Tensor], tuple[Tensor, Any]]


class _Call(nn.Module):
    """A scan of a cell as a module, for `functional_call`."""

    def __init__(self, cell: Cell, scan: Scan):
        super().__init__()
        self.cell, self.scan = cell, scan

    def forward(self, state: Any, xs: Tensor) -> tuple[Tensor, Any]:
        return self.scan(self.cell, state, xs)


def scan_with_dropped_weights(scan: Scan, cell: RecurrentCell, state: Any, xs: Tensor, share: float) -> Any:
    """`scan(cell, state, xs)` with a share of the recurrent weights dropped, the same ones at every step.

    Source: [Merity2018] section 2, DropConnect on the hidden-to-hidden matrices.
    """
    weights = {"cell.from_hidden.weight": cell.from_hidden.weight * mask(cell.from_hidden.weight, share)}
    return functional_call(_Call(cell, scan), weights, (state, xs))
