"""The data of a forecaster: series at even steps, read and checked and shared out in time; kept inside the run."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ostinato.core.config import build
from ostinato.core.errors import ConfigError, DataError, FormatError
from ostinato.core.progress import Progress, Watch
from ostinato.runs import load_arrays, save_arrays
from ostinato.tasks.forecasting.options import Config, DataOptions
from ostinato.tasks.forecasting.rows import Even, Evenness, Follower
from ostinato.text.read import check_readable
from ostinato.text.series import Columns, Row, Table, found_columns, rows_of
from ostinato.text.sources import name_of
from ostinato.text.times import Numbers, Step, found_step

FILE = "series.safetensors"
PARTS = ("train", "valid", "test")
ARRAYS = ("times", "values", "came", "covariates")


@dataclass(frozen=True, eq=False)
class Series:
    """One series at even steps. values [N, D], covariates [N, C]: to be read, the last ones where they are missing.
    came [N, D]: which were not. ends: where training and validation end."""

    name: str
    times: Numbers  # [N]
    values: Numbers
    came: NDArray[np.bool_]
    covariates: Numbers
    ends: tuple[int, int] = (0, 0)

    def __len__(self) -> int:
        return len(self.times)

    @classmethod
    def of(cls, name: str, steps: Sequence[Even], columns: Columns) -> Series:
        """The steps that a `Follower` gave."""
        count = len(steps)
        return cls(
            name,
            np.array([step.time for step in steps]),
            np.array([step.values for step in steps]).reshape(count, len(columns.values)),
            np.array([step.came for step in steps], np.bool_).reshape(count, len(columns.values)),
            np.array([step.covariates for step in steps]).reshape(count, len(columns.covariates)),
        )

    def before(self, end: int) -> Series:
        """The first `end` steps."""
        return Series(self.name, self.times[:end], self.values[:end], self.came[:end], self.covariates[:end])

    def followed_by(self, other: Series) -> Series:
        """This one and then the other."""
        times, values, came, covariates = (
            np.concatenate([getattr(self, name), getattr(other, name)]) for name in ARRAYS
        )
        return Series(self.name, times, values, came, covariates)

    def part(self, name: str) -> slice:
        """The steps of a part."""
        begins = dict(zip(PARTS, (0, *self.ends), strict=True))
        stops = dict(zip(PARTS, (*self.ends, len(self)), strict=True))
        return slice(begins[name], stops[name])

    @property
    def last(self) -> Even:
        """The last step."""
        values, came, covariates = (tuple(getattr(self, name)[-1].tolist()) for name in ARRAYS[1:])
        return Even(float(self.times[-1]), values, came, covariates, "")


@dataclass(frozen=True)
class Corpus:
    """All series, and what is known of their columns and steps. names: of the data of each part."""

    series: tuple[Series, ...]
    columns: Columns
    rule: Evenness
    season: int
    names: dict[str, str]

    @property
    def step(self) -> Step:
        """How far two steps lie apart."""
        return self.rule.step

    def save(self, folder: Path) -> None:
        """Write it all."""
        arrays = {f"{number}/{name}": getattr(one, name) for number, one in enumerate(self.series) for name in ARRAYS}
        about = {
            "series": [{"name": one.name, "ends": one.ends} for one in self.series],
            "columns": asdict(self.columns),
            "rule": asdict(self.rule),
            "season": self.season,
            "names": self.names,
        }
        save_arrays(folder / FILE, arrays, about)

    @classmethod
    def open(cls, folder: Path) -> Corpus:
        """What `save` wrote. Raises FormatError if it is damaged."""
        path = folder / FILE
        arrays, about = load_arrays(path)
        try:
            series = []
            for number, one in enumerate(about["series"]):
                times, values, came, covariates = (arrays[f"{number}/{name}"] for name in ARRAYS)
                series.append(Series(str(one["name"]), times, values, came, covariates, tuple(one["ends"])))
            columns, rule = build(Columns, about["columns"], str(path)), build(Evenness, about["rule"], str(path))
            return cls(tuple(series), columns, rule, int(about["season"]), dict(about["names"]))
        except (ConfigError, KeyError, TypeError, ValueError) as fault:
            raise FormatError(f"{path}: damaged ({fault}); restore the file or train again") from None


def digest(series: Iterable[Series]) -> str:
    """Eight hexadecimal digits of the names and numbers of series."""
    found = hashlib.sha256()
    for one in series:
        found.update(one.name.encode("utf8", "surrogatepass"))
        for name in ARRAYS:
            found.update(np.ascontiguousarray(getattr(one, name)).tobytes())
    return found.hexdigest()[:8]


def read_corpus(config: Config, watch: Watch) -> tuple[Corpus, list[str]]:
    """The series of a configuration, and what a person should know of them.

    Raises ConfigError without training data, DataError, with file and line, for rows that cannot be used.
    """
    options = config.data
    if not options.train:
        raise ConfigError("data.train names no file; give a table with a row a step: --data.train FILE")
    files = [(part, path) for part in PARTS for path in getattr(options, part)]
    check_readable([path for _, path in files])
    columns, found = _gathered(options, files, watch)
    times = [np.array([row.time for _, row in rows]) for rows in found.values()]
    step = Step(1, "number") if columns.clock.kind == "row" else found_step(_rising(times), columns.clock)
    rule = Evenness(columns.clock, step, options.missing, options.irregular, config.model.log)
    season = options.season or step.season
    series, followers = [], []
    for name, rows in found.items():
        follower, steps, parts = Follower(rule), [], dict.fromkeys(PARTS, 0)
        for part, row in rows:
            for even in follower.follow(row):
                steps.append(even)
                parts[part] += 1
        made = Series.of(name, steps, columns)
        series.append(replace(made, ends=_ends(made, parts, options)))
        followers.append(follower)
    corpus = Corpus(tuple(series), columns, rule, season, _part_names(options))
    return corpus, [*_notes(corpus, options), *_faults(followers, options)]


def _gathered(
    options: DataOptions, files: Sequence[tuple[str, str]], watch: Watch
) -> tuple[Columns, dict[str, list[tuple[str, Row]]]]:
    """The rows of all files by series, each with its part."""
    columns: Columns | None = None
    found: dict[str, list[tuple[str, Row]]] = {}
    count = 0
    for part, path in files:
        table = Table(path)
        if columns is None:
            columns = found_columns(table, options.wanted)
        for row in rows_of(table, columns):
            found.setdefault(row.series, []).append((part, row))
            count += 1
            if count % 1000 == 0:
                watch(Progress("read", count))
    assert columns is not None
    return columns, found


def _rising(times: Iterable[Numbers]) -> list[Numbers]:
    """Without what goes back, which is named when it is followed."""
    return [part[np.concatenate([[True], np.diff(part) > 0])] for part in times]


def _ends(series: Series, parts: dict[str, int], options: DataOptions) -> tuple[int, int]:
    """Where training and validation end. Raises DataError if a part is left without a step."""
    count = parts["train"]
    test = parts["test"] or _share(count, options.test_part)
    rest = count if parts["test"] else count - test
    valid = parts["valid"] or _share(rest, options.valid_part)
    train = rest if parts["valid"] else rest - valid
    if train < 3 or (options.valid_part and not valid) or (options.test_part and not test):
        of = f"series {series.name!r}: " if series.name else ""
        raise DataError(
            f"{of}{count} rows are too few to train on and to keep {max(valid, 0)} of them for validation and {test} "
            "for the test; give more, or a smaller data.valid_part and data.test_part"
        )
    return train, train + valid


def _share(count: int, part: float) -> int:
    return int(part) if part >= 1 else int(count * part)


def _part_names(options: DataOptions) -> dict[str, str]:
    train = name_of(options.train)
    return {
        "train": train,
        "valid": name_of(options.valid) if options.valid else f"{train}/last-{options.valid_part:g}",
        "test": name_of(options.test) if options.test else f"{train}/last-{options.test_part:g}",
    }


def _notes(corpus: Corpus, options: DataOptions) -> list[str]:
    columns, count = corpus.columns, len(corpus.series)
    time = f"{columns.time} at steps of {corpus.step}" if columns.time else "rows, counted, since no column is a time"
    values = ", ".join(columns.values)
    parts = {part: sum(len(one.times[one.part(part)]) for one in corpus.series) for part in PARTS}
    sizes = ", ".join(f"{part} {size:,}" for part, size in parts.items() if size)
    notes = [f"{values} by {time}, season {corpus.season}; {count:,} series, rows: {sizes}"]
    if not parts["valid"]:
        notes.append("no rows are kept for validation: the weights that fit training best are kept")
    return notes


def _faults(followers: Sequence[Follower], options: DataOptions) -> list[str]:
    """What was missing or irregular, and what was done about it."""
    notes = []
    filled, uneven = (sum(getattr(one, name).count for one in followers) for name in ("filled", "uneven"))
    if filled:
        first = next(one.filled.first for one in followers if one.filled.count)
        notes.append(f"{filled:,} rows lack a value, the first at {first}: the last one is read again, and not judged")
    if uneven:
        first = next(one.uneven.first for one in followers if one.uneven.count)
        done = "taken as they come" if options.irregular == "keep" else "what lies between is filled in"
        notes.append(f"{uneven:,} rows do not come at their time, the first at {first}: {done}")
    return notes
