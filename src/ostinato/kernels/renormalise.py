"""The kernel that finds the back-offs with which the distributions of a table sum to one.

The trie is that of ngram/trie.py, nothing is checked. The slow twin is `back_off_mass` in
tests/references/smoothing.py.
"""

from __future__ import annotations

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def renormalise(first_child, suffix, log_prob, grain, log_backoff):
    """Fill `log_backoff` [M] from the log-probs [N], both in nats, the shorter contexts first.

    backoff(h) = (1 - sum of p(w | h)) / (1 - sum of p(w | h')), both over the words w seen after h
    h': the longest suffix of h in the trie; p(w | h') is walked to, since pruning may have taken h'w.
    grain: the relative rounding of a log-prob. A rest that rounding alone could leave is none: minus infinity
    above the line (words not seen after h are impossible), 0 below it (there are none to back off to).
    Cost: one pass over the nodes; a step more for every suffix that pruning took.
    """
    log_backoff[0] = 0.0
    for node in range(1, log_backoff.size):
        held, held_noise, free, free_noise = 1.0, 0.0, 1.0, 0.0
        for child in range(first_child[node], first_child[node + 1]):
            log_p = np.float64(log_prob[child])
            if log_p > -np.inf:
                p = np.exp(log_p)
                held -= p
                held_noise += p * (grain * abs(log_p) + 2e-16)
            shorter, log_p = suffix[node], np.float64(log_prob[suffix[child]])
            while not first_child[shorter] <= suffix[child] < first_child[shorter + 1]:
                log_p += log_backoff[shorter]
                shorter = suffix[shorter]
            if log_p > -np.inf:
                p = np.exp(log_p)
                free -= p
                free_noise += p * (grain * abs(log_p) + 2e-16)
        if free <= free_noise:
            log_backoff[node] = 0.0
        elif held <= held_noise:
            log_backoff[node] = -np.inf
        else:
            log_backoff[node] = np.log(held / free)
