"""Counting a long text: its positions sorted shard by shard, in threads, then laid out as a trie.

A shard holds the positions of a range of words and is sorted in a processor's cache. Shards do not touch each
other's numbers, so the result is the same bit for bit whatever their size, the number of threads and the memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import DataError
from ostinato.core.progress import Watch, unwatched
from ostinato.ngram.threads import Meter, in_threads, slices
from ostinato.ngram.trie import LIMIT, Trie
from ostinato.ngram.workspace import IN_MEMORY, Workspace

Places: TypeAlias = NDArray[np.int32]
Lengths: TypeAlias = NDArray[np.uint8]

SHARD = 1 << 15
"""Positions in a shard, unless one word alone has more."""


NEAR = 6
"""The highest order for which the nodes that begin at each position are kept, to link suffixes without searching."""


class Shard(NamedTuple):
    """The sorted positions `begin` to before `end`."""

    begin: int
    end: int


class Sorted(NamedTuple):
    """The positions [Q] by the n-gram that begins there, and the shards.

    shared, lengths: [Q], how many words each n-gram shares with the one before, and how many it has.
    fresh: [shards, order + 1], how many n-grams of each length a shard has.
    """

    places: Places
    shared: Lengths
    lengths: Lengths
    shards: list[Shard]
    fresh: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Counter:
    """Counts the n-grams of framed lines: `words` [P], each line the start symbol, its words, the stop symbol.

    outputs: how many words can be predicted; the start symbol is the one after them. threads: None for one a core.
    """

    words: NDArray[np.int32]
    outputs: int
    stop: int
    order: int
    threads: int | None = None
    space: Workspace = IN_MEMORY
    watch: Watch = unwatched

    def trie(self) -> tuple[Trie, NDArray[np.int32]]:
        """The trie of every n-gram, and how often each occurs: [N], 0 for node 0.

        Raises DataError if there are more n-grams than 32 bits number. Memory: 10 bytes a position, 4 more for each
        order from 3 to 5, and 16 an n-gram.
        """
        found = self.sort()
        ngrams = (self.outputs + 1, *found.fresh.sum(0)[2:].tolist())
        begins = np.cumsum([0, 1, *ngrams])
        if begins[-1] > LIMIT:
            raise DataError(f"{begins[-1]:,} n-grams are too many for one table; lower the order or prune")
        unigrams = slice(1, self.outputs + 2)
        word, count = self.space.empty(begins[-1], np.int32), self.space.empty(begins[-1], np.int32)
        first_child = self.space.empty(begins[-2] + 1, np.int32)
        word[0], count[0], first_child[0], first_child[-1] = 0, 0, 1, begins[-1]
        near = self.order <= NEAR and self.space.memory is None  # it is a lot, and read all over
        columns = max(0, self.order - 2) if near else 0
        standing = self.space.empty(len(self.words) * columns, np.int32).reshape(len(self.words), columns)
        rows = begins[:-1] + np.cumsum(found.fresh, 0) - found.fresh
        if self.order > 1:
            word[unigrams], first_child[unigrams] = np.arange(self.outputs + 1), -1
            self.lay_out(found, rows, word, first_child, count, standing)
            fill_gaps(first_child[unigrams], int(begins[3]))
        word[unigrams], count[unigrams] = np.arange(self.outputs + 1), self.times().sum(0)
        if not near:
            return Trie(word, first_child, np.zeros(1, np.int32), ngrams).linked(self.threads, self.space), count
        suffix = self.space.empty(begins[-1], np.int32)
        suffix[: self.outputs + 2] = 0
        if self.order > 1:
            self.link(found, rows, standing, suffix)
        return Trie(word, first_child, suffix, ngrams), count

    def times(self) -> NDArray[np.int64]:
        """How often each word stands in each thread's slice of the text: [slices, words]."""
        from ostinato.kernels import counting

        parts = slices(0, len(self.words), self.threads or os.cpu_count() or 1)
        times = np.zeros((len(parts), self.outputs + 1), np.int64)

        def work(tasks: Iterator[tuple[int, tuple[int, int]]]) -> None:
            for part, (begin, end) in tasks:
                counting.count_words(self.words, begin, end, times[part])

        in_threads(work, enumerate(parts), self.threads)
        return times

    def bucketed(self) -> tuple[Places, list[Shard]]:
        """Every position but those of stop symbols, by word, and the shards they are cut into."""
        from ostinato.kernels import counting

        times = self.times()
        times[:, self.stop] = 0
        ends = np.cumsum(times.sum(0))
        places = self.space.empty(int(ends[-1]), np.int32)
        at = ends - times.sum(0) + np.cumsum(times, 0) - times

        def work(tasks: Iterator[tuple[int, tuple[int, int]]]) -> None:
            for part, (begin, end) in tasks:
                counting.place_words(self.words, begin, end, self.stop, at[part], places)

        in_threads(work, enumerate(slices(0, len(self.words), len(times))), self.threads)
        return places, cut(ends)

    def sort(self) -> Sorted:
        """The positions sorted by the n-grams that begin there, the largest shards first."""
        from ostinato.kernels import counting

        places, shards = self.bucketed()
        shared, lengths = (self.space.empty(len(places), np.uint8) for _ in range(2))
        fresh = np.zeros((len(shards), self.order + 1), np.int64)
        largest = max((shard.end - shard.begin for shard in shards), default=0)
        bits, meter = (self.outputs + 1).bit_length(), Meter("counting", len(places), self.watch)

        def work(waiting: Iterator[int]) -> None:
            keys, keys2 = np.empty(largest, np.uint64), np.empty(largest, np.uint64)
            places2, tied, times = np.empty(largest, np.int32), np.empty(largest, np.bool_), np.empty(256, np.int64)
            for number in waiting:
                begin, end = shards[number]
                size, mine = end - begin, places[begin:end]
                scratch = (keys[:size], keys2[:size], places2[:size], tied[:size], times)
                counting.sort_shard(self.words, self.stop, self.order, bits, mine, *scratch)
                told = shared[begin:end], lengths[begin:end], fresh[number]
                counting.compare_neighbours(self.words, self.stop, self.order, mine, *told)
                self.space.relieve()
                meter.add(size)

        if self.order > 1:
            in_threads(work, sorted(range(len(shards)), key=lambda number: -np.ptp(shards[number])), self.threads)
        return Sorted(places, shared, lengths, shards, fresh)

    def lay_out(
        self,
        found: Sorted,
        rows: NDArray[np.int64],
        word: NDArray[np.int32],
        first_child: NDArray[np.int32],
        count: NDArray[np.int32],
        standing: NDArray[np.int32],
    ) -> None:
        """Write the nodes of every shard; rows: [shards, order + 1], its first node of each length."""
        from ostinato.kernels import counting

        def shard(row: NDArray[np.int64], places: Places, shared: Lengths, lengths: Lengths) -> None:
            out = (np.empty(self.order + 2, np.int64), word, first_child, count, standing)
            counting.lay_out(self.words, self.order, places, shared, lengths, row, *out)

        self.each_shard("laying out", found, rows, shard)

    def link(
        self, found: Sorted, rows: NDArray[np.int64], standing: NDArray[np.int32], suffix: NDArray[np.int32]
    ) -> None:
        """Fill the suffixes of the nodes of every shard."""
        from ostinato.kernels import counting

        def shard(row: NDArray[np.int64], places: Places, shared: Lengths, lengths: Lengths) -> None:
            counting.link_places(self.words, places, shared, lengths, row, standing, standing.reshape(-1), suffix)

        self.each_shard("linking", found, rows, shard)

    def each_shard(
        self,
        label: str,
        found: Sorted,
        rows: NDArray[np.int64],
        shard: Callable[[NDArray[np.int64], Places, Lengths, Lengths], None],
    ) -> None:
        """Do something with each shard's rows (a copy), places, shared words and lengths, in threads."""
        meter = Meter(label, len(found.places), self.watch)

        def work(waiting: Iterator[int]) -> None:
            for number in waiting:
                begin, end = found.shards[number]
                row, lengths = np.append(rows[number], 0), found.lengths[begin:end]
                shard(row, found.places[begin:end], found.shared[begin:end], lengths)
                self.space.relieve()
                meter.add(end - begin)

        in_threads(work, range(len(found.shards)), self.threads)


def fill_gaps(first_child: NDArray[np.int32], end: int) -> None:
    """Give words that nothing follows (still -1) the place where the next word's children begin."""
    first_child[first_child < 0] = np.iinfo(np.int32).max
    backwards = np.minimum.accumulate(first_child[::-1])[::-1]
    first_child[:] = np.minimum(backwards, end)


def cut(ends: NDArray[np.int64]) -> list[Shard]:
    """Shards of whole words; `ends`: where the positions of each word end."""
    shards, begin = [], 0
    while begin < ends[-1]:
        word = int(np.searchsorted(ends, begin + SHARD, "right")) - 1
        end = int(ends[word]) if word >= 0 else 0
        if end <= begin:
            end = int(ends[np.searchsorted(ends, begin, "right")])
        shards.append(Shard(begin, end))
        begin = end
    return shards
