"""The two matrices that are trained: rows padded with zeros, in one piece of memory each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

ROW = 16
"""Rows hold a multiple of so many numbers (kernels/rows.py)."""

COPIED = 128
"""Rows of each matrix that each of several threads may have copies of (copies.py)."""

Floats = NDArray[np.float32]


class Matrices:
    """Vectors of the words read (`left`) and predicted (`right`), [rows * stride] each.

    left: V rows of words, one of zeros, `buckets` of n-grams, one a thread to work in, and `copied` for each thread.
    right: V rows of words (or inner nodes of a tree), one of zeros, and `copied` for each thread (see `copies.py`).
    """

    def __init__(self, words: int, dimensions: int, buckets: int, threads: int):
        from ostinato.kernels.packing import aligned

        self.words, self.dimensions, self.buckets, self.threads = words, dimensions, buckets, threads
        self.copied = min(COPIED, words // 16) if threads > 1 else 0
        self.stride = -(-dimensions // ROW) * ROW
        self.left: Floats = aligned(((words + 1 + buckets + threads * (1 + self.copied)) * self.stride,), np.float32)
        self.right: Floats = aligned(((words + 1 + threads * self.copied) * self.stride,), np.float32)

    def begin(self, seed: int, first: int = 0) -> None:
        """Draw the rows of words from `first` on, and of n-grams, from [-1/2, 1/2) / dimensions."""
        random = np.random.default_rng([seed, first])
        for rows in (self.input[first:], self.grams if first == 0 else self.grams[:0]):
            for begin in range(0, len(rows), 1 << 14):
                part = rows[begin : begin + (1 << 14)]
                part[:] = (random.random(part.shape, np.float32) - np.float32(0.5)) / np.float32(self.dimensions)

    @property
    def input(self) -> Floats:
        """[V, D], a view."""
        return self._rows(self.left)[: self.words]

    @property
    def output(self) -> Floats:
        """[V, D], a view."""
        return self._rows(self.right)[: self.words]

    @property
    def grams(self) -> Floats:
        """[buckets, D], a view."""
        return self._rows(self.left)[self.words + 1 : self.words + 1 + self.buckets]

    def own_row(self, thread: int) -> int:
        """Where in `left` a thread's own row begins."""
        return (self.words + 1 + self.buckets + thread) * self.stride

    def left_copies(self, thread: int) -> int:
        """The row of `left` where a thread's copies begin."""
        return self.words + 1 + self.buckets + self.threads + thread * self.copied

    def right_copies(self, thread: int) -> int:
        """The row of `right` where a thread's copies begin."""
        return self.words + 1 + thread * self.copied

    def _rows(self, flat: Floats) -> Floats:
        return flat.reshape(-1, self.stride)[:, : self.dimensions]
