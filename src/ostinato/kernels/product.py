"""Products of bfloat16 matrices with float32 sums, made of register tiles."""

from __future__ import annotations

import numba

from ostinato.kernels.simd import WIDTH, make_strided_tile

tile_6_4, tile_4_4, tile_2_4, tile_1_4 = (make_strided_tile("bfloat16", rows, 4) for rows in (6, 4, 2, 1))
tile_12_1, tile_4_1, tile_1_1 = (make_strided_tile("bfloat16", rows, 1, cut=True) for rows in (12, 4, 1))


LEFT = 1 << 16
"""Pairs of the left side that are used again and again before going on: they stay in a core's own cache."""

INNER = 400
"""Pairs of the inner axis that are multiplied at once, so that four panels of the right side stay there, too."""


@numba.njit(cache=True, nogil=True)
def product(a, a0, a_row, a_step, rows, b, b0, length, columns, c, c0, c_row, add):
    """c = a b, or c += a b if `add` is 1, for `rows` rows of a and `columns` columns of b.

    a: uint16, row r's pair k at a0 + r * a_row + k * a_step in its memory. b: packed, uint32, panels of
    `length` pairs beginning with number b0 (whole panels: 16 * length words each). c: float32, row r at
    c0 + r * c_row. Everything lies row by row in memory; places count elements.
    """
    parts = (length + INNER - 1) // INNER
    for part in range(parts):
        inner, past = length * part // parts, length * (part + 1) // parts
        block = max(12, LEFT // (past - inner) // 12 * 12)
        for begin in range(0, rows, block):
            left, out, many = a0 + begin * a_row + inner * a_step, c0 + begin * c_row, min(block, rows - begin)
            right, more = b0 + inner * WIDTH, 1 if part else add
            _block(a, left, a_row, a_step, many, b, right, length * WIDTH, past - inner, columns, c, out, c_row, more)


@numba.njit(nogil=True)
def _block(a, a0, a_row, a_step, rows, b, b0, stride, length, columns, c, c0, c_row, add):
    """As `product`, all of it for one panel group after another."""
    panel, whole = 0, columns // WIDTH
    while panel + 4 <= whole:
        place, row = b0 + panel * stride, 0
        column = c0 + panel * WIDTH
        while row + 6 <= rows:
            tile_6_4(a, a0 + row * a_row, a_row, a_step, b, place, stride, length, c, column + row * c_row, c_row, add)
            row += 6
        while row + 4 <= rows:
            tile_4_4(a, a0 + row * a_row, a_row, a_step, b, place, stride, length, c, column + row * c_row, c_row, add)
            row += 4
        while row + 2 <= rows:
            tile_2_4(a, a0 + row * a_row, a_row, a_step, b, place, stride, length, c, column + row * c_row, c_row, add)
            row += 2
        if row < rows:
            tile_1_4(a, a0 + row * a_row, a_row, a_step, b, place, stride, length, c, column + row * c_row, c_row, add)
        panel += 4
    while panel * WIDTH < columns:
        place, row = b0 + panel * stride, 0
        column, kept = c0 + panel * WIDTH, min(WIDTH, columns - panel * WIDTH)
        while row + 12 <= rows:
            left, right = a0 + row * a_row, column + row * c_row
            tile_12_1(a, left, a_row, a_step, b, place, stride, length, c, right, c_row, add, kept)
            row += 12
        while row + 4 <= rows:
            left, right = a0 + row * a_row, column + row * c_row
            tile_4_1(a, left, a_row, a_step, b, place, stride, length, c, right, c_row, add, kept)
            row += 4
        while row < rows:
            left, right = a0 + row * a_row, column + row * c_row
            tile_1_1(a, left, a_row, a_step, b, place, stride, length, c, right, c_row, add, kept)
            row += 1
        panel += 1
