"""Absolute discounting: the same number is taken off every count, and what it frees goes to shorter contexts."""

from __future__ import annotations

from typing import Annotated, ClassVar

from annotated_types import Gt, Lt
from pydantic.dataclasses import dataclass

from ostinato.core.config import STRICT
from ostinato.ngram.counts import Counts
from ostinato.ngram.interpolation import Discounts
from ostinato.ngram.smoothing.base import smoothings
from ostinato.ngram.smoothing.discounts import Discounted, one_each


@dataclass(frozen=True, config=STRICT)
class Absolute(Discounted):
    """Interpolated absolute discounting with one discount an order.

    D = n1 / (n1 + 2 n2), where n1, n2 n-grams of the order occur once, twice
    p(w | h) = max(c(hw) - D, 0) / c(h) + D N1+(h) / c(h) p(w | h without its oldest word)

    N1+(h): how many different words follow h; below order 1 stands 1 / outputs.
    discount: used in every order instead of the estimate. fallback: used in the orders where n1 or n2 is 0.
    Source: [Ney1994]; [Chen1999] for the interpolation.
    """

    discount: Annotated[float, Gt(0), Lt(1)] | None = None
    fallback: Annotated[float, Gt(0), Lt(1)] = 0.75

    name: ClassVar[str] = "absolute"
    continuation: ClassVar[bool] = False

    def discounts(self, counts: Counts) -> Discounts:
        """One discount an order."""
        return one_each(counts, self.discount, self.fallback, continuation=False)


@dataclass(frozen=True, config=STRICT)
class AbsoluteBackoff(Absolute):
    """Absolute discounting as back-off: what D frees goes only to words not seen after h.

    p(w | h) = (c(hw) - D) / c(h) if hw was seen, else alpha(h) p(w | h without its oldest word)

    The discounts and options are those of `Absolute`; alpha and the exceptions are those of
    ngram/backing_off.py. Source: [Ney1994]; [Katz1987] for alpha.
    """

    name: ClassVar[str] = "absolute-backoff"
    interpolated: ClassVar[bool] = False


smoothings.register("absolute")(Absolute)
smoothings.register("absolute-backoff")(AbsoluteBackoff)
