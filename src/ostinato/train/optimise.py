"""Optimisers over flat weights, learning-rate schedules and gradient clipping."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ostinato.train.flat import Flat
from ostinato.train.options import LoopOptions
from ostinato.train.sweeps import AdamStep, Clip, DescentStep, KernelSweeps, Sweeps


class Optimiser:
    """SGD with momentum, Adam (L2 added to the gradient), or AdamW (decay apart, of matrices only) [Loshchilov2019].

    The same numbers as torch.optim, to rounding, in one pass over memory for the norm and one for the update.
    slots: what it remembers, each [N] like the weights. count: updates made.
    """

    def __init__(self, flat: Flat, options: LoopOptions, sweeps: Sweeps | None = None):
        self.flat, self.options = flat, options
        self.sweeps = sweeps or KernelSweeps()
        names = ("mean", "square") if options.optimiser != "sgd" else ("velocity",) if options.momentum else ()
        self.slots: dict[str, Tensor] = {name: torch.zeros_like(flat.values) for name in names}
        self.count = 0

    def norms(self) -> tuple[float, float]:
        """The global norm of the gradients, and what clipping will leave of it.

        By norm: all are scaled so that it is at most clip_at [Pascanu2013]. By value: each number is cut to +-clip_at.
        """
        self.flat.clear_held()
        before, cut = self.sweeps.norms(self.flat.gradient, self._cut)
        return before, min(before, self.options.clip_at) if self.options.clip == "norm" else cut

    def step(self, rate: float, norm: float = 0.0) -> None:
        """Change the weights by the clipped gradients, whose global norm before clipping is `norm`."""
        options, self.count = self.options, self.count + 1
        too_long = options.clip == "norm" and norm > options.clip_at
        clip = Clip(options.clip_at / norm if too_long else 1.0, self._cut)
        if options.optimiser == "sgd":
            velocity = self.slots.get("velocity")
            numbers = DescentStep(rate, options.momentum, options.weight_decay)
            self.sweeps.sgd(self.flat.values, self.flat.gradient, velocity, clip, numbers)
        elif options.optimiser == "adam":
            self._adam(slice(None), clip, AdamStep(rate, self.count, l2=options.weight_decay))
        else:
            matrices, others = slice(0, self.flat.decayed), slice(self.flat.decayed, None)
            self._adam(matrices, clip, AdamStep(rate, self.count, decoupled=options.weight_decay))
            self._adam(others, clip, AdamStep(rate, self.count))
        if options.weight_decay:  # which moves what has no gradient, too
            self.flat.put_back()

    def _adam(self, part: slice, clip: Clip, numbers: AdamStep) -> None:
        weights = self.flat.values[part], self.flat.gradient[part]
        self.sweeps.adam(*weights, self.slots["mean"][part], self.slots["square"][part], clip, numbers)

    @property
    def _cut(self) -> float:
        return self.options.clip_at if self.options.clip == "value" else math.inf


def learning_rate(options: LoopOptions, step: int, share: float, factor: float) -> float:
    """The rate of update number `step` (from 0).

    share: how much of the whole training is done, 0 to 1 (cosine: half a wave down to zero, as in
    [Loshchilov2017] without restarts). factor: what the plateau schedule has come down to.
    """
    rate = options.rate * factor
    if options.schedule == "cosine":
        rate *= 0.5 * (1 + math.cos(math.pi * min(1.0, share)))
    return rate * min(1.0, (step + 1) / options.warmup) if options.warmup else rate
