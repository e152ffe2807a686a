"""Discounts in closed form, from how many n-grams of an order have each small count."""

from __future__ import annotations

from typing import Any, ClassVar

from numpy.typing import NDArray

from ostinato.ngram.backing_off import back_off
from ostinato.ngram.counts import Counts
from ostinato.ngram.interpolation import Discounts, counts_of_counts, interpolate
from ostinato.ngram.table import BackoffTable


class Discounted:
    """A smoothing that takes discounts off the counts of every order and gives what they free to shorter contexts.

    interpolated: to all words; else only to those not seen after the context. continuation: whether adjusted
    counts are discounted, not occurrences.
    """

    name: ClassVar[str]
    continuation: ClassVar[bool]
    interpolated: ClassVar[bool] = True

    def discounts(self, counts: Counts) -> Discounts:
        """What is taken off the counts of each order."""
        raise NotImplementedError

    def fit(
        self, counts: Counts, heldout: NDArray[Any] | None = None, thresholds: tuple[int, ...] = ()
    ) -> BackoffTable:
        """The table of these counts; held-out text changes nothing."""
        smooth = interpolate if self.interpolated else back_off
        found = self.discounts(counts)
        return smooth(counts, found, self.name, continuation=self.continuation, thresholds=thresholds)


def one_each(counts: Counts, chosen: float | None, fallback: float, *, continuation: bool) -> Discounts:
    """One discount an order: the chosen one, or D = n1 / (n1 + 2 n2), or the fallback where n1 or n2 is 0.

    continuation: of the adjusted counts, not of the occurrences. Source: [Ney1994].
    """
    found = Discounts([], [])
    for order in range(1, counts.order + 1):
        _, n1, n2, _, _ = counts_of_counts(counts, order, continuation)
        found.values.append((chosen or (n1 / (n1 + 2 * n2) if n1 and n2 else fallback),))
        if not chosen and not (n1 and n2):
            found.notes.append(why_not(counts, order, {"n1": n1, "n2": n2}, f"the discount {fallback:g}"))
    return found


def three_each(counts: Counts, fallback: tuple[float, float, float]) -> Discounts:
    """Three discounts an order, of the adjusted counts 1, 2, and 3 or more; the fallback where there are none.

    Source: [Chen1999], modified Kneser-Ney smoothing.
    """
    found = Discounts([], [])
    for order in range(1, counts.order + 1):
        _, n1, n2, n3, n4 = counts_of_counts(counts, order)
        closed_form = three_discounts(n1, n2, n3, n4)
        found.values.append(closed_form or fallback)
        if closed_form is None:
            used = "the discounts " + ", ".join(f"{value:g}" for value in fallback)
            found.notes.append(why_not(counts, order, {"n1": n1, "n2": n2, "n3": n3, "n4": n4}, used))
    return found


def three_discounts(n1: int, n2: int, n3: int, n4: int) -> tuple[float, float, float] | None:
    """D1, D2, D3 in closed form, or None where they do not exist or would not be positive."""
    if not (n1 and n2 and n3):
        return None
    y = n1 / (n1 + 2 * n2)
    found = (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
    return found if min(found) > 0 else None


def why_not(counts: Counts, order: int, numbers: dict[str, int], used: str) -> str:
    """What the user reads when an order has no closed-form discount."""
    if not counts.trie.ngrams[order - 1]:
        return f"order {order}: no line is long enough to hold an n-gram of this order; lower ones decide"
    found = ", ".join(f"{name} = {number}" for name, number in numbers.items())
    return f"order {order}: the counts of counts ({found}) give no usable discount, so {used} stood in"
