"""Rows that all threads would write all the time: each trains copies of its own, and joins them now and then.

Those of the most frequent words, of both matrices, or of the nodes nearest to the root of a tree. A cache line that two
cores write goes back and forth between them, which costs more than the arithmetic. Other rows threads write together.
Source: [Ji2016], who average copies of everything between machines.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ostinato.embed.matrices import Floats

PIECE = 2048
"""Words that a thread reads between two times it joins its copies."""

ENOUGH = 1 << 23
"""Words, of all epochs, from which on there are copies: less text learns more from each, and loses if that waits."""

LINE = 256
"""Words that a sentence may have so that no piece ends inside it."""

CURVATURE = 0.25
"""Of a logistic loss along a vector of length 1, at most."""

_joining = threading.Lock()


def shares(updates: NDArray[np.float64], rate: float, threads: int) -> Floats:
    """What the change of a copy is multiplied by before it is added to its row, [rows].

    updates: of each row by one thread between two times its copies are joined.

    A step of gradient descent leaves 1 - c of a row's way to where its loss is least, with c = `rate` times CURVATURE.
    After n steps of each of T threads as much should be left as after T n of one, so the share is
    (1 - exp(-T c n)) / (T (1 - exp(-c n))). Changes are added up where there are few steps, and averaged where each
    thread sees enough by itself.
    """
    alone = np.maximum(rate * CURVATURE * updates, 1e-6)
    return np.asarray(np.expm1(-threads * alone) / (threads * np.expm1(-alone)), np.float32)


class Copies:
    """A thread's copies of some rows of a matrix, which begin at row `own`; the rows themselves begin at `first`.

    matrix: [rows, stride]. share: see `shares`.
    """

    def __init__(self, matrix: Floats, first: int, own: int, share: Floats):
        self._rows: Floats = matrix[first : first + len(share)]
        self._copies: Floats = matrix[own : own + len(share)]
        self._before = np.zeros_like(self._rows)
        self._share = share

    def renew(self) -> None:
        """Copy the rows anew. What the copies have learnt since they were joined is lost."""
        with _joining:
            self._before[:] = self._copies[:] = self._rows

    def join(self) -> None:
        """Add what the copies have learnt, times their share, to the rows, and copy them anew."""
        from ostinato.kernels.copies import join

        with _joining:
            join(self._rows, self._copies, self._before, self._share)


def pieces(ids: NDArray[np.int32]) -> Iterator[NDArray[np.int32]]:
    """A chunk of text, -1 after each sentence, in pieces of at most PIECE that end with a sentence of at most LINE."""
    begin = 0
    while begin < len(ids):
        end = min(begin + PIECE, len(ids))
        if end < len(ids):
            near = ids[max(begin, end - LINE) : end]
            ends = np.flatnonzero(near < 0)
            end -= len(near) - 1 - int(ends[-1]) if len(ends) else 0
        yield ids[begin:end]
        begin = end
