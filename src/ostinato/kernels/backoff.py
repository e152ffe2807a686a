"""Kernels that walk a back-off table: the trie of ngram/table.py as flat arrays.

`first_child` [N+1], `word`, `suffix`, `log_prob`, `log_backoff` [N] are always the five arrays of one valid
table (`BackoffTable` has checked them): node 0 is the empty context, its children 1, 2, ... are the words
0, 1, ..., the last of them the start symbol; children of a node lie together, sorted by word; a suffix is
always shorter, so every walk ends at node 0. The slow twin is tests/references/kneser_ney.py.
"""

from __future__ import annotations

import numba


@numba.njit(cache=True, nogil=True)
def find_child(first_child, word, node, token):
    """The child of `node` for `token`, or -1. Binary search; at once from node 0, which has every word."""
    if node == 0:
        return token + 1
    low, high = first_child[node], first_child[node + 1]
    while low < high:
        middle = (low + high) >> 1
        if word[middle] < token:
            low = middle + 1
        else:
            high = middle
    found = low < first_child[node + 1] and word[low] == token
    return low if found else -1


@numba.njit(cache=True, nogil=True)
def settle(first_child, suffix, log_backoff, node):
    """The longest suffix of `node` that still matters: a context never continued says what its suffix says."""
    while first_child[node] == first_child[node + 1] and log_backoff[node] == 0:
        node = suffix[node]
    return node


@numba.njit(cache=True, nogil=True)
def advance(first_child, word, suffix, log_prob, log_backoff, node, token):
    """Read `token`, a word that can be predicted, after `node`: its log-prob (nats) and the next node.

    p(w | h) = p*(w | h) if hw was seen, else backoff(h) * p(w | h without its oldest word).
    Every word must be a child of node 0, or the walk would not end. Cost: one search a suffix tried.
    Source: [Katz1987]; sums are float64.
    """
    log_p = 0.0
    child = find_child(first_child, word, node, token)
    while child < 0:
        log_p += log_backoff[node]
        node = suffix[node]
        child = find_child(first_child, word, node, token)
    return log_p + log_prob[child], settle(first_child, suffix, log_backoff, child)


@numba.njit(cache=True, nogil=True)
def read(first_child, word, suffix, log_prob, log_backoff, stop, pad, node, token):
    """The node after reading any id: padding changes nothing, start and stop both begin a sentence."""
    if token == pad:
        return node
    begin = first_child[1] - 1
    if token == stop or token == word[begin]:
        return begin
    return advance(first_child, word, suffix, log_prob, log_backoff, node, token)[1]


@numba.njit(cache=True, nogil=True)
def read_each(first_child, word, suffix, log_prob, log_backoff, stop, pad, nodes, tokens, after):
    """Fill `after` [B] with the node each row of `nodes` [B] comes to by reading its token of `tokens` [B]."""
    for row in range(nodes.size):
        after[row] = read(first_child, word, suffix, log_prob, log_backoff, stop, pad, nodes[row], tokens[row])


@numba.njit(cache=True, nogil=True)
def score(first_child, word, suffix, log_prob, log_backoff, stop, pad, nodes, inputs, targets, out, after):
    """Fill `out` [B, T] with the log-prob of each target after its input (nats), `after` [B] with the last node.

    A target that is the next input too, as in running text, is walked once, not twice.
    Cost: one `advance` a place.
    """
    for row in range(inputs.shape[0]):
        node, known, ahead = nodes[row], -1, 0
        for place in range(inputs.shape[1]):
            token, target = inputs[row, place], targets[row, place]
            if token == known and token != stop:
                node = ahead
            else:
                node = read(first_child, word, suffix, log_prob, log_backoff, stop, pad, node, token)
            log_p, ahead = advance(first_child, word, suffix, log_prob, log_backoff, node, target)
            out[row, place] = log_p
            known = target
        after[row] = node


@numba.njit(cache=True, nogil=True)
def distribution(first_child, word, suffix, log_prob, log_backoff, nodes, chain, owed, out):
    """Fill each row of `out` [B, outputs] with the log-prob of every word after its node of `nodes` [B] (nats).

    All words get what the empty context says times every back-off; then each context, the shortest first,
    overwrites the words seen after it. The same sums as `advance`, in the same order.
    chain, owed: scratch, as long as the order. Cost: outputs + children of the contexts, a row.
    """
    for row in range(nodes.size):
        node, depth, debt = nodes[row], 0, 0.0
        while node != 0:
            chain[depth], owed[depth] = node, debt
            debt += log_backoff[node]
            node = suffix[node]
            depth += 1
        for token in range(out.shape[1]):
            out[row, token] = debt + log_prob[token + 1]
        for place in range(depth - 1, -1, -1):
            node, debt = chain[place], owed[place]
            for child in range(first_child[node], first_child[node + 1]):
                out[row, word[child]] = debt + log_prob[child]
