"""Laying a trie and its numbers out as the blocks that a query reads, and reading them back.

Rows of three int32 (ngram/table.py). Everything a step reads of a context lies together: its header, then its
children. A kernel does the work; for small models NumPy does the same, since loading a compiler takes longer.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import DataError
from ostinato.ngram.threads import in_threads, slices
from ostinato.ngram.trie import LIMIT, Nodes, Trie, damaged
from ostinato.ngram.workspace import IN_MEMORY, Workspace

Bits: TypeAlias = NDArray[np.int32]
"""float32 logs, bit for bit."""

Sink: TypeAlias = Callable[[int, Bits], None]
"""Takes a chunk of rows, flat, and the number of its first row."""

WIDE = 8
TASK = 1 << 16
"""Children that a thread writes at a time."""

SMALL = 1 << 20
"""Nodes up to which NumPy does it."""


class Layout:
    """Where the blocks of a trie go: `header` [M], the row of each inner node's block, and `rows` in all.

    log_backoff: [M], or None if only nodes with children have one.
    Raises DataError if there are more rows than 32 bits number.
    """

    def __init__(self, trie: Trie, log_backoff: NDArray[np.float32] | None = None, space: Workspace = IN_MEMORY):
        self.trie, self.space = trie, space
        self.small = trie.nodes < SMALL
        self.widest = widest(trie.first_child)
        if 2 * trie.nodes > LIMIT:
            raise DataError(f"{trie.nodes:,} n-grams are too many for one table; lower the order or prune")
        self.header = space.empty(trie.inner, np.int32)
        backoffs = np.zeros(0, np.float32) if log_backoff is None else log_backoff
        if self.small:
            self.rows = place_small(trie, np.diff(trie.first_child), backoffs, self.header)
        else:
            self.rows = self.place(backoffs)

    def place(self, log_backoff: NDArray[np.float32]) -> int:
        """Fill `header`, order by order in threads; return the number of rows."""
        from ostinato.kernels import blocks

        trie, row = self.trie, 0
        for order in range(trie.order):
            level = trie.level(order)
            parts = slices(level.start, level.stop, 1 + (level.stop - level.start) // TASK)
            sizes = np.zeros(len(parts) + 1, np.int64)

            def measure(tasks: Iterator[tuple[int, tuple[int, int]]], sizes: NDArray[np.int64] = sizes) -> None:
                at = self.scratch()
                for part, (begin, end) in tasks:
                    arrays = (trie.word, trie.first_child, log_backoff)
                    sizes[part + 1] = blocks.measure_blocks(*arrays, begin, end, at, self.header)
                    self.space.relieve()

            in_threads(measure, enumerate(parts))
            begins = row + np.cumsum(sizes)

            def place(tasks: Iterator[tuple[int, tuple[int, int]]], begins: NDArray[np.int64] = begins) -> None:
                for part, (begin, end) in tasks:
                    blocks.place_blocks(trie.suffix, begin, end, begins[part], self.header)
                    self.space.relieve()

            in_threads(place, enumerate(parts))
            row = int(begins[-1])
        return row

    def scratch(self) -> Nodes:
        """Room for `spread`."""
        return np.empty(self.widest * 5 // 3 + 1, np.int32)

    def bounds(self, begin: int, end: int) -> tuple[int, int]:
        """The rows of the blocks of contexts `begin` to `end` - 1: the first, and one after the last."""
        return self.row_after(begin), self.row_after(end)

    def row_after(self, node: int) -> int:
        """Where the first block of a node from `node` on begins."""
        trie, header = self.trie, self.header
        while node < trie.inner:
            if node == 0 or header[node] != header[trie.suffix[node]]:
                return int(header[node])
            node += 1
        return int(self.rows)

    def write(self, begin: int, end: int, log_prob: Bits, log_backoff: Bits, sink: Sink) -> None:
        """Give the blocks of contexts `begin` to `end` - 1 to the sink; log_prob: of their children."""
        trie = self.trie
        first, last = self.bounds(begin, end)
        chunk = np.empty(3 * (last - first), np.int32)
        if self.small:
            write_small(self, begin, end, first, log_prob, log_backoff, chunk.reshape(-1, 3))
        else:
            from ostinato.kernels import blocks

            arrays = (trie.word, trie.first_child, trie.suffix, self.header)
            blocks.write_blocks(*arrays, begin, end, first, log_prob, log_backoff, self.scratch(), chunk)
        sink(first, chunk)
        self.space.relieve()

    def write_all(self, log_prob: Bits, log_backoff: Bits, sink: Sink) -> None:
        """The same for every context; log_prob: [N], log_backoff: [M]."""

        def work(tasks: Iterator[tuple[int, int]]) -> None:
            for begin, end in tasks:
                children = slice(int(self.trie.first_child[begin]), int(self.trie.first_child[end]))
                self.write(begin, end, log_prob[children], log_backoff[begin:end], sink)

        in_threads(work, context_tasks(self.trie.first_child, 0, self.trie.inner), 1 if self.small else None)


def widest(first_child: Nodes) -> int:
    """The most children that a node other than node 0 has."""
    blocks = range(1, len(first_child) - 1, 1 << 20)
    return max((int(np.diff(first_child[begin : begin + (1 << 20) + 1]).max()) for begin in blocks), default=0)


def into(rows: Nodes) -> Sink:
    """A sink that fills an array of all rows, flat."""

    def sink(first: int, chunk: Bits) -> None:
        rows[3 * first : 3 * first + len(chunk)] = chunk

    return sink


def context_tasks(first_child: Nodes, begin: int, end: int) -> list[tuple[int, int]]:
    """Ranges of the contexts `begin` to `end` - 1 that have about TASK children together."""
    wanted = np.arange(int(first_child[begin]) + TASK, int(first_child[end]), TASK)
    borders = np.searchsorted(first_child[begin : end + 1], wanted) + begin
    cuts = np.unique([begin, *borders.tolist(), end]).tolist()
    return list(itertools.pairwise(cuts))


def homes(word: Nodes, places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each word belongs among its context's places: a multiplicative hash."""
    mixed = (word.astype(np.uint64) * np.uint64(0x9E3779B1)) & np.uint64(0xFFFFFFFF)
    return ((mixed * places.astype(np.uint64)) >> np.uint64(32)).astype(np.int64)


