"""Register tiles against NumPy, number by number, and the scalar functions of kernels against float64 and torch."""

from __future__ import annotations

import functools

import numba
import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ostinato.kernels import maths, simd
from references import bfloat16

GROUPS = {"float32": 1, "bfloat16": 2, "int8": 4}
TYPES = {
    "float32": (np.float32, np.float32, np.float32),
    "bfloat16": (np.uint16, np.uint16, np.float32),
    "int8": (np.uint8, np.int8, np.int32),
}
UNTOUCHED = -12345678
SHAPES = ((1, 1), (3, 2), (6, 4))
LENGTHS = (1, 2, 7, 33)
EPSILON = 2.0**-24

kinds = pytest.mark.parametrize(
    "kind",
    [
        "float32",
        pytest.param("bfloat16", marks=pytest.mark.skipif(not simd.HAS_BF16, reason="needs AVX512-BF16")),
        pytest.param("int8", marks=pytest.mark.skipif(not simd.HAS_VNNI, reason="needs AVX512-VNNI")),
    ],
)
shapes = pytest.mark.parametrize(("rows", "panels"), SHAPES)


@functools.cache
def compiled(kind, rows, panels, how):
    """The tile as a function; not cached on disk, where Numba would not see that simd.py has changed."""
    if how == "plain":
        tile, group = simd.make_strided_tile(kind, rows, panels), simd.KINDS[kind][0]

        def run(a, a0, a_row, a_step, b, b0, b_row, length, c, c0, c_row, add, kept):
            tile(a, a0, a_row, group, b, b0, b_row, length, c, c0, c_row, add)

    elif how == "strided":
        tile = simd.make_strided_tile(kind, rows, panels)

        def run(a, a0, a_row, a_step, b, b0, b_row, length, c, c0, c_row, add, kept):
            tile(a, a0, a_row, a_step, b, b0, b_row, length, c, c0, c_row, add)

    else:
        tile = simd.make_strided_tile(kind, rows, panels, cut=True)

        def run(a, a0, a_row, a_step, b, b0, b_row, length, c, c0, c_row, add, kept):
            tile(a, a0, a_row, a_step, b, b0, b_row, length, c, c0, c_row, add, kept)

    return numba.njit(run)


def whole_numbers(kind, rng, shape, left):
    """Small whole numbers, whose sums of products every kind holds exactly."""
    if kind == "int8":
        return rng.integers(*((0, 256) if left else (-128, 128)), shape)
    return rng.integers(-9, 10, shape).astype(np.float64)


def fractions(kind, rng, shape, left):
    """Numbers of this kind's own precision."""
    x = rng.uniform(-1, 1, shape).astype(np.float32)
    return (bfloat16.rounded(x) if kind == "bfloat16" else x).astype(np.float64)


def stored(kind, x, dtype):
    return bfloat16.words(x) if kind == "bfloat16" else x.astype(dtype)


