"""Kernels that turn counts into interpolated probabilities, one order at a time.

Arrays of a trie (ngram/trie.py) and its counts; nothing is checked here. The caller is ngram/interpolation.py,
the slow twin tests/references/kneser_ney.py.
"""

from __future__ import annotations

import numba

from ostinato.kernels.prefetch import prefetch

AHEAD = 24
"""So many nodes before they are read, memory is asked for: suffixes lie anywhere."""


@numba.njit(cache=True, nogil=True)
def count_extensions(suffix, begin, end, low, high, out):
    """Count in `out` [high - low] how many of the nodes `begin` to `end` - 1 have each node of low..high as suffix."""
    for node in range(begin, end):
        shorter = suffix[node]
        if low <= shorter < high:
            out[shorter - low] += 1


@numba.njit(cache=True, nogil=True)
def tally(count, begin, end, out):
    """Add to `out` [6] how many of count[begin:end] are 0, 1, 2, 3, 4, and more."""
    for place in range(begin, end):
        out[min(count[place], 5)] += 1


@numba.njit(cache=True, nogil=True)
def interpolate(
    first_child, suffix, count, raw, begin, end, level, below, threshold, discounts, lower, probability, backoff
):
    """Fill `probability` for the children of the contexts `begin` to `end` - 1, and `backoff` for those contexts.

    p(w | h) = (a(hw) - D(a(hw))) / T(h) + gamma(h) p(w | h without its oldest word)
    gamma(h) = (sum of D(a(hw)) over the words kept + sum of a(hw) over those that are not) / T(h)

    count: a, by place in the order that begins at node `level`; raw: [N] occurrences; an n-gram with no more than
    `threshold` is not kept, its probability is left as it is. lower: p of the order that begins at node `below`.
    discounts: [4], for the counts 0, 1, 2, and 3 or more. probability: by place after the first child of `begin`.
    """
    first, last = first_child[begin], first_child[end]
    for context in range(begin, end):
        total, ones, twos, more, lost = 0, 0, 0, 0, 0
        for child in range(first_child[context], first_child[context + 1]):
            if child + AHEAD < last:
                prefetch(lower, suffix[child + AHEAD] - below)
            adjusted = count[child - level]
            total += adjusted
            if raw[child] <= threshold:
                lost += adjusted
            elif adjusted == 1:
                ones += 1
            elif adjusted == 2:
                twos += 1
            elif adjusted > 2:
                more += 1
        gamma = 1.0
        if total > 0:
            gamma = (discounts[1] * ones + discounts[2] * twos + discounts[3] * more + lost) / total
        backoff[context - begin] = gamma
        for child in range(first_child[context], first_child[context + 1]):
            if raw[child] > threshold:
                adjusted = count[child - level]
                seen = (adjusted - discounts[min(adjusted, 3)]) / total
                probability[child - first] = seen + gamma * lower[suffix[child] - below]
