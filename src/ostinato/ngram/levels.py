"""N-grams that come from a file order by order, until they are a back-off table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ostinato.ngram.table import BackoffTable, Logs
from ostinato.ngram.trie import Nodes, Trie

Keys: TypeAlias = NDArray[np.int64]

TOLERANCE = 1e-3
"""How far from one a distribution may sum; four decimals, which old files have, are good for 3e-4."""


@dataclass(frozen=True, eq=False)
class Level:
    """The n-grams of one order, sorted by context and last word, without repeats.

    parent: [n], the row of the context in the level below (0 for words). word: [n], the last word.
    log_prob, log_backoff: [n] float32, nats; a log-prob that is not a number shall be what backing off gives.
    """

    parent: Nodes
    word: Nodes
    log_prob: Logs
    log_backoff: Logs

    def __len__(self) -> int:
        return len(self.word)

    def keys(self, outputs: int) -> Keys:
        """One ascending number for each n-gram above order 1."""
        return self.parent.astype(np.int64) * outputs + self.word

    @classmethod
    def of_keys(cls, keys: Keys, outputs: int, log_prob: Logs, log_backoff: Logs) -> Level:
        """The level of ascending keys."""
        parent, word = np.divmod(keys, outputs)
        return cls(parent.astype(np.int32), word.astype(np.int32), log_prob, log_backoff)


def word_level(log_prob: Logs, log_backoff: Logs) -> Level:
    """The level of the words, the start symbol last; nothing predicts that."""
    log_prob[-1] = -np.inf
    number = len(log_prob)
    return Level(np.zeros(number, np.int32), np.arange(number, dtype=np.int32), log_prob, log_backoff)


def add_contexts(levels: list[Level], keys: Keys, orphans: Nodes, outputs: int) -> Keys:
    """Give n-grams of the next order the contexts they lack, in place in `levels`; their keys, mended.

    keys: of the n-grams; -1, -2, ... for the first, second, ... of orphans, [n, order], the words of those
        whose context is missing.
    """
    row = orphans[:, 0].astype(np.int64)
    for depth in range(2, orphans.shape[1]):
        level = levels[depth - 1]
        present, needed = level.keys(outputs), row * outputs + orphans[:, depth - 1]
        merged = np.union1d(present, needed)
        row, moved = np.searchsorted(merged, needed), np.searchsorted(merged, present)
        log_prob, log_backoff = np.full(len(merged), np.nan, np.float32), np.zeros(len(merged), np.float32)
        log_prob[moved], log_backoff[moved] = level.log_prob, level.log_backoff
        levels[depth - 1] = Level.of_keys(merged, outputs, log_prob, log_backoff)
        if depth < len(levels):
            above = levels[depth]
            parent = moved[above.parent].astype(np.int32)
            levels[depth] = Level(parent, above.word, above.log_prob, above.log_backoff)
    parent, word = np.divmod(keys, outputs)
    lost = keys < 0
    which = -1 - keys[lost]
    mended = np.empty_like(keys)
    mended[~lost] = moved[parent[~lost]] * outputs + word[~lost]
    mended[lost] = row[which] * outputs + orphans[which, -1]
    return mended


def assemble(levels: list[Level], notes: Sequence[str], smoothing: str, stop: int) -> BackoffTable:
    """The table of all levels, which are used up; the back-offs of the highest order are left out.

    It counts as normalised if no log-prob is above 0 and every distribution, but that after the stop symbol,
    sums to one within TOLERANCE; a note says where it does not.
    """
    trie = Trie.from_levels([level.parent for level in levels], [level.word for level in levels])
    log_prob = np.concatenate([np.zeros(1, np.float32), *(level.log_prob for level in levels)])
    log_backoff = np.concatenate([np.zeros(1, np.float32), *(level.log_backoff for level in levels[:-1])])
    levels.clear()  # their memory is needed
    fill_blanks(trie, log_prob, log_backoff)
    unsound = irregular(trie, log_prob, log_backoff, stop)
    said = (*notes, unsound) if unsound else tuple(notes)
    return BackoffTable.build(trie, log_prob, log_backoff, smoothing, normalised=not unsound, notes=said)


def fill_blanks(trie: Trie, log_prob: Logs, log_backoff: Logs) -> None:
    """Give every node whose log-prob is not a number the one that backing off from its context gives."""
    for node in np.flatnonzero(np.isnan(log_prob)).tolist():
        shorter = int(np.searchsorted(trie.first_child, node, "right")) - 1
        log_p, found = 0.0, -1
        while found < 0:
            log_p += float(log_backoff[shorter])
            shorter = int(trie.suffix[shorter])
            begin, end = trie.first_child[shorter : shorter + 2].tolist()
            place = begin + int(np.searchsorted(trie.word[begin:end], trie.word[node]))
            found = place if place < end and trie.word[place] == trie.word[node] else -1
        log_prob[node] = log_p + float(log_prob[found])


def irregular(trie: Trie, log_prob: Logs, log_backoff: Logs, stop: int) -> str:
    """What is said of a table that is not normalised; nothing of one that is."""
    from ostinato.kernels import arpa_parse as kernel

    positive = int(np.count_nonzero(log_prob > 1e-5))
    if positive:
        return f"{positive:,} probabilities are above one: scores, not a distribution"
    node, total = kernel.surplus(trie.word, trie.first_child, trie.suffix, log_prob, log_backoff, stop)
    if abs(total - 1) <= TOLERANCE:
        return ""
    where = "without a context" if node == 0 else "after some contexts"
    return f"the probabilities do not sum to one ({where} to {total:.4g}): scores, not a distribution"
