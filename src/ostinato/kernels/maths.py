"""Scalar functions of float32 without branches or calls, so that a loop over them becomes vector instructions."""

from __future__ import annotations

import numba
import numpy as np

from ostinato.kernels.simd import bits

LOG2_E = np.float32(1.4426950408889634)
LN2_HIGH, LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
LEAST, MOST = np.float32(-87.0), np.float32(88.0)
C2, C3, C4 = np.float32(0.5), np.float32(0.16666657), np.float32(0.041666374)
C5, C6 = np.float32(0.0083682255), np.float32(0.0013951711)
ONE, TWO, HALF = np.float32(1), np.float32(2), np.float32(0.5)
ROUNDER = np.float32(12582912.0)
"""1.5 * 2^23: what is added to it is rounded to whole numbers."""


@numba.njit(inline="always")
def exp32(x):
    """e^x to 2e-7 relative, for x in float32; cut to e^-87 .. e^88.

    x = n ln 2 + r with |r| <= ln(2) / 2; e^r is a polynomial of degree 6 (least largest relative error), 2^n is put
    together from its bits.
    """
    x = min(max(x, LEAST), MOST)
    shifted = x * LOG2_E + ROUNDER
    whole = shifted - ROUNDER
    r = x - whole * LN2_HIGH - whole * LN2_LOW
    tail = C2 + r * (C3 + r * (C4 + r * (C5 + r * C6)))
    power = bits((np.int32(whole) + np.int32(127)) << np.int32(23))
    return (ONE + r + r * r * tail) * power


@numba.njit(inline="always")
def sigmoid32(x):
    """1 / (1 + e^-x) in float32."""
    return ONE / (ONE + exp32(-x))


@numba.njit(inline="always")
def tanh32(x):
    """The hyperbolic tangent to 2e-7 absolute, in float32."""
    return TWO / (ONE + exp32(-TWO * x)) - ONE


@numba.njit(inline="always")
def to_bf16(x):
    """The bfloat16 next to a float32 (ties to even), as a uint32 below 2^16."""
    word = np.uint32(bits(x))
    return (word + np.uint32(0x7FFF) + ((word >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)


@numba.njit(inline="always")
def from_bf16(word):
    """The float32 of a bfloat16 given as a uint16."""
    return bits(np.int32(np.uint32(word) << np.uint32(16)))
