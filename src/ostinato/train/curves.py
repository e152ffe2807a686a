"""Learning curves of one or more runs as SVG or PNG."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ostinato.core.errors import DataError
from ostinato.core.pictures import COLOURS, DASHES, FAINT, MARKS, form_of, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Points: TypeAlias = list[tuple[float, float]]  # tokens learnt from, value

TICKS = (
    (1,),
    (1, 3),
    (1, 2, 5),
    (1, 1.5, 2, 3, 5, 7),
    (1, 1.2, 1.5, 2, 3, 4, 5, 7),
    (1, 1.1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9),
)
MOST_TICKS = 8
FEW_TICKS = 4  # in a low panel
MARGINS = {"left": 0.09, "right": 0.985, "top": 0.95, "bottom": 0.08, "hspace": 0.24}
"""Fixed: matplotlib's layout solver gives slightly other numbers from run to run."""


@dataclass(frozen=True)
class Curves:
    """The lines of one run, each a list of (tokens, value)."""

    train: Points  # perplexity
    valid: Points
    norm: Points
    rate: Points
    outputs: float  # |V|, infinity if not known


def draw(runs: Mapping[str, Sequence[Mapping[str, Any]]], path: Path) -> None:
    """Draw the curves of runs (name to events of log.jsonl) to `path`, as its ending .svg or .png says.

    Above training (thin) and validation (thick, marks) perplexity, below the gradient norm and the learning
    rate, all against tokens. Equal events give equal bytes.
    Raises DataError if there is no run or one without reports, ConfigError for another ending, StorageError.
    """
    form = form_of(path, "curves are")
    if not runs:
        raise DataError("there is no run to draw; name at least one run directory")
    curves = {name: read(name, events) for name, events in runs.items()}
    save(lambda: compose(curves), path, form)


def read(name: str, events: Sequence[Mapping[str, Any]]) -> Curves:
    """The curves in the events of one run. Raises DataError if it has no report."""
    reports = [event for event in events if event.get("event") == "report"]
    if not reports:
        raise DataError(
            f"{name}: its log has no reports to draw; n-gram models are counted in one pass and have none, "
            "a neural run has its first after --train.report-every updates"
        )
    outputs = next((event.get("outputs") for event in events if event.get("event") == "start"), None)
    keys = ("perplexity", "valid_perplexity", "gradient_norm", "learning_rate")
    train, valid, norm, rate = (points(reports, key) for key in keys)
    return Curves(train, valid, norm, rate, outputs or math.inf)


def points(reports: Sequence[Mapping[str, Any]], key: str) -> Points:
    """Tokens and value of every report that has a finite value under `key`."""
    return [(report["tokens"], report[key]) for report in reports if math.isfinite(report.get(key) or math.inf)]


def compose(curves: Mapping[str, Curves]) -> Figure:
    """The figure: three panels over one token axis."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter

    figure = Figure(figsize=(7.2, 6.0))
    top, middle, bottom = figure.subplots(3, 1, sharex=True, height_ratios=[3.4, 1, 1], gridspec_kw=MARGINS)
    for place, (name, lines) in enumerate(curves.items()):
        draw_run(place, name, lines, (top, middle, bottom))
    top.set_title("Perplexity", loc="left", fontsize=11, fontweight="bold")
    top.set_title("thin: training   thick, with marks: validation", loc="right", fontsize=8, color=FAINT)
    middle.set_title("Gradient norm, largest since the last report", loc="left", fontsize=9)
    bottom.set_title("Learning rate", loc="left", fontsize=9)
    for axes in (top, middle, bottom):
        tidy(axes)
    log_axis(top, *perplexity_range(curves.values()))
    lowest, highest = middle.dataLim.intervaly
    log_axis(middle, lowest, highest, FEW_TICKS)
    bottom.set_ylim(bottom=0)
    bottom.set_xlim(left=0)
    bottom.set_xlabel("tokens")
    bottom.xaxis.set_major_formatter(EngFormatter(sep=""))
    top.legend(frameon=False, loc="upper right", handlelength=3.2, fontsize=9)
    return figure


def draw_run(place: int, name: str, curves: Curves, panels: tuple[Axes, Axes, Axes]) -> None:
    """Draw the lines of run number `place` in its colour, dashes and marks."""
    top, middle, bottom = panels
    look: dict[str, Any] = {"color": COLOURS[place % len(COLOURS)], "linestyle": DASHES[place % len(DASHES)]}
    mark = MARKS[place % len(MARKS)]
    best = min((value for _, value in curves.valid), default=None)
    label = name if best is None else f"{name}  (best {best:.4g})"
    line(top, curves.train, **look, linewidth=0.8, alpha=0.75, label=None if curves.valid else label)
    if curves.valid:
        line(top, curves.valid, **look, linewidth=2, marker=mark, markersize=4.5, markeredgecolor="white",
             markeredgewidth=0.6, label=label, zorder=3)  # fmt: skip
    line(middle, [point for point in curves.norm if point[1] > 0], **look, linewidth=1)
    line(bottom, curves.rate, **look, linewidth=1.2)


def line(axes: Axes, points: Points, **look: Any) -> None:
    """One line; a single point, which would not be seen, becomes a mark."""
    if len(points) == 1:
        look = {"marker": "o", "markersize": 4, **look}
    axes.plot([x for x, _ in points], [y for _, y in points], **look)


def tidy(axes: Axes) -> None:
    """Keep the left and lower edge, and faint horizontal rules."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#e4e4e4", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(length=3, width=0.6)


def perplexity_range(curves: Iterable[Curves]) -> tuple[float, float]:
    """The range worth showing: a first report that is worse than guessing evenly does not flatten the rest."""
    values = [min(value, 1.5 * run.outputs) for run in curves for _, value in run.train + run.valid]
    return (min(values), max(values)) if values else (1.0, 10.0)


def log_axis(axes: Axes, low: float, high: float, most: int = MOST_TICKS) -> None:
    """A logarithmic axis over the range with a few plain numbers on it."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    if not (0 < low <= high < math.inf):
        low, high = 0.1, 10.0
    room = max((high / low) ** 0.06, 1.02)
    low, high = low / room, high * room
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    axes.yaxis.set_major_locator(FixedLocator(round_numbers(low, high, most)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}" if value < 1e6 else f"{value:.0e}"))


def round_numbers(low: float, high: float, most: int = MOST_TICKS) -> list[float]:
    """Two or more round numbers between low and high (0 < low < high), as many as fit on an axis."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    chosen: list[float] = []
    for factors in TICKS:
        found = [factor * 10.0**decade for decade in range(first, last + 1) for factor in factors]
        found = [value for value in found if low <= value <= high]
        if len(found) > most:
            break
        chosen = found
    if len(chosen) >= 2:
        return chosen
    if last - first > most:  # many decades: some of them
        return [10.0**decade for decade in range(first + 1, last, (last - first) // most + 1)]
    step = 10.0 ** math.floor(math.log10((high - low) / 2))  # less than a decade: evenly
    step *= 1 if high - low < 6 * step else 5
    return [step * number for number in range(math.ceil(low / step), math.floor(high / step) + 1)]
