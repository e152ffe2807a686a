"""Decimals are read and printed exactly: against Python's float and NumPy's float32."""

from __future__ import annotations

import math
from decimal import Decimal, getcontext
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ostinato.core.errors import DataError
from ostinato.embed.word2vec_text import NUMBER, parse_lines, print_lines

LARGEST = float(np.finfo(np.float32).max)
getcontext().prec = 200


def read(texts: list[str]) -> NDArray[np.float32]:
    """The numbers of one line."""
    return parse_lines(Path("x"), f"w {' '.join(texts)}\n".encode(), 1, len(texts), "strict").values[0]


def printed(values: NDArray[np.float32]) -> list[str]:
    """The numbers of one line as they are printed."""
    return bytes(print_lines(["w"], values.reshape(1, -1))).decode().split()[1:]


def slowly(text: str) -> np.float32:
    with np.errstate(over="ignore"):
        return np.float32(float(text))


def agrees(text: str) -> bool:
    """Whether a text is read as Python reads it, and refused where float32 cannot hold it."""
    wanted = slowly(text)
    if math.isinf(wanted):
        with pytest.raises(DataError, match="too large for float32"):
            read([text])
        return True
    return bool(read([text]).view(np.uint32)[0] == wanted.view(np.uint32))


floats = st.integers(0, 2**32 - 1).map(lambda bits: np.uint32(bits).view(np.float32)).filter(np.isfinite)
formats = st.sampled_from(["{:.9g}", "{:.17g}", "{:.6f}", "{:.8e}", "{!r}", "{:.30f}", "{:+.3E}", "{:.0f}."])


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(-LARGEST, LARGEST) | floats.map(float), formats), min_size=1, max_size=20))
def test_printed_floats_are_read_as_python_reads_them(cases: list[tuple[float, str]]) -> None:
    texts = [form.format(value) for value, form in cases]
    texts = [text for text in texts if math.isfinite(slowly(text))] or ["0"]
    np.testing.assert_array_equal(read(texts).view(np.uint32), np.array([*map(slowly, texts)]).view(np.uint32))


@settings(deadline=None)
@given(st.from_regex(NUMBER.pattern.decode(), fullmatch=True, alphabet="0123456789.eE+-"))
@example("1e400")
@example("-1e-400")
@example("0e99999999999999999999")
@example("0." + "0" * 400 + "1e401")
@example("1" + "0" * 60 + "e-60")
@example("340282356779733661637539395458142568447.9")  # a little below what rounds to infinity
@example("340282356779733661637539395458142568448")  # rounds to infinity
@example("7.006492321624085354618647916449580656401309709382578858785341419448955413429303e-46")  # half the least
@example("18446744073709551616")  # 2**64
@example("9999999999999999999")
@example("00000000000000000000000000.12345678901234567890")
def test_any_decimal_is_read_as_python_reads_it(text: str) -> None:
    assert agrees(text)


@settings(deadline=None)
@given(floats, st.sampled_from(["", "0000001", "9"]), st.booleans())
def test_what_lies_between_two_floats_is_rounded_to_the_right_one(value: np.float32, tail: str, below: bool) -> None:
    with np.errstate(over="ignore"):
        other = np.nextafter(value, np.float32(-np.inf if below else np.inf))
    if not np.isfinite(other):
        return
    middle = format((Decimal(float(value)) + Decimal(float(other))) / 2, "f")
    assert agrees((middle if "." in middle else middle + ".") + tail)


@pytest.mark.parametrize("figures", [15, 16, 17, 18, 19])
def test_decimals_next_to_the_middle_of_two_floats_are_rounded_twice_as_python_does(figures: int) -> None:
    """Here the float64 that a decimal rounds to decides, so an error in its last bit would show."""
    bits = np.random.default_rng(figures).integers(1, 0x7F7F0000, 20_000, np.uint32)
    below, above = bits.view(np.float32), (bits + np.uint32(1)).view(np.float32)
    middles = (below.astype(np.float64) + above) / 2
    texts = [f"{middle:.{figures - 1}e}" for middle in middles.tolist()]
    wanted = np.array([slowly(text) for text in texts])
    np.testing.assert_array_equal(read(texts).view(np.uint32), wanted.view(np.uint32))


@settings(deadline=None)
@given(st.lists(floats, min_size=1, max_size=30))
@example([np.uint32(bits).view(np.float32) for bits in (1, 7, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0x80000000)])
@example([np.float32(2.0**power) for power in range(-149, 128)])
@example([np.float32(number / 128) for number in range(150_000, 150_300)])
@example([np.float32(number) for number in range(16_777_000, 16_777_300)])
@example([np.float32(float(f"1e{power}")) for power in range(-45, 39)])
def test_a_number_is_printed_with_the_digits_of_numpy_and_read_back_to_the_bit(numbers: list[np.float32]) -> None:
    values = np.array(numbers, np.float32)
    texts = printed(values)
    assert [Decimal(text) for text in texts] == [Decimal(str(value)) for value in values]
    np.testing.assert_array_equal(read(texts).view(np.uint32), values.view(np.uint32))


def test_many_numbers_of_usual_size_are_printed_byte_for_byte_as_numpy_prints_them() -> None:
    values = np.random.default_rng(5).normal(0, 0.3, 50_000).astype(np.float32)
    assert printed(values) == [str(value) for value in values]


def test_numbers_look_as_people_write_them() -> None:
    values = np.array([0, -0.0, 1, -0.1, 0.00012, 1.5e-5, 123456.7, 2e6, 1e-45, 3e38], np.float32)
    wanted = ["0.0", "-0.0", "1.0", "-0.1", "0.00012", "1.5e-05", "123456.7", "2e+06", "1e-45", "3e+38"]
    assert printed(values) == wanted


@pytest.mark.parametrize("text", ["", ".", "-", "+", "1e", "1e+", "1.2.3", "0x1", "1_0", "--1", "1,5", "e5", "١"])
def test_what_is_no_number_is_said(text: str) -> None:
    with pytest.raises(DataError, match=r"^x:1: "):
        read([text, "1"])
