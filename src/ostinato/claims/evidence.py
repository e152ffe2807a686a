"""What was measured: numbers by seed, and the curves of figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from numpy.typing import NDArray

Axis: TypeAlias = Sequence[float] | NDArray[Any]
Points: TypeAlias = tuple[Axis, Axis]
"""x and y of a curve, equally many."""

DIGITS = 6
"""Significant digits of the points of a curve that are kept."""


@dataclass(frozen=True)
class Finding:
    """What one seed gives: numbers by quantity; curves by figure and name, with the same x for every seed."""

    numbers: Mapping[str, float]
    curves: Mapping[str, Mapping[str, Points]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain values; numbers that are not finite become None."""
        curves = {
            figure: {name: [[plain(value) for value in axis] for axis in points] for name, points in named.items()}
            for figure, named in self.curves.items()
        }
        return {"numbers": {name: plain(value) for name, value in self.numbers.items()}, "curves": curves}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Finding:
        """What `to_json` wrote; None becomes NaN."""
        curves = {
            figure: {name: (numbers(x), numbers(y)) for name, (x, y) in named.items()}
            for figure, named in content["curves"].items()
        }
        return cls({name: number(value) for name, value in content["numbers"].items()}, curves)


class Band(NamedTuple):
    """A curve over all seeds: their mean, least and most at each x; NaN where one of them is not finite."""

    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True)
class Evidence:
    """What all seeds give. numbers: by quantity, one a seed in their order. curves: by figure and name."""

    numbers: Mapping[str, tuple[float, ...]]
    curves: Mapping[str, Mapping[str, Band]]

    @classmethod
    def of(cls, findings: Sequence[Finding]) -> Evidence:
        """The findings of one or more seeds together."""
        first = findings[0]
        numbers = {name: tuple(float(one.numbers[name]) for one in findings) for name in first.numbers}
        curves = {
            figure: {name: band([one.curves[figure][name] for one in findings]) for name in named}
            for figure, named in first.curves.items()
        }
        return cls(numbers, curves)

    def to_json(self) -> dict[str, Any]:
        """Plain values; numbers that are not finite become None."""
        curves = {
            figure: {name: {axis: [plain(v) for v in values] for axis, values in drawn._asdict().items()}
                     for name, drawn in named.items()}
            for figure, named in self.curves.items()
        }  # fmt: skip
        return {"numbers": {name: list(map(plain, values)) for name, values in self.numbers.items()}, "curves": curves}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Evidence:
        """What `to_json` wrote; None becomes NaN."""
        curves = {
            figure: {name: Band(*(tuple(numbers(drawn[axis])) for axis in Band._fields))
                     for name, drawn in named.items()}
            for figure, named in content["curves"].items()
        }  # fmt: skip
        return cls({name: tuple(numbers(values)) for name, values in content["numbers"].items()}, curves)


def band(drawn: Sequence[Points]) -> Band:
    """Curves over the same x as one, rounded to `DIGITS`."""
    xs = tuple(map(float, drawn[0][0]))
    assert all(tuple(map(float, x)) == xs and len(x) == len(y) for x, y in drawn), "curves of seeds differ in x"
    columns = list(zip(*(y for _, y in drawn), strict=True))
    whole = [column if all(map(math.isfinite, column)) else (math.nan,) for column in columns]
    middle = (sum(column) / len(column) for column in whole)
    return Band(xs, *(tuple(map(rounded, axis)) for axis in (middle, map(min, whole), map(max, whole))))


def rounded(value: float) -> float:
    """A number to `DIGITS` significant digits."""
    return float(f"{value:.{DIGITS}g}")


def plain(value: float) -> float | None:
    """A number as JSON takes it."""
    return float(value) if math.isfinite(value) else None


def number(value: float | None) -> float:
    """A number of JSON; NaN for null."""
    return math.nan if value is None else float(value)


def numbers(values: Sequence[float | None]) -> list[float]:
    """`number` of each."""
    return [number(value) for value in values]
