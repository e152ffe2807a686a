"""Rows of a series one after another at even steps: what is missing is named, and refused or filled."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from ostinato.core.errors import DataError
from ostinato.text.series import Row
from ostinato.text.times import Clock, Step

MOST = 10_000
"""Steps that are filled in at one place; a longer gap is an error."""


class Even(NamedTuple):
    """A step of a series. values, covariates: to be read, the last ones where they are missing. came: those that are
    not. row: where it stood, "" for a step between rows."""

    time: float
    values: tuple[float, ...]
    came: tuple[bool, ...]
    covariates: tuple[float, ...]
    where: str


@dataclass(frozen=True)
class Evenness:
    """What becomes of values that are missing and of rows that do not come at their time. positive: values must be."""

    clock: Clock
    step: Step
    missing: Literal["refuse", "last"]
    irregular: Literal["refuse", "keep", "fill"]
    positive: bool = False


@dataclass
class Tally:
    """How often something was found, and where first."""

    count: int = 0
    first: str = ""

    def add(self, where: str) -> None:
        """It was found there."""
        self.count += 1
        self.first = self.first or where


@dataclass
class Follower:
    """Follows the rows of one series. last: the step before the next row, None before the first."""

    rule: Evenness
    last: Even | None = None
    filled: Tally = field(default_factory=Tally)  # rows with missing values
    uneven: Tally = field(default_factory=Tally)  # rows that did not come at their time

    def follow(self, row: Row) -> Iterator[Even]:
        """The steps that a row brings: its own, and before it those that are filled in.

        Raises DataError, with file and line, for a time that is not after the last, a value that is missing or not
        allowed, or an irregular step, as the rules say.
        """
        time = row.time
        if self.rule.clock.kind == "row":
            time = 0.0 if self.last is None else self.last.time + 1
        if self.last is not None:
            yield from self._between(self.last, time, row)
        self.last = self._made(time, row)
        yield self.last

    def _between(self, last: Even, time: float, row: Row) -> Iterator[Even]:
        rule, clock = self.rule, self.rule.clock
        if time <= last.time:
            raise DataError(
                f"{row.where}: {_of(row)}the time {row.shown} is not after {clock.show(last.time)}, which came before; "
                "sort the rows, and if there are several series name their column: --data.series NAME"
            )
        steps = rule.step.between(last.time, time)
        if steps == 1:
            return
        self.uneven.add(row.where)
        found = f"{row.where}: {_of(row)}from {clock.show(last.time)} to {row.shown} is not one step of {rule.step}"
        if rule.irregular == "refuse":
            dates = "; digits alone are dates with --data.times date" if clock.kind == "number" else ""
            raise DataError(
                f"{found}; mend the rows, or train with --data.irregular keep to take them as they come, or fill to "
                f"fill in what lies between{dates}"
            )
        if rule.irregular == "fill":
            if steps is None or steps - 1 > MOST:
                why = "no whole number of steps" if steps is None else f"more than {MOST:,} steps"
                raise DataError(f"{found} but {why}, which cannot be filled in; mend the rows, or give them one by one")
            for count in range(1, steps):
                nothing = (False,) * len(last.values)
                self.last = Even(rule.step.after(last.time, count), last.values, nothing, last.covariates, "")
                yield self.last

    def _made(self, time: float, row: Row) -> Even:
        came = tuple(not math.isnan(value) for value in row.values)
        whole = all(came) and not any(map(math.isnan, row.covariates))
        if self.rule.positive and any(value <= 0 for value in row.values):
            raise DataError(f"{row.where}: {_of(row)}{min(row.values):g} has no logarithm; leave model.log out")
        if whole:
            return Even(time, row.values, came, row.covariates, row.where)
        if self.rule.missing == "refuse":
            raise DataError(
                f"{row.where}: {_of(row)}a value is missing; mend the row, or train with --data.missing last to read "
                "the last one again"
            )
        if self.last is None:
            raise DataError(f"{row.where}: {_of(row)}the first row has a missing value; begin with one that is whole")
        self.filled.add(row.where)
        values = _filled(row.values, self.last.values)
        return Even(time, values, came, _filled(row.covariates, self.last.covariates), row.where)


def _filled(numbers: tuple[float, ...], last: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(before if math.isnan(now) else now for now, before in zip(numbers, last, strict=True))


def _of(row: Row) -> str:
    return f"series {row.series!r}: " if row.series else ""
