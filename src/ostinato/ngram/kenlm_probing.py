"""KenLM's probing files: hash tables that hold a hash of each n-gram, not the n-gram.

The n-grams are found again: every pair of words is tried for the bigrams, and a longer one, whose context and
suffix must be there too, among the words before its context. All hashes must be met, each once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import DataError
from ostinato.core.progress import Progress, Watch
from ostinato.ngram.kenlm_format import REST_PROBING, Bytes, Header, Reversed, Rows, nats, need
from ostinato.ngram.table import Logs

MOST_PAIRS = 1 << 36
"""Pairs of words that may be tried, some minutes; more are refused."""

PART = 12
"""2 ** PART bigrams are looked for at a time: their filter stays in the nearest cache."""

RUN = 1 << 16
"""N-grams that are continued between two reports."""


class Entries(NamedTuple):
    """The n-grams of one order by ascending hash, with their log-probs and back-offs in nats."""

    hashes: NDArray[np.uint64]
    log_prob: Logs
    log_backoff: Logs


def read_probing(header: Header, data: Bytes, watch: Watch) -> tuple[NDArray[np.float32], Iterator[Reversed], int]:
    """The log10 probabilities and back-offs of the unigrams, [n, 2], the orders above one by one, and their end.

    Raises DataError for a file that is damaged, or has more words than can be tried pair by pair.
    """
    need(header, data, header.size + 8)
    number = int(data[header.size + 4 : header.size + 8].view("<u4")[0])
    if not header.counts[0] <= number <= header.counts[0] + 1:
        raise header.damaged(f"{number:,} words for {header.counts[0]:,} unigrams")
    if number * number > MOST_PAIRS:
        raise DataError(
            f"{header.path}: a hash table of {number:,} words is too large to find its n-grams again; "
            "give the ARPA file it is from, or build it as a trie: build_binary trie model.arpa model.trie"
        )
    width = 12 if header.kind == REST_PROBING else 8
    at = header.size + 8 + 12 * buckets(header, header.counts[0])
    begin, at = at, at + width * (header.counts[0] + 1)
    need(header, data, at)
    unigrams = np.frombuffer(data[begin : begin + width * number].tobytes(), "<f4").reshape(number, width // 4)[:, :2]
    places = []
    for order in range(2, header.order + 1):
        places.append(at)
        at += (12 if order == header.order else 8 + width) * buckets(header, header.counts[order - 1])
    need(header, data, at)
    return negative(unigrams), orders_of(header, data, places, number, watch), at


def buckets(header: Header, entries: int) -> int:
    """How many places the hash table of that many entries has; KenLM computes it in float32."""
    return max(entries + 1, int(np.float32(header.multiplier) * np.float32(entries)))


def negative(logs: NDArray[np.float32]) -> NDArray[np.float32]:
    """The numbers with log-probs below 0: KenLM keeps something else in their sign."""
    logs = logs.copy()
    logs[:, 0] = -np.abs(logs[:, 0])
    return logs


def entries_of(header: Header, data: Bytes, begin: int, order: int) -> Entries:
    """What the hash table of an order holds."""
    fields = [("hash", "<u8"), ("prob", "<f4"), ("backoff", "<f4"), ("rest", "<f4")]
    kept = 2 if order == header.order else 4 if header.kind == REST_PROBING else 3
    kind = np.dtype(fields[:kept])
    number = buckets(header, header.counts[order - 1])
    table = np.frombuffer(data[begin : begin + kind.itemsize * number].tobytes(), kind)
    table = np.sort(table[table["hash"] != 0], order="hash")
    backoff = table["backoff"] if order < header.order else np.zeros(len(table), np.float32)
    return Entries(np.ascontiguousarray(table["hash"]), nats(-np.abs(table["prob"])), nats(backoff))


def orders_of(header: Header, data: Bytes, places: list[int], number: int, watch: Watch) -> Iterator[Reversed]:
    """The orders above 1, found again."""
    entries = entries_of(header, data, places[0], 2)
    first, parent, place = pairs(header, entries.hashes, number, watch)
    context = first  # a row of the order below, as parent is
    below = number
    for order in range(2, header.order + 1):
        if len(place) != len(entries.hashes) or len(np.unique(place)) != len(place):
            raise header.damaged(f"{len(place):,} of {len(entries.hashes):,} hashes of {order}-grams could be met")
        yield Reversed(first, parent, entries.log_prob[place], entries.log_backoff[place])
        if order == header.order:
            return
        hashes = entries.hashes[place]
        children = np.concatenate(([0], np.cumsum(np.bincount(parent, minlength=below))))
        below = len(place)
        entries = entries_of(header, data, places[order - 1], order + 1)
        rows = hashes, first, children, context
        first, parent, context, place = longer(entries.hashes, rows, order + 1, watch)


def pairs(header: Header, hashes: NDArray[np.uint64], number: int, watch: Watch) -> tuple[Rows, Rows, Rows]:
    """The first and last word of each bigram and the place of its hash, sorted by last and first word."""
    from ostinato.kernels import kenlm as kernel

    words = np.arange(number, dtype=np.uint64)
    products = words * kernel.STEP
    second = np.argsort(products)
    bits = max(0, len(hashes).bit_length() - PART)
    marks = np.empty(filter_size(len(hashes) >> bits), np.uint64)
    first, last, place = (np.empty(len(hashes), np.int64) for _ in range(3))
    arguments = bits, products[second], second, (words + np.uint64(1)) * kernel.SEED, marks, first, last, place
    found = 0
    for part in range(1 << bits):
        found = int(kernel.find_pairs(hashes, part, *arguments, found))
        watch(Progress("finding n-grams", found, (part + 1) / (1 << bits), "order 2"))
    order = np.lexsort((first[:found], last[:found]))
    return first[order], last[order], place[order]


def longer(
    hashes: NDArray[np.uint64], rows: tuple[NDArray[np.uint64], Rows, Rows, Rows], order: int, watch: Watch
) -> tuple[Rows, Rows, Rows, Rows]:
    """The first word, parent and context of each longer n-gram and the place of its hash.

    rows: hash, first word, where children begin, and context of the order below.
    """
    from ostinato.kernels import kenlm as kernel

    below, word, children, context = rows
    marks = np.zeros(filter_size(len(hashes)), np.uint64)
    kernel.mark(hashes, marks)
    first, parent, shorter, place = (np.empty(len(hashes), np.int64) for _ in range(4))
    known, filled = (below, word, children, context), (first, parent, shorter, place)
    found = 0
    for begin in range(0, len(below), RUN):
        end = min(begin + RUN, len(below))
        found = int(kernel.find_longer(hashes, marks, begin, end, *known, *filled, found))
        watch(Progress("finding n-grams", found, end / len(below), f"order {order}"))
    return first[:found], parent[:found], shorter[:found], place[:found]


def filter_size(number: int) -> int:
    """How many 64-bit numbers the filter of that many hashes has; a power of two."""
    from ostinato.kernels.kenlm import FILTER

    return 1 << max(0, number.bit_length() + FILTER - 6)
