"""What a caption looked at in a picture, as a drawing needs it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ostinato.nn.captioner import Picture, numbers
from ostinato.tasks.translation.alignment import Alignment


@dataclass(frozen=True, eq=False)
class Looking:
    """A caption's words, and for each how much it looked at the places of a plane.

    weights: [target, source]. layout: rows and columns of the places. picture: [H, W, 3] or [H, W] from 0 to 1, or None
    where features were looked at.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: NDArray[np.float32]
    layout: tuple[int, int]
    picture: NDArray[np.float32] | None


def seen_of(picture: Picture, alignment: Alignment, layout: tuple[int, int] | None) -> Alignment | Looking:
    """The alignment over its picture, or over a plane of places; as it is where places do not lie in one."""
    if layout is None:
        return alignment
    shown = shades(picture) if picture.ndim == 3 else None
    return Looking(alignment.source, alignment.target, alignment.weights, layout, shown)


def shades(picture: Picture) -> NDArray[np.float32]:
    """A picture as a screen shows it: colours where it has three channels, else the mean of all, from 0 to 1."""
    values = numbers(picture)
    if picture.dtype != np.uint8:
        low, high = values.min(), values.max()
        values = (values - low) / (high - low if high > low else 1)
    return values if values.shape[2] == 3 else values.mean(axis=2)
