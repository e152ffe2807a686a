"""Times of a series as numbers: ISO dates, plain numbers, counted rows; the step between them, the calendar.

A date is kept as seconds since 1970 without a time zone; one that names its offset is turned into UTC. A step is a
number of seconds, of months (which differ in length), or a plain difference.

>>> clock = found_clock("1949-01")
>>> step = Step(1, "months")
>>> clock.show(step.after(clock.parse("1949-12"), 2))
'1950-02'
"""

from __future__ import annotations

import math
import re
from calendar import monthrange
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import DataError

Numbers: TypeAlias = NDArray[np.float64]
Cycle: TypeAlias = Literal["hour", "weekday", "yearday", "month"]

CYCLES: dict[Cycle, float] = {"hour": 86400.0, "weekday": 604800.0, "yearday": 31556952.0, "month": 31556952.0}
"""The cycles of the calendar, and how many seconds each takes."""

DAY, MONTH = 86400.0, 28 * 86400.0
SEASONS = {3600.0: 24, DAY: 7, 7 * DAY: 52}
"""How many steps of so many seconds a season has unless something else is said."""

MONTHLY = {1: 12, 2: 6, 3: 4, 4: 3, 6: 2}

_EPOCH = datetime(1970, 1, 1)
_DATE = re.compile(
    r"(\d{4})([-/]?)(\d\d)(?:\2(\d\d))?(?:([T ])(\d\d):(\d\d)(?::(\d\d(?:\.\d{1,6})?))?)?\s?(Z|[+-]\d\d:?\d\d)?"
)


@dataclass(frozen=True)
class Clock:
    """How a column writes times.

    kind: `date`, `number`, or `row` where there is no such column and rows are counted. style: how a date is written,
    for strftime; empty otherwise.
    """

    kind: Literal["date", "number", "row"]
    style: str = ""

    def parse(self, text: str) -> float:
        """The time as a number. Raises ValueError, saying what was expected."""
        if self.kind == "number":
            time = float(text)
            if not math.isfinite(time):
                raise ValueError(f"{text!r} is not a finite number")
            return time
        found = _date(text)
        if found is None:
            raise ValueError(f"{text!r} is not a date like 2010-01-31 or 2010-01-31T06:00")
        time, style = found
        if style.endswith("Z") != self.style.endswith("Z"):
            raise ValueError(f"{text!r}: some times name their offset from UTC and others do not")
        return time

    def show(self, time: float) -> str:
        """The time as the column would write it; finer if that would lose something."""
        if self.kind != "date":
            return f"{time:.15g}"
        moment = _EPOCH + timedelta(seconds=time)
        text = moment.strftime(self.style).replace("Y", f"{moment.year:04d}")
        return (
            text
            if _date(text) == (time, self.style)
            else moment.isoformat(" ") + ("Z" if self.style.endswith("Z") else "")
        )


def found_clock(text: str, dated: bool = False) -> Clock | None:
    """The clock of a column that begins with `text`, None if that is no time; dated: digits alone are a date too."""
    found = _date(text)
    if found is not None and (dated or not text.strip().isdecimal()):
        return Clock("date", found[1])
    try:
        return None if dated or not math.isfinite(float(text)) else Clock("number")
    except ValueError:
        return None


def _date(text: str) -> tuple[float, str] | None:
    """Seconds since 1970 and how they are written; `Y` stands for the year, which strftime writes without zeros."""
    parts = _DATE.fullmatch(text.strip())
    if parts is None or (parts[4] is None and parts[5]) or (parts[4] is None and not parts[2]):
        return None
    year, mark, month, day, between, hour, minute, second, offset = parts.groups()
    try:
        whole, fraction = divmod(float(second or 0), 1)
        moment = datetime(int(year), int(month), int(day or 1), int(hour or 0), int(minute or 0), int(whole))
    except ValueError:
        return None
    style = f"Y{mark}%m" + (f"{mark}%d" if day else "")
    style += (f"{between}%H:%M" + (":%S" if second else "")) if between else ""
    return (moment - _EPOCH).total_seconds() + fraction - _offset(offset), style + ("Z" if offset else "")


def _offset(text: str | None) -> float:
    """Seconds that an offset such as +02:00 lies before UTC."""
    if text in (None, "Z"):
        return 0.0
    assert text is not None
    digits = text[1:].replace(":", "")
    seconds = 60.0 * (60 * int(digits[:2]) + int(digits[2:]))
    return -seconds if text[0] == "-" else seconds


