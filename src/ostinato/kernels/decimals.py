"""Kernels that read decimals as float32, and print float32 with the fewest digits that name it.

Both work in float64, whose error is bounded, and give up where that error could matter; the caller then asks
Python, which happens about once in a million numbers. The slow twins are `numpy.float32(float(text))` and
`str(numpy.float32(value))`.
"""

from __future__ import annotations

import numba
import numpy as np

from ostinato.kernels.arpa import BLANK, EXPONENT, FOURS, LINE_END, MINUS, PLUS, POINT, RETURN, TAB, ZERO, move

SURE, UNSURE, NO_NUMBER = range(3)
"""A number was read; it must be asked for; there is none."""

EXACT = 22
"""The highest power of ten that float64 holds exactly."""
TENS = np.array([float(f"1e{power}") for power in range(65)])
FIGURES = 19
"""Figures that always fit into 64 bits."""
LEAST, MOST = -64, 38
"""Powers of ten of the last figure that are read here; below, numbers of 19 figures are 0 in float32."""
SLACK = 2.0**-50
"""Above the relative error of three roundings to float64, 3 * 2**-53."""

STEPS = 10.0 ** np.arange(9)
PARTS = np.array([float(f"1e-{power}") for power in range(9)])
MARGIN = 1e-6
"""Above the error of a number of nine digits before the point after three roundings, 1e9 * 3 * 2**-53."""
HALVES = np.array([2.0 ** (max(exponent, 1) - 151) for exponent in range(256)])
"""Half the distance to the next float32, by the exponent's bits."""
DECADES = np.array([int(np.floor(np.log10(2.0 ** (exponent - 127)))) if exponent else -45 for exponent in range(256)])
"""The power of ten at or below the least float32 with those bits of exponent."""
PRINTED = 20
"""More bytes than a printed number takes, a blank before it included; PAD more may be touched."""
ABOVE = np.array([float(f"1e{power}") for power in range(-45, 40)])
"""The power of ten above a decade, from -46 on."""
FRACTION = np.frombuffer(b"0.00000000000000", np.uint8)
LEAST_PLAIN, MOST_PLAIN = 1e-4, 1e6
"""Numbers from here to before there are printed without an exponent."""


@numba.njit(cache=True, nogil=True, inline="always")
def is_end(byte):
    """Whether no number goes on at this byte."""
    return byte in (BLANK, LINE_END, TAB, RETURN)


@numba.njit(cache=True, nogil=True, inline="always")
def skip_blanks(data, at):
    """The first place from `at` on that holds no blank, tab or carriage return."""
    while data[at] == BLANK or data[at] == TAB or data[at] == RETURN:
        at += 1
    return at


@numba.njit(cache=True, nogil=True)
def count_figures(data, begin, end):
    """How many figures data[begin:end] has, without the zeros before the first other one."""
    count = 0
    for at in range(begin, end):
        count += data[at] != POINT and (count > 0 or data[at] != ZERO)
    return count


@numba.njit(cache=True, nogil=True)
def read_exponent(data, at):
    """The integer at `at` and the place after it; without figures the place is where no number can end."""
    negative = data[at] == MINUS
    if negative or data[at] == PLUS:
        at += 1
    power, begin = 0, at
    while ZERO <= data[at] <= ZERO + 9:
        power = min(10 * power + int(data[at]) - ZERO, 9999)
        at += 1
    return (-power if negative else power), (at if at > begin else begin - 1)


@numba.njit(cache=True, nogil=True, inline="always")
def read_figures(data, at, digits):
    """`digits` with the figures at `at` behind them, and the place after those."""
    figure = np.uint8(data[at] - ZERO)
    while figure <= 9:
        digits = digits * np.uint64(10) + np.uint64(figure)
        at += 1
        figure = np.uint8(data[at] - ZERO)
    return digits, at


@numba.njit(cache=True, nogil=True, error_model="numpy", inline="always")
def read_float32(data, at):
    """The number at `at`, the place after it, and whether that is SURE, UNSURE or NO_NUMBER.

    A line end must follow somewhere. The sign, a point and an exponent may be missing. Rounded as
    `numpy.float32(float(text))`: first to float64, then to float32.
    """
    negative = data[at] == MINUS
    if negative or data[at] == PLUS:
        at += 1
    begin, digits, power = at, np.uint64(0), 0
    digits, at = read_figures(data, at, digits)
    point = data[at] == POINT
    if point:
        first = at + 1
        digits, at = read_figures(data, first, digits)
        power = first - at
    figures = at - begin - point
    sure = figures <= FIGURES or count_figures(data, begin, at) <= FIGURES
    if data[at] | 32 == EXPONENT and figures > 0:
        shift, at = read_exponent(data, at + 1)
        power += shift
    if figures == 0 or not is_end(data[at]):
        return np.float32(0.0), at, NO_NUMBER
    value, state = np.float32(0.0), SURE
    if not sure or power > MOST:
        state = UNSURE if digits != 0 or not sure else SURE
    elif power >= LEAST:
        near = np.float64(digits)
        near = near / TENS[-power] if power < 0 else near * TENS[power]
        value = np.float32(near)
        rounded = digits >= np.uint64(1 << 53) or power > EXACT or power < -EXACT
        if rounded and np.float32(near * (1.0 - SLACK)) != np.float32(near * (1.0 + SLACK)):
            state = UNSURE
    return -value if negative else value, at, state


