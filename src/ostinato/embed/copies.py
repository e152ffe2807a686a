"""Rows that all threads would write all the time: each trains copies of its own, and joins them now and then.

Every word's path begins at the root of the tree. A cache line that two cores write goes back and forth between them,
which costs more than the arithmetic; all other rows threads still write together. What is learnt in copies is averaged:
each thread sees enough of these nodes by itself, and added up it would overshoot. (Copies of the most frequent words
made CBOW a quarter faster with two threads, and its vectors a little worse.)
Source: [Ji2016], who average copies of everything between machines.
"""

from __future__ import annotations

import threading

import numpy as np

from ostinato.embed.matrices import Floats, Matrices

_joining = threading.Lock()


class Copies:
    """A thread's copies of the `copied` rows of `right` from `first` on."""

    def __init__(self, matrices: Matrices, first: int, thread: int):
        begin, copies, size = (rows * matrices.stride for rows in (first, matrices.copies(thread), matrices.copied))
        self._rows: Floats = matrices.right[begin : begin + size]
        self._copies: Floats = matrices.right[copies : copies + size]
        self._before = np.zeros_like(self._rows)

    def renew(self) -> None:
        """Copy the rows anew. What the copies have learnt since they were joined is lost."""
        self._before[:] = self._copies[:] = self._rows

    def join(self, share: float) -> None:
        """Add what the copies have learnt, times share, to the rows, and copy them anew."""
        with _joining:
            self._rows += np.float32(share) * (self._copies - self._before)
            self.renew()
