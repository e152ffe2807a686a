"""Tables for people: how good answers are by what an example is like."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ostinato.tasks.task import Table

LENGTHS = (1, 6, 11, 21, 41)
"""Where each class of lengths begins; the last has no end."""

UNSEEN = (0, 1, 2, 3)
"""Where each class of numbers of unseen words begins."""


NO_END = 1 << 62


def by_class(
    title: str, named: str, values: NDArray[np.int64], right: NDArray[np.bool_], begins: Sequence[int], by: str = ""
) -> Table:
    """The accuracy of the examples whose value [N] lies in each class, without the empty classes; right: [N].

    by: as in `Table`.
    """
    rows = [(name, f"{inside.sum():,}", percent(right[inside].mean())) for name, inside in classes(values, begins)]
    return Table(title, (named, "examples", "accuracy"), tuple(rows), by)


def classes(values: NDArray[np.int64], begins: Sequence[int]) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """The name of each class, and which values [N] lie in it; without the empty ones."""
    for first, after in pairwise([*begins, NO_END]):
        inside = (values >= first) & (values < after)
        if inside.any():
            name = f"{first}+" if after == NO_END else f"{first}" if after == first + 1 else f"{first}-{after - 1}"
            yield name, inside


def percent(share: float) -> str:
    """A share with two places, times a hundred."""
    return f"{100 * share:.2f}"
