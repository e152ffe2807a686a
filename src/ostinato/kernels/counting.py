"""Kernels that sort positions of a text by the n-gram ending there, one order at a time.

Arrays in, arrays out; nothing is checked here. The caller is ngram/counts.py, the slow twin the dictionary
counts in tests/references/kneser_ney.py.
"""

from __future__ import annotations

import numba


@numba.njit(cache=True, nogil=True)
def sort_by_word(words, starts, out):
    """Fill `out` with every position of `words` [P], sorted by the word there; ties stay in text order.

    starts: scratch, zero, one longer than the largest word + 1. Cost: O(P + words). A counting sort.
    """
    for place in range(words.size):
        starts[words[place] + 1] += 1
    for bucket in range(1, starts.size):
        starts[bucket] += starts[bucket - 1]
    for place in range(words.size):
        bucket = words[place]
        out[starts[bucket]] = place
        starts[bucket] += 1


@numba.njit(cache=True, nogil=True)
def sort_by_context(previous, places, starts, out):
    """Sort `places`, already in word order, by the context before them; return how many have one.

    previous: [P] the row of the (k-1)-gram ending at each position, -1 where the line is too short for one.
    places: positions > 0 sorted by word; they are sorted by previous[place - 1], ties in their old order,
        so `out` ends up sorted by (context, word). Places without a context are dropped.
    starts: scratch, zero, one longer than the largest row + 1. Cost: O(places + contexts).
    """
    for place in places:
        context = previous[place - 1]
        if context >= 0:
            starts[context + 1] += 1
    for bucket in range(1, starts.size):
        starts[bucket] += starts[bucket - 1]
    kept = starts[-1]
    for place in places:
        context = previous[place - 1]
        if context >= 0:
            out[starts[context]] = place
            starts[context] += 1
    return kept


@numba.njit(cache=True, nogil=True)
def number_ngrams(words, previous, places, current, parent, word, suffix, count):
    """Number the distinct n-grams ending at `places`, sorted by (context, word); return how many there are.

    previous: as in `sort_by_context`. Fills current [P] at those places with the row of the n-gram, and for
    each row its context (`parent`), last word, the row of the n-gram without its first word (`suffix`) and
    how often it occurs. All must be as long as `places`. Cost: O(places).
    """
    row = -1
    for place in places:
        context, last = previous[place - 1], words[place]
        if row < 0 or parent[row] != context or word[row] != last:
            row += 1
            parent[row], word[row], suffix[row], count[row] = context, last, previous[place], 0
        count[row] += 1
        current[place] = row
    return row + 1
