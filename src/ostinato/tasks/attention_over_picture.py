"""What each word of a caption looked at: the picture once for each, lit where attention was."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ostinato.core.pictures import FAINT, INK
from ostinato.tasks.captioning.seen import Looking

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ACROSS = 6
"""Pictures beside each other, at most."""

PANEL = 1.5
"""Inches of the longer side of a picture."""

TITLE = 0.3
"""Inches above a picture for its word."""

DARKEST = 0.25
"""How much is left of the light of a picture where a word did not look at all."""


def compose(seen: Looking) -> Figure:
    """The figure: a panel for each word, in reading order; where the light is, the weight is above its mean."""
    from matplotlib.figure import Figure

    rows, columns = seen.layout
    tall, wide = (rows, columns) if seen.picture is None else seen.picture.shape[:2]
    width, height = (PANEL * size / max(tall, wide) for size in (wide, tall))
    across = min(ACROSS, len(seen.target))
    down = math.ceil(len(seen.target) / across)
    size = across * (width + 0.15) + 0.15, down * (height + TITLE) + 0.15
    figure = Figure(figsize=size)
    for place, (word, weights) in enumerate(zip(seen.target, seen.weights, strict=True)):
        row, column = divmod(place, across)
        left, bottom = 0.15 + column * (width + 0.15), size[1] - (row + 1) * (height + TITLE)
        axes = figure.add_axes((left / size[0], bottom / size[1], width / size[0], height / size[1]))
        axes.set_title(word, color=INK, fontsize=9, pad=3)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines[:].set_color(FAINT)
        grid = weights.reshape(rows, columns)
        plain: dict[str, Any] = {"interpolation": "nearest", "aspect": "auto", "extent": (0, 1, 1, 0)}
        if seen.picture is None:
            axes.imshow(grid, cmap="Blues", vmin=0, vmax=1, **plain)
        else:
            axes.imshow(lit(seen.picture, grid), vmin=0, vmax=1, cmap="gray", **plain)
    return figure


def lit(picture: NDArray[np.float32], weights: NDArray[np.float32]) -> NDArray[np.float32]:
    """A picture [H, W, 3] in its colours where weights [rows, columns] are greatest, and darker elsewhere.

    Grey pictures [H, W] come in the colour of light: what was looked at is warm, what was not is a cool shadow.
    """
    light = spread(weights / max(float(weights.max()), 1e-12), picture.shape[0], picture.shape[1])[:, :, None]
    if picture.ndim == 3:
        dimmed: NDArray[np.float32] = (picture * (DARKEST + (1 - DARKEST) * light)).astype(np.float32)
        return dimmed
    warm, cool = np.array([1.0, 0.75, 0.2]), np.array([0.45, 0.55, 0.75])
    back = 0.35 * light * warm
    ink = picture[:, :, None] * (light * warm + (1 - light) * cool)
    shown: NDArray[np.float32] = np.clip(np.maximum(back, ink), 0, 1).astype(np.float32)
    return shown


def spread(weights: NDArray[np.float32], height: int, width: int) -> NDArray[np.float32]:
    """Weights [rows, columns] over a picture's pixels [height, width], each place over those it was made from."""
    rows, columns = weights.shape
    down, across = np.arange(height) // side_of(height, rows), np.arange(width) // side_of(width, columns)
    found: NDArray[np.float32] = weights[np.ix_(down, across)]
    return found


def side_of(pixels: int, places: int) -> int:
    """How many pixels a place has on a side that was halved until so many were left, a half counted whole."""
    side = 1
    while math.ceil(pixels / side) > places:
        side *= 2
    return side