def laid_out(kind, x, a_row, a_step):
    """A left side [rows, K] in memory, from place 3 on: row r's step k at 3 + r * a_row + k * a_step."""
    group, dtype = GROUPS[kind], TYPES[kind][0]
    memory = np.full(8 + x.shape[0] * a_row + x.shape[1] * a_step, 0x7F if kind == "int8" else 0x7FC0).astype(dtype)
    for (row, k), word in np.ndenumerate(stored(kind, x, dtype)):
        memory[3 + row * a_row + k // group * a_step + k % group] = word
    return memory


def panelled(kind, x, panels, spare):
    """A right side [K, N] in memory: panels of [K / group, 16, group], from place 4 on, `spare` numbers between."""
    group, dtype = GROUPS[kind], TYPES[kind][1]
    whole = np.zeros((x.shape[0], 16 * panels), dtype)
    whole[:, : x.shape[1]] = stored(kind, x, dtype)
    if kind != "int8":
        whole[:, x.shape[1] :] = 0x7FC0 if kind == "bfloat16" else np.nan
    parts = whole.reshape(-1, group, panels, 16).transpose(2, 0, 3, 1).reshape(panels, -1)
    memory = np.zeros((panels, parts.shape[1] + spare), dtype)
    memory[:, : parts.shape[1]] = parts
    return np.concatenate([np.zeros(4, dtype), memory.ravel()]), parts.shape[1] + spare


def multiply(kind, rows, panels, how, length, left, right, start, add, turned=False):
    """c and what stands around it after the tile: [rows, columns of c, then 5 that must be untouched]."""
    group, columns = GROUPS[kind], right.shape[1]
    a_row, a_step = (group, group * (rows + 2)) if turned else (length * group + 3, group)
    a, (b, b_row) = laid_out(kind, left, a_row, a_step), panelled(kind, right, panels, 8)
    c = np.full((rows + 2, columns + 5), UNTOUCHED, TYPES[kind][2])
    c[1:-1, :columns] = start if add else 77 if kind == "int8" else np.nan
    run = compiled(kind, rows, panels, how)
    kept = columns - 16 * (panels - 1)
    run(a, 3, a_row, a_step, b, 4, b_row, length, c.reshape(-1), columns + 5, columns + 5, int(add), kept)
    around = c.copy()
    around[1:-1, :columns] = UNTOUCHED
    assert np.all(around == UNTOUCHED)
    return c[1:-1, :columns]


def check(kind, rows, panels, how, length, make, columns=None, turned=False):
    """The tile against NumPy, written and added; whole numbers exactly, others to the rounding of `length` sums."""
    rng, columns = np.random.default_rng(length), columns or 16 * panels
    many = length * GROUPS[kind]
    left, right = make(kind, rng, (rows, many), True), make(kind, rng, (many, columns), False)
    start = whole_numbers(kind, rng, (rows, columns), False)
    for add in (False, True):
        got = multiply(kind, rows, panels, how, length, left, right, start, add, turned)
        expected, size = left @ right + add * start, np.abs(left) @ np.abs(right) + add * np.abs(start)
        if make is whole_numbers:
            np.testing.assert_array_equal(got, expected)
        else:
            assert np.all(np.abs(got - expected) <= 2 * (many + 1) * EPSILON * size)


@kinds
@shapes
def test_a_tile_is_the_matrix_product_and_leaves_the_memory_around_alone(kind, rows, panels):
    for length in LENGTHS:
        check(kind, rows, panels, "plain", length, whole_numbers)
        if kind != "int8":
            check(kind, rows, panels, "plain", length, fractions)


@kinds
@shapes
def test_a_strided_tile_reads_a_left_side_that_lies_by_rows_or_by_columns(kind, rows, panels):
    for length in LENGTHS:
        for turned in (False, True):
            check(kind, rows, panels, "strided", length, whole_numbers, turned=turned)


@kinds
@shapes
def test_a_cut_tile_writes_only_the_columns_that_are_kept(kind, rows, panels):
    """What the right side has beyond them is NaN."""
    for kept in (1, 2, 8, 15, 16):
        check(kind, rows, panels, "cut", 5, whole_numbers, 16 * (panels - 1) + kept, turned=kept % 2 == 0)


# -- scalar functions


@numba.njit
def _each(x, exp, sigmoid, tanh):
    for i in range(x.size):
        exp[i], sigmoid[i], tanh[i] = maths.exp32(x[i]), maths.sigmoid32(x[i]), maths.tanh32(x[i])


@numba.njit
def _narrowed(x, out):
    for i in range(x.size):
        out[i] = maths.to_bf16(x[i])


@numba.njit
def _widened(words, out):
    for i in range(words.size):
        out[i] = maths.from_bf16(words[i])


def each(x):
    """exp32, sigmoid32 and tanh32 of float32 numbers, and the numbers themselves in float64."""
    x = np.asarray(x, np.float32)
    parts = [np.empty_like(x) for _ in range(3)]
    _each(x, *parts)
    return [x.astype(np.float64), *parts]


def narrowed(x):
    out = np.empty(x.size, np.uint32)
    _narrowed(x, out)
    return out


def check_functions(values):
    """Each to the precision its docstring names, where e^x is not cut."""
    x, exp, sigmoid, tanh = each(values)
    inside = (x >= -87) & (x <= 88)
    np.testing.assert_allclose(exp[inside], np.exp(x[inside]), rtol=2e-7)
    np.testing.assert_allclose(sigmoid, 1 / (1 + np.exp(-np.clip(x, -600, 600))), rtol=0, atol=2e-7)
    np.testing.assert_allclose(tanh, np.tanh(x), rtol=0, atol=2e-7)
    assert np.all(exp[x < -87] == exp32_at(-87))
    assert np.all(exp[x > 88] == exp32_at(88))
    assert np.all((sigmoid >= 0) & (sigmoid <= 1) & (np.abs(tanh) <= 1))


@functools.cache
def exp32_at(x):
    return float(each([x])[1][0])


def test_exp_sigmoid_and_tanh_agree_with_float64_over_the_whole_range():
    check_functions(np.linspace(-100, 100, 400_001))
    check_functions(np.linspace(-1, 1, 100_001))
    check_functions(np.geomspace(1e-38, 3e38, 10_001))
    check_functions(-np.geomspace(1e-38, 3e38, 10_001))


@settings(deadline=None)
@given(st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=40))
@example([-87.0, 88.0, -88.5, 89.0, 3.4028234663852886e38, -3.4028234663852886e38])
def test_exp_sigmoid_and_tanh_agree_with_float64_at_any_number(values):
    check_functions(values)


