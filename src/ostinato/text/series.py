"""Series in tables: a row a step, with its time, its values, the name of its series and covariates.

| file       | what it is                                                                                  |
|------------|---------------------------------------------------------------------------------------------|
| CSV        | columns parted by `,`, `;` or a tab, quotes allowed; names in the first line, or numbered    |
| `.parquet` | the same columns, through pyarrow (`pip install 'ostinato[parquet]'`)                        |

What part the columns play is found out from the first rows, as far as it is not said (`found_columns`). Rows come
as soon as they have arrived, so a pipe can be answered row by row.
"""

from __future__ import annotations

import csv
import importlib
import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Literal, NamedTuple, TypeAlias

from ostinato.core.errors import ConfigError, DataError
from ostinato.core.registry import unknown
from ostinato.text.numbered import numbered_lines
from ostinato.text.read import STDIN
from ostinato.text.times import Clock, found_clock

Times: TypeAlias = Literal["auto", "date", "number"]

NONE = "none"
"""The name that stands for no time column: rows are counted."""

MISSING = ("", "na", "n/a", "nan", "null", "none", "?", "-")
"""How files write that a value is missing, in any case."""

TIMES = ("time", "date", "datetime", "timestamp", "ds", "month", "day", "year")
"""Names of columns of numbers that are taken for times."""

_BATCH = 1024  # rows of a Parquet file at a time


class Row(NamedTuple):
    """A row: its time (NaN where rows are counted) and how it was written, its series, its numbers, NaN if missing."""

    time: float
    shown: str
    series: str
    values: tuple[float, ...]
    covariates: tuple[float, ...]
    where: str


@dataclass(frozen=True)
class Wanted:
    """What is said about the columns; None or () is found out. A column is named as in the first line."""

    time: str | None = None
    values: tuple[str, ...] = ()
    series: str | None = None
    covariates: tuple[str, ...] = ()
    times: Times = "auto"


@dataclass(frozen=True)
class Columns:
    """The columns of a table by name, and which of them hold what. time: "" where rows are counted."""

    names: tuple[str, ...]
    clock: Clock
    time: str
    values: tuple[str, ...]
    series: str | None = None
    covariates: tuple[str, ...] = ()

    @property
    def used(self) -> tuple[str, ...]:
        """The columns that are read."""
        first = [name for name in (self.time, self.series) if name]
        return (*first, *self.values, *self.covariates)


class Table:
    """The records of a file, to be read once, each as soon as it has arrived: its number and its cells.

    The first is that of the names, if there are any; of a Parquet file always.
    """

    def __init__(self, path: str):
        self.name = "standard input" if path == STDIN else path
        self.is_parquet = path.endswith(".parquet")
        self._records = _parquet(path) if self.is_parquet else _csv(path, self.name)
        self._seen: deque[tuple[int, list[Any]]] = deque()

    def __iter__(self) -> Iterator[tuple[int, list[Any]]]:
        while self._seen:
            yield self._seen.popleft()
        yield from self._records

    def peek(self, count: int) -> list[list[Any]]:
        """The cells of the first records, without reading them off; fewer if there are not so many."""
        while len(self._seen) < count and (record := next(self._records, None)) is not None:
            self._seen.append(record)
        return [cells for _, cells in self._seen]

    def where(self, number: int) -> str:
        """A record by file and line."""
        return f"{self.name}:{number}"


def _csv(path: str, name: str) -> Iterator[tuple[int, list[Any]]]:
    lines = (line.text + "\n" for line in numbered_lines(path))
    first = next(lines, "")
    reader = csv.reader(_chained(first, lines), delimiter=_delimiter(first), strict=True, skipinitialspace=True)
    while True:
        try:
            cells = next(reader, None)
        except csv.Error as fault:
            raise DataError(f"{name}:{reader.line_num}: not a row of CSV ({fault}); mend the quotes") from None
        if cells is None:
            return
        if any(cell.strip() for cell in cells):
            yield reader.line_num, [cell.strip() for cell in cells]


