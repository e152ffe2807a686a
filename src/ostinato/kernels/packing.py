"""Matrices laid out as the tiles of `simd` read them.

bfloat16 numbers are uint16; two of them that are multiplied together (a pair along the inner axis) are one uint32
word, the first in the low half. The right side of a product is packed in panels of 16 columns, uint32
[panels, pairs, 16]; rows or columns that are missing to fill it up are zeros.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import DTypeLike, NDArray

from ostinato.kernels.maths import to_bf16
from ostinato.kernels.shuffle import pair16, turn16
from ostinato.kernels.simd import WIDTH

ALIGNED = 64


def aligned(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Zeros that begin at a multiple of 64 bytes, so that a register is never read from two cache lines."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.zeros(size + ALIGNED, np.uint8)
    begin = -memory.ctypes.data % ALIGNED
    array: NDArray[Any] = memory[begin : begin + size].view(dtype).reshape(shape)
    return array


def panels(columns: int) -> int:
    """How many panels so many columns fill."""
    return -(-columns // WIDTH)


def pairs(length: int) -> int:
    """How many pairs so many numbers fill."""
    return -(-length // 2)


def packed(columns: int, length: int) -> NDArray[np.uint32]:
    """Room for a right side of so many columns and numbers along the inner axis."""
    return aligned((panels(columns), pairs(length), WIDTH), np.uint32)


@numba.njit(cache=True, nogil=True)
def narrow(x, out, begin, end):
    """Rows begin..end of x [M, K] float32 as bfloat16 in out [M, >= K] uint16; further columns are left alone."""
    for row in range(begin, end):
        source, target = x[row], out[row]
        for k in range(source.size):
            target[k] = np.uint16(to_bf16(source[k]))


@numba.njit(cache=True, nogil=True)
def pack_columns(x, out, begin, end):
    """The right side x [K, N] (row-major, float32), pairs begin..end of its rows, into out [panels, pairs, 16]."""
    columns, length = x.shape[1], x.shape[0]
    whole = columns // WIDTH
    for pair in range(begin, end):
        low, high = x[2 * pair], x[min(2 * pair + 1, length - 1)]
        some = np.uint32(0xFFFF if 2 * pair + 1 < length else 0)
        if some:
            for panel in range(whole):
                place = 2 * pair * columns + panel * WIDTH
                pair16(x, place, place + columns, out, (panel * out.shape[1] + pair) * WIDTH)
        else:
            for j in range(whole * WIDTH):
                out[j // WIDTH, pair, j % WIDTH] = to_bf16(low[j])
        for j in range(whole * WIDTH, columns):
            out[whole, pair, j - whole * WIDTH] = to_bf16(low[j]) | ((to_bf16(high[j]) & some) << np.uint32(16))


@numba.njit(cache=True, nogil=True)
def pack_rows(x, out, begin, end):
    """The right side given as its transpose x [N, K] float32, panels begin..end of it, into out [panels, pairs, 16]."""
    columns, length = x.shape
    for panel in range(begin, end):
        target, done = out[panel], 0
        if (panel + 1) * WIDTH <= columns:
            while done + WIDTH <= length // 2:
                place = (panel * out.shape[1] + done) * WIDTH
                turn16(x, panel * WIDTH * length + 2 * done, length, out, place)
                done += WIDTH
        for j in range(min(WIDTH, columns - panel * WIDTH)):
            source = x[panel * WIDTH + j]
            for pair in range(done, length // 2):
                target[pair, j] = to_bf16(source[2 * pair]) | (to_bf16(source[2 * pair + 1]) << np.uint32(16))
            if length % 2:
                target[length // 2, j] = to_bf16(source[length - 1])


@numba.njit(cache=True, nogil=True)
def pack_tokens(x, rows, out, begin, end):
    """Chosen rows of x as columns of a right side, panels begin..end of it.

    x: pairs of bfloat16, [N, pairs] uint32. rows: which rows, in order; none for the columns after them.
    """
    for panel in range(begin, end):
        target = out[panel]
        for j in range(WIDTH):
            column = panel * WIDTH + j
            if column < rows.size:
                source = x[rows[column]]
                for pair in range(target.shape[0]):
                    target[pair, j] = source[pair]
            else:
                target[:, j] = 0


@numba.njit(cache=True, nogil=True)
def pair_rows(x, rows, out, begin, end):
    """Chosen rows of x, two and two along the inner axis of a right side: pairs begin..end of out [panels, pairs, 16].

    x: bfloat16, [N, >= 16 panels] uint16. rows: which rows, in order; zeros where there are none or they are negative.
    """
    for pair in range(begin, end):
        first = rows[2 * pair] if 2 * pair < rows.size else -1
        second = rows[2 * pair + 1] if 2 * pair + 1 < rows.size else -1
        low, high = x[max(first, 0)], x[max(second, 0)]
        keep = np.uint32(0xFFFF if first >= 0 else 0) | np.uint32(0xFFFF0000 if second >= 0 else 0)
        for panel in range(out.shape[0]):
            target, place = out[panel, pair], panel * WIDTH
            for j in range(WIDTH):
                word = np.uint32(low[place + j]) | (np.uint32(high[place + j]) << np.uint32(16))
                target[j] = word & keep