def spread(trie: Trie, wide: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The children of the wide contexts in the order of their homes, the place of each, and the rows of each context.

    Words of one context stand in the order of their homes, each at its home or right behind the one before.
    """
    fans = np.diff(trie.first_child)[wide].astype(np.int64)
    places = fans * 5 // 3
    of = np.repeat(np.arange(len(wide)), fans)
    child = np.arange(len(of)) + np.repeat(trie.first_child[wide] - (np.cumsum(fans) - fans), fans)
    home = homes(trie.word[child], places[of])
    order = np.lexsort((child, home, of))
    child, home = child[order], home[order]
    rank = np.arange(len(of))
    apart = np.cumsum(places + fans) - places - fans  # far enough that no context runs into the next
    place = np.maximum.accumulate(home + apart[of] - rank) + rank - apart[of]
    rows = places.copy()
    np.maximum.at(rows, of, place + 1)
    return child, place, rows + 1


def place_small(trie: Trie, fans: Nodes, log_backoff: NDArray[np.float32], header: Nodes) -> int:
    """The same as `place_blocks` of kernels/blocks.py."""
    has = fans > 0
    if len(log_backoff):
        has |= log_backoff != 0
    has[0] = True
    rows = np.where(has, fans + 1, 0).astype(np.int64)
    wide = 1 + np.flatnonzero(fans[1:] > WIDE)
    rows[wide] = 1 + spread(trie, wide)[2]
    header[:] = np.cumsum(rows) - rows
    for order in range(1, trie.order):
        level = trie.level(order)
        without = level.start + np.flatnonzero(~has[level])
        header[without] = header[trie.suffix[without]]
    return int(rows.sum())


def write_small(
    layout: Layout, begin: int, end: int, base: int, log_prob: Bits, log_backoff: Bits, out: NDArray[np.int32]
) -> None:
    """The same as `write_blocks` of kernels/blocks.py; out: [rows, 3]."""
    trie, header = layout.trie, layout.header
    out[:] = (-1, 0, 0)
    nodes = np.arange(begin, end)
    nodes = nodes[(nodes == 0) | (header[nodes] != header[trie.suffix[nodes]])]
    fans = np.diff(trie.first_child)[nodes].astype(np.int64)
    wide = (fans > WIDE) & (nodes > 0)
    places = np.where(wide, fans * 5 // 3, fans)
    out[header[nodes] - base] = np.stack(
        [header[trie.suffix[nodes]], log_backoff[nodes - begin], -1 - (2 * places + wide)], axis=1
    )
    child = np.arange(int(trie.first_child[begin]), int(trie.first_child[end]))
    parent = np.repeat(nodes, fans)
    place = child - trie.first_child[parent]
    hashed, where, _ = spread(trie, nodes[wide])
    place[hashed - trie.first_child[begin]] = where
    following = trie.suffix[child].copy()
    deeper = child < trie.inner
    following[deeper] = child[deeper]
    out[header[parent] - base + 1 + place] = np.stack([trie.word[child], log_prob, header[following]], axis=1)


def read(rows: Nodes, ngrams: tuple[int, ...]) -> tuple[Trie, Bits, Bits]:
    """The trie, the log-probs [N] and the log back-offs [M] of blocks. Raises FormatError if they are none."""
    from ostinato.kernels import blocks

    nodes = 1 + sum(ngrams)
    inner = nodes - ngrams[-1]
    word, log_prob = np.zeros(nodes, np.int32), np.zeros(nodes, np.int32)
    first_child, log_backoff = np.zeros(inner + 1, np.int32), np.zeros(inner, np.int32)
    if blocks.read_blocks(rows, inner, word, first_child, log_prob, log_backoff) < 0:
        raise damaged("the blocks do not hold the n-grams stated")
    bare = Trie(word, first_child, np.zeros(nodes, np.int32), ngrams)
    bare.check_shape()
    return bare.linked(), log_prob, log_backoff
