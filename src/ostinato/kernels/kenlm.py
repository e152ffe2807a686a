"""Kernels that unpack KenLM's binary files (ngram/kenlm_binary.py)."""

from __future__ import annotations

import numba
import numpy as np

from ostinato.kernels.trie import search


@numba.njit(cache=True, nogil=True)
def unpack(data, begin, step, bits, out):
    """Fill `out` with the numbers of `bits` bits, 57 at most, that stand every `step` bits from bit `begin` of data.

    Little-endian; eight bytes are read for each, so as many must follow the last.
    """
    mask = (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    for row in range(out.size):
        place = begin + row * step
        value = np.uint64(0)
        for byte in range(8):
            value |= np.uint64(data[(place >> 3) + byte]) << np.uint64(8 * byte)
        out[row] = (value >> np.uint64(place & 7)) & mask


STEP, SEED = np.uint64(8978948897894561157), np.uint64(17894857484156487943)
"""The hash of `a b c` is (hash of `b c`) * STEP ^ (1 + a) * SEED, that of a word its number."""

FILTER = 6
"""A filter has 2 ** FILTER times as many bits as there are hashes, so it seldom lets another pass."""


@numba.njit(cache=True, nogil=True, inline="always")
def find_hash(hashes, low, high, wanted):
    """The place of `wanted` in hashes[low:high], ascending, or -1."""
    low = search(hashes, low, high, wanted)
    return low if low < hashes.size and hashes[low] == wanted else -1


@numba.njit(cache=True, nogil=True)
def find_pairs(hashes, part, bits, products, second, offsets, marks, first, last, place, found):
    """Find the bigrams of one part of the hashes, those whose upper `bits` bits are `part`.

    hashes: of all bigrams, ascending. products: number * STEP of every word, ascending; second: those numbers.
    offsets: (1 + number) * SEED of every word. marks: scratch, a filter of 2 ** n bits.
    first, last, place: filled from `found` on with the numbers of the two words and the place of the hash.
    Returns how many there are now; it ends early if there is no room. Cost: the square of the words, over all parts.
    """
    shift, empty = np.uint64(63 - bits), bits == 0
    low = 0 if empty else search(hashes, 0, hashes.size, np.uint64(part) << (shift + np.uint64(1)))
    high = (
        hashes.size
        if empty or part + 1 == 1 << bits
        else search(hashes, 0, hashes.size, np.uint64(part + 1) << (shift + np.uint64(1)))
    )
    mask = np.uint64(marks.size * 64 - 1)
    marks[:] = 0
    for row in range(low, high):
        bit = (hashes[row] >> np.uint64(20)) & mask
        marks[bit >> np.uint64(6)] |= np.uint64(1) << (bit & np.uint64(63))
    for word in range(offsets.size):
        offset, begin, end = offsets[word], 0, products.size
        if not empty:
            bucket = np.uint64(part) ^ (offset >> (shift + np.uint64(1)))
            begin = search(products, 0, products.size, bucket << (shift + np.uint64(1)))
            if bucket + np.uint64(1) < np.uint64(1) << np.uint64(bits):
                end = search(products, 0, products.size, (bucket + np.uint64(1)) << (shift + np.uint64(1)))
        for row in range(begin, end):
            hashed = products[row] ^ offset
            bit = (hashed >> np.uint64(20)) & mask
            if marks[bit >> np.uint64(6)] >> (bit & np.uint64(63)) & np.uint64(1):
                entry = find_hash(hashes, low, high, hashed)
                if entry >= 0:
                    if found == first.size:
                        return found
                    first[found], last[found], place[found] = word, second[row], entry
                    found += 1
    return found


@numba.njit(cache=True, nogil=True)
def find_longer(hashes, marks, begin, end, below, word, children, context, first, parent, found_context, place, found):
    """Find the n-grams that continue rows `begin` to `end` - 1 of the order below to the left.

    `a b c` can only be where `a b` is, whose words before `b` are the children of the context `b` of `b c`.
    hashes: of the order, ascending; marks: the filter of all of them. below, word, context: the hash, first word and
    context (a row of the order below that) of each row below; children: where in it the rows of each context begin.
    first, parent, found_context, place: filled from `found` on, sorted by parent and first word; found_context is a row
    of the order below. Returns how many there are now; it ends early if there is no room.
    """
    mask = np.uint64(marks.size * 64 - 1)
    for row in range(begin, end):
        product = below[row] * STEP
        for shorter in range(children[context[row]], children[context[row] + 1]):
            hashed = product ^ np.uint64(1 + word[shorter]) * SEED
            bit = (hashed >> np.uint64(20)) & mask
            if marks[bit >> np.uint64(6)] >> (bit & np.uint64(63)) & np.uint64(1):
                entry = find_hash(hashes, 0, hashes.size, hashed)
                if entry >= 0:
                    if found == first.size:
                        return found
                    first[found], parent[found] = word[shorter], row
                    found_context[found], place[found] = shorter, entry
                    found += 1
    return found


@numba.njit(cache=True, nogil=True)
def mark(hashes, marks):
    """Set the bit of each hash in the filter."""
    mask = np.uint64(marks.size * 64 - 1)
    for row in range(hashes.size):
        bit = (hashes[row] >> np.uint64(20)) & mask
        marks[bit >> np.uint64(6)] |= np.uint64(1) << (bit & np.uint64(63))
