"""Kneser-Ney smoothing: with one discount an order or three (modified), interpolated or backing off.

In lower orders a word counts by how many different words it follows, not by how often it occurs ("Francisco"
is frequent, but only after "San"). Sources: Kneser and Ney (1995), who back off; Chen and Goodman (1999), who
interpolate and modify it.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from ostinato.core.config import STRICT
from ostinato.ngram.counts import Counts
from ostinato.ngram.interpolation import Discounts
from ostinato.ngram.smoothing.base import smoothings
from ostinato.ngram.smoothing.discounts import Discounted, one_each, three_each

Below1 = Annotated[float, Field(gt=0, lt=1)]
UpTo1 = Annotated[float, Field(gt=0, le=1)]
UpTo2 = Annotated[float, Field(gt=0, le=2)]
UpTo3 = Annotated[float, Field(gt=0, le=3)]


@dataclass(frozen=True, config=STRICT)
class KneserNey(Discounted):
    """Interpolated Kneser-Ney with one discount an order.

    D = n1 / (n1 + 2 n2), where n1, n2 n-grams of the order have the adjusted count 1, 2

    discount: used in every order instead of the estimate. fallback: used in the orders where n1 or n2 is 0,
    so that D would be 0, 1 or undefined; the table's notes name them.
    Source: [Ney1994] for D; [Chen1999] for the rest.
    """

    discount: Below1 | None = None
    fallback: Below1 = 0.75

    name: ClassVar[str] = "kneser-ney"
    continuation: ClassVar[bool] = True

    def discounts(self, counts: Counts) -> Discounts:
        """One discount an order."""
        return one_each(counts, self.discount, self.fallback, continuation=True)


@dataclass(frozen=True, config=STRICT)
class ModifiedKneserNey(Discounted):
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

    name: ClassVar[str] = "modified-kneser-ney"
    continuation: ClassVar[bool] = True

    def discounts(self, counts: Counts) -> Discounts:
        """Three discounts an order."""
        return three_each(counts, self.fallback)


@dataclass(frozen=True, config=STRICT)
class KneserNeyBackoff(KneserNey):
    """Kneser-Ney as back-off: what D frees goes only to words not seen after h.

    p(w | h) = (a(hw) - D) / T(h) if hw was seen, else alpha(h) p(w | h without its oldest word)

    a, T: adjusted counts and their sum; D and the options are those of `KneserNey`, alpha and the exceptions
    those of ngram/backing_off.py. Source: [Kneser1995]; [Chen1999] for the counts after the start symbol.
    """

    name: ClassVar[str] = "kneser-ney-backoff"
    interpolated: ClassVar[bool] = False


@dataclass(frozen=True, config=STRICT)
class ModifiedKneserNeyBackoff(ModifiedKneserNey):
    """Modified Kneser-Ney as back-off: what the discounts free goes only to words not seen after h.

    p(w | h) = (a(hw) - D(a(hw))) / T(h) if hw was seen, else alpha(h) p(w | h without its oldest word)

    a, T: adjusted counts and their sum; the discounts and options are those of `ModifiedKneserNey`, alpha and
    the exceptions those of ngram/backing_off.py. Source: [Chen1999]; [Kneser1995] for backing off.
    """

    name: ClassVar[str] = "modified-kneser-ney-backoff"
    interpolated: ClassVar[bool] = False


smoothings.register("kneser-ney")(KneserNey)
smoothings.register("modified-kneser-ney")(ModifiedKneserNey)
smoothings.register("kneser-ney-backoff")(KneserNeyBackoff)
smoothings.register("modified-kneser-ney-backoff")(ModifiedKneserNeyBackoff)
