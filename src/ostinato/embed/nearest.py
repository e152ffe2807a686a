"""The rows of a matrix that score highest for many queries at once, block by block; on a tie the lower row wins."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]
Places: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Pairs of a query and a row, as two arrays of one length."""
Score: TypeAlias = Callable[[Floats, Floats], Floats]
"""The scores [Q, R] of rows [R, D] whose inverse lengths are [R]."""

NONE: Places = (np.zeros(0, np.int64), np.zeros(0, np.int64))
QUERIES = 256
"""Queries that are answered together."""
CELLS = 1 << 20
"""Scores that are held at once."""
LEAST, MOST = 1 << 12, 1 << 15
"""Rows that are read at once."""
CROWD = 4
"""How many times more candidates than wanted are worth a partition before they are sorted."""


def unit(array: NDArray[Any]) -> Floats:
    """Rows [N, D] of length one, float32; a row of zeros stays."""
    rows: Floats = array.astype(np.float32)
    rows *= inverse(lengths(rows))[:, None]
    return rows


def lengths(rows: NDArray[Any]) -> NDArray[np.float64]:
    """The length of each row [N]."""
    squares: NDArray[np.float64] = np.einsum("nd,nd->n", rows, rows, dtype=np.float64)
    return np.sqrt(squares)


def inverse(lengths: NDArray[np.floating[Any]]) -> Floats:
    """One over each length; 0 for none, so that whatever has no direction has cosine 0 with everything."""
    with np.errstate(divide="ignore", over="ignore"):
        return np.where(lengths > 0, np.minimum(1 / lengths, np.finfo(np.float32).max), 0).astype(np.float32)


def blocks(array: NDArray[Any], size: int) -> Iterator[tuple[int, Floats]]:
    """All rows, `size` at a time and as float32, each block with the number of its first row."""
    plain = np.asarray(array)  # without the class for memory-mapped ones, which is slow to slice; still mapped
    for first in range(0, len(plain), size):
        yield first, plain[first : first + size].astype(np.float32, copy=False)


@dataclass
class Best:
    """The best rows of each query so far, best first: scores [Q, k] and rows [Q, k], -inf and -1 where none is."""

    scores: Floats
    rows: NDArray[np.int64]

    @classmethod
    def none(cls, queries: int, k: int) -> Best:
        """Nothing found yet."""
        return cls(np.full((queries, k), -np.inf, np.float32), np.full((queries, k), -1, np.int64))

    def offer(self, scores: Floats, first: int) -> None:
        """Take in the scores [Q, R] of the rows from `first` on, which come after all rows offered before."""
        queries, k = self.scores.shape
        better = scores > self.scores[:, -1:]  # a tie is lost: the row comes later
        if np.count_nonzero(better) > CROWD * queries * k and scores.shape[1] > k:
            better &= scores >= largest(scores, k)
        query, column = np.nonzero(better)
        if not len(query):
            return
        query = np.concatenate([np.repeat(np.arange(queries), k), query])
        score = np.concatenate([self.scores.ravel(), scores[better]])
        row = np.concatenate([self.rows.ravel(), first + column])
        order = np.lexsort((row, -score, query))
        begins = np.searchsorted(query[order], np.arange(queries))
        chosen = order[begins[:, None] + np.arange(k)]
        self.scores, self.rows = score[chosen], row[chosen]


def largest(scores: Floats, k: int) -> Floats:
    """The k-th largest score of each query, [Q, 1]; k at most R."""
    if k == 1:
        most: Floats = scores.max(axis=1, keepdims=True)
        return most
    place = scores.shape[1] - k
    return np.partition(scores, place, axis=1)[:, place, None]


def cosines(queries: Floats) -> Score:
    """The cosine of each row with queries [Q, D] of length one."""

    def score(rows: Floats, inverses: Floats) -> Floats:
        with np.errstate(all="ignore"):  # libraries of products may raise flags for what lies beside the rows
            found: Floats = queries @ rows.T
        found *= inverses
        return found

    return score


def search(array: NDArray[Any], inverses: Floats, score: Score, queries: int, k: int, without: Places = NONE) -> Best:
    """The k best of the rows `array` [N, D] for each query, except the rows in `without`.

    Cost: one product of queries and rows; memory for CELLS scores and at most MOST rows.
    """
    best = Best.none(queries, k)
    order = np.argsort(without[1], kind="stable")
    query, row = without[0][order], without[1][order]
    for first, rows in blocks(array, min(MOST, max(LEAST, CELLS // max(1, queries)))):
        scores = score(rows, inverses[first : first + len(rows)])
        low, high = np.searchsorted(row, (first, first + len(rows)))
        scores[query[low:high], row[low:high] - first] = -np.inf
        best.offer(scores, first)
    return best
