"""Kernels for one word or one sentence at a time, where passing arrays to a kernel would cost more than its work.

So most are passed the address of a desk, eleven int64: the address and size of `rows` (ngram/table.py), of slots,
offsets and blob (kernels/scan.py) and of `firsts` (see `first_rows`), and the number of the start symbol. Whoever
calls keeps all of these arrays where they are. They hold the interpreter's lock: to let it go and take it again
costs as much as a word. Text is bytes, cut as KenLM cuts it, at ASCII white space only. What comes out is log10. A
probability of zero counts as 10^-99, as in ARPA files, but for that of the start symbol, which nothing predicts: it
counts as one, as in the models of KenLM's estimator. Nothing is checked, but for states.
"""

# mypy: ignore-errors
# (an intrinsic is called without its first argument, which mypy cannot know)

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ostinato.kernels.backoff import find_entry
from ostinato.kernels.prefetch import prefetch
from ostinato.kernels.scan import ALL, EIGHT, FEED, HALF, LONG, ONE, SPREAD, WIDTH, ZERO, find, lowest, within

LOG10 = 1 / np.log(10)
DESK = 11
"""Numbers on a desk."""

NEVER = -99.0
"""The log10 of a probability of zero."""

UNKNOWN, STOP = 0, 1
START_KEY, STOP_KEY = np.uint64(int.from_bytes(b"<s>", "little")), np.uint64(int.from_bytes(b"</s>", "little"))
"""The keys of the symbols that may stand in a text; no table of words has them."""


def direct(kernel: Any, *examples: Any) -> Any:
    """A kernel for arguments like these ones only, called without a look at them, which is a third of a short call."""
    return kernel.compile(tuple(map(numba.typeof, examples)))


@intrinsic
def pointer(typing, address):
    """What lies at an address."""

    def generate(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())

    return types.voidptr(address), generate


@numba.njit(inline="always")
def table_of(desk):
    """The rows of a desk, and the logs in them."""
    at = numba.carray(pointer(desk), (DESK,), np.int64)
    return (
        numba.carray(pointer(at[0]), (at[1],), np.int32),
        numba.carray(pointer(at[0]), (at[1],), np.float32),
    )


@numba.njit(inline="always")
def words_of(desk):
    """The slots, offsets and blob of a desk, and the number of the start symbol."""
    at = numba.carray(pointer(desk), (DESK,), np.int64)
    return (
        numba.carray(pointer(at[2]), (at[3], 2), np.uint64),
        numba.carray(pointer(at[4]), (at[5],), np.int64),
        numba.carray(pointer(at[6]), (at[7],), np.uint8),
        at[10],
    )


@numba.njit(inline="always")
def firsts_of(desk):
    """The first rows of a desk."""
    at = numba.carray(pointer(desk), (DESK,), np.int64)
    return numba.carray(pointer(at[8]), (at[9],), np.int64)


@numba.njit(inline="always")
def start_of(rows):
    """The id of the start symbol, the last child of the empty context."""
    return np.int64(-1 - rows[2]) // 2 - 1


@numba.njit(inline="always")
def is_state(rows, state):
    """Whether a number is a state of this table."""
    return 0 <= state and 3 * state + 2 < rows.size and rows[3 * state + 2] < 0


@numba.njit(inline="always")
def follow(rows, logs, state, token):
    """The log10 probability of any id but padding after `state`, and the row of the n-gram that was found."""
    debt, shorter = 0.0, np.int64(rows[3 * state])
    prefetch(rows, 3 * shorter)
    entry = find_entry(rows, state, token)
    while entry < 0:
        weight = logs[3 * state + 1]
        debt += weight if weight != -np.inf else NEVER / LOG10
        state, shorter = shorter, np.int64(rows[3 * shorter])
        prefetch(rows, 3 * shorter)
        entry = find_entry(rows, state, token)
    own = logs[3 * entry + 1]
    if own == -np.inf:
        return debt * LOG10 + (0.0 if token == start_of(rows) else NEVER), entry
    return (debt + own) * LOG10, entry


@numba.njit(cache=True)
def advance(desk, state, token):
    """Read `token` after `state`: its log10 probability and the next state, which is -1 if `state` is none."""
    rows, logs = table_of(desk)
    if not is_state(rows, state):
        return 0.0, np.int64(-1)
    log_p, entry = follow(rows, logs, state, token)
    after = np.int64(rows[3 * entry + 2])
    prefetch(rows, 3 * after)
    return log_p, after


