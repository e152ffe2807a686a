"""Kernels that weigh what a back-off table loses without an n-gram: arrays in, arrays out, nothing checked.

`first_child` [M+1] and `suffix` [N] are those of a trie (ngram/trie.py), the logs those of its table, in nats.
The slow twin is tests/references/prune.py.
"""

from __future__ import annotations

import math

import numba


@numba.njit(cache=True, nogil=True)
def shorter(first_child, suffix, log_prob, log_backoff, node, child):
    """Log-prob of a child's word after the longest proper suffix of its parent, `node` > 0.

    The child's suffix is a child of that context, or of one reached by backing off from it. Cost: no search.
    """
    known, context, log_p = suffix[child], suffix[node], 0.0
    while not first_child[context] <= known < first_child[context + 1]:
        log_p += log_backoff[context]
        context = suffix[context]
    return log_p + log_prob[known]


@numba.njit(cache=True, nogil=True)
def divergence(log_p, log_lower, left, lower_left):
    """Relative entropy of the distribution after a context to the one without one of its words, nats.

    D = p(w|h) (log p(w|h) - log p(w|h') - log b') + left (log b - log b'), where b' is the new back-off:
    b  = left / lower_left               left: 1 - sum of p(v|h) over the words v seen after h
    b' = (left + p(w|h)) / (lower_left + p(w|h'))      lower_left: 1 - sum of p(v|h') over the same
    log b - log b' is taken by log1p, since the two may differ by less than they are rounded to.
    Source: [Stolcke1998].
    """
    if log_p == -math.inf:
        return 0.0
    if log_lower == -math.inf:
        return math.inf
    p, lower = math.exp(log_p), math.exp(log_lower)
    left, lower_left = max(left, 0.0), max(lower_left, 0.0)
    lost = p * (log_p - log_lower - math.log(left + p) + math.log(lower_left + lower))
    if left > 0 and lower_left > 0:
        lost += left * (math.log1p(lower / lower_left) - math.log1p(p / left))
    return max(lost, 0.0)


@numba.njit(cache=True, nogil=True)
def divergences(first_child, suffix, log_prob, log_backoff, log_history, out):
    """Fill `out` [N] for the n-grams of orders above 1: what the table loses without each, nats a token.

    log_history: [M], the log-probability that a context stands before a token. Cost: a few logarithms a node.
    """
    for node in range(1, first_child.size - 1):
        left, lower_left = 1.0, 1.0
        for child in range(first_child[node], first_child[node + 1]):
            out[child] = shorter(first_child, suffix, log_prob, log_backoff, node, child)
            left -= math.exp(log_prob[child])
            lower_left -= math.exp(out[child])
        history = math.exp(log_history[node])
        for child in range(first_child[node], first_child[node + 1]):
            lost = divergence(log_prob[child], out[child], left, lower_left)
            out[child] = history * lost if lost < math.inf else math.inf


@numba.njit(cache=True, nogil=True)
def raise_to_children(first_child, value):
    """Raise the `value` of every node to the highest of its children's, the deepest first."""
    for node in range(first_child.size - 2, 0, -1):
        for child in range(first_child[node], first_child[node + 1]):
            value[node] = max(value[node], value[child])


@numba.njit(cache=True, nogil=True)
def lost_mass(first_child, suffix, word, log_prob, log_backoff, listed, lost):
    """Fill `lost` [M] with the probability that words not `listed` [outputs] have after each context.

    lost(h) = b(h) lost(h') + the sum of p(w | h) - b(h) p(w | h') over the words w seen after h, not listed
    h': the longest proper suffix of h; b: its back-off. Cost: one pass over the nodes.
    """
    for node in range(lost.size):
        backoff = math.exp(log_backoff[node]) if node > 0 else 0.0
        mass = backoff * lost[suffix[node]] if node > 0 else 0.0
        for child in range(first_child[node], first_child[node + 1]):
            if word[child] < listed.size and not listed[word[child]]:
                mass += math.exp(log_prob[child])
                if node > 0:
                    mass -= backoff * math.exp(shorter(first_child, suffix, log_prob, log_backoff, node, child))
        lost[node] = max(mass, 0.0)
