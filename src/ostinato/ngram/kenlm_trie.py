"""KenLM's trie files: n-grams by their last words, numbers packed to the bit, on demand quantised."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ostinato.ngram.kenlm_format import (
    ARRAY_TRIE,
    QUANT_ARRAY_TRIE,
    QUANT_TRIE,
    Bytes,
    Header,
    Reversed,
    Rows,
    nats,
    need,
)
from ostinato.ngram.table import Logs


class Layout(NamedTuple):
    """Where the parts of a trie file lie, in bytes, and the bits that quantised numbers take.

    pointer_bits: what KenLM was told by -a, None without. orders: where orders 2, 3, ... begin. end: of them all.
    """

    tables: int
    unigrams: int
    prob_bits: int
    backoff_bits: int
    pointer_bits: int | None
    orders: list[int]
    end: int


def lay_out(header: Header, data: Bytes) -> Layout:
    """Where things lie. Raises DataError if the file is too short for them."""
    counts = header.counts
    tables = unigrams = header.size + 8 + 8 * counts[0]
    quantised, compressed = header.kind in (QUANT_TRIE, QUANT_ARRAY_TRIE), header.kind in (ARRAY_TRIE, QUANT_ARRAY_TRIE)
    prob_bits, backoff_bits, pointer_bits = 31, 32, None
    need(header, data, tables + 3)
    if quantised:
        version, prob_bits, backoff_bits = data[tables : tables + 3].tolist()
        if version != 2 or not (1 <= prob_bits <= 25 and 1 <= backoff_bits <= 25):
            raise header.damaged("quantised in a way not known here")
        unigrams += 8 + 4 * ((header.order - 2) * (2**prob_bits + 2**backoff_bits) + 2**prob_bits)
    at = unigrams + 16 * (counts[0] + 2)
    if compressed and header.order > 2:
        need(header, data, at + 2)
        version, pointer_bits = data[at : at + 2].tolist()
        if version != 0:
            raise header.damaged("its pointers are compressed in a way not known here")
    layout = Layout(tables, unigrams, prob_bits, backoff_bits, pointer_bits, [], 0)
    for order in range(2, header.order + 1):
        layout.orders.append(at)
        at += size_of(header, layout, order)
    need(header, data, at)
    return layout._replace(end=at)


def step_of(header: Header, layout: Layout, order: int) -> int:
    """How many bits an n-gram takes: the word, the log-prob, below the highest order back-off and pointer."""
    word = header.counts[0].bit_length()
    if order == header.order:
        return word + layout.prob_bits
    return word + layout.prob_bits + layout.backoff_bits + sum(pointer(header, layout, order)[:1])


def size_of(header: Header, layout: Layout, order: int) -> int:
    """How many bytes the n-grams of an order take, with one more n-gram and what comes before them."""
    packed = ((1 + header.counts[order - 1]) * step_of(header, layout, order) + 7) // 8 + 8
    return packed + (0 if order == header.order else array_size(header, layout, order))


def array_size(header: Header, layout: Layout, order: int) -> int:
    """How many bytes the array of the upper bits of the pointers takes."""
    return 0 if layout.pointer_bits is None else 8 * (1 + pointer(header, layout, order)[1]) + 7


def pointer(header: Header, layout: Layout, order: int) -> tuple[int, int]:
    """How many lower bits of a pointer stand with each n-gram, and how long the array of the upper ones is.

    KenLM takes away the number of bits that saves most; of equal ones the fewest.
    """
    largest, entries = header.counts[order], header.counts[order - 1] + 1
    bits = largest.bit_length()
    if layout.pointer_bits is None:
        return bits, 0
    costs = [(largest >> (bits - cut)) * 64 - entries * cut for cut in range(min(bits, layout.pointer_bits) + 1)]
    cut = costs.index(min(costs))
    return bits - cut, (largest >> (bits - cut)) + 1


def read_trie(header: Header, data: Bytes) -> tuple[NDArray[np.float32], Iterator[Reversed], int]:
    """The log10 probabilities and back-offs of the unigrams, [n, 2], the orders above one by one, and their end."""
    layout = lay_out(header, data)
    number = header.counts[0]
    records = data[layout.unigrams : layout.unigrams + 16 * (number + 1)].tobytes()
    unigrams = np.frombuffer(records, np.dtype([("logs", "<f4", 2), ("next", "<i8")]))
    return unigrams["logs"][:number], orders_of(header, data, layout, unigrams["next"]), layout.end


def orders_of(header: Header, data: Bytes, layout: Layout, first: Rows) -> Iterator[Reversed]:
    """The orders above 1, given where in order 2 those of each unigram begin."""
    for order in range(2, header.order + 1):
        number = header.counts[order - 1]
        if first[0] != 0 or first[-1] != number or np.any(first[1:] < first[:-1]):
            raise header.damaged(f"its {order}-grams are not in order")
        parent = np.repeat(np.arange(len(first) - 1), np.diff(first))
        begin = layout.orders[order - 2] + (0 if order == header.order else array_size(header, layout, order))
        fields = Fields(data, 8 * begin, step_of(header, layout, order), number)
        word_bits = header.counts[0].bit_length()
        word = fields.take(0, word_bits).astype(np.int64)
        keys = parent * header.counts[0] + word
        if word.size and (word.max() >= header.counts[0] or np.any(keys[1:] <= keys[:-1])):
            raise header.damaged(f"its {order}-grams are not sorted")
        log_prob, log_backoff = numbers(header, data, layout, order, fields)
        yield Reversed(word, parent, log_prob, log_backoff)
        if order < header.order:
            first = pointers(header, data, layout, order, fields)


class Fields(NamedTuple):
    """The records of an order: from bit `begin` of the data one every `step` bits, `number` of them."""

    data: Bytes
    begin: int
    step: int
    number: int

    def take(self, at: int, bits: int, more: int = 0) -> NDArray[np.uint64]:
        """The field of `bits` bits at bit `at` of every record, and of `more` records behind them."""
        from ostinato.kernels import kenlm as kernel

        out = np.empty(self.number + more, np.uint64)
        kernel.unpack(self.data, self.begin + at, self.step, bits, out)
        return out


def numbers(header: Header, data: Bytes, layout: Layout, order: int, fields: Fields) -> tuple[Logs, Logs]:
    """The log-probs and log back-offs of an order, nats; no back-offs, 0, in the highest."""
    at, highest = header.counts[0].bit_length(), order == header.order
    zeros = np.zeros(fields.number if highest else 0, np.float32)
    if header.kind in (QUANT_TRIE, QUANT_ARRAY_TRIE):
        sizes = [2**layout.prob_bits, 2**layout.backoff_bits]
        begin = layout.tables + 8 + 4 * (order - 2) * sum(sizes)
        table = np.frombuffer(data[begin : begin + 4 * (sizes[0] if highest else sum(sizes))].tobytes(), "<f4")
        if highest:
            return nats(table[fields.take(at, layout.prob_bits)]), zeros
        backoff = table[sizes[0] :][fields.take(at, layout.backoff_bits)]
        return nats(table[fields.take(at + layout.backoff_bits, layout.prob_bits)]), nats(backoff)
    prob = (fields.take(at, 31).astype(np.uint32) | np.uint32(1 << 31)).view(np.float32)
    if highest:
        return nats(prob), zeros
    return nats(prob), nats(fields.take(at + 31, 32).astype(np.uint32).view(np.float32))


def pointers(header: Header, data: Bytes, layout: Layout, order: int, fields: Fields) -> Rows:
    """Where the n-grams of the next order begin for each of this, and where the last end."""
    low, length = pointer(header, layout, order)
    first = fields.take(fields.step - low, low, 1).astype(np.int64)
    if layout.pointer_bits is None:
        return first
    begin = (layout.orders[order - 2] + 7) // 8 * 8 + 8
    borders = np.frombuffer(data[begin : begin + 8 * length].tobytes(), "<u8").astype(np.int64)
    upper = np.searchsorted(borders, np.arange(len(first)), "right") - 1
    return first | upper << low
