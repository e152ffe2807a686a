"""Averaged weights: the mean of the weights after each of the last updates, often better than the last of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from ostinato.train.flat import Flat
from ostinato.train.options import LoopOptions
from ostinato.train.sweeps import Sweeps


class Average:
    """The running mean of flat weights [Polyak1992]; empty, and of no cost, until the first `add`."""

    def __init__(self, flat: Flat, sweeps: Sweeps):
        self.flat, self.sweeps = flat, sweeps
        self.mean: torch.Tensor | None = None
        self.count = 0

    def add(self) -> None:
        """Take in the weights as they are now."""
        if self.mean is None:
            self.mean = torch.zeros_like(self.flat.values)
        self.count += 1
        self.sweeps.blend(self.mean, self.flat.values, 1 / self.count)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The network has the mean for weights inside the block, if there is one, and its own again after it."""
        if self.mean is None:
            yield
            return
        own = self.flat.values.clone()
        self.flat.values.copy_(self.mean)
        try:
            yield
        finally:
            self.flat.values.copy_(own)


@dataclass(frozen=True)
class Trigger:
    """When averaging begins. recent: the last validation losses, the oldest first. older: the lowest before those."""

    begun: bool = False
    recent: tuple[float, ...] = ()
    older: float = math.inf

    def after_validation(self, options: LoopOptions, loss: float) -> Trigger:
        """With one more loss: it begins if that is above the lowest of more than `average_after` validations ago.

        Source: [Merity2018] algorithm 1, whose L is one validation here.
        """
        begun = self.begun or (options.average == "nt-asgd" and loss > self.older)
        recent, older = (*self.recent, loss), self.older
        if len(recent) > options.average_after:
            recent, older = recent[1:], min(older, recent[0])
        return Trigger(begun, recent, older)

    def before_update(self, options: LoopOptions, epoch: int) -> Trigger:
        """With an update in `epoch` (from 0) ahead: it begins after so many whole epochs, if that is asked for."""
        begun = self.begun or (options.average == "tail" and epoch >= options.average_after)
        return Trigger(begun, self.recent, self.older)
