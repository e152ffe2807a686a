"""Kernels that parse the lines of ARPA files (ngram/arpa_read.py), and one that checks what was read.

`block` is a row of bytes that ends with a line end. `text` holds words one after another, word i from starts[i]
to starts[i + 1] - 1; `slots` is a hash table of them (see `find_word`). The slow twin is tests/references/arpa.py.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from ostinato.kernels.arpa import (
    BACKSLASH,
    BLANK,
    EXPONENT,
    LINE_END,
    LN10,
    MINUS,
    PLUS,
    POINT,
    POWERS,
    RETURN,
    TAB,
    ZERO,
)
from ostinato.kernels.prefetch import prefetch

ENDED, SECTION, FULL, BAD_NUMBER, BAD_FIELDS, BAD_WORD, REPEATED = range(7)
"""Why parsing stopped: the block is read, a line begins with a backslash, there is no room, a line is faulty."""

UNUSED, LOST = range(2)
"""Places of tallies: n-grams left out, n-grams without their context."""

BATCH = 64
"""N-grams whose contexts are searched side by side, so that one's memory arrives while the others work."""

fetch: Any = prefetch  # its type is that of the code that makes it


@numba.njit(cache=True, nogil=True, inline="always")
def skip_blanks(block, at):
    """The first place from `at` on that holds no blank, tab or carriage return."""
    while block[at] == BLANK or block[at] == TAB or block[at] == RETURN:
        at += 1
    return at


@numba.njit(cache=True, nogil=True)
def parse_number(block, at):
    """The decimal number at `at` (NaN if there is none) and the place after it."""
    negative = block[at] == MINUS
    if negative or block[at] == PLUS:
        at += 1
    digits, kept, scale, begin, fraction = 0, 0, 0, at, 0
    while True:
        figure = int(block[at]) - ZERO
        if 0 <= figure <= 9:
            if kept < 18:
                digits = digits * 10 + figure
                kept += digits > 0
                scale -= fraction
            else:
                scale += 1 - fraction
        elif block[at] == POINT and not fraction:
            fraction = 1
        else:
            break
        at += 1
    if at - begin - fraction < 1:
        infinite = (block[at] | 32) == 105 and (block[at + 1] | 32) == 110 and (block[at + 2] | 32) == 102
        return (-np.inf if negative else np.inf) if infinite else np.nan, at + 3 * infinite
    if block[at] | 32 == EXPONENT:
        shift, at = parse_exponent(block, at + 1)
        scale += shift
    value = times_power(np.float64(digits), scale)
    return -value if negative else value, at


@numba.njit(cache=True, nogil=True)
def parse_exponent(block, at):
    """The integer at `at` and the place after it; without digits the place is where no number can end."""
    negative = block[at] == MINUS
    if negative or block[at] == PLUS:
        at += 1
    shift, begin = 0, at
    while 0 <= int(block[at]) - ZERO <= 9:
        shift = min(10 * shift + int(block[at]) - ZERO, 9999)
        at += 1
    return (-shift if negative else shift), (at if at > begin else begin - 1)


@numba.njit(cache=True, nogil=True, inline="always")
def times_power(value, scale):
    """value * 10 ** scale; rounded once where the power is exact, up to 22."""
    if scale >= 0:
        return value * POWERS[min(scale, 308)]
    return value / POWERS[-scale] if scale >= -308 else value / POWERS[308] / POWERS[min(-scale - 308, 308)]


@numba.njit(cache=True, nogil=True, inline="always")
def is_end(byte):
    """Whether no word and no number goes on at this byte."""
    return byte <= BLANK and byte in (BLANK, TAB, LINE_END, RETURN)


@numba.njit(cache=True, nogil=True)
def parse_log(block, at):
    """The logarithm to the base 10 at `at` in nats (NaN if it is none) and the place after it; -99 is infinite."""
    value, at = parse_number(block, at)
    if not is_end(block[at]):
        return np.nan, at
    return (-np.inf if value == -99.0 else value * LN10), at


@numba.njit(cache=True, nogil=True, inline="always")
def hash_word(block, at):
    """The FNV-1a hash of the word at `at` and the place after it."""
    hashed = np.uint64(0xCBF29CE484222325)
    while not is_end(block[at]):
        hashed = (hashed ^ np.uint64(block[at])) * np.uint64(0x100000001B3)
        at += 1
    return hashed ^ (hashed >> np.uint64(29)), at


