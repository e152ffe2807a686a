"""Passes over flat weights and gradients: Numba in threads on the processor, torch's own operations elsewhere."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ostinato.kernels import update
from ostinato.train.threads import Spread, alone

GRAIN = 1 << 16
"""Numbers that are worth handing to a thread."""


@dataclass(frozen=True)
class Clip:
    """What becomes of every gradient first: times `factor`, then cut to +-`cut`."""

    factor: float = 1.0
    cut: float = math.inf


@dataclass(frozen=True)
class DescentStep:
    """The numbers of an update of gradient descent."""

    rate: float
    momentum: float = 0.0
    l2: float = 0.0


@dataclass(frozen=True)
class AdamStep:
    """The numbers of Adam's update number `step` (from 1)."""

    rate: float
    step: int
    l2: float = 0.0
    decoupled: float = 0.0
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8

    @property
    def corrected(self) -> tuple[float, float]:
        """The rate and the root with the corrections for means that began at zero."""
        first, second = (1 - beta**self.step for beta in self.betas)
        return self.rate / first, math.sqrt(second)


class Sweeps(Protocol):
    """All tensors are [N] float32 of one length, changed in place."""

    def norms(self, gradient: Tensor, cut: float) -> tuple[float, float]:
        """The Euclidean norm before and after cutting each number to +-cut."""

    def sgd(self, values: Tensor, gradient: Tensor, velocity: Tensor | None, clip: Clip, numbers: DescentStep) -> None:
        """One step of gradient descent; velocity: of momentum, or None for none."""

    def adam(
        self, values: Tensor, gradient: Tensor, mean: Tensor, square: Tensor, clip: Clip, numbers: AdamStep
    ) -> None:
        """One step of Adam."""

    def blend(self, mean: Tensor, values: Tensor, share: float) -> None:
        """Move a running mean by `share` of the way to the values."""


class KernelSweeps:
    """On the processor: kernels, each thread a slice. Numbers do not depend on the threads."""

    def __init__(self, spread: Spread = alone):
        self.spread = spread

    def norms(self, gradient: Tensor, cut: float) -> tuple[float, float]:
        numbers = array(gradient)
        blocks = -(-len(numbers) // update.BLOCK)
        whole, kept = np.empty(blocks), np.empty(blocks)
        arguments = numbers, np.float32(cut), whole, kept
        grain = GRAIN // update.BLOCK
        self.spread(lambda begin, end: update.squares(begin, end, *arguments), blocks, grain)
        return math.sqrt(whole.sum()), math.sqrt(kept.sum())

    def sgd(self, values: Tensor, gradient: Tensor, velocity: Tensor | None, clip: Clip, numbers: DescentStep) -> None:
        plain = clip.factor, clip.cut, numbers.l2, numbers.rate
        if velocity is None:
            self._run(update.descend, [values, gradient], *plain)
        else:
            self._run(update.descend_with_momentum, [values, gradient, velocity], *plain, numbers.momentum)

    def adam(
        self, values: Tensor, gradient: Tensor, mean: Tensor, square: Tensor, clip: Clip, numbers: AdamStep
    ) -> None:
        rate, root = numbers.corrected
        decay = numbers.l2, 1 - numbers.rate * numbers.decoupled
        plain = clip.factor, clip.cut, *decay, *numbers.betas, rate, root, numbers.epsilon
        self._run(update.adam, [values, gradient, mean, square], *plain)

    def blend(self, mean: Tensor, values: Tensor, share: float) -> None:
        self._run(update.blend, [mean, values], share)

    def _run(self, kernel: Any, tensors: list[Tensor], *numbers: float) -> None:
        """Call a kernel of update.py on slices of tensors [N], with the numbers in float32."""
        arguments = [*map(array, tensors), *map(np.float32, numbers)]
        self.spread(lambda begin, end: kernel(begin, end, *arguments), len(tensors[0]), GRAIN)


class TorchSweeps:
    """On any device, in torch's operations."""

    def norms(self, gradient: Tensor, cut: float) -> tuple[float, float]:
        whole = torch.linalg.vector_norm(gradient, dtype=torch.float64)
        if math.isinf(cut):
            return float(whole), float(whole)
        kept = torch.linalg.vector_norm(gradient.clamp(-cut, cut), dtype=torch.float64)
        return float(whole), float(kept)

    def sgd(self, values: Tensor, gradient: Tensor, velocity: Tensor | None, clip: Clip, numbers: DescentStep) -> None:
        step = clipped(gradient, clip)
        if numbers.l2:
            step = step.add(values, alpha=numbers.l2)
        if velocity is not None:
            step = velocity.mul_(numbers.momentum).add_(step)
        values.add_(step, alpha=-numbers.rate)

    def adam(
        self, values: Tensor, gradient: Tensor, mean: Tensor, square: Tensor, clip: Clip, numbers: AdamStep
    ) -> None:
        step = clipped(gradient, clip)
        if numbers.l2:
            step = step.add(values, alpha=numbers.l2)
        if numbers.decoupled:
            values.mul_(1 - numbers.rate * numbers.decoupled)
        (beta1, beta2), (rate, root) = numbers.betas, numbers.corrected
        mean.mul_(beta1).add_(step, alpha=1 - beta1)
        square.mul_(beta2).addcmul_(step, step, value=1 - beta2)
        values.addcdiv_(mean, square.sqrt().div_(root).add_(numbers.epsilon), value=-rate)

    def blend(self, mean: Tensor, values: Tensor, share: float) -> None:
        mean.lerp_(values, share)


def clipped(gradient: Tensor, clip: Clip) -> Tensor:
    """The gradient as an update sees it; the given tensor is not changed."""
    scaled = gradient if clip.factor == 1 else gradient * clip.factor
    return scaled if math.isinf(clip.cut) else scaled.clamp(-clip.cut, clip.cut)


def array(tensor: Tensor) -> NDArray[np.float32]:
    """The numbers of a tensor on the processor, shared."""
    shared: NDArray[np.float32] = tensor.numpy()
    return shared


def sweeps_for(device: torch.device, spread: Spread) -> Sweeps:
    """The passes for weights that live on a device."""
    return KernelSweeps(spread) if device.type == "cpu" else TorchSweeps()
