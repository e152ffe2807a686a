"""Kernels that lay a trie and its numbers out as the blocks of ngram/table.py, and read them back.

Arrays in, arrays out; nothing is checked here. The slow twin is the NumPy layout in ngram/blocks.py, which small
models use.
"""

from __future__ import annotations

import numba
import numpy as np

from ostinato.kernels.prefetch import prefetch

AHEAD = 16
"""So many nodes before they are read, memory is asked for: suffixes lie anywhere."""

WIDE = 8
"""Contexts with more children than this find them by hashing."""


@numba.njit(cache=True, nogil=True, inline="always")
def home(word, places):
    """Where a word belongs among that many places: a multiplicative hash."""
    mixed = (np.uint64(word) * np.uint64(0x9E3779B1)) & np.uint64(0xFFFFFFFF)
    return np.int64((mixed * np.uint64(places)) >> np.uint64(32))


@numba.njit(cache=True, nogil=True, inline="always")
def places_for(children):
    """How many places that many children are hashed into."""
    return children * 5 // 3


@numba.njit(cache=True, nogil=True)
def spread(word, first, last, at):
    """Fill `at` [places] with where the words first..last of each home begin; return the rows needed.

    Words stand in the order of their homes, each at its home or right behind the one before; an empty row, where
    every search ends, comes last.
    """
    places = places_for(last - first)
    at[:places] = 0
    for child in range(first, last):
        at[home(word[child], places)] += 1
    free = 0
    for place in range(places):
        count = at[place]
        if free < place:
            free = place
        at[place] = free
        free += count
    return max(free, places) + 1


@numba.njit(cache=True, nogil=True)
def measure_blocks(word, first_child, log_backoff, begin, end, at, header):
    """Fill `header` for nodes `begin` to `end` - 1 with the rows that each one's block needs; return their sum.

    A node that has neither children nor a back-off needs none. log_backoff: [M], or [0] if only nodes with
    children have one. at: scratch, see `spread`.
    """
    total = 0
    for node in range(begin, end):
        first, last = first_child[node], first_child[node + 1]
        if first == last and node > 0 and (log_backoff.size == 0 or log_backoff[node] == 0):
            rows = 0
        elif node > 0 and last - first > WIDE:
            rows = 1 + spread(word, first, last, at)
        else:
            rows = 1 + last - first
        header[node] = rows
        total += rows
    return total


@numba.njit(cache=True, nogil=True)
def place_blocks(suffix, begin, end, row, header):
    """Turn what `measure_blocks` filled in into the row where each block begins, the first at `row`.

    A node without a block gets that of its suffix, whose place must be known.
    """
    for node in range(begin, end):
        rows = header[node]
        header[node] = row if rows else header[suffix[node]]
        row += rows


@numba.njit(cache=True, nogil=True)
def write_blocks(word, first_child, suffix, header, begin, end, base, log_prob, log_backoff, at, out):
    """Write the blocks of the contexts `begin` to `end` - 1 into `out`, whose first row is row `base`.

    log_prob: of their children, log_backoff: of them; float32 as int32. at: scratch, see `spread`.
    """
    first_of_all, last_of_all, inner = first_child[begin], first_child[end], header.size
    for node in range(begin, end):
        if node + AHEAD < end:
            prefetch(header, suffix[node + AHEAD])
        first, last = first_child[node], first_child[node + 1]
        if node > 0 and header[node] == header[suffix[node]]:
            continue
        row = header[node] - base
        wide = node > 0 and last - first > WIDE
        places = last - first
        if wide:
            places = places_for(last - first)
            rows = spread(word, first, last, at)
            for place in range(row + 1, row + 1 + rows):
                out[3 * place], out[3 * place + 1], out[3 * place + 2] = -1, 0, 0
        out[3 * row] = header[suffix[node]]
        out[3 * row + 1] = log_backoff[node - begin]
        out[3 * row + 2] = -1 - (2 * places + wide)
        for child in range(first, last):
            if child >= inner and child + AHEAD < last_of_all:
                prefetch(header, suffix[child + AHEAD])
            place = row + 1 + child - first
            if wide:
                slot = home(word[child], places)
                place = row + 1 + at[slot]
                at[slot] += 1
            out[3 * place] = word[child]
            out[3 * place + 1] = log_prob[child - first_of_all]
            out[3 * place + 2] = header[child] if child < inner else header[suffix[child]]


@numba.njit(cache=True, nogil=True)
def read_blocks(rows, inner, word, first_child, log_prob, log_backoff):
    """Fill the arrays of a trie but suffixes: the inverse of `write_blocks`. Returns -1 if these are no blocks.

    word, log_prob: [N], all but node 0's; first_child: [M + 1]; log_backoff: [M]. Logs are float32 as int32.
    """
    total, size = rows.size // 3, word.size
    row, child = 0, 1
    nexts = np.zeros(size, np.int32)
    for node in range(inner):
        if node >= child:
            return -1
        first_child[node] = child
        log_backoff[node] = 0
        if row == total or nexts[node] != row:
            continue
        info = -1 - rows[3 * row + 2]
        if info < 0:
            return -1
        log_backoff[node] = rows[3 * row + 1]
        begin = child
        row += 1
        while row < total and rows[3 * row + 2] >= 0:
            if rows[3 * row] >= 0:
                if child == size:
                    return -1
                word[child], log_prob[child], nexts[child] = rows[3 * row], rows[3 * row + 1], rows[3 * row + 2]
                child += 1
            row += 1
        if info & 1:
            order = np.argsort(word[begin:child])
            word[begin:child] = word[begin:child][order]
            log_prob[begin:child] = log_prob[begin:child][order]
            nexts[begin:child] = nexts[begin:child][order]
    first_child[inner] = child
    return 0 if child == size and row == total else -1
