"""How good runs are by the length of what they read, as a picture of what `evaluate` measured last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

from ostinato.core.errors import DataError, FormatError, MismatchError
from ostinato.core.files import check_format, read_json, write_json
from ostinato.core.pictures import COLOURS, DASHES, MARKS, form_of, save
from ostinato.tasks.task import Report
from ostinato.train.curves import tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMAT = 1
FILE = "report.json"
"""In a run: the last report with its tables."""


@dataclass(frozen=True)
class Lengths:
    """The table by length of a run's last evaluation.

    title: of the table. measure: what is good. classes: of lengths, with `counts` examples and a value each. data: what
    it was evaluated on.
    """

    name: str
    title: str
    measure: str
    classes: tuple[str, ...]
    counts: tuple[str, ...]
    values: tuple[float, ...]
    data: str


def keep(folder: Path, report: Report) -> None:
    """Write a report with its tables into a run."""
    tables = [asdict(table) for table in report.tables]
    write_json(folder / FILE, {"format": FORMAT, **report.to_json(), "tables": tables})


def read(folder: Path) -> Lengths:
    """What `keep` wrote, by length.

    Raises DataError for a run that was not evaluated, or has no such table; FormatError if the file is damaged.
    """
    path = folder / FILE
    if not path.is_file():
        raise DataError(f"{folder}: was not evaluated yet; `ostinato evaluate {folder}` does")
    content = read_json(path)
    try:
        check_format(path, content, FORMAT)
        table = next((table for table in content["tables"] if table["by"] == "length"), None)
        if table is None:
            raise DataError(f"{folder}: its task makes no table by length")
        classes, counts, values = zip(*(row[:3] for row in table["rows"]), strict=True)
        data = str(content["signature"]).partition("|")[0]
        numbers = tuple(float(value) for value in values)
        return Lengths(str(folder), table["title"], table["columns"][2], classes, counts, numbers, data)
    except (KeyError, TypeError, ValueError, IndexError) as fault:
        raise FormatError(f"{path}: damaged ({fault}); `ostinato evaluate {folder}` writes it again") from None


def check_alike(found: Sequence[Lengths]) -> None:
    """Raise MismatchError unless all were evaluated on the same data, by the same measure."""
    first = found[0]
    for other in found[1:]:
        if (other.data, other.measure, other.title) != (first.data, first.measure, first.title):
            raise MismatchError(
                f"{first.name} was evaluated on {first.data} by {first.measure}, {other.name} on {other.data} by "
                f"{other.measure}; evaluate both on the same data"
            )


def draw(found: Sequence[Lengths], path: Path) -> None:
    """Draw a line for each run to `path`, as its ending .svg or .png says. Equal reports give equal bytes.

    Raises ConfigError for another ending, MismatchError as `check_alike` says, StorageError.
    """
    form = form_of(path, "quality by length is")
    check_alike(found)
    save(lambda: compose(found), path, form)


def compose(found: Sequence[Lengths]) -> Figure:
    """The figure: a line for each run over the classes of lengths, with how many examples each has."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.6, 3.4))
    axes = figure.add_axes((0.11, 0.2, 0.86, 0.74))
    looks = zip(cycle(COLOURS), cycle(DASHES), cycle(MARKS), strict=True)
    for lengths, (colour, dash, mark) in zip(found, looks, strict=False):
        places = range(len(lengths.classes))
        axes.plot(places, lengths.values, color=colour, linestyle=dash, marker=mark, label=lengths.name)
    first = found[0]
    ticks = [f"{name}\n{count}" for name, count in zip(first.classes, first.counts, strict=True)]
    axes.set_xticks(range(len(ticks)), ticks)
    axes.set_xlabel(f"{first.title}; below: how many")
    axes.set_ylabel(first.measure)
    tidy(axes)
    axes.legend(frameon=False)
    return figure
