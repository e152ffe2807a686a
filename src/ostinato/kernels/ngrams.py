"""Kernels that number the character n-grams of words by hashing, as fastText does.

A word is UTF-8, with `<` before and `>` after it. A byte 10xxxxxx continues a character. The slow twin is in
tests/references/subwords.py.
"""

from __future__ import annotations

import numba
import numpy as np

START, PRIME = np.uint32(2166136261), np.uint32(16777619)  # FNV-1a of 32 bits


@numba.njit(inline="always")
def hashed(code, byte):
    """The hash of what `code` stands for and one byte more."""
    return np.uint32((code ^ np.uint32(np.int8(byte))) * PRIME)


@numba.njit(cache=True, nogil=True)
def ngrams(blob, begin, end, least, most, buckets, out, count):
    """Write the bucket of every n-gram of blob[begin:end] to `out` from `count` on; return where they end.

    By their first character, then by length. A single `<` or `>` does not count. Bytes from 128 on are hashed as
    negative numbers, as fastText does. If `out` is empty they are only counted. Source: [Bojanowski2017].
    """
    for first in range(begin, end):
        if blob[first] & 0xC0 == 0x80:
            continue
        code, at = START, first
        for length in range(1, most + 1):
            if at == end:
                break
            at += 1
            code = hashed(code, blob[at - 1])
            while at < end and blob[at] & 0xC0 == 0x80:
                at += 1
                code = hashed(code, blob[at - 1])
            if length >= least and not (length == 1 and (first == begin or at == end)):
                if out.size:
                    out[count] = code % np.uint32(buckets)
                count += 1
    return count


@numba.njit(cache=True, nogil=True)
def all_ngrams(blob, bounds, least, most, buckets, offsets, out):
    """The same for words blob[bounds[w] : bounds[w + 1]]; fills offsets [V + 1], and `out` unless it is empty."""
    count = 0
    offsets[0] = 0
    for word in range(bounds.size - 1):
        count = ngrams(blob, bounds[word], bounds[word + 1], least, most, buckets, out, count)
        offsets[word + 1] = count
