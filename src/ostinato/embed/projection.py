"""Word vectors on a map: the two directions in which they differ most, drawn as SVG or PNG."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import DataError
from ostinato.core.pictures import COLOURS, form_of, save
from ostinato.embed.nearest import unit
from ostinato.embed.vectors import Vectors

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WHAT = "a map is"
SIZE = 8.0  # points, of a label
MARGINS = {"left": 0.06, "right": 0.98, "top": 0.97, "bottom": 0.06}
GAP = 3.0  # points, between a label and its point
SIDES = ((1, 0), (1, 1), (0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1))
"""Where a label may stand: right of its point, above right, above, ..."""
ACROSS = {1: "left", 0: "center", -1: "right"}  # which edge of the label is at the point
UPWARD = {1: "bottom", 0: "center", -1: "top"}


@dataclass(frozen=True)
class Projection:
    """Words, their points [N, 2], and the share of the variance that each of the two axes has."""

    words: tuple[str, ...]
    points: NDArray[np.float64]
    variance: tuple[float, float]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        named = zip(self.words, self.points.tolist(), strict=True)
        return {"variance": list(self.variance), "points": [{"word": word, "x": x, "y": y} for word, (x, y) in named]}


def project(vectors: Vectors, words: Sequence[str]) -> Projection:
    """The words' vectors of length one on their first two principal axes; a word named twice counts once.

    Raises DataError as `Vectors.vector` does, and for fewer than two words.
    """
    chosen = tuple(dict.fromkeys(words))
    if len(chosen) < 2:
        raise DataError(f"a map needs at least two different words, got {len(chosen)}")
    points, variance = principal(unit(vectors.rows(chosen)))
    return Projection(chosen, points, variance)


def principal(rows: NDArray[Any]) -> tuple[NDArray[np.float64], tuple[float, float]]:
    """Rows [N, D] on the two axes of largest variance, [N, 2], and the share of the variance on each.

    The largest coordinate of an axis is positive, so that the same rows always give the same map.
    Source: singular value decomposition of the centred rows.
    """
    centred = rows - rows.mean(axis=0, dtype=np.float64)
    left, sizes, axes = np.linalg.svd(centred, full_matrices=False)
    largest = np.abs(axes).argmax(axis=1)[:, None]
    signs = np.where(np.take_along_axis(axes, largest, 1)[:, 0] < 0, -1.0, 1.0)
    points = np.zeros((len(rows), 2))
    kept = min(2, len(sizes))
    points[:, :kept] = (left * sizes * signs)[:, :kept]
    shares = np.zeros(2)
    total = float((sizes**2).sum())
    shares[:kept] = (sizes**2 / total)[:kept] if total > 0 else 0.0
    return points, (float(shares[0]), float(shares[1]))


def draw(projection: Projection, path: Path) -> None:
    """Draw the map to `path`, as its ending .svg or .png says. Equal projections give equal bytes.

    Raises ConfigError for another ending, StorageError.
    """
    save(lambda: compose(projection), path, form_of(path, WHAT))


def compose(projection: Projection) -> Figure:
    """The figure: a point and a label for each word, larger for more words."""
    from matplotlib.figure import Figure

    side = float(np.clip(1.2 * np.sqrt(len(projection.words)), 6, 18))
    figure = Figure(figsize=(side * 1.25, side))
    axes = figure.subplots(gridspec_kw=MARGINS)
    axes.scatter(projection.points[:, 0], projection.points[:, 1], s=12, color=COLOURS[0], linewidths=0, zorder=2)
    axes.margins(0.08)
    axes.axhline(0, color="#e4e4e4", linewidth=0.6, zorder=0)
    axes.axvline(0, color="#e4e4e4", linewidth=0.6, zorder=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xticks([])
    axes.set_yticks([])
    first, second = (f"{share:.1%} of the variance" for share in projection.variance)
    axes.set_xlabel(f"first axis, {first}", fontsize=SIZE + 1)
    axes.set_ylabel(f"second axis, {second}", fontsize=SIZE + 1)
    write_labels(axes, projection)
    return figure


def write_labels(axes: Axes, projection: Projection) -> None:
    """Write each word where it covers the least of other labels and points."""
    axes.set_xlim(axes.get_xlim())  # fixed, so that points are where they will be
    axes.set_ylim(axes.get_ylim())
    points = axes.transData.transform(projection.points) * 72 / axes.figure.dpi  # in units of 1/72 inch, as fonts are
    sizes = np.array([label_size(word) for word in projection.words])
    for word, at, side in zip(projection.words, projection.points, label_sides(points, sizes).tolist(), strict=True):
        axes.annotate(
            word, at, (GAP * side[0], GAP * side[1]), textcoords="offset points", fontsize=SIZE,
            ha=ACROSS[side[0]], va=UPWARD[side[1]], annotation_clip=False, parse_math=False,
        )  # fmt: skip


def label_size(word: str) -> tuple[float, float]:
    """About how wide and high a word is, in points; a letter of East Asian scripts is twice as wide."""
    letters = sum(1.0 if unicodedata.east_asian_width(letter) in "WF" else 0.58 for letter in word)
    return letters * SIZE, 1.1 * SIZE


def label_sides(points: NDArray[np.float64], sizes: NDArray[np.float64]) -> NDArray[np.int64]:
    """On which side of its point each label stands, [N, 2] of -1, 0 and 1, chosen one after the other.

    points, sizes: [N, 2], in one unit.
    """
    taken = np.concatenate([points - GAP / 2, points + GAP / 2], axis=1)  # the boxes of points, then those of labels
    sides = np.zeros(points.shape, np.int64)
    for number, (point, size) in enumerate(zip(points, sizes, strict=True)):
        middle = point + np.array(SIDES) * (size / 2 + GAP)
        boxes = np.concatenate([middle - size / 2, middle + size / 2], axis=1)
        best = int(overlap(boxes, taken).argmin())
        sides[number] = SIDES[best]
        taken = np.concatenate([taken, boxes[best : best + 1]])
    return sides


def overlap(boxes: NDArray[np.float64], taken: NDArray[np.float64]) -> NDArray[np.float64]:
    """How much of each box [P] lies under boxes that are taken; boxes are left, bottom, right, top."""
    low = np.maximum(boxes[:, None, :2], taken[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], taken[None, :, 2:])
    area: NDArray[np.float64] = np.clip(high - low, 0, None).prod(axis=2).sum(axis=1)
    return area