@numba.njit(cache=True, nogil=True)
def find_word(slots, text, starts, hashed, block, begin, end):
    """The slot of the word block[begin:end]: of its number + 1 and half its hash, or the free one where it would be."""
    mask = np.uint64(slots.size - 1)
    slot, half = hashed & mask, np.int64(hashed >> np.uint64(33))
    while slots[slot] != 0:
        number = (slots[slot] & 0xFFFFFFFF) - 1
        if slots[slot] >> 32 == half and starts[number + 1] - starts[number] == end - begin:
            place = starts[number] - begin
            at = begin
            while at < end and text[place + at] == block[at]:
                at += 1
            if at == end:
                return slot
        slot = (slot + np.uint64(1)) & mask
    return slot


@numba.njit(cache=True, nogil=True)
def index_words(slots, text, starts, number):
    """Fill `slots`, all 0 and more than twice as many, with the first `number` words, which differ."""
    for word in range(number):
        hashed = np.uint64(0xCBF29CE484222325)
        for at in range(starts[word], starts[word + 1]):
            hashed = (hashed ^ np.uint64(text[at])) * np.uint64(0x100000001B3)
        hashed ^= hashed >> np.uint64(29)
        slot = hashed & np.uint64(slots.size - 1)
        while slots[slot] != 0:
            slot = (slot + np.uint64(1)) & np.uint64(slots.size - 1)
        slots[slot] = np.int64(hashed >> np.uint64(33)) << 32 | (word + 1)


@numba.njit(cache=True, nogil=True)
def parse_words(block, at, line, rows, slots, text, starts, lines, log_prob, log_backoff):
    """Read unigrams from block[at:], whose last byte ends a line, behind the `rows` there are.

    Each gives its word to `text`, `starts`, `slots`, its line to `lines`, its numbers (nats) to the others.
    Returns the place and line where it stopped, the rows there are now, and why it stopped.
    """
    while at < block.size:
        begin = at
        at = skip_blanks(block, at)
        if block[at] == LINE_END:
            at, line = at + 1, line + 1
            continue
        if block[at] == BACKSLASH:
            return begin, line, rows, SECTION
        value, at = parse_log(block, at)
        if not np.float32(value) < np.inf:
            return begin, line, rows, BAD_NUMBER
        first = skip_blanks(block, at)
        hashed, at = hash_word(block, first)
        size = at - first
        if 2 * rows >= slots.size or rows == lines.size or starts[rows] + size > text.size:
            return begin, line, rows, FULL
        after = skip_blanks(block, at)
        backoff = 0.0
        if block[after] != LINE_END:
            backoff, after = parse_log(block, after)
            after = skip_blanks(block, after)
        if not np.float32(backoff) < np.inf:
            return begin, line, rows, BAD_NUMBER
        if size == 0 or block[after] != LINE_END:
            return begin, line, rows, BAD_FIELDS
        slot = find_word(slots, text, starts, hashed, block, first, at)
        if slots[slot] != 0:
            return begin, line, (slots[slot] & 0xFFFFFFFF) - 1, REPEATED
        slots[slot] = np.int64(hashed >> np.uint64(33)) << 32 | (rows + 1)
        starts[rows + 1] = starts[rows] + size
        text[starts[rows] : starts[rows + 1]] = block[first:at]
        log_prob[rows], log_backoff[rows], lines[rows] = value, backoff, line
        at, line, rows = after + 1, line + 1, rows + 1
    return at, line, rows, ENDED


@numba.njit(cache=True, nogil=True)
def parse_ngrams(
    block, at, line, rows, slots, text, starts, ids, outputs, begins, word, first_child, grams, scratch,
    keys, log_prob, log_backoff, orphans, tallies,
):  # fmt: skip
    """Read n-grams of an order above 1 from block[at:], whose last byte ends a line, behind the `rows` there are.

    ids: of the words in `slots`. begins, word, first_child: the trie of the orders below, without suffixes.
    keys: the row of the n-gram's context in the order below times `outputs` plus its last word, or where that
    context is missing -1, -2, ... and the words in orphans. An n-gram with the start symbol inside is left out.
    grams, scratch: [BATCH, order] and [3, BATCH]. Returns as `parse_words`.
    """
    why = ENDED
    while why == ENDED and at < block.size:
        if tallies[LOST] + BATCH > len(orphans) or rows == keys.size:
            return at, line, rows, FULL
        at, line, number, why = parse_batch(
            block, at, line, slots, text, starts, ids, outputs, grams[: keys.size - rows], log_prob[rows:],
            log_backoff[rows:], tallies,
        )  # fmt: skip
        find_contexts(word, first_child, grams, number, scratch)
        for row in range(number):
            node = scratch[0, row]
            keys[rows] = (node - begins[grams.shape[1] - 1]) * outputs + grams[row, -1]
            if node < 0:
                orphans[tallies[LOST]] = grams[row]
                tallies[LOST] += 1
                keys[rows] = -tallies[LOST]
            rows += 1
    return at, line, rows, why


