"""The best answers to many analogies from cosines that the questions share.

Each question is three places a, b, c in `cosines` [A, R], the cosines of its words with the rows `first` to
`first` + R. `best` (LOWEST at first) and `rows` (-1 at first), both [Q], hold what earlier blocks gave; on a tie the
earlier row stays. `without[begins[q]:begins[q + 1]]` are the rows that do not answer question q. `scratch`: [R] at
least. No cosine may be NaN. Cost: four reads a question and row, in vector registers.
"""

from __future__ import annotations

import numba
import numpy as np

LOWEST = -0x7F800001
"""The order of minus infinity."""


@numba.njit(cache=True, nogil=True)
def best_sums(cosines, questions, first, begins, without, scratch, best, rows):
    """3CosAdd: the row x with the largest cos(x, b) - cos(x, a) + cos(x, c). Source: [Mikolov2013c] sec. 4."""
    size = cosines.shape[1]
    for question in range(questions.shape[0]):
        a, b, c = questions[question]
        for row in range(size):
            scratch[row] = cosines[b, row] - cosines[a, row] + cosines[c, row]
        keep_best(scratch, size, first, begins, without, question, best, rows)


@numba.njit(cache=True, nogil=True)
def best_products(shifted, inverse, questions, first, begins, without, scratch, best, rows):
    """3CosMul: the row x with the largest cos'(x, b) cos'(x, c) / (cos'(x, a) + least). Source: [Levy2014] eq. 4.

    shifted: cos' = (cos + 1) / 2; inverse: 1 / (cos' + least).
    """
    size = shifted.shape[1]
    for question in range(questions.shape[0]):
        a, b, c = questions[question]
        for row in range(size):
            scratch[row] = shifted[b, row] * shifted[c, row] * inverse[a, row]
        keep_best(scratch, size, first, begins, without, question, best, rows)


@numba.njit(cache=True, nogil=True)
def keep_best(scratch, size, first, begins, without, question, best, rows):
    """Replace the best answer of a question if one of these scores is better."""
    for place in range(begins[question], begins[question + 1]):
        row = without[place] - first
        if 0 <= row < size:
            scratch[row] = -np.inf
    orders = scratch.view(np.int32)
    most = np.int32(LOWEST)
    for row in range(size):  # the compiler makes vectors of a maximum of integers, not of floats
        score = order(orders[row])
        most = score if score > most else most
    if most > best[question]:
        row = 0
        while order(orders[row]) != most:
            row += 1
        best[question] = most
        rows[question] = first + row


@numba.njit(cache=True, nogil=True)
def order(bits):
    """An integer that grows with the float32 of these bits: all but the sign are turned over if it is negative."""
    return np.int32(bits ^ np.int32((bits >> 31) & 0x7FFFFFFF))