@dataclass(frozen=True)
class Step:
    """How far two times that follow each other lie apart.

    unit: `seconds`, `months`, or `number` of a plain difference. ends: times stand on the last day of their month.
    """

    size: float
    unit: Literal["seconds", "months", "number"]
    ends: bool = False

    def after(self, time: float, count: int = 1) -> float:
        """The time so many steps later."""
        if self.unit != "months":
            return time + count * self.size
        moment = _EPOCH + timedelta(seconds=time)
        months = 12 * moment.year + moment.month - 1 + round(count * self.size)
        year, month = divmod(months, 12)
        last = monthrange(year, month + 1)[1]
        day = last if self.ends else min(moment.day, last)
        return (moment.replace(year=year, month=month + 1, day=day) - _EPOCH).total_seconds()

    def all_after(self, times: Numbers, count: int = 1) -> Numbers:
        """The times [...] so many steps after `times` [...]."""
        if self.unit != "months":
            return times + count * self.size
        return np.array([self.after(float(time), count) for time in times.flat]).reshape(times.shape)

    def between(self, first: float, second: float) -> int | None:
        """Steps from the first time to the second, None if they are no whole number."""
        if self.unit == "months":
            count = round(float(_months(np.array([second]))[0] - _months(np.array([first]))[0]) / self.size)
            return count if abs(self.after(first, count) - second) < 1 else None
        share = (second - first) / self.size
        count = round(share)
        return count if abs(share - count) < 1e-3 else None

    @property
    def season(self) -> int:
        """Steps of the season that such a step suggests; 1 if none."""
        if self.unit == "months":
            return MONTHLY.get(round(self.size), 1)
        if self.unit == "number":
            return 1
        if self.size < DAY and DAY % self.size == 0:
            return round(DAY / self.size)
        return SEASONS.get(self.size, 1)

    @property
    def seconds(self) -> float:
        """About how long it takes; of plain numbers, which have no calendar, infinite."""
        return {"seconds": self.size, "months": self.size * MONTH, "number": math.inf}[self.unit]

    def __str__(self) -> str:
        if self.unit == "number":
            return f"{self.size:g}"
        if self.unit == "months":
            return f"{self.size:g} month{'s' if self.size > 1 else ''}"
        for name, seconds in (("day", DAY), ("hour", 3600.0), ("minute", 60.0), ("second", 1.0)):
            if self.size % seconds == 0:
                return f"{self.size / seconds:g} {name}{'s' if self.size > seconds else ''}"
        return f"{self.size:g} seconds"


def found_step(series: Iterable[Numbers], clock: Clock) -> Step:
    """The commonest step between the times [N] of some series. Raises DataError if no series has two times."""
    times = [part for part in series if len(part) > 1]
    if not times:
        raise DataError("no series has two rows, so there is no step between them; give more rows")
    size, agree = _commonest(np.concatenate([np.diff(part) for part in times]))
    if clock.kind != "date":
        return Step(size, "number")
    months, agree_months = _commonest(np.concatenate([np.diff(_months(part)) for part in times]))
    if months < 1 or agree_months < agree:
        return Step(size, "seconds")
    last = [_EPOCH + timedelta(seconds=float(time)) for part in times for time in part]
    return Step(months, "months", ends=all(moment.day == monthrange(moment.year, moment.month)[1] for moment in last))


def _commonest(values: Numbers) -> tuple[float, int]:
    found, counts = np.unique(np.round(values, 6), return_counts=True)
    return float(found[counts.argmax()]), int(counts.max())


def _months(times: Numbers) -> Numbers:
    return _moments(times).astype("datetime64[M]").astype(np.float64)


def _moments(times: Numbers) -> NDArray[np.datetime64]:
    return np.floor(times).astype("datetime64[s]")


def calendar(times: Numbers, cycles: Sequence[Cycle]) -> NDArray[np.float32]:
    """Sine and cosine [..., 2 x cycles] of where times [...] of a date lie in each cycle."""
    moments = _moments(times)
    day, year = moments.astype("datetime64[D]"), moments.astype("datetime64[Y]")
    begin, end = year.astype("datetime64[s]"), (year + 1).astype("datetime64[s]")
    shares = {
        "hour": np.mod(times, DAY) / DAY,
        "weekday": np.mod(day.astype(np.int64) + 3, 7) / 7,  # 1970 began on a Thursday; Monday is 0
        "yearday": (moments - begin) / (end - begin),
        "month": np.mod(moments.astype("datetime64[M]").astype(np.int64), 12) / 12,
    }
    angles = [2 * np.pi * shares[cycle] for cycle in cycles]
    waves = [wave(angle) for angle in angles for wave in (np.sin, np.cos)]
    return np.stack(waves, -1).astype(np.float32) if waves else np.zeros((*times.shape, 0), np.float32)


def found_cycles(step: Step, span: float) -> tuple[Cycle, ...]:
    """The cycles of the calendar that such a step resolves, and that `span` seconds of training saw twice."""
    if step.unit == "number":
        return ()
    yearly: Cycle = "yearday" if step.seconds < MONTH else "month"
    every: tuple[Cycle, ...] = ("hour", "weekday", yearly)
    return tuple(cycle for cycle in every if 2 * step.seconds <= CYCLES[cycle] and span >= 2 * CYCLES[cycle])
