"""Pairs of texts: two parallel files, or columns of one file parted by tabs; packed with gzip or zstd or not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from ostinato.core.errors import ConfigError, DataError
from ostinato.text.numbered import Line, numbered_lines
from ostinato.text.read import STDIN

NAMED = 5
"""How many of the lines with an empty side are named."""


class Pair(NamedTuple):
    """A source and its target, and the line (from 1) they stand on."""

    source: str
    target: str
    number: int


class ParallelReader:
    """The pairs of two parallel files, or of two columns of one file, to be read once.

    target: None for columns of the source. columns: which two, from 0 (-1 is the last). keep_empty: pairs with an
    empty side come too; they are counted in any case: `empty` of `count`, the first on the lines `empty_lines`.
    Blanks at either end of a side go away.
    Raises DataError where one file ends before the other, or a line has too few columns.
    """

    def __init__(
        self,
        source: str | Path,
        target: str | Path | None = None,
        columns: tuple[int, int] = (0, 1),
        keep_empty: bool = False,
    ):
        self.source, self.target = str(source), None if target is None else str(target)
        self.columns, self.keep_empty = columns, keep_empty
        self.count = self.empty = 0
        self.empty_lines: tuple[int, ...] = ()
        if self.source == self.target:
            raise ConfigError(f"{self.source} is given as source and as target; for columns of one file name it once")
        if columns[0] == columns[1]:
            raise ConfigError(f"columns {columns}: the source and the target must be two, as in 0, 1")

    def __iter__(self) -> Iterator[Pair]:
        for pair in self._both() if self.target is not None else self._columns():
            self.count += 1
            if not (pair.source and pair.target):
                self.empty += 1
                self.empty_lines = (*self.empty_lines, pair.number)[:NAMED]
                if not self.keep_empty:
                    continue
            yield pair

    def report(self) -> str:
        """What to tell of pairs with an empty side, "" if there were none."""
        if not self.empty:
            return ""
        lines = ", ".join(f"{number:,}" for number in self.empty_lines)
        more = ", ..." if self.empty > len(self.empty_lines) else ""
        kept = "" if self.keep_empty else " and were left out"
        share = f"{self.empty:,} of {self.count:,} pairs have an empty side{kept}"
        return f"{_shown(self.source)}: {share} (lines {lines}{more})"

    def _both(self) -> Iterator[Pair]:
        assert self.target is not None
        for left, right in zip_longest(numbered_lines(self.source), numbered_lines(self.target)):
            if left is None or right is None:
                raise self._uneven(left, right)
            yield Pair(left.text.strip(), right.text.strip(), left.number)

    def _uneven(self, left: Line | None, right: Line | None) -> DataError:
        ended, longer = (self.source, self.target) if left is None else (self.target, self.source)
        line = left or right
        assert line is not None
        return DataError(
            f"{_shown(str(ended))} ends after line {line.number - 1:,}, but {_shown(str(longer))} goes on; "
            "line n of one must belong to line n of the other"
        )

    def _columns(self) -> Iterator[Pair]:
        for line in numbered_lines(self.source):
            fields = line.text.split("\t")
            try:
                source, target = (fields[column] for column in self.columns)
            except IndexError:
                if not line.text.strip():
                    source = target = ""
                else:
                    raise self._narrow(line, len(fields)) from None
            yield Pair(source.strip(), target.strip(), line.number)

    def _narrow(self, line: Line, width: int) -> DataError:
        wanted = " and ".join(str(column) for column in self.columns)
        return DataError(
            f"{_shown(self.source)}:{line.number}: {width} column{'s' if width > 1 else ''} parted by tabs, but "
            f"columns {wanted} are wanted (the first is 0); name the right ones, or give the target in its own file"
        )


def by_source(pairs: Iterable[Pair]) -> dict[str, list[str]]:
    """All targets of each source, in the order they were first seen: its references, where it has several."""
    found: dict[str, list[str]] = {}
    for pair in pairs:
        found.setdefault(pair.source, []).append(pair.target)
    return found


def _shown(path: str) -> str:
    return "standard input" if path == STDIN else path
