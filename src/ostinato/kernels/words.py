"""Kernels over a text of provisional word numbers: how often each comes, and the final numbers in their place."""

from __future__ import annotations

import numba

BREAK, OUTSIDE = -1, -2
"""What ends a sentence in a text of final numbers, and what `numbers` says of a word that is left out."""


@numba.njit(cache=True, nogil=True)
def note(ids, at, counts, firsts):
    """Add one to `counts` for each of the ids; `firsts` gets where in the text a new one stands.

    at: where ids[0] stands. The text must be read in order.
    """
    for place in range(ids.size):
        word = ids[place]
        if counts[word] == 0:
            firsts[word] = at + place
        counts[word] += 1


@numba.njit(cache=True, nogil=True)
def renumber(ids, begin, end, numbers, out):
    """Write numbers[id] of ids[begin:end] to `out`, without words outside and without a break behind a break.

    Returns how many numbers were written and how many of them are breaks. What comes before is taken for a word, so
    a break may come first. `out` may be the memory of `ids`, which is read before it is written to.
    """
    count, breaks, before = 0, 0, 0
    for place in range(begin, end):
        number = numbers[ids[place]]
        kept = number >= 0 or (number == BREAK and before != BREAK)
        out[count] = number
        count += kept
        breaks += kept and number == BREAK
        before = number if kept else before
    return count, breaks