@numba.njit(cache=True, nogil=True)
def parse_batch(block, at, line, slots, text, starts, ids, outputs, grams, log_prob, log_backoff, tallies):
    """Read lines from block[at:] until `grams` is full: their words' ids and numbers (nats).

    Returns the place and line where it stopped, how many were read, and why it stopped, ENDED if it was full.
    """
    number, order = 0, grams.shape[1]
    while at < block.size and number < len(grams):
        begin = at
        at = skip_blanks(block, at)
        if block[at] == LINE_END:
            at, line = at + 1, line + 1
            continue
        if block[at] == BACKSLASH:
            return begin, line, number, SECTION
        value, at = parse_log(block, at)
        if not np.float32(value) < np.inf:
            return begin, line, number, BAD_NUMBER
        unused = False
        for place in range(order):
            first = skip_blanks(block, at)
            hashed, at = hash_word(block, first)
            if at == first:
                return begin, line, number, BAD_FIELDS
            slot = slots[find_word(slots, text, starts, hashed, block, first, at)]
            if slot == 0:
                return begin, line, number, BAD_WORD
            grams[number, place] = ids[(slot & 0xFFFFFFFF) - 1]
            unused |= place > 0 and grams[number, place] == outputs
        at = skip_blanks(block, at)
        backoff = 0.0
        if block[at] != LINE_END:
            backoff, at = parse_log(block, at)
            at = skip_blanks(block, at)
            if not np.float32(backoff) < np.inf:
                return begin, line, number, BAD_NUMBER
            if block[at] != LINE_END:
                return begin, line, number, BAD_FIELDS
        at, line = at + 1, line + 1
        tallies[UNUSED] += unused
        log_prob[number], log_backoff[number] = value, backoff
        number += not unused
    return at, line, number, ENDED


@numba.njit(cache=True, nogil=True)
def find_contexts(word, first_child, grams, number, scratch):
    """Fill scratch[0] with the node of all but the last word of each of the first `number` grams, or -1.

    Order by order for all of them; those that begin as the one before are not searched again.
    """
    nodes, lows, same = scratch[0], scratch[1], scratch[2]
    for row in range(number):
        nodes[row] = grams[row, 0] + 1
        same[row] = row > 0 and grams[row, 0] == grams[row - 1, 0]
    for depth in range(1, grams.shape[1] - 1):
        for row in range(number):
            same[row] = same[row] and grams[row, depth] == grams[row - 1, depth]
            fetch(first_child, nodes[row])
        for row in range(number):
            lows[row] = first_child[nodes[row]] if nodes[row] > 0 else 0
            fetch(word, lows[row])
        for row in range(number):
            if same[row]:
                nodes[row] = nodes[row - 1]
            elif nodes[row] > 0:
                nodes[row] = find_child(word, lows[row], first_child[nodes[row] + 1], grams[row, depth])


@numba.njit(cache=True, nogil=True, inline="always")
def find_child(word, place, end, token):
    """The place of `token` in word[place:end], ascending, or -1."""
    size = end - place
    while size > 1:
        half = size >> 1
        place += half * (word[place + half] <= token)  # no branch, which could not be foretold
        size -= half
    return place if size == 1 and word[place] == token else -1


@numba.njit(cache=True, nogil=True)
def surplus(word, first_child, suffix, log_prob, log_backoff, stop):
    """The distribution that is furthest from a sum of one: its node and its sum, over all but the node of `stop`.

    sum of p(w | h) over the words seen after h + backoff(h) (1 - sum of p(w | h') over the same words), h' being the
    suffix of h, whose distribution is taken to sum to one. Cost: one look, seldom a walk, an n-gram.
    """
    worst, total = 0, 0.0
    for child in range(1, first_child[1]):
        total += np.exp(log_prob[child])
    for node in range(1, log_backoff.size):
        seen, lower = 0.0, 0.0
        for child in range(first_child[node], first_child[node + 1]):
            seen += np.exp(log_prob[child])
            shorter, found, owed = suffix[node], suffix[child], 0.0
            while not first_child[shorter] <= found < first_child[shorter + 1]:
                owed += log_backoff[shorter]
                shorter = suffix[shorter]
            lower += np.exp(owed + log_prob[found])
        mass = seen + np.exp(log_backoff[node]) * (1.0 - lower)
        if node != stop + 1 and abs(mass - 1.0) > abs(total - 1.0):
            worst, total = node, mass
    return worst, total
