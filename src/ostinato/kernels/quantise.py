"""Kernels that round the numbers of a back-off table (ngram/quantise.py): arrays in, arrays out, nothing checked."""

from __future__ import annotations

import numba
import numpy as np

ENOUGH = 1e-4
"""Probability that unseen words must be left by a shorter context to be given more or less of it."""


@numba.njit(cache=True, nogil=True)
def lower_log_prob(first_child, suffix, log_prob, log_backoff, node, child):
    """The log-prob of the last word of `child` in the longest context shorter than its parent `node`."""
    shorter, at = suffix[node], suffix[child]
    debt = 0.0
    while not first_child[shorter] <= at < first_child[shorter + 1]:
        debt += log_backoff[shorter]
        shorter = suffix[shorter]
    return debt + log_prob[at]


@numba.njit(cache=True, nogil=True)
def balance(first_child, suffix, exact, rounded, totals, book, codes, begin, end, kept, rest, scale):
    """Round the children of the nodes `begin` to `end` - 1 so that every distribution keeps its sum.

    S, R   what the seen words have and what the shorter context leaves to the others, exact and rounded
    T      = S + b R, the sum to keep (one, unless the table has others); b the exact back-off
    b'     = (T - S') / R', the back-off that keeps it

    Codes that were rounded up are lowered until S' <= (S + T) / 2, so b' has room. Where R' is not ENOUGH,
    the seen words are scaled instead, and b stays.

    exact, rounded: (log-prob [N], log back-off [M]) of the whole table; rounded is filled for these nodes and
        their children, the back-offs not yet rounded. totals: the sums exact and rounded, [2, M], given for
        shorter contexts, the exact ones are filled. book: [codes] ascending. codes: of the children.
        kept, rest: S' and R' are put there, scale: log of the scale, [end - begin] all.
    """
    for node in range(begin, end):
        first, last = first_child[node], first_child[node + 1]
        seen = lower = rough = 0.0
        for child in range(first, last):
            seen += np.exp(np.float64(exact[0][child]))
            lower += np.exp(lower_log_prob(first_child, suffix, exact[0], exact[1], node, child))
            rough += np.exp(np.float64(book[codes[child - first_child[begin]]]))
        spare = np.exp(np.float64(exact[1][node])) * max(totals[0, suffix[node]] - lower, 0.0)
        lower = 0.0
        for child in range(first, last):
            place = child - first_child[begin]
            high = book[codes[place]]
            if rough > seen + spare / 2 and high > exact[0][child]:
                codes[place] -= 1
                rough -= np.exp(np.float64(high)) - np.exp(np.float64(book[codes[place]]))
            rounded[0][child] = book[codes[place]]
            lower += np.exp(lower_log_prob(first_child, suffix, rounded[0], rounded[1], node, child))
        unseen = max(totals[1, suffix[node]] - lower, 0.0)
        rounded[1][node] = exact[1][node]
        if first < last and unseen > ENOUGH:
            rounded[1][node] = np.log(max(seen + spare - rough, 0.0) / unseen)
        elif first < last and rough > 0.0:
            wanted = max(seen + spare - np.exp(np.float64(exact[1][node])) * unseen, 0.0) / rough
            if abs(wanted - 1.0) > 1e-6 and wanted > 0.0:
                scale[node - begin] = np.log(wanted)
                rough *= wanted
                for child in range(first, last):
                    rounded[0][child] += scale[node - begin]
        totals[0, node] = seen + spare
        kept[node - begin], rest[node - begin] = rough, unseen
