"""Kernels for numbers of few bits side by side in 64-bit words, and for finding the n-th one among many bits.

Bits lie in words the lowest first. Where ones are to be found fast, the bits are cut into blocks and the ones
before each block are counted. The slow twins are big integers in tests/references/compact.py.
"""

from __future__ import annotations

import numba
import numpy as np

BLOCK = 8
"""Ones are counted before every block of 2^8 bits."""

ONE, BYTE = np.uint64(1), np.uint64(0xFF)
ODD, PAIRS = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
NIBBLES, BYTES = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0x0101010101010101)


@numba.njit(cache=True, nogil=True, inline="always")
def byte_counts(bits):
    """The ones in each byte of 64 bits, as 8 bytes."""
    bits = bits - ((bits >> ONE) & ODD)
    bits = (bits & PAIRS) + ((bits >> np.uint64(2)) & PAIRS)
    return (bits + (bits >> np.uint64(4))) & NIBBLES


@numba.njit(cache=True, nogil=True, inline="always")
def count_ones(bits):
    """How many of 64 bits are one."""
    return np.int64((byte_counts(bits) * BYTES) >> np.uint64(56))


@numba.njit(cache=True, nogil=True, inline="always")
def lowest(bits):
    """The place of the lowest one of 64 bits, 64 if there is none."""
    return count_ones((bits & (~bits + ONE)) - ONE)


@numba.njit(cache=True, nogil=True, inline="always")
def place_of(bits, number):
    """The place of the one that `number` others lie below, of 64 bits that hold it."""
    below = byte_counts(bits) * BYTES  # in each byte the ones up to its end
    shift = 0
    while np.int64((below >> np.uint64(shift)) & BYTE) <= number:
        shift += 8
    if shift:
        number -= np.int64((below >> np.uint64(shift - 8)) & BYTE)
    bits = bits >> np.uint64(shift)
    for _ in range(number):
        bits &= bits - ONE
    return shift + lowest(bits)


@numba.njit(cache=True, nogil=True)
def find_bit(packed, bits, counts, rank, number, low, high, flip):
    """The place of the bit that `number` like it come before: a one, or with `flip` a zero.

    bits, rank: where they begin. It must lie in the blocks `low` to `high` - 1.
    Cost: a binary search in them, then up to 4 words.
    """
    while low + 1 < high:
        middle = (low + high) >> 1
        before = np.int64(counts[rank + middle])
        if flip:
            before = (middle << BLOCK) - before
        if before <= number:
            low = middle
        else:
            high = middle
    before = np.int64(counts[rank + low])
    left = number - ((low << BLOCK) - before if flip else before)
    at = bits + (low << (BLOCK - 6))
    word = ~packed[at] if flip else packed[at]
    ones = count_ones(word)
    while ones <= left:
        left -= ones
        at += 1
        word = ~packed[at] if flip else packed[at]
        ones = count_ones(word)
    return ((at - bits) << 6) + place_of(word, left)


@numba.njit(cache=True, nogil=True, inline="always")
def next_one(packed, bits, place, number):
    """The place of the one that `number` ones come before from a place on. Cost: the words up to it."""
    at = bits + (place >> 6)
    word = (packed[at] >> np.uint64(place & 63)) << np.uint64(place & 63)
    ones = count_ones(word)
    while ones <= number:
        number -= ones
        at += 1
        word = packed[at]
        ones = count_ones(word)
    return ((at - bits) << 6) + place_of(word, number)


@numba.njit(cache=True, nogil=True, inline="always")
def take(packed, begin, width, place):
    """The number at a place of numbers packed `width` bits each, at most 63; one more word must follow them."""
    bit = place * width
    at, shift = begin + (bit >> 6), np.uint64(bit & 63)
    value = (packed[at] >> shift) | ((packed[at + 1] << ONE) << (np.uint64(63) - shift))
    return np.int64(value & ((ONE << np.uint64(width)) - ONE))


@numba.njit(cache=True, nogil=True)
def pack(values, width, packed):
    """Put numbers below 2^width side by side into `packed`, zeros before, a word longer than they need."""
    for place in range(values.size):
        bit = place * width
        at, shift = bit >> 6, np.uint64(bit & 63)
        value = np.uint64(values[place])
        packed[at] |= value << shift
        packed[at + 1] |= (value >> ONE) >> (np.uint64(63) - shift)


@numba.njit(cache=True, nogil=True)
def unpack(packed, begin, width, shift, mask, values):
    """Fill `values` with the numbers packed from `begin` on, each shifted right and masked."""
    for place in range(values.size):
        values[place] = (take(packed, begin, width, place) >> shift) & mask
