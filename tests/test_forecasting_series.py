"""Tables of series: columns found, rows read as they come, times, steps, the calendar, what is missing."""

from __future__ import annotations

import importlib
import io
import math
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.core.errors import ConfigError, DataError
from ostinato.tasks.forecasting.rows import Evenness, Follower
from ostinato.text.series import Columns, Row, Table, Wanted, found_columns, rows_of
from ostinato.text.times import CYCLES, Clock, Step, calendar, found_clock, found_cycles, found_step


def read(path: Path, wanted: Wanted = Wanted()) -> tuple[Columns, list[Row]]:  # noqa: B008, frozen
    table = Table(str(path))
    columns = found_columns(table, wanted)
    return columns, list(rows_of(table, columns))


def seconds(*date: int) -> float:
    return (datetime(*date) - datetime(1970, 1, 1)).total_seconds()  # type: ignore[arg-type]


@given(st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)), st.sampled_from(["%Y-%m-%d", "%Y/%m/%d %H:%M", "T"]))
def test_a_date_is_shown_as_it_was_written(moment: datetime, style: str) -> None:
    moment = moment.replace(microsecond=0, second=0)
    if style == "%Y-%m-%d":
        moment = moment.replace(hour=0, minute=0)
    text = moment.isoformat() if style == "T" else moment.strftime(style).zfill(len(moment.strftime(style)))
    year = f"{moment.year:04d}"
    text = year + text[text.index("-" if "-" in text else "/") :]
    clock = found_clock(text)
    assert clock is not None
    assert clock.parse(text) == (moment - datetime(1970, 1, 1)).total_seconds()
    assert clock.show(clock.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("1949-01", seconds(1949, 1, 1)),
        ("2010/01/31", seconds(2010, 1, 31)),
        ("2010-01-31T06:05:04.5", seconds(2010, 1, 31, 6, 5, 4) + 0.5),
        ("2010-01-31 06:05Z", seconds(2010, 1, 31, 6, 5)),
        ("2010-01-31 06:05+02:00", seconds(2010, 1, 31, 4, 5)),
        ("2010-01-31T06:05-0130", seconds(2010, 1, 31, 7, 35)),
    ],
)
def test_dates_are_seconds_since_1970_in_utc(text: str, time: float) -> None:
    clock = found_clock(text)
    assert clock is not None
    assert clock.kind == "date"
    assert clock.parse(text) == time


@pytest.mark.parametrize("text", ["1-01", "2010-13-01", "2010-02-30", "Jan-1-1995", "", "2010-1-1", "x", "inf", "nan"])
def test_what_is_neither_a_date_nor_a_number_is_no_time(text: str) -> None:
    assert found_clock(text) is None


def test_digits_alone_are_a_number_unless_they_are_said_to_be_dates() -> None:
    assert found_clock("19580329") == Clock("number")
    dated = found_clock("19580329", dated=True)
    assert dated is not None
    assert dated.parse("19580329") == seconds(1958, 3, 29)
    assert dated.show(seconds(1958, 3, 30)) == "19580330"


def test_offsets_from_utc_are_named_by_all_times_or_none() -> None:
    clock = found_clock("2010-01-31 06:05")
    assert clock is not None
    with pytest.raises(ValueError, match="some times name their offset"):
        clock.parse("2010-01-31 06:05Z")


def test_steps_are_found_from_what_most_times_do() -> None:
    days = np.arange(30) * 86400.0
    assert found_step([np.delete(days, [7, 8])], Clock("date")) == Step(86400, "seconds")
    months = np.array([seconds(year, month, 1) for year in (2019, 2020) for month in range(1, 13)])
    assert found_step([months], Clock("date")) == Step(1, "months")
    assert found_step([months[::3]], Clock("date")) == Step(3, "months")
    assert found_step([months[::12]], Clock("date")) == Step(12, "months")
    ends = np.array([seconds(2019, month + 1, 1) - 86400 for month in range(1, 12)])
    assert found_step([ends], Clock("date")) == Step(1, "months", ends=True)
    assert found_step([np.array([0.0]), np.array([1.0, 1.5, 2.0])], Clock("number")) == Step(0.5, "number")
    with pytest.raises(DataError, match="no series has two rows"):
        found_step([np.array([1.0])], Clock("date"))


# by hand: 2020 is a leap year; after the last day of January comes the last of February
def test_months_are_added_in_the_calendar() -> None:
    ends, firsts = Step(1, "months", ends=True), Step(1, "months")
    assert ends.after(seconds(2020, 1, 31), 1) == seconds(2020, 2, 29)
    assert ends.after(seconds(2020, 2, 29), 2) == seconds(2020, 4, 30)
    assert firsts.after(seconds(2019, 12, 15, 6), 2) == seconds(2020, 2, 15, 6)
    assert firsts.between(seconds(2019, 11, 1), seconds(2020, 2, 1)) == 3
    assert firsts.between(seconds(2019, 11, 1), seconds(2020, 2, 2)) is None
    assert Step(3600, "seconds").between(0.0, 7200.0) == 2
    assert Step(3600, "seconds").between(0.0, 5400.0) is None
    times = np.array([seconds(2020, 1, 31), seconds(2020, 11, 30)])
    np.testing.assert_array_equal(ends.all_after(times, 3), [ends.after(time, 3) for time in times])


