"""Katz back-off with Good-Turing discounts: what was seen r times should have been seen a little less often."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge, Gt, Lt
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass

from ostinato.core.config import STRICT
from ostinato.ngram.backing_off import back_off
from ostinato.ngram.counts import Counts
from ostinato.ngram.interpolation import Discounts
from ostinato.ngram.smoothing.base import smoothings
from ostinato.ngram.smoothing.discounts import why_not
from ostinato.ngram.table import BackoffTable

TINY = 1e-9
"""What rounding may put into a ratio that is 0 or 1, or a slope that is -1."""


@dataclass(frozen=True, config=STRICT)
class GoodTuring:
    """Katz smoothing: Good-Turing for the small counts of each order, back-off for what was never seen.

    r*  = (r + 1) E(r + 1) / E(r), E(r) the expected number of n-grams that occur r times, see `expected_counts`
    d_r = (r* / r - M) / (1 - M) for r up to the cut-off k, else 1, with M = (k + 1) n_(k+1) / n_1
    p(w | h) = d_c(hw) c(hw) / c(h) if hw was seen, else alpha(h) p(w | h without its oldest word)

    Words never seen share what order 1 holds back, which is nothing if there are none; alpha and the exceptions
    are those of ngram/backing_off.py.
    cutoff: k. Where a d_r would not lie between 0 and 1, the largest smaller k that works stands in, down to 2;
    where none does, the absolute discount n1 / (n1 + 2 n2), or `fallback` if n1 or n2 is 0. The notes say so.
    Source: [Katz1987] for the whole; [Gale1995] for r*; [Ney1994] for the discount that stands in.
    """

    cutoff: Annotated[int, Ge(2)] = 5
    fallback: Annotated[float, Gt(0), Lt(1)] = 0.75

    def fit(
        self, counts: Counts, heldout: NDArray[Any] | None = None, thresholds: tuple[int, ...] = ()
    ) -> BackoffTable:
        """The table of these counts; held-out text changes nothing."""
        found = Discounts([], [])
        for order in range(1, counts.order + 1):
            self.discount(counts, order, found)
        return back_off(counts, found, "good-turing", continuation=False, thresholds=thresholds)

    def discount(self, counts: Counts, order: int, found: Discounts) -> None:
        """Put into `found` what is taken off the counts 1, ..., k of an order, r - d_r r, and off those above."""
        count = counts.raw(order)
        if order == 1 and count[:-1].all():
            found.values.append((0.0,))
            return
        having = counts_of_counts(count)
        for cutoff in range(self.cutoff, 1, -1):
            ratios = katz_ratios(having, cutoff)
            if ratios is not None:
                found.values.append((*(r * (1 - ratio) for r, ratio in enumerate(ratios, 1)), 0.0))
                if cutoff < self.cutoff:
                    found.notes.append(f"order {order}: counts above {cutoff}, not {self.cutoff}, are not discounted")
                return
        n1, n2 = having.get(1, 0), having.get(2, 0)
        found.values.append((n1 / (n1 + 2 * n2) if n1 and n2 else self.fallback,))
        used = f"the absolute discount {found.values[-1][0]:.3g}"
        found.notes.append(why_not(counts, order, {f"n{r}": having.get(r, 0) for r in (1, 2, 3)}, used))


def katz_ratios(having: Mapping[int, int], cutoff: int) -> list[float] | None:
    """d_1, ..., d_k of Katz, or None if one of them does not lie above 0 and up to 1.

    having: how many n-grams have each count. Source: [Katz1987].
    """
    expected = expected_counts(having, cutoff)
    if expected is None:
        return None
    common = (cutoff + 1) * having.get(cutoff + 1, 0) / having[1]
    if common >= 1:
        return None
    ratios = [(expected[r - 1] / r - common) / (1 - common) for r in range(1, cutoff + 1)]
    return ratios if all(TINY < ratio < 1 + TINY for ratio in ratios) else None


def expected_counts(having: Mapping[int, int], cutoff: int) -> list[float] | None:
    """1*, ..., k* by simple Good-Turing, or None if no n-gram occurs once or a line does not fit the rest.

    Turing's (r + 1) n_(r+1) / n_r as long as it differs from the fitted line's by more than 1.65 of its own
    standard deviations, and after that the line's: log Z_r = a + b log r by least squares, with
    Z_r = n_r / ((t - q) / 2), q and t the counts that occur next to r. Source: [Gale1995].
    """
    if 1 not in having or len(having) < 2:
        return None
    slope = fitted_slope(having)
    if slope >= -1 - TINY:
        return None
    found, trusted = [], True
    for r in range(1, cutoff + 1):
        line = (r + 1) * ((r + 1) / r) ** slope
        here, above = having.get(r, 0), having.get(r + 1, 0)
        if trusted and here and above:
            turing = (r + 1) * above / here
            trusted = abs(turing - line) > 1.65 * (r + 1) / here * math.sqrt(above * (1 + above / here))
        else:
            trusted = False
        found.append(turing if trusted else line)
    return found


def fitted_slope(having: Mapping[int, int]) -> float:
    """b of the line through (log r, log Z_r) of all counts r that occur; below -1 if it can be used."""
    r = np.array(sorted(having), np.float64)
    before = np.concatenate(([0.0], r[:-1]))
    after = np.append(r[1:], 2 * r[-1] - before[-1])
    numbers = np.array([having[int(value)] for value in r])
    x, y = np.log(r), np.log(2 * numbers / (after - before))
    return float(((x - x.mean()) @ (y - y.mean())) / ((x - x.mean()) @ (x - x.mean())))


def counts_of_counts(count: NDArray[np.int64]) -> dict[int, int]:
    """How many n-grams have each count above 0 that occurs."""
    values, numbers = np.unique(count[count > 0], return_counts=True)
    return dict(zip(values.tolist(), numbers.tolist(), strict=True))


smoothings.register("good-turing")(GoodTuring)
