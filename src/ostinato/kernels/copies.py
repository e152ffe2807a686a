"""Copies of rows that a thread of word vectors trains for itself, joined with the rows that all share."""

# mypy: ignore-errors
# (Numba gives variables their types)

from __future__ import annotations

import numba


@numba.njit(cache=True, nogil=True)
def join(rows, copies, before, share):
    """Add share[row] * (copies - before) to the rows, and make copies and before what the rows are then."""
    for row in range(share.size):
        for number in range(rows.shape[1]):
            value = rows[row, number] + share[row] * (copies[row, number] - before[row, number])
            rows[row, number] = copies[row, number] = before[row, number] = value
