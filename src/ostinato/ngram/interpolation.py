"""Interpolated absolute discounting over all orders: the arithmetic that the Kneser-Ney family shares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ostinato.ngram.counts import Counts
from ostinato.ngram.table import BackoffTable

Numbers = NDArray[np.float64]


class Discounts(NamedTuple):
    """What is taken off the counts 1, 2, ... of each order, the last for all higher, and what to tell the user."""

    values: list[tuple[float, ...]]
    notes: list[str]


def interpolate(counts: Counts, discounts: Discounts, smoothing: str) -> BackoffTable:
    """The table in which every order is mixed with the one below it, the lowest with the uniform distribution.

    p(w | h) = (a(hw) - D(a(hw))) / T(h) + gamma(h) p(w | h without its oldest word)
    gamma(h) = sum of D(a(hw)) over the words seen after h, divided by T(h); this is the back-off of h
    T(h)     = sum of a(hw) over them; below order 1 stands 1 / outputs

    a: the adjusted counts. float64 until the logarithms are taken.
    Source: [Kneser1995], [Chen1999]; Kneser-Ney and modified Kneser-Ney smoothing, interpolated.
    """
    lower: Numbers = np.array([1 / counts.outputs])
    log_probs, log_backoffs = [], []
    for order, discount in enumerate(discounts.values, 1):
        level, count = counts.levels[order - 1], counts.adjusted(order)
        taken = np.array([0.0, *discount])[np.minimum(count, len(discount))]
        total, held_back = (sums(level.parent, values, len(lower)) for values in (count, taken))
        gamma = np.divide(held_back, total, out=np.ones_like(total), where=total > 0)
        lower = (count - taken) / total[level.parent] + gamma[level.parent] * lower[level.suffix]
        if order == 1:
            lower[-1] = 0.0  # the start symbol
        log_probs.append(logs(lower))
        log_backoffs.append(logs(gamma))
    log_backoffs.append(np.zeros(len(lower), np.float32))
    return BackoffTable.from_levels(
        counts.levels,
        log_probs,
        log_backoffs[1:],
        smoothing=smoothing,
        discounts=tuple(discounts.values),
        notes=tuple(discounts.notes),
    )


def sums(contexts: NDArray[np.int32], values: NDArray[Any], number: int) -> Numbers:
    """The sum of the values of each of `number` contexts; numpy alone would give integers for no values."""
    return np.bincount(contexts, values, number).astype(np.float64, copy=False)


def logs(values: Numbers) -> NDArray[np.float32]:
    """Natural logarithms, minus infinity for 0, rounded once to float32."""
    with np.errstate(divide="ignore"):
        return np.log(values).astype(np.float32)


def counts_of_counts(count: NDArray[np.int64]) -> Sequence[int]:
    """How many n-grams have the adjusted count 0, 1, 2, 3 and 4; the usual n1 is at place 1."""
    numbers = np.bincount(np.minimum(count, 5), minlength=6)
    return [int(number) for number in numbers[:5]]