@numba.njit(cache=True)
def advance_full(desk, state, token):
    """The same, and how many words the n-gram that was found has."""
    rows, logs = table_of(desk)
    if not is_state(rows, state):
        return 0.0, np.int64(-1), 0
    log_p, entry = follow(rows, logs, state, token)
    return log_p, np.int64(rows[3 * entry + 2]), length_of(firsts_of(desk), entry)


@numba.njit(inline="always")
def length_of(firsts, entry):
    """How many words the n-gram of a row has; firsts: see `first_rows`."""
    length = firsts.size
    while entry < firsts[length - 1]:
        length -= 1
    return length


@numba.njit(cache=True, nogil=True)
def own_block(rows, context, row):
    """The row of the block of the n-gram in `row`, among those of `context`; -1 if it has none.

    An n-gram without a block leads on to that of the same words without the oldest one.
    """
    entry, shorter = np.int64(-1), np.int64(rows[3 * context])
    while entry < 0:
        entry = find_entry(rows, shorter, rows[3 * row])
        shorter = np.int64(rows[3 * shorter])
    return np.int64(rows[3 * row + 2]) if rows[3 * row + 2] != rows[3 * entry + 2] else np.int64(-1)


@numba.njit(cache=True, nogil=True)
def first_rows(rows, firsts):
    """Fill `firsts` [order] with the row where the blocks of the contexts of 0, 1, ... words begin.

    Blocks come in the order of their contexts, so the first block of a context that is a word longer belongs to
    the first n-gram that has one. Cost: usually a few blocks an order; if an order has none, those of the one before.
    """
    end = rows.size // 3
    firsts[:] = end
    firsts[0] = 0
    if firsts.size > 1:
        firsts[1] = start_of(rows) + 2
    for order in range(2, firsts.size):
        row = firsts[order - 1]
        while row < firsts[order] and row < end:
            context = row
            row += 1
            while row < end and rows[3 * row + 2] >= 0:
                if rows[3 * row] >= 0:
                    block = own_block(rows, context, row)
                    if block >= 0:
                        firsts[order] = min(firsts[order], block)
                row += 1
            if firsts[order] < end:
                break


@numba.njit(inline="always")
def read_word(slots, offsets, blob, text, first, start):
    """The id of the word that begins at text[first], and where it ends. `start` is the id of the start symbol."""
    key, part, shift, last, sound = ZERO, ZERO, ZERO, first, True
    while last < len(text):
        byte = text[last]
        if byte <= 32:
            if byte == 32 or 9 <= byte <= 13:
                break
            sound = sound and byte > 0
        if shift == WIDTH:
            key = (key ^ part) * SPREAD
            key ^= key >> HALF
            part, shift = ZERO, ZERO
        part |= np.uint64(byte) << shift
        shift += EIGHT
        last += 1
    if last - first > 8:
        key = (key ^ part) * SPREAD
        key ^= key >> HALF
        key |= LONG
    else:
        key = part
    mask = slots.shape[0] - 1
    slot = np.int64((((key ^ (key >> HALF)) * SPREAD) >> HALF) & np.uint64(mask))
    found = np.int64(UNKNOWN)
    while slots[slot, 0] != ZERO:
        if slots[slot, 0] == key:
            number = np.int64(slots[slot, 1])
            if key < LONG or same(blob, offsets[number], offsets[number + 1] - 1, text, first, last):
                found = number
                break
        slot = (slot + 1) & mask
    if found == UNKNOWN:
        if key == STOP_KEY:
            found = np.int64(STOP)
        elif key == START_KEY:
            found = start
    return (found if sound else np.int64(UNKNOWN)), last


@numba.njit(inline="always")
def same(blob, place, end, text, first, last):
    """Whether blob[place:end] is text[first:last]."""
    equal = end - place == last - first
    while equal and first < last:
        equal = blob[place] == text[first]
        place += 1
        first += 1
    return equal


@numba.njit(inline="always")
def skip(text, at):
    """Where the next word begins from `at` on; the end of the text if none does."""
    while at < len(text) and (text[at] == 32 or 9 <= text[at] <= 13):
        at += 1
    return at


