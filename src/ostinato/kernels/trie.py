"""Kernels that search a trie of n-grams (ngram/trie.py): arrays in, arrays out, nothing checked.

The slow twin of `link` is the dictionary of n-grams in tests/test_ngram_trie.py.
"""

from __future__ import annotations

import numba

from ostinato.kernels.prefetch import prefetch

AHEAD = 8
"""So many nodes before they are read, memory is asked for."""


@numba.njit(cache=True, nogil=True)
def search(word, low, high, token):
    """The first place in word[low:high], ascending, that is not below `token`; `high` if there is none."""
    while low < high:
        middle = (low + high) >> 1
        if word[middle] < token:
            low = middle + 1
        else:
            high = middle
    return low


@numba.njit(cache=True, nogil=True)
def link(word, first_child, suffix, begin, end):
    """Fill `suffix` for the children of nodes `begin` to `end` - 1, which must have theirs.

    The suffix of a child is the child, for the same word, of the parent's suffix, or of that one's suffix, and
    so on, down to the word itself. Cost: a binary search a suffix tried; its memory is asked for in time.
    """
    for node in range(begin, end):
        if node + 2 * AHEAD < end:
            prefetch(first_child, suffix[node + 2 * AHEAD])
        if node + AHEAD < end:
            prefetch(word, first_child[suffix[node + AHEAD]])
        for child in range(first_child[node], first_child[node + 1]):
            token, shorter = word[child], node
            found = -1
            while found < 0 and shorter > 0:
                shorter = suffix[shorter]
                if shorter == 0:
                    found = token + 1
                else:
                    last = first_child[shorter + 1]
                    place = search(word, first_child[shorter], last, token)
                    if place < last and word[place] == token:
                        found = place
            suffix[child] = found
