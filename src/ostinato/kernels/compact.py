"""Kernels that read the compact table (ngram/compact.py) where it lies: bits in, numbers out, nothing checked.

`packed` (uint64), `counts` (int32), `logs` (float32) and the Layout `at` are those of one valid table. Nodes are
numbered as in ngram/trie.py. A context is a node that has children or a back-off, and has a number of its own:
how many contexts come before it.

What was read is kept in a ring of places, so that only what is needed is looked up. A place has in column k,
below the order, the number of the context of the last k words, -1 where they are none, UNKNOWN where nobody
asked yet; in the last column the last word. The slow twin is tests/references/compact.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from ostinato.kernels.bits import BLOCK, ONE, count_ones, find_bit, lowest, next_one, take
from ostinato.kernels.trie import search

HINT, NEAR = 5, 1 << 9
"""The place of every 2^5-th one among the bits of the children is noted; between near ones words are read in turn."""

UNSIGNED = (1 << 32) - 1
"""Places may need all 32 bits of a count."""

UNKNOWN = -2
"""Stands in a place for what is not looked up yet."""


class Layout(NamedTuple):
    """Where the parts of a table begin, how long codes are, and how much there is."""

    # in packed
    contexts: int
    children: int
    records: int
    backoffs: int
    # in counts
    contexts_rank: int
    children_rank: int
    children_hint: int
    prob_begin: int
    backoff_begin: int
    scaled: int
    # in logs, where the unigrams come first
    prob_book: int
    backoff_book: int
    scale: int
    # numbers
    order: int
    start: int
    contexts_blocks: int
    children_blocks: int
    scales: int
    word_bits: int
    prob_bits: int
    backoff_bits: int


@numba.njit(cache=True, nogil=True, inline="always")
def boundary(packed, counts, at, number):
    """Where among the bits of the children the one is that `number` others come before. Cost: a few cache lines."""
    hint = at.children_hint + (number >> HINT)
    first, last = np.int64(counts[hint]) & UNSIGNED, np.int64(counts[hint + 1]) & UNSIGNED
    if last - first <= NEAR:
        return next_one(packed, at.children, first, number & ((1 << HINT) - 1))
    low, high = first >> BLOCK, (last >> BLOCK) + 1
    return find_bit(packed, at.children, counts, at.children_rank, number, low, high, False)


@numba.njit(cache=True, nogil=True, inline="always")
def children_of(packed, counts, at, context):
    """The first child of a context, and the node after its last one."""
    begin = boundary(packed, counts, at, context)
    place = (begin + 1) >> 6
    shift = np.uint64((begin + 1) & 63)
    bits = (packed[at.children + place] >> shift) << shift
    stop = place + 4
    while bits == 0 and place < stop:
        place += 1
        bits = packed[at.children + place]
    end = (place << 6) + lowest(bits) if bits != 0 else boundary(packed, counts, at, context + 1)
    return begin - context, end - context - 1


@numba.njit(cache=True, nogil=True, inline="always")
def record(packed, at, node):
    """Word and code of a node above order 1, as one number."""
    return take(packed, at.records, at.word_bits + at.prob_bits, node - at.start - 2)


@numba.njit(cache=True, nogil=True, inline="always")
def find_child(packed, counts, at, context, token):
    """The child of a context for `token`, or -1. Binary search; at once in the empty context."""
    if context == 0:
        return token + 1
    low, last = children_of(packed, counts, at, context)
    high = last
    while low < high:
        middle = (low + high) >> 1
        if record(packed, at, middle) >> at.prob_bits < token:
            low = middle + 1
        else:
            high = middle
    return low if low < last and record(packed, at, low) >> at.prob_bits == token else -1


@numba.njit(cache=True, nogil=True, inline="always")
def number_of(packed, counts, at, node):
    """The number of the context that a node below the highest order is, -1 if it is none."""
    last = at.contexts + (node >> 6)
    bits = packed[last] >> np.uint64(node & 63)
    if bits & ONE == 0:
        return -1
    number = np.int64(counts[at.contexts_rank + (node >> BLOCK)])
    for place in range(at.contexts + ((node >> BLOCK) << (BLOCK - 6)), last):
        number += count_ones(packed[place])
    return number + count_ones(packed[last]) - count_ones(bits)


@numba.njit(cache=True, nogil=True, inline="always")
def log_prob_of(packed, counts, logs, at, context, length, child):
    """The log-prob of a child of a context of `length` words (nats); those of few contexts are shifted."""
    if length == 0:
        return logs[child]
    code = record(packed, at, child) & ((1 << at.prob_bits) - 1)
    log_p = logs[at.prob_book + counts[at.prob_begin + length] + code]
    if at.scales == 0:
        return log_p
    place = search(counts, at.scaled, at.scaled + at.scales, context)
    shifted = place < at.scaled + at.scales and counts[place] == context
    return log_p + logs[at.scale + place - at.scaled] if shifted else log_p


@numba.njit(cache=True, nogil=True, inline="always")
def log_backoff_of(packed, counts, logs, at, context, length):
    """The log back-off of a context of `length` words (nats)."""
    code = take(packed, at.backoffs, at.backoff_bits, context)
    return logs[at.backoff_book + counts[at.backoff_begin + length] + code]


@numba.njit(cache=True, nogil=True)
def node_of(packed, counts, at, context):
    """The node of a context."""
    return find_bit(packed, at.contexts, counts, at.contexts_rank, context, 0, at.contexts_blocks, False)


@numba.njit(cache=True, nogil=True)
def parent_of(packed, counts, at, node):
    """The node whose child a node other than 0 is."""
    place = find_bit(packed, at.children, counts, at.children_rank, node, 0, at.children_blocks, True)
    return node_of(packed, counts, at, place - node - 1)


@numba.njit(cache=True, nogil=True)
def new_ring(at):
    """A ring of at least order + 1 places, a power of two."""
    places = 2
    while places <= at.order:
        places *= 2
    return np.empty((places, at.order + 1), np.int64)


@numba.njit(cache=True, nogil=True, inline="always")
def row_of(ring, place):
    """The row of a place."""
    return place & (ring.shape[0] - 1)


@numba.njit(cache=True, nogil=True)
def look_up(packed, counts, at, ring, place, length):
    """The context of the last `length` words before `place`, looked up through those of fewer words before it."""
    back = 1
    while ring[row_of(ring, place - back), length - back] == UNKNOWN:
        back += 1
    context = ring[row_of(ring, place - back), length - back]
    for before in range(back - 1, -1, -1):
        here = row_of(ring, place - before)
        child = find_child(packed, counts, at, context, ring[here, at.order]) if context >= 0 else -1
        context = number_of(packed, counts, at, child) if child >= 0 else -1
        ring[here, length - before] = context
    return context


@numba.njit(cache=True, nogil=True, inline="always")
def context_at(packed, counts, at, ring, place, length):
    """The number of the context of the last `length` words before `place`, -1 if it is none."""
    context = ring[row_of(ring, place), length]
    return look_up(packed, counts, at, ring, place, length) if context == UNKNOWN else context


@numba.njit(cache=True, nogil=True)
def advance(packed, counts, logs, at, ring, place, token):
    """Read `token`, a word that can be predicted, at `place`: its log-prob (nats); the next place is filled.

    p(w | h) = p*(w | h) if hw was seen, else backoff(h) * p(w | h without its oldest word).
    Cost: one search a suffix tried, and at most one more a suffix that was left to be looked up.
    Source: [Katz1987]; sums are float64.
    """
    ahead = row_of(ring, place + 1)
    log_p, length, child = 0.0, at.order, -1
    while child < 0:
        ring[ahead, length] = -1
        length -= 1
        context = context_at(packed, counts, at, ring, place, length)
        if context >= 0:
            child = find_child(packed, counts, at, context, token)
            if child < 0:
                log_p += log_backoff_of(packed, counts, logs, at, context, length)
    log_p += log_prob_of(packed, counts, logs, at, context, length, child)
    if length + 1 < at.order:
        ring[ahead, length + 1] = number_of(packed, counts, at, child)
    ring[ahead, 1 : length + 1] = UNKNOWN
    ring[ahead, 0], ring[ahead, at.order] = 0, token
    return log_p


@numba.njit(cache=True, nogil=True)
def restore(packed, counts, at, node, ring):
    """The place of a node below the highest order, after which nothing is known but its words. Cost: small."""
    place = ring.shape[0]
    ring[:, 1:] = UNKNOWN
    ring[:, 0] = 0
    longest, depth = node, 0
    while node > 0:
        above = node > at.start + 1
        ring[row_of(ring, place - depth), at.order] = record(packed, at, node) >> at.prob_bits if above else node - 1
        node = parent_of(packed, counts, at, node) if above else 0
        depth += 1
    here = row_of(ring, place)
    ring[here, depth + 1 : at.order] = -1
    if depth:
        ring[here, depth] = number_of(packed, counts, at, longest)
    return place


@numba.njit(cache=True, nogil=True)
def settle(packed, counts, at, ring, place):
    """The node of the longest context at `place`: all that a state has to hold."""
    length, context = at.order, -1
    while context < 0:
        length -= 1
        context = context_at(packed, counts, at, ring, place, length)
    return node_of(packed, counts, at, context)


@numba.njit(cache=True, nogil=True)
def begin_sentence(packed, counts, at, ring, place):
    """Fill a place as if only the start symbol had been read."""
    here = row_of(ring, place)
    ring[here] = -1
    ring[here, 0] = 0
    if at.order > 1:
        ring[here, 1] = number_of(packed, counts, at, at.start + 1)
    ring[here, at.order] = at.start


@numba.njit(cache=True, nogil=True)
def read(packed, counts, logs, at, stop, pad, ring, place, token):
    """The place after reading any id: padding changes nothing, start and stop both begin a sentence."""
    if token == pad:
        return place
    if token == stop or token == at.start:
        begin_sentence(packed, counts, at, ring, place + 1)
    else:
        advance(packed, counts, logs, at, ring, place, token)
    return place + 1


@numba.njit(cache=True, nogil=True)
def read_each(packed, counts, logs, at, stop, pad, nodes, tokens, after):
    """Fill `after` [B] with the node each row of `nodes` [B] comes to by reading its token of `tokens` [B]."""
    ring = new_ring(at)
    for row in range(nodes.size):
        place = restore(packed, counts, at, nodes[row], ring)
        place = read(packed, counts, logs, at, stop, pad, ring, place, tokens[row])
        after[row] = settle(packed, counts, at, ring, place)


@numba.njit(cache=True, nogil=True)
def advance_each(packed, counts, logs, at, nodes, tokens, log_probs, after):
    """Fill `log_probs` and `after` [B]: each row's log-prob (nats) of its token, below outputs, and next node."""
    ring = new_ring(at)
    for row in range(nodes.size):
        place = restore(packed, counts, at, nodes[row], ring)
        log_probs[row] = advance(packed, counts, logs, at, ring, place, tokens[row])
        after[row] = settle(packed, counts, at, ring, place + 1)