@numba.njit(cache=True)
def find_word(desk, text):
    """The id of the word that is the whole text."""
    slots, offsets, blob, start = words_of(desk)
    token, last = read_word(slots, offsets, blob, text, 0, start)
    return token if last == len(text) else np.int64(UNKNOWN)


@numba.njit(cache=True)
def score(desk, text, state, ended):
    """The log10 probability of a sentence, read from `state` on; with its end if it is `ended`."""
    (rows, logs), (slots, offsets, blob, start) = table_of(desk), words_of(desk)
    total, at = 0.0, skip(text, 0)
    while at < len(text):
        token, at = read_word(slots, offsets, blob, text, at, start)
        log_p, entry = follow(rows, logs, state, token)
        total += log_p
        state = np.int64(rows[3 * entry + 2])
        prefetch(rows, 3 * state)
        at = skip(text, at)
    if ended:
        total += follow(rows, logs, state, STOP)[0]
    return total


@numba.njit(cache=True)
def full_scores(desk, text, state, ended, log_probs, lengths, unknown):
    """Fill the arrays, word by word, with log10 probability, length of the n-gram found, and whether it is unknown.

    The end counts as a word if it is `ended`. Returns how many words there are, and the state after the last.
    """
    (rows, logs), (slots, offsets, blob, start) = table_of(desk), words_of(desk)
    firsts, words, at = firsts_of(desk), 0, skip(text, 0)
    while at < len(text) or ended:
        token = np.int64(STOP)
        if at < len(text):
            token, at = read_word(slots, offsets, blob, text, at, start)
            at = skip(text, at)
        else:
            ended = False
        log_probs[words], entry = follow(rows, logs, state, token)
        lengths[words], unknown[words] = length_of(firsts, entry), token == UNKNOWN
        state = np.int64(rows[3 * entry + 2])
        prefetch(rows, 3 * state)
        words += 1
    return words, state


@numba.njit(cache=True, nogil=True)
def encode(data, begin, end, words, start, scratch, ids, line_ends):
    """Write the id of every word of the lines data[begin:end], and stop for a line end; see `encode` of scan.py.

    Differs: cut at ASCII white space only, and the start and stop symbols may be spelled out.
    """
    slots, offsets, blob = words
    firsts, lasts, places = scratch
    tokens = lines = 0
    while begin < end:
        found, begin = cut(data, begin, end, firsts, lasts)
        find(slots, offsets, blob, data, firsts, lasts, 0, found, places)
        for word in range(found):
            first, size = firsts[word], lasts[word] - firsts[word]
            token = np.int64(UNKNOWN)
            if size == 0:
                token = np.int64(STOP)
                line_ends[lines] = tokens + 1
                lines += 1
            elif places[word] >= 0:
                token = np.int64(slots[places[word], 1])
            elif size <= 4 and data[first] == 60 and data[first + size - 1] == 62 and data[first + size - 2] == 115:
                if size == 3:
                    token = start
                elif size == 4 and data[first + 1] == 47:
                    token = np.int64(STOP)
            ids[tokens] = token
            tokens += 1
    return tokens, lines


@numba.njit(cache=True, nogil=True)
def cut(data, begin, end, firsts, lasts):
    """Find the words of data[begin:end], and the line feeds as words without bytes; see `cut` of scan.py."""
    found = 0
    for at in range(begin, end, 64):
        if found > firsts.size - 128:
            return found, begin
        blanks = within(data, at, 9, 13) | within(data, at, 32, 32)
        if end - at < 64:
            blanks &= ALL >> np.uint64(64 - (end - at))
        while blanks != ZERO:
            place = at + lowest(blanks)
            firsts[found], lasts[found] = begin, place
            found += place > begin
            firsts[found], lasts[found] = place, place
            found += data[place] == FEED
            begin = place + 1
            blanks &= blanks - ONE
    return found, end


@numba.njit(cache=True, nogil=True)
def add_lines(log_probs, ends, totals):
    """Fill `totals` [L] with the log10 probability of each line, given those of its tokens (nats) and its end."""
    begin = 0
    for line in range(ends.size):
        total = 0.0
        for place in range(begin, ends[line]):
            total += log_probs[place]
        totals[line], begin = total * LOG10, ends[line]