def test_a_step_suggests_its_season() -> None:
    assert [Step(size, "months").season for size in (1, 3, 12)] == [12, 4, 1]
    assert [Step(size, "seconds").season for size in (900.0, 3600.0, 86400.0, 7 * 86400.0, 5e6)] == [96, 24, 7, 52, 1]
    assert Step(1, "number").season == 1
    assert list(map(str, (Step(1, "months"), Step(2, "months"), Step(1800, "seconds"), Step(0.5, "number")))) == [
        "1 month",
        "2 months",
        "30 minutes",
        "0.5",
    ]


# by hand: 2024-02-26 was a Monday; 1 July 2023 is day 181 of 365 (from 0)
def test_the_calendar_is_where_a_time_lies_in_its_cycles() -> None:
    monday = calendar(np.array([seconds(2024, 2, 26, 6)]), ["weekday", "hour"])[0]
    np.testing.assert_allclose(monday, [0, 1, 1, 0], atol=1e-6)  # a quarter of the day: sine 1
    thursday = calendar(np.array([seconds(2024, 2, 29, 12)]), ["weekday", "hour", "month"])[0]
    angle = 2 * math.pi * 3 / 7
    np.testing.assert_allclose(thursday[:4], [math.sin(angle), math.cos(angle), 0, -1], atol=1e-6)
    np.testing.assert_allclose(thursday[4:], [math.sin(math.pi / 6), math.cos(math.pi / 6)], atol=1e-6)
    july = calendar(np.array([seconds(2023, 7, 1)]), ["yearday"])[0]
    np.testing.assert_allclose(july, [math.sin(2 * math.pi * 181 / 365), math.cos(2 * math.pi * 181 / 365)], atol=1e-6)
    assert calendar(np.zeros((2, 3)), []).shape == (2, 3, 0)


def test_cycles_are_read_that_the_step_resolves_and_training_saw_twice() -> None:
    year = CYCLES["yearday"]
    assert found_cycles(Step(3600, "seconds"), 0.9 * year) == ("hour", "weekday")
    assert found_cycles(Step(86400, "seconds"), 9 * year) == ("weekday", "yearday")
    assert found_cycles(Step(1, "months"), 9 * year) == ("month",)
    assert found_cycles(Step(1, "number"), 9 * year) == ()