@numba.njit(cache=True, nogil=True)
def score(packed, counts, logs, at, stop, pad, nodes, inputs, targets, out, after):
    """Fill `out` [B, T] with the log-prob of each target after its input (nats), `after` [B] with the last node.

    A target that is the next input too, as in running text, is walked once, not twice.
    Cost: one `advance` a place.
    """
    ring = new_ring(at)
    for row in range(inputs.shape[0]):
        here, known = restore(packed, counts, at, nodes[row], ring), -1
        for place in range(inputs.shape[1]):
            token, target = inputs[row, place], targets[row, place]
            if token == known and token != stop:
                here += 1
            else:
                here = read(packed, counts, logs, at, stop, pad, ring, here, token)
            out[row, place] = advance(packed, counts, logs, at, ring, here, target)
            known = target
        after[row] = settle(packed, counts, at, ring, here)


@numba.njit(cache=True, nogil=True)
def score_lines(packed, counts, logs, at, ids, ends, out):
    """Fill `out` [T] with the log-prob (nats) of each id of lines, each read from the start symbol on.

    ids: [T], all of which can be predicted; ends: [L], one after each line's stop symbol.
    """
    ring = new_ring(at)
    begin = 0
    for line in range(ends.size):
        here = ring.shape[0]
        begin_sentence(packed, counts, at, ring, here)
        for place in range(begin, ends[line]):
            out[place] = advance(packed, counts, logs, at, ring, here, np.int64(ids[place]))
            here += 1
        begin = ends[line]


@numba.njit(cache=True, nogil=True)
def distribution(packed, counts, logs, at, nodes, owed, out):
    """Fill each row of `out` [B, outputs] with the log-prob of every word after its node of `nodes` [B] (nats).

    As kernels/backoff.py does it: the shortest context first, each longer one overwrites the words seen after it.
    owed: float64 scratch, as long as the order. Cost: outputs + children of the contexts, a row.
    """
    ring = new_ring(at)
    for row in range(nodes.size):
        place, debt = restore(packed, counts, at, nodes[row], ring), 0.0
        for length in range(at.order - 1, 0, -1):
            context = context_at(packed, counts, at, ring, place, length)
            owed[length] = debt
            if context >= 0:
                debt += log_backoff_of(packed, counts, logs, at, context, length)
        for token in range(out.shape[1]):
            out[row, token] = debt + logs[token + 1]
        for length in range(1, at.order):
            context = context_at(packed, counts, at, ring, place, length)
            begin, end = children_of(packed, counts, at, context) if context > 0 else (0, 0)
            for child in range(begin, end):
                word = record(packed, at, child) >> at.prob_bits
                out[row, word] = owed[length] + log_prob_of(packed, counts, logs, at, context, length, child)