def _chained(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest


def _delimiter(line: str) -> str:
    return max(",;\t", key=line.count)


def _parquet(path: str) -> Iterator[tuple[int, list[Any]]]:
    try:
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise ConfigError(f"{path}: Parquet needs pyarrow; install it with `pip install 'ostinato[parquet]'`") from None
    try:
        with parquet.ParquetFile(path) as file:
            yield 0, list(file.schema_arrow.names)
            number = 0
            for batch in file.iter_batches(_BATCH):
                for cells in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    number += 1
                    yield number, list(cells)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (OSError, ValueError) as fault:  # pyarrow's own errors are of these two
        raise DataError(f"{path}: not a Parquet file that can be read ({fault})") from None


def found_columns(table: Table, wanted: Wanted) -> Columns:
    """Which columns of a table hold what, as far as `wanted` does not say it.

    The time is the first column that begins with a date, else one with a name like `year`, else there is none. The
    values are all other columns that begin with a number. Raises DataError if there are none, ConfigError for a name
    that no column has.
    """
    records = table.peek(2)
    if not records:
        raise DataError(f"{table.name}: empty; give a table with a row for each step")
    headed = table.is_parquet or not any(_is_datum(cell) for cell in records[0])
    if headed and len(records) < 2:
        raise DataError(f"{table.name}: names of columns and no rows")
    names = _names(table, records[0]) if headed else tuple(map(str, range(len(records[0]))))
    first = dict(zip(names, records[1 if headed else 0], strict=False))
    for name in (wanted.time, *wanted.values, wanted.series, *wanted.covariates):
        if name not in (None, *names) and not (name == NONE and name == wanted.time):
            raise ConfigError(f"{table.name}: {unknown('column', str(name), names)}")
    time = _time_column(first, wanted)
    taken = {time, wanted.series, *wanted.covariates}
    values = wanted.values or tuple(name for name in names if name not in taken and _is_number(first.get(name)))
    twice = taken.intersection(values) - {None}
    if not values or twice:
        what = f"column {next(iter(twice))!r} has two parts to play" if twice else "no column of numbers is left"
        raise ConfigError(f"{table.name}: {what}; say which columns hold the values, with --data.values NAME")
    clock = _clock(table, first, time, wanted.times)
    return Columns(names, clock, time or "", values, wanted.series, wanted.covariates)


def _names(table: Table, cells: Sequence[Any]) -> tuple[str, ...]:
    names = tuple(map(str, cells))
    twice = sorted(name for name in set(names) if names.count(name) > 1)
    if twice:
        raise DataError(f"{table.name}: {names.count(twice[0])} columns are named {twice[0]!r}; rename them")
    return names


def _time_column(first: dict[str, Any], wanted: Wanted) -> str | None:
    if wanted.time is not None:
        return None if wanted.time == NONE else wanted.time
    free = [name for name in first if name not in (wanted.series, *wanted.values, *wanted.covariates)]
    for name in free:
        clock = found_clock(_text(first[name]), wanted.times == "date")
        if clock is not None and clock.kind == "date":
            return name
    return next((name for name in free if name.casefold() in TIMES and _is_number(first[name])), None)


def _clock(table: Table, first: dict[str, Any], time: str | None, times: Times) -> Clock:
    if time is None:
        return Clock("row")
    text = _text(first.get(time))
    clock = Clock("number") if times == "number" else found_clock(text, times == "date")
    if clock is None:
        raise DataError(
            f"{table.name}: column {time!r} begins with {text!r}, which is neither a number nor a date like 2010-01-31 "
            "or 2010-01-31T06:00; rewrite it, or give --data.time none to count the rows"
        )
    return clock


def rows_of(table: Table, columns: Columns) -> Iterator[Row]:
    """The rows of a table, each as soon as it has arrived.

    A first line with the names of all columns that are used says where they stand; without one they stand as in
    `columns.names`. Raises DataError, with file and line, for a cell that is not what it should be.
    """
    places: list[int] | None = None
    width = 0
    for number, cells in table:
        if places is None:
            places, width = _places(table, columns, cells), len(cells)
            if all(name in cells for name in columns.used):
                continue
        if len(cells) <= max(places):
            raise DataError(
                f"{table.where(number)}: {len(cells)} columns, expected {max(places) + 1} or more, as "
                f"{', '.join(columns.names)}"
            )
        if len(cells) > width:
            raise DataError(f"{table.where(number)}: {len(cells)} columns, the first row has {width}; mend the row")
        yield _row(table.where(number), columns, [cells[place] for place in places])


def _places(table: Table, columns: Columns, cells: list[Any]) -> list[int]:
    """Where the used columns stand, by the first record of a table."""
    if all(name in cells for name in columns.used):
        return [cells.index(name) for name in columns.used]
    lacking = next(name for name in columns.used if name not in cells)
    if table.is_parquet or not any(_is_datum(cell) for cell in cells):
        raise DataError(
            f"{table.name}: no column {lacking!r}, which the run was trained with; the columns are "
            f"{', '.join(map(str, cells))}"
        )
    return [columns.names.index(name) for name in columns.used]


def _row(where: str, columns: Columns, cells: list[Any]) -> Row:
    time, shown, series = math.nan, "", ""
    used = iter(cells)
    if columns.time:
        shown = _text(next(used))
        try:
            time = columns.clock.parse(shown)
        except ValueError as fault:
            raise DataError(f"{where}: {columns.time}: {fault}") from None
    if columns.series:
        series = _text(next(used))
    names = (*columns.values, *columns.covariates)
    numbers = [_number(where, name, cell) for name, cell in zip(names, used, strict=True)]
    count = len(columns.values)
    return Row(time, shown, series, tuple(numbers[:count]), tuple(numbers[count:]), where)


def _number(where: str, name: str, cell: Any) -> float:
    if _is_missing(cell):
        return math.nan
    try:
        number = float(cell)
    except (TypeError, ValueError):
        raise DataError(f"{where}: {name}: {cell!r} is not a number; an empty cell or NA is a missing value") from None
    if math.isinf(number):
        raise DataError(f"{where}: {name}: {cell!r} is not finite")
    return number


def _text(cell: Any) -> str:
    """A cell as a CSV file would have it."""
    if isinstance(cell, datetime | date):
        return cell.isoformat()
    return "" if cell is None else str(cell).strip()


def _is_missing(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and cell.casefold() in MISSING)


def _is_number(cell: Any) -> bool:
    """Whether a column may begin so that holds values."""
    if _is_missing(cell):
        return True
    try:
        return math.isfinite(float(cell))
    except (TypeError, ValueError):
        return False


def _is_datum(cell: Any) -> bool:
    """Whether a cell is certainly no name of a column."""
    return bool(cell != "" and _is_number(cell)) or found_clock(_text(cell)) is not None
