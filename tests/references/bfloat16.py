"""The slow twin of kernels/{maths,packing}.py: bfloat16 as arithmetic, and packed matrices number by number.

A bfloat16 has a sign, 8 bits of exponent and 8 of precision: rounding is to the nearest multiple of a power of two that
depends on the number's size. Nothing here looks at bits but `words`, which reads those of a number already rounded.
"""

from __future__ import annotations

import numpy as np

PRECISION = 8
LEAST_STEP = -133
"""The smallest bfloat16 is 2^-133: below 2^-126 all of them are multiples of it."""

UNIT = 2.0**-PRECISION
"""The largest relative error of rounding to bfloat16."""


def rounded(x):
    """The bfloat16 numbers next to x, ties to even, as float32; infinite from half a step above the largest."""
    x = np.asarray(x, np.float64)
    size = np.where(np.isfinite(x), x, 0.0)
    step = np.ldexp(1.0, np.maximum(np.frexp(size)[1] - PRECISION, LEAST_STEP))
    near = np.rint(size / step) * step
    near = np.where(np.abs(near) >= 2.0**128, np.copysign(np.inf, x), near)
    return np.where(np.isfinite(x), near, x).astype(np.float32)


def words(x):
    """The 16 bits of each rounded number, uint16."""
    return (rounded(x).view(np.uint32) >> 16).astype(np.uint16)


def numbers(word):
    """The float32 numbers of bfloat16 words."""
    return (np.asarray(word).astype(np.uint32) << 16).view(np.float32)


def packed(right):
    """A right side [K, N] in panels of 16 columns, [panels, pairs, 16] uint32, zeros where it ends."""
    length, columns = right.shape
    out = np.zeros((-(-columns // 16), -(-length // 2), 16), np.uint32)
    for k, row in enumerate(words(right)):
        for column, word in enumerate(row):
            out[column // 16, k // 2, column % 16] |= np.uint32(word) << np.uint32(16 * (k % 2))
    return out
