"""Kneser-Ney smoothing, interpolated: with one discount an order, and modified with three.

In lower orders a word counts by how many different words it follows, not by how often it occurs ("Francisco"
is frequent, but only after "San"). Sources: Kneser and Ney (1995); Chen and Goodman (1999), who interpolate
and modify it.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from ostinato.core.config import STRICT
from ostinato.ngram.counts import Counts
from ostinato.ngram.interpolation import Discounts, counts_of_counts, interpolate
from ostinato.ngram.smoothing.base import smoothings
from ostinato.ngram.table import BackoffTable

Triple = tuple[float, float, float]
Below1 = Annotated[float, Field(gt=0, lt=1)]
UpTo1 = Annotated[float, Field(gt=0, le=1)]
UpTo2 = Annotated[float, Field(gt=0, le=2)]
UpTo3 = Annotated[float, Field(gt=0, le=3)]


@dataclass(frozen=True, config=STRICT)
class KneserNey:
    """Interpolated Kneser-Ney with one discount an order.

    D = n1 / (n1 + 2 n2), where n1, n2 n-grams of the order have the adjusted count 1, 2

    discount: used in every order instead of the estimate. fallback: used in the orders where n1 or n2 is 0,
    so that D would be 0, 1 or undefined; the table's notes name them.
    Source: [Ney1994] for D; [Chen1999] for the rest.
    """

    discount: Below1 | None = None
    fallback: Below1 = 0.75

    def fit(self, counts: Counts) -> BackoffTable:
        """The table of these counts. Never fails: see `fallback`."""
        found = Discounts([], [])
        for order in range(1, counts.order + 1):
            _, n1, n2, _, _ = counts_of_counts(counts.adjusted(order))
            value = self.discount or (n1 / (n1 + 2 * n2) if n1 and n2 else self.fallback)
            found.values.append((value,))
            if not self.discount and not (n1 and n2):
                found.notes.append(why_not(counts, order, {"n1": n1, "n2": n2}, f"the discount {self.fallback:g}"))
        return interpolate(counts, found, "kneser-ney")


@dataclass(frozen=True, config=STRICT)
class ModifiedKneserNey:
    """Interpolated Kneser-Ney with three discounts an order, for the adjusted counts 1, 2, and 3 or more.

    Y  = n1 / (n1 + 2 n2)
    D1 = 1 - 2 Y n2 / n1
    D2 = 2 - 3 Y n3 / n2
    D3 = 3 - 4 Y n4 / n3

    fallback: used, all three, in the orders where n1, n2 or n3 is 0 or a D is not above 0, as KenLM's
    `lmplz --discount_fallback` does; the table's notes name them. Differs from lmplz: D = 0, which would give
    unseen words no probability after some contexts, falls back too.
    Source: [Chen1999], modified Kneser-Ney smoothing.
    """

    fallback: tuple[UpTo1, UpTo2, UpTo3] = (0.5, 1.0, 1.5)

    def fit(self, counts: Counts) -> BackoffTable:
        """The table of these counts. Never fails: see `fallback`."""
        found = Discounts([], [])
        for order in range(1, counts.order + 1):
            _, n1, n2, n3, n4 = counts_of_counts(counts.adjusted(order))
            closed_form = three_discounts(n1, n2, n3, n4)
            found.values.append(closed_form or self.fallback)
            if closed_form is None:
                used = "the discounts " + ", ".join(f"{value:g}" for value in self.fallback)
                found.notes.append(why_not(counts, order, {"n1": n1, "n2": n2, "n3": n3, "n4": n4}, used))
        return interpolate(counts, found, "modified-kneser-ney")


def three_discounts(n1: int, n2: int, n3: int, n4: int) -> Triple | None:
    """D1, D2, D3 in closed form, or None where they do not exist or would not be positive."""
    if not (n1 and n2 and n3):
        return None
    y = n1 / (n1 + 2 * n2)
    found = (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
    return found if min(found) > 0 else None


def why_not(counts: Counts, order: int, numbers: dict[str, int], used: str) -> str:
    """What the user reads when an order has no closed-form discount."""
    if not len(counts.levels[order - 1].word):
        return f"order {order}: no line is long enough to hold an n-gram of this order; lower ones decide"
    found = ", ".join(f"{name} = {number}" for name, number in numbers.items())
    return f"order {order}: the counts of counts ({found}) give no usable discount, so {used} stood in"


smoothings.register("kneser-ney")(KneserNey)
smoothings.register("modified-kneser-ney")(ModifiedKneserNey)
