"""The figure of a result, as SVG."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ostinato.claims.claim import Claim, Figure
from ostinato.claims.evidence import Band
from ostinato.claims.results import Result
from ostinato.core.files import atomic_path
from ostinato.core.pictures import COLOURS, DASHES, MARKS, METADATA, STYLE
from ostinato.train.curves import log_axis, tidy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes

FEW = 10  # places on an axis that are all named
MANY = 7  # curves beyond which bands would hide each other
WIDTH, HEIGHT = 7.2, 3.0  # inches, of one panel


def draw(claim: Claim, result: Result, path: Path) -> None:
    """Draw the curves of a result, one panel below the other; bands go from the least seed to the most.

    Equal results give equal bytes. Raises StorageError.
    """
    import matplotlib
    from matplotlib.figure import Figure as Canvas

    shown = [name for name in claim.figures if name in result.evidence.curves]
    style: Any = STYLE
    with matplotlib.rc_context(style):
        canvas = Canvas(figsize=(WIDTH, HEIGHT * len(shown)))
        top, gap = 0.3 / (HEIGHT * len(shown)), 0.42 * (len(shown) > 1)
        edges = {"left": 0.1, "right": 0.985, "top": 1 - top, "bottom": 0.48 / (HEIGHT * len(shown)), "hspace": gap}
        panels = canvas.subplots(len(shown), 1, squeeze=False, gridspec_kw=edges)
        for name, axes in zip(shown, panels[:, 0], strict=True):
            panel(axes, claim.figures[name], result.evidence.curves[name])
        with atomic_path(path) as temporary:
            canvas.savefig(temporary, format="svg", metadata=METADATA["svg"])


def panel(axes: Axes, figure: Figure, curves: Mapping[str, Band]) -> None:
    """One set of curves."""
    for place, (name, drawn) in enumerate(curves.items()):
        curve(axes, place, figure, name, drawn, len(curves) <= MANY)
    tidy(axes)
    axes.set_title(figure.title.en, loc="left", fontsize=10, fontweight="bold")
    axes.set_xlabel(figure.x.en)
    axes.set_ylabel(figure.y.en)
    if figure.x_log:
        axes.set_xscale("log")
    if figure.y_log:
        ends = [value for drawn in curves.values() for value in (*drawn.low, *drawn.high) if value > 0]
        finite = [value for value in ends if math.isfinite(value)]
        log_axis(axes, min(finite, default=0.1), max(finite, default=10.0))
    xs = sorted({x for drawn in curves.values() for x in drawn.x})
    if figure.marks and len(xs) <= FEW:  # those that were measured
        axes.set_xticks(xs, [f"{x:,g}" for x in xs], fontsize=8)
        axes.minorticks_off()
    if len(curves) > 1:
        axes.legend(frameon=False, fontsize=8, handlelength=3.2, ncols=1 if len(curves) <= MANY else 2)


def curve(axes: Axes, place: int, figure: Figure, name: str, drawn: Band, bands: bool) -> None:
    """One curve, with its band if bands are drawn, in the colour, dash and mark of its place."""
    look: dict[str, Any] = {"color": COLOURS[place % len(COLOURS)], "linestyle": DASHES[place % len(DASHES)]}
    if figure.marks or len(drawn.x) == 1:
        look |= {"marker": MARKS[place % len(MARKS)], "markersize": 4}
    axes.plot(drawn.x, drawn.y, linewidth=1.4, label=figure.name(name).en, **look)
    if bands and drawn.low != drawn.high:
        axes.fill_between(drawn.x, drawn.low, drawn.high, color=look["color"], alpha=0.18, linewidth=0)
