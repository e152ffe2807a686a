"""Training of word vectors written from the definitions: the loss of one window at a time, and torch's gradient of it.

Only the random numbers are those of the kernels, so that both see the same windows and words drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

MASK = (1 << 64) - 1
SETS = 8


@dataclass
class Windows:
    """A text as windows, and words drawn against their words."""

    keep: Any
    reaches: Any
    seed: int
    threshold: Any = None
    other: Any = None
    negatives: int = 5
    reuse: int = 4
    kept: int = 0
    _sets: list[list[int]] = field(default_factory=lambda: [[] for _ in range(SETS)])
    _uses: list[int] = field(default_factory=lambda: [0] * SETS)
    _worn: list[int] = field(default_factory=lambda: list(range(SETS)))
    _turn: int = 0

    def __post_init__(self) -> None:
        self.state = self.seed

    def random(self) -> int:
        """64 bits of xorshift64*."""
        x = self.state
        x ^= x << 13 & MASK
        x ^= x >> 7
        x ^= x << 17 & MASK
        self.state = x
        return x * 0x2545F4914F6CDD1D & MASK

    def __call__(self, ids: list[int]) -> Iterator[tuple[int, list[int]]]:
        """Every word with its contexts, as subsampling and window sizes fall."""
        sentences: list[list[int]] = [[]]
        for word in ids:
            if word < 0:
                sentences.append([])
            else:
                sentences[-1].append(word)
        for sentence in sentences:
            words = [word for word in sentence if self.random() >> 32 <= int(self.keep[word])]
            self.kept += len(words)
            for middle, word in enumerate(words):
                reach = int(self.reaches[self.random() >> 40 & len(self.reaches) - 1])
                around = words[max(0, middle - reach) : middle] + words[middle + 1 : middle + reach + 1]
                yield word, around

    def draw(self, word: int) -> list[int]:
        """The words drawn against a word; itself never counts."""
        for number in self._worn:
            self._sets[number] = [self._one() for _ in range(self.negatives)]
            self._uses[number] = 0
        number = self._turn % SETS
        self._turn += 1
        self._uses[number] += 1
        self._worn = [number] if self._uses[number] == self.reuse else []
        return [drawn for drawn in self._sets[number] if drawn != word]

    def _one(self) -> int:
        bits = self.random()
        slot = (bits >> 32) * len(self.threshold) >> 32
        return slot if bits & 0xFFFFFFFF <= int(self.threshold[slot]) else int(self.other[slot])


def negative_loss(inputs: Tensor, right: Tensor, word: int, drawn: list[int]) -> Tensor:
    """-ln sigmoid(x y) - sum of ln sigmoid(-x n), for each of the inputs [M, D]. Source: [Mikolov2013b] eq. 4."""
    good = logsigmoid(inputs @ right[word]).sum()
    return -good - logsigmoid(-(inputs @ right[drawn].T)).sum()


def path_loss(inputs: Tensor, right: Tensor, nodes: list[int], codes: list[int]) -> Tensor:
    """-sum of ln sigmoid(+-x node) on the way to a leaf. Source: [Mikolov2013b] eq. 3."""
    signs = 1 - 2 * torch.tensor(codes, dtype=inputs.dtype)
    return -logsigmoid(signs * (inputs @ right[nodes].T)).sum()


def full_loss(inputs: Tensor, right: Tensor, word: int) -> Tensor:
    """-ln softmax(x Y)[word]. Source: [Mikolov2013b] eq. 2."""
    return -torch.log_softmax(inputs @ right.T, 1)[:, word].sum()


def descend(loss: Tensor, alpha: float, *matrices: Tensor) -> float:
    """One step against the gradient; the loss before it."""
    gradients = torch.autograd.grad(loss, matrices, allow_unused=True)
    with torch.no_grad():
        for matrix, gradient in zip(matrices, gradients, strict=True):
            if gradient is not None:
                matrix -= alpha * gradient
    return float(loss.detach())


def as_tensor(array: Any) -> Tensor:
    return torch.tensor(np.asarray(array, np.float64), requires_grad=True)