def test_zero_infinity_and_nan_go_where_they_should():
    """Loops of one number and of many, which become vector instructions: nan must not be cut to a bound in either."""
    for many in (1, 67):
        exp, sigmoid, tanh = (
            np.reshape(part, (5, many)).T for part in each(np.repeat([0, -0.0, np.inf, -np.inf, np.nan], many))[1:]
        )
        assert np.all(exp[:, :2] == 1)
        assert np.all(sigmoid[:, :2] == 0.5)
        assert np.all(tanh[:, :2] == 0)
        assert np.all(exp[:, 2] == exp32_at(88))
        assert np.all(exp[:, 3] == exp32_at(-87))
        assert np.all(sigmoid[:, 2] == 1)
        assert np.all((sigmoid[:, 3] >= 0) & (sigmoid[:, 3] < 1e-38))
        assert np.all(tanh[:, 2] == 1)
        assert np.all(tanh[:, 3] == -1)
        assert all(np.all(np.isnan(part[:, 4])) for part in (exp, sigmoid, tanh))


def test_bfloat16_is_rounded_to_the_nearest_with_ties_to_even():
    """Every bfloat16, and below and above each the tie and the float32 numbers on both sides of it."""
    low = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    x = (np.arange(1 << 16, dtype=np.uint32)[:, None] << 16 | low).reshape(-1).view(np.float32)
    x = x[~np.isnan(x)]
    got = narrowed(x)
    theirs = torch.from_numpy(x).to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)
    np.testing.assert_array_equal(got, theirs)
    np.testing.assert_array_equal(got, bfloat16.words(x))


@settings(deadline=None)
@given(st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=40))
def test_any_number_is_rounded_as_torch_rounds_it(values):
    x = np.array(values, np.float32)
    theirs = torch.from_numpy(x).to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)
    np.testing.assert_array_equal(narrowed(x), theirs)


def test_the_nan_that_arithmetic_makes_stays_nan():
    """Processors make 0x7FC00000 with either sign; a nan with other low bits is not promised anything."""
    quiet = np.array([0x7FC00000, 0xFFC00000], np.uint32).view(np.float32)
    assert np.all(np.isnan(bfloat16.numbers(narrowed(quiet))))


def test_every_bfloat16_comes_back_as_the_float32_it_stands_for():
    words = np.arange(1 << 16).astype(np.uint16)
    wide = np.empty(words.size, np.float32)
    _widened(words, wide)
    theirs = torch.from_numpy(words.view(np.int16)).view(torch.bfloat16).float().numpy()
    np.testing.assert_array_equal(wide, theirs)
    whole = ~np.isnan(wide)
    np.testing.assert_array_equal(narrowed(wide)[whole], words[whole])
