"""Packed matrices against their slow twin, and bfloat16 products of any size against float64."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ostinato.kernels import simd
from ostinato.kernels.packing import (
    aligned,
    narrow,
    pack_columns,
    pack_rows,
    pack_tokens,
    packed,
    pair_rows,
    pairs,
    panels,
)
from ostinato.kernels.product import INNER, LEFT, product
from references import bfloat16

EPSILON = 2.0**-24
FULL = np.uint32(0xFFFFFFFF)
native = pytest.mark.skipif(not simd.HAS_BF16, reason="needs AVX512-BF16")
seeds = st.integers(0, 1 << 20)


def some(seed, *shape):
    """Numbers of very different sizes, every second one a bfloat16 or half-way between two."""
    rng = np.random.default_rng(seed)
    x = np.where(rng.random(shape) < 0.5, rng.standard_normal(shape), rng.integers(-511, 512, shape))
    return (x * 2.0 ** rng.integers(-20, 20, shape)).astype(np.float32)


# -- packing


@settings(deadline=None)
@given(st.integers(1, 70), st.integers(1, 90), seeds)
@example(32, 64, 0)
@example(33, 65, 0)
@example(16, 1, 0)
def test_both_ways_of_packing_give_the_pairs_in_panels_with_zeros_at_the_end(columns, length, seed):
    right = some(seed, length, columns)
    by_columns, by_rows = packed(columns, length), packed(columns, length)
    pack_columns(right, by_columns, 0, pairs(length))
    pack_rows(np.ascontiguousarray(right.T), by_rows, 0, panels(columns))
    expected = bfloat16.packed(right)
    np.testing.assert_array_equal(by_columns, expected)
    np.testing.assert_array_equal(by_rows, expected)


@settings(deadline=None)
@given(st.integers(1, 70), st.integers(1, 90), st.data())
def test_a_share_of_the_packing_touches_that_share_alone(columns, length, data):
    right = some(columns, length, columns)
    whole = bfloat16.packed(right)
    for pack, axis, matrix in ((pack_columns, 1, right), (pack_rows, 0, np.ascontiguousarray(right.T))):
        out = packed(columns, length)
        first = data.draw(st.integers(0, out.shape[axis]))
        last = data.draw(st.integers(first, out.shape[axis]))
        mine = [slice(None)] * 3
        mine[axis] = slice(first, last)
        out[:] = FULL
        out[tuple(mine)] = 0
        expected = np.full_like(whole, FULL)
        expected[tuple(mine)] = whole[tuple(mine)]
        pack(matrix, out, first, last)
        np.testing.assert_array_equal(out, expected)


@settings(deadline=None)
@given(st.integers(1, 50), st.integers(1, 40), st.integers(0, 9))
def test_rows_are_narrowed_where_they_are_asked_for(count, size, spare):
    x, out = some(size, count, size), np.full((count, size + spare), 0xFFFF, np.uint16)
    first, last = count // 3, max(count // 3, count - 1)
    narrow(x, out, first, last)
    expected = np.full_like(out, 0xFFFF)
    expected[first:last, :size] = bfloat16.words(x[first:last])
    np.testing.assert_array_equal(out, expected)


@settings(deadline=None)
@given(st.lists(st.integers(0, 8), max_size=40), st.integers(1, 40), st.integers(0, 2))
def test_chosen_rows_become_the_columns_of_a_right_side(rows, size, spare):
    """As if they had been packed one by one; columns without a row are overwritten with zeros."""
    x, width = some(size, 9, size), 16 * panels(size)
    wide = np.zeros((9, width), np.uint16)
    narrow(x, wide, 0, 9)
    out = np.full((panels(len(rows)) + spare, width // 2, 16), FULL)
    pack_tokens(wide.view(np.uint32), np.array(rows, np.int64), out, 0, len(out))
    expected = np.zeros_like(out)
    if rows:
        part = bfloat16.packed(x[rows].T)
        expected[: part.shape[0], : part.shape[1]] = part
    np.testing.assert_array_equal(out, expected)


@settings(deadline=None)
@given(st.lists(st.integers(-1, 8), max_size=40), st.integers(1, 40), st.integers(0, 3))
def test_chosen_rows_are_paired_along_the_inner_axis_and_negative_ones_are_zeros(rows, size, spare):
    x, width = some(size, 9, size), 16 * panels(size)
    wide = np.zeros((9, width), np.uint16)
    narrow(x, wide, 0, 9)
    out = np.full((panels(size), pairs(len(rows)) + spare, 16), FULL)
    pair_rows(wide, np.array(rows, np.int64), out, 0, out.shape[1])
    chosen = np.array([x[row] if row >= 0 else np.zeros(size) for row in rows], np.float32).reshape(-1, size)
    expected = np.zeros_like(out)
    expected[:, : pairs(len(rows))] = bfloat16.packed(chosen)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("shape", [(1,), (3, 5), (2, 7, 16)])
@pytest.mark.parametrize("dtype", [np.uint16, np.uint32, np.float32, np.int64])
def test_aligned_memory_is_zeros_from_a_multiple_of_64_bytes(shape, dtype):
    for _ in range(5):
        array = aligned(shape, dtype)
        assert array.shape == shape
        assert array.dtype == dtype
        assert array.flags.c_contiguous
        assert array.ctypes.data % 64 == 0
        assert not array.any()
        array[...] = 1


# -- products


def lay_left(words, turned, spare):
    """A left side [rows, 2 * length] of uint16 in memory from place 7 on: rows, or pairs of rows below each other."""
    rows, many = words.shape
    a_row, a_step = (2, 2 * (rows + spare)) if turned else (many + spare, 2)
    memory = np.full(7 + rows * a_row + many * a_step, 0x7FC0, np.uint16)
    place = 7 + np.arange(rows)[:, None] * a_row + np.arange(many) // 2 * a_step + np.arange(many) % 2
    memory[place] = words
    return memory, a_row, a_step


def check(rows, columns, length, seed, *, add=0, turned=False, spare=0, skipped=0, exact=False):
    """product() against float64, with NaN in all memory that must be neither read nor written.

    skipped: panels of the right side before the first one that is used.
    """
    rng = np.random.default_rng(seed)
    make = (lambda *s: rng.integers(-9, 10, s)) if exact else (lambda *s: rng.uniform(-1, 1, s))
    left, right = (bfloat16.rounded(make(*shape)) for shape in ((rows, 2 * length), (2 * length, columns)))
    start = make(rows, columns).astype(np.float32)
    a, a_row, a_step = lay_left(bfloat16.words(left), turned, spare)
    b = np.full((skipped + panels(columns), length, 16), np.uint32(0x7FC07FC0))
    b[skipped:] = bfloat16.packed(right)
    c = np.full((rows + 2, columns + spare + 1), np.nan, np.float32)
    if add:
        c[1:-1, :columns] = start
    place = skipped * length * 16
    product(a, 7, a_row, a_step, rows, b, place, length, columns, c, c.shape[1], c.shape[1], add)
    got = c[1:-1, :columns].copy()
    c[1:-1, :columns] = np.nan
    assert np.all(np.isnan(c))
    left, right, start = left.astype(np.float64), right.astype(np.float64), add * start.astype(np.float64)
    expected, size = start + left @ right, np.abs(start) + np.abs(left) @ np.abs(right)
    assert np.all(np.abs(got - expected) <= (0 if exact else (2 * length + 2) * EPSILON * size))


@native
@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 40),
    st.integers(1, 70),
    st.one_of(st.integers(1, 40), st.sampled_from([INNER - 1, INNER, INNER + 1, 2 * INNER, 2 * INNER + 1, 900])),
    seeds,
    st.integers(0, 1),
    st.booleans(),
    st.integers(0, 5),
    st.integers(0, 2),
)
def test_a_product_of_any_size_is_that_of_float64(rows, columns, length, seed, add, turned, spare, skipped):
    check(rows, columns, length, seed, add=add, turned=turned, spare=spare, skipped=skipped)


@native
@pytest.mark.parametrize("add", [0, 1])
@pytest.mark.parametrize("turned", [False, True])
def test_a_product_of_whole_numbers_is_exact_in_every_tile(turned, add):
    """All remainders of rows by 6 and 12, with full groups of panels, single ones and a cut one."""
    for rows in (*range(1, 13), 23, 24, 25):
        check(rows, 64 + 16 + 5, 3, rows, add=add, turned=turned, exact=True)


@native
def test_a_left_side_that_fills_the_cache_is_taken_in_blocks_of_rows():
    rows = LEFT // INNER + 20
    check(rows, 70, INNER, 0, add=1, exact=True)
    check(rows, 70, INNER + 1, 1, exact=True)
