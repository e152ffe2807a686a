"""Kernels that put two tries of n-grams over each other: arrays in, arrays out, nothing checked.

`word` [N] and `first_child` [M+1] are those of a trie (ngram/trie.py). Both must have the same words; orders may
differ. Children are sorted by word, so nothing is searched: two rows of siblings are merged. The slow twins are
the dictionaries of tests/test_ngram_merge.py and tests/references/combine.py.
"""

from __future__ import annotations

import math

import numba

from ostinato.kernels.trie import search


@numba.njit(cache=True, nogil=True, inline="always")
def children(first_child, node):
    """Where the children of a node begin and end; none for -1 and for a node of the highest order."""
    if node < 0 or node >= first_child.size - 1:
        return 0, 0
    return first_child[node], first_child[node + 1]


@numba.njit(cache=True, nogil=True)
def locate(word, first_child, other_word, other_first_child, found):
    """Fill `found` [N] with the node of the other trie that is the same n-gram, or -1. Cost: one pass over both."""
    found[0] = 0
    for node in range(first_child.size - 1):
        place, end = children(other_first_child, found[node])
        for child in range(first_child[node], first_child[node + 1]):
            while place < end and other_word[place] < word[child]:
                place += 1
            found[child] = place if place < end and other_word[place] == word[child] else -1


@numba.njit(cache=True, nogil=True)
def merge_children(a_word, a_first_child, b_word, b_first_child, a_parents, b_parents, fans, word, in_a, in_b):
    """Merge the children of parents that stand in either trie; return how many children there are.

    a_parents, b_parents: [P], the node of each parent in each trie, or -1.
    Fills fans [P] with the number of its children, and for each child word, in_a, in_b: the word and its node in
    each trie, or -1; these have room for the children of both. Cost: one pass over the children of both.
    """
    made = 0
    for parent in range(a_parents.size):
        a, a_end = children(a_first_child, a_parents[parent])
        b, b_end = children(b_first_child, b_parents[parent])
        before = made
        while a < a_end or b < b_end:
            from_a = a < a_end and (b >= b_end or a_word[a] <= b_word[b])
            from_b = b < b_end and (a >= a_end or b_word[b] <= a_word[a])
            word[made] = a_word[a] if from_a else b_word[b]
            in_a[made] = a if from_a else -1
            in_b[made] = b if from_b else -1
            a += from_a
            b += from_b
            made += 1
        fans[parent] = made - before
    return made


@numba.njit(cache=True, nogil=True, inline="always")
def child_of(word, first_child, node, token):
    """The child of an inner node for `token`, or -1. At once from node 0, which has every word."""
    if node == 0:
        return token + 1
    end = first_child[node + 1]
    place = search(word, first_child[node], end, token)
    return place if place < end and word[place] == token else -1


@numba.njit(cache=True, nogil=True)
def add_probabilities(
    word, first_child, weight, table_word, table_first_child, suffix, log_prob, log_backoff, contexts, out
):
    """Add to `out` [N], for every n-gram of a trie, `weight` times the probability that a table gives it.

    word, first_child: of the trie. The others: of the table, which may lack any n-gram but the words.
    contexts: scratch [M], the longest suffix of each context that the table can go on from; a child's is one
    step from its parent's. Cost: a binary search for every suffix tried.
    """
    contexts[0] = 0
    for node in range(first_child.size - 1):
        for child in range(first_child[node], first_child[node + 1]):
            context, log_p = contexts[node], 0.0
            found = child_of(table_word, table_first_child, context, word[child])
            while found < 0:
                log_p += log_backoff[context]
                context = suffix[context]
                found = child_of(table_word, table_first_child, context, word[child])
            out[child] += weight * math.exp(log_p + log_prob[found])
            if child < contexts.size:
                contexts[child] = found if found < log_backoff.size else suffix[found]
