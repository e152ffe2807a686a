"""Kernels that print the lines of ARPA files (ngram/arpa_write.py); kernels/arpa_parse.py reads them.

Texts are rows of bytes. `text` holds words one after another, word i from starts[i] to starts[i + 1] - 1, and
PAD bytes more, since bytes are moved in blocks. The slow twin is tests/references/arpa.py.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

PAD = 16
"""Bytes that may be read and written beyond the end of what is moved."""

NUMBER = 32
"""More bytes than a printed number takes, with PAD."""

LN10 = np.log(10.0)
POWERS = 10.0 ** np.arange(309)
FOURS = np.array([list(b"%04d" % number) for number in range(10000)], np.uint8).ravel()
"""The four digits of 0 to 9999."""

TAB, LINE_END, RETURN, BLANK, PLUS, MINUS, POINT, ZERO, BACKSLASH, EXPONENT = 9, 10, 13, 32, 43, 45, 46, 48, 92, 101
"""Bytes that mean something."""


def moving(typing, target, to, source, start, width):
    """The code of `move`."""
    block = ir.VectorType(ir.IntType(8), width.literal_value)

    def generate(context, builder, signature, arguments):
        places = []
        for which in (0, 2):
            array = context.make_array(signature.args[which])(context, builder, arguments[which])
            places.append(builder.bitcast(builder.gep(array.data, [arguments[which + 1]]), block.as_pointer()))
        builder.store(builder.load(places[1], align=1), places[0], align=1)
        return context.get_dummy_value()

    return types.void(target, types.intp, source, types.intp, width), generate


move: Any = intrinsic(prefer_literal=True)(moving)
"""move(target, to, source, start, width): `width` bytes, a literal, from source[start] on to target[to] on."""


@numba.njit(cache=True, nogil=True, inline="always")
def put(out, at, text, begin, end):
    """Write text[begin:end] and up to PAD bytes more at out[at]; return the place after it."""
    for done in range(0, end - begin, 16):
        move(out, at + done, text, begin + done, 16)
    return at + end - begin


@numba.njit(cache=True, nogil=True, inline="always")
def put_digits(out, at, digits):
    """Write nine digits at out[at]."""
    out[at] = ZERO + digits // 100_000_000
    move(out, at + 1, FOURS, 4 * (digits // 10_000 % 10_000), 4)
    move(out, at + 5, FOURS, 4 * (digits % 10_000), 4)


@numba.njit(cache=True, nogil=True, inline="always")
def put_decimal(out, at, digits, exponent):
    """Write nine digits at out[at], a point after the first `exponent` + 1; leave out zeros that end them."""
    put_digits(out, at + 1, digits)
    for place in range(at, at + exponent + 1):
        out[place] = out[place + 1]
    out[at + exponent + 1] = POINT
    at += 10
    while out[at - 1] == ZERO:
        at -= 1
    return at - 1 if out[at - 1] == POINT else at


@numba.njit(cache=True, nogil=True, inline="always")
def put_fraction(out, at, digits, exponent):
    """Write nine digits at out[at] as a fraction below one: a point and -`exponent` - 1 zeros before them."""
    for place in range(at, at + 1 - exponent):
        out[place] = ZERO
    out[at + 1] = POINT
    at += 1 - exponent
    put_digits(out, at, digits)
    at += 9
    while out[at - 1] == ZERO:
        at -= 1
    return at


@numba.njit(cache=True, nogil=True)
def put_log(out, at, nats):
    """Write a natural logarithm to the base 10, nine digits at most, at out[at]; return the place after it.

    Nine digits name one float32 and no other. Minus infinity is -99, as ARPA files have it.
    """
    value = nats / LN10
    if value < 0.0:
        out[at] = MINUS
        at, value = at + 1, -value
    if value == np.inf:
        out[at] = out[at + 1] = ZERO + 9
        return at + 2
    if value == 0.0:
        out[at] = ZERO
        return at + 1
    exponent = 0
    while value >= POWERS[exponent + 1]:
        exponent += 1
    while exponent <= 0 and value * POWERS[-exponent] < 1.0:
        exponent -= 1
    scaled = value * POWERS[8 - exponent] if exponent <= 8 else value / POWERS[exponent - 8]
    digits = np.int64(scaled + 0.5)
    if digits == 1_000_000_000:
        digits, exponent = np.int64(100_000_000), exponent + 1
    if -5 <= exponent < 0:
        return put_fraction(out, at, digits, exponent)
    if 0 <= exponent < 8:
        return put_decimal(out, at, digits, exponent)
    at = put_decimal(out, at, digits, 0)
    out[at] = EXPONENT
    out[at + 1] = MINUS if exponent < 0 else PLUS
    out[at + 2] = ZERO + abs(exponent) // 10
    out[at + 3] = ZERO + abs(exponent) % 10
    return at + 4


@numba.njit(cache=True, nogil=True)
def parent_of(first_child, low, high, node):
    """The node of low to high - 1 whose child `node` is."""
    while high - low > 1:
        middle = (low + high) >> 1
        if first_child[middle] <= node:
            low = middle
        else:
            high = middle
    return low


@numba.njit(cache=True, nogil=True)
def write_ngrams(
    word, first_child, log_prob, log_backoff, begins, order, begin, end, text, starts, longest,
    contexts, prefix, ends, out,
):  # fmt: skip
    """Fill `out` with the lines of nodes `begin` to `end` - 1, all of one order, while they fit.

    begins: the first node of each order. longest: bytes that no line exceeds, PAD included.
    contexts, ends: scratch, [order]; prefix: scratch, [longest]. The words before the last are spelled once a context.
    Returns the node not written and the bytes filled.
    """
    node, size = begin, 0
    for level in range(order - 1, 0, -1):
        node = contexts[level] = parent_of(first_child, begins[level], begins[level + 1], node)
    ends[0], stale = 0, 1
    for node in range(begin, end):
        if size + longest > out.size:
            return node, size
        child, level = node, order - 1
        while level > 0 and first_child[contexts[level] + 1] <= child:
            while first_child[contexts[level] + 1] <= child:
                contexts[level] += 1
            child, stale = contexts[level], level
            level -= 1
        for level in range(stale, order):
            spelled = word[contexts[level]]
            ends[level] = put(prefix, ends[level - 1], text, starts[spelled], starts[spelled + 1]) + 1
            prefix[ends[level] - 1] = BLANK
        stale = order
        size = put_log(out, size, log_prob[node])
        out[size] = TAB
        size = put(out, size + 1, prefix, 0, ends[order - 1])
        size = put(out, size, text, starts[word[node]], starts[word[node] + 1])
        if node < log_backoff.size:
            out[size] = TAB
            size = put_log(out, size + 1, log_backoff[node])
        out[size] = LINE_END
        size += 1
    return end, size
