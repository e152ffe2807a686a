"""What a text says about weights that are to be chosen: the counts behind every one of its predictions.

Two smoothings choose numbers, additive and Jelinek-Mercer. They do it on a held-out text, or without one on the
training text, each token of it left out of the counts in turn (deleted estimation by leaving one out).
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import DataError, MismatchError
from ostinato.ngram.counts import Counts
from ostinato.ngram.trie import Trie

Numbers: TypeAlias = NDArray[np.int64]

STOP = 1
"""The id of the stop symbol in every vocabulary (core/vocabulary.py)."""

MOST = 1 << 20
"""Rows that are looked at; of more, every second, third, ... is."""


class Evidence(NamedTuple):
    """R predictions that are alike in their counts, or single ones, for the orders 1 to n.

    counted, total: [n, R], of each order the count of the n-gram that ends with the predicted word, and that of
        its context; both are 0 where the context was never seen, or would begin before the line.
    depth: [R], the length of the longest n-gram there can be, counted or not. times: [R], how often this occurs.
    """

    counted: Numbers
    total: Numbers
    depth: Numbers
    times: Numbers

    def longest(self) -> tuple[Numbers, Numbers]:
        """The two counts at each row's depth: [R], [R]."""
        at = (self.depth - 1, np.arange(len(self.depth)))
        return self.counted[at], self.total[at]


def gather(counts: Counts, heldout: NDArray[Any] | None) -> Evidence:
    """What the held-out ids say, or without them the training text itself, each token left out in turn.

    heldout: [T], lines ended by the stop symbol, no start symbol.
    Raises DataError or MismatchError for ids that are not such a text of this vocabulary.
    """
    return left_out(counts) if heldout is None else on_text(counts, check(heldout, counts.outputs))


def source_of(heldout: NDArray[Any] | None) -> str:
    """Where the evidence came from, for a note."""
    return "on the training text, each token left out in turn" if heldout is None else "on the held-out text"


def check(ids: NDArray[Any], outputs: int) -> Numbers:
    """The ids as int64, if they are a text that can be predicted."""
    if ids.ndim != 1 or not len(ids) or ids[-1] != STOP:
        raise DataError("the held-out text must be one row of ids, ended by the stop symbol, and not empty")
    if not (0 <= int(ids.min()) and int(ids.max()) < outputs):
        raise MismatchError(
            f"held-out ids reach from {int(ids.min())} to {int(ids.max())}, but the counts are of {outputs} words; "
            "encode the text with the same vocabulary"
        )
    return ids.astype(np.int64)


def context_totals(counts: Counts) -> Numbers:
    """How often a word follows each inner node: [M]."""
    totals = np.empty(counts.trie.inner, np.int64)
    for order in range(1, counts.order + 1):
        below = counts.trie.level(order - 1)
        ends = np.concatenate(([0], np.cumsum(counts.raw(order))))
        children = counts.trie.first_child[below.start : below.stop + 1] - counts.trie.level(order).start
        totals[below] = ends[children[1:]] - ends[children[:-1]]
    return totals


def on_text(counts: Counts, ids: Numbers) -> Evidence:
    """A row for each token of a text."""
    trie, totals = counts.trie, context_totals(counts)
    begins = np.flatnonzero(np.concatenate(([STOP], ids[:-1])) == STOP)
    framed = np.insert(ids, begins, counts.outputs)
    places = np.flatnonzero(framed < counts.outputs)
    in_line = np.arange(len(ids)) - np.repeat(begins, np.diff(begins, append=len(ids)))
    shown = slice(None, None, step_for(len(ids)))
    rows = places[shown]
    counted, total = np.zeros((2, counts.order, len(rows)), np.int64)
    node = framed + 1
    counted[0], total[0] = counts.count[node[rows]], totals[0]
    for order in range(2, counts.order + 1):
        context = np.concatenate(([-1], node[:-1]))
        total[order - 1] = np.where(context[rows] < 0, 0, totals[context[rows]])
        node = children(trie, order, context, framed)
        counted[order - 1] = np.where(node[rows] < 0, 0, counts.count[node[rows]])
    return Evidence(counted, total, np.minimum(in_line[shown] + 2, counts.order), np.ones(len(rows), np.int64))


def children(trie: Trie, order: int, contexts: Numbers, words: Numbers) -> Numbers:
    """The nodes of an order, the children of `contexts` [T] for `words` [T].

    -1 where there is no such child, or the context is -1.
    """
    level, number = trie.level(order), trie.outputs + 1
    keys = trie.parents(order).astype(np.int64) * number + trie.word[level]
    wanted = contexts * number + words
    found = np.searchsorted(keys, wanted)
    there = found < len(keys)
    there[there] = keys[found[there]] == wanted[there]
    return np.where(there, level.start + found, -1)


def left_out(counts: Counts) -> Evidence:
    """A row for each n-gram that is the longest a token of the training text ends, that one token left out."""
    trie, totals = counts.trie, context_totals(counts)
    levels = [trie.level(order) for order in range(1, counts.order + 1)]
    longest = [np.arange(level.start + counts.starting(k), level.stop) for k, level in enumerate(levels, 1)]
    longest[0] = longest[0][:0]
    longest[-1] = np.arange(levels[-1].start, levels[-1].stop - (counts.order == 1))
    depth = np.repeat(np.arange(1, counts.order + 1), [len(nodes) for nodes in longest])
    node = np.concatenate(longest)
    used = np.flatnonzero(counts.count[node])
    used = used[:: step_for(len(used))]
    node, depth = node[used], depth[used]
    times = counts.count[node].astype(np.int64)
    counted, total = np.zeros((2, counts.order, len(node)), np.int64)
    for order in range(counts.order, 0, -1):
        at = np.flatnonzero(depth >= order)
        counted[order - 1, at] = counts.count[node[at]] - 1
        total[order - 1, at] = totals[np.searchsorted(trie.first_child, node[at], "right") - 1] - 1
        node[at] = trie.suffix[node[at]]
    return Evidence(counted, total, depth, times)


def step_for(rows: int) -> int:
    """Which of that many rows are looked at: every first, second, ..."""
    return max(1, -(-rows // MOST))