@numba.njit(cache=True, nogil=True, inline="always")
def rounded(scaled, power):
    """The multiple of 10 ** power nearest to a number, and how far it is."""
    found = np.floor(scaled * PARTS[power] + 0.5) * STEPS[power]
    return found, abs(found - scaled)


@numba.njit(cache=True, nogil=True, inline="always")
def shortest(scaled, half, even):
    """The multiple of the highest power of ten that rounds to `scaled`, nine digits before the point; and that power.

    half: the distance to where the next float32 begins; even: whether it may be half of that downwards.
    The power is -1 where float64 cannot tell. Where a power is too high, all above are. The first two tries are
    made without a branch, which could not be foretold.
    """
    inside, outside = (half * 0.5 if even else half) - MARGIN, half + MARGIN
    power = np.int64(inside > 5.0) + np.int64(inside > 50.0)  # half of it fits in, so a multiple does
    best, gap = rounded(scaled, power)
    once, away = rounded(scaled, power + 1)
    twice, farther = rounded(scaled, power + 2)
    if (inside <= away) & (away <= outside) | (inside <= farther) & (farther <= outside):
        return best, -1
    best, gap = (once, away) if away < inside else (best, gap)
    best, gap = (twice, farther) if farther < inside else (best, gap)
    power += np.int64(away < inside) + np.int64(farther < inside)
    if farther < inside:
        while power < 8:
            once, away = rounded(scaled, power + 1)
            if away > outside:
                break
            if away >= inside:
                return best, -1
            best, gap, power = once, away, power + 1
    return best, (-1 if 0.5 * STEPS[power] - gap < MARGIN else power)  # -1: as near to another


@numba.njit(cache=True, nogil=True, inline="always")
def put_digits(out, at, digits):
    """Write nine digits at out[at]."""
    whole, part = np.uint64(digits), np.uint64(10_000)
    high = whole // part
    top = high // part
    out[at] = np.uint8(np.uint64(ZERO) + top)
    move(out, at + 1, FOURS, np.int64((high - top * part) << np.uint64(2)), 4)
    move(out, at + 5, FOURS, np.int64((whole - high * part) << np.uint64(2)), 4)


@numba.njit(cache=True, nogil=True, error_model="numpy", inline="always")
def put_float32(out, at, value, bits):
    """Write a finite float32, whose bits are given too, at out[at]; the place after it, -1 if float64 cannot tell."""
    out[at] = MINUS
    at += np.int64(bits >> np.uint32(31))
    bits &= np.uint32(0x7FFFFFFF)
    if bits == 0:
        out[at], out[at + 1], out[at + 2] = ZERO, POINT, ZERO
        return at + 3
    size = np.float64(abs(value))
    exponent = np.int64(bits >> np.uint32(23))
    decade = DECADES[exponent]
    decade += np.int64(size >= ABOVE[decade + 46])
    while exponent == 0 and size >= ABOVE[decade + 46]:
        decade += 1
    power = 8 - decade
    half = HALVES[exponent]
    if power >= 0:
        scaled, half = size * TENS[power], half * TENS[power]
    else:
        scaled, half = size / TENS[-power], half / TENS[-power]
    found, cut = shortest(scaled, half, bits & np.uint32(0x7FFFFF) == 0 and exponent > 1)
    if cut < 0:
        return -1
    digits, kept = np.int64(found), 9 - cut
    if digits >= 1_000_000_000:
        digits, kept, decade = np.int64(100_000_000), 1, decade + 1
    return put_decimal(out, at, digits, kept, decade, LEAST_PLAIN <= size < MOST_PLAIN)


@numba.njit(cache=True, nogil=True, inline="always")
def put_decimal(out, at, digits, kept, decade, plain):
    """Write the first `kept` of nine digits at out[at], the first of them worth 10 ** decade, with one after the point.

    plain: without an exponent; the decade then lies between -5 and 7.
    """
    if plain and decade < 0:
        move(out, at, FRACTION, 0, 8)
        put_digits(out, at + 1 - decade, digits)
        return at + 1 - decade + kept
    whole = decade + 1 if plain else 1
    put_digits(out, at + 1, digits)
    for place in range(at, at + whole):
        out[place] = out[place + 1]
    out[at + whole] = POINT
    if plain:
        return at + 1 + max(kept, whole + 1)
    at += kept + 1 if kept > 1 else 1
    out[at] = EXPONENT
    out[at + 1] = MINUS if decade < 0 else PLUS
    out[at + 2] = ZERO + abs(decade) // 10
    out[at + 3] = ZERO + abs(decade) % 10
    return at + 4