def test_columns_are_found_by_what_stands_in_them(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text('\ufeffplace;"the time";level;note\na;2010-01-01 00:00;1.5;x\n\nb;2010-01-01 01:00;NA;y\n')
    columns, rows = read(path, Wanted(series="place"))
    assert (columns.time, columns.values, columns.series) == ("the time", ("level",), "place")
    assert [row.series for row in rows] == ["a", "b"]
    assert rows[0].values == (1.5,)
    assert math.isnan(rows[1].values[0])
    assert rows[1].where == f"{path}:4"
    assert rows[1].time - rows[0].time == 3600


def test_a_table_without_names_has_numbers_for_them(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("2010-01-01,1,2\n2010-01-02,3,4\n")
    columns, rows = read(path, Wanted(values=("2",)))
    assert (columns.time, columns.values) == ("0", ("2",))
    assert [row.values for row in rows] == [(2.0,), (4.0,)]
    path.write_text("year\tx\n1871\t1120\n")
    assert read(path)[0].time == "year"
    path.write_text("x\n1\n2\n")
    columns, rows = read(path)
    assert columns.clock.kind == "row"
    assert math.isnan(rows[0].time)


def test_the_columns_of_another_file_may_stand_in_another_order(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("t,x,y\n1,2,3\n")
    columns, _ = read(tmp_path / "a", Wanted(time="t"))
    (tmp_path / "b").write_text("y,z,t,x\n3,9,1,2\n")
    (tmp_path / "c").write_text("1,2,3\n")
    for name in ("b", "c"):
        (row,) = rows_of(Table(str(tmp_path / name)), columns)
        assert (row.time, row.values) == (1.0, (2.0, 3.0))
    (tmp_path / "d").write_text("t,x,z\n1,2,3\n")
    with pytest.raises(DataError, match="no column 'y', which the run was trained with; the columns are t, x, z"):
        list(rows_of(Table(str(tmp_path / "d")), columns))
    (tmp_path / "e").write_text("1,2\n")
    with pytest.raises(DataError, match="e:1: 2 columns, expected 3 or more, as t, x, y"):
        list(rows_of(Table(str(tmp_path / "e")), columns))
    (tmp_path / "f").write_text("t,x,y\n1,2,3\n2,3,4,5\n")
    with pytest.raises(DataError, match="f:3: 4 columns, the first row has 3"):
        list(rows_of(Table(str(tmp_path / "f")), columns))


@pytest.mark.parametrize(
    ("text", "wanted", "message"),
    [
        ("", Wanted(), "empty"),
        ("t,x\n", Wanted(), "names of columns and no rows"),
        ("t,t\n1,2\n", Wanted(), "2 columns are named 't'"),
        ("t,x\n1,a\n", Wanted(time="t"), "no column of numbers is left"),
        ("t,x\n1,2\n", Wanted(time="t", values=("t",)), "column 't' has two parts to play"),
        ("t,x\n1,2\n", Wanted(values=("X",)), "unknown column 'X'"),
        ("t,x\nsoon,2\n", Wanted(time="t"), "begins with 'soon', which is neither"),
        ("t,x\n1,2\n2,b\n", Wanted(time="t"), "table:3: x: 'b' is not a number"),
        ("t,x\n1,2\n2,inf\n", Wanted(time="t"), "table:3: x: 'inf' is not finite"),
        ("t,x\n1,2\n2010-01-01,3\n", Wanted(time="t"), "table:3: t: .*could not convert"),
        ("t,x\n2010-01-01,2\n2010-01-32,3\n", Wanted(), "table:3: t: '2010-01-32' is not a date"),
        ('t,x\n1,"2\n', Wanted(time="t"), "not a row of CSV"),
    ],
)
def test_what_cannot_be_read_is_named(text: str, wanted: Wanted, message: str, tmp_path: Path) -> None:
    (tmp_path / "table").write_text(text)
    with pytest.raises((DataError, ConfigError), match=message):
        read(tmp_path / "table", wanted)


def test_a_row_is_there_before_the_next_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = iter([b"t,x\n", b"1,2\n", b"2,3\n"])
    asked: list[int] = []

    class Slow(io.BytesIO):
        def read1(self, size: int | None = -1, /) -> bytes:
            asked.append(1)
            return next(lines, b"")

    monkeypatch.setattr(sys, "stdin", type("Stdin", (), {"buffer": Slow()})())
    columns = Columns(("t", "x"), Clock("number"), "t", ("x",))
    rows = rows_of(Table("-"), columns)
    assert next(rows).time == 1
    assert len(asked) == 2
    assert next(rows).time == 2
    assert len(asked) == 3


def test_parquet_is_read_as_csv_is(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    moments = [datetime(2010, 1, 1) + timedelta(hours=hour) for hour in range(3000)]
    numbers = [None if hour == 5 else hour / 8 for hour in range(3000)]
    parquet.write_table(arrow.table({"when": moments, "x": numbers}), tmp_path / "a.parquet")
    lines = [f"{moment.isoformat()},{'' if x is None else x}\n" for moment, x in zip(moments, numbers, strict=True)]
    (tmp_path / "a.csv").write_text("when,x\n" + "".join(lines))
    columns, rows = read(tmp_path / "a.parquet")
    other, wanted = read(tmp_path / "a.csv")
    assert columns == other
    assert [str(row[:4]) for row in rows] == [str(row[:4]) for row in wanted]
    (tmp_path / "b.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match="not a Parquet file"):
        read(tmp_path / "b.parquet")
    with pytest.raises(DataError, match="no such file"):
        read(tmp_path / "c.parquet")


def test_parquet_without_its_library_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.import_module

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(ConfigError, match=r"pip install 'ostinato\[parquet\]'"):
        read(tmp_path / "a.parquet")


def row(time: float, *values: float, series: str = "") -> Row:
    return Row(time, f"{time:g}", series, values, (), f"file:{time:g}")


def followed(rows: list[Row], missing: str = "refuse", irregular: str = "refuse") -> list[tuple[float, float, bool]]:
    rule = Evenness(Clock("number"), Step(1, "number"), missing, irregular)  # type: ignore[arg-type]
    follower = Follower(rule)
    return [(even.time, even.values[0], even.came[0]) for each in rows for even in follower.follow(each)]


# by hand: what is read again is the last value, and it did not come
def test_gaps_and_missing_values_are_filled_or_kept_as_asked() -> None:
    rows = [row(1, 10), row(2, math.nan), row(5, 50), row(6, 60)]
    assert followed(rows, "last", "fill") == [
        (1, 10, True),
        (2, 10, False),
        (3, 10, False),
        (4, 10, False),
        (5, 50, True),
        (6, 60, True),
    ]
    assert followed(rows, "last", "keep") == [(1, 10, True), (2, 10, False), (5, 50, True), (6, 60, True)]


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([row(1, 1), row(1, 2)], {}, "file:1: the time 1 is not after 1"),
        ([row(2, 1, series="a"), row(1, 2, series="a")], {}, "file:1: series 'a': the time 1 is not after 2"),
        ([row(1, 1), row(3, 2)], {}, "file:3: from 1 to 3 is not one step of 1; mend"),
        ([row(1, 1), row(2, math.nan)], {}, "file:2: a value is missing"),
        ([row(1, math.nan)], {"missing": "last"}, "file:1: the first row has a missing value"),
        ([row(1, 1), row(2.5, 2)], {"irregular": "fill"}, "but no whole number of steps"),
        ([row(1, 1), row(99999, 2)], {"irregular": "fill"}, "but more than 10,000 steps"),
    ],
)
def test_what_is_missing_or_out_of_step_is_named(rows: list[Row], options: dict[str, str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        followed(rows, **options)
