"""Witten-Bell smoothing: a context that many different words follow expects another new one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass

from ostinato.core.config import STRICT
from ostinato.ngram.backing_off import Numbers, mixed
from ostinato.ngram.counts import Counts
from ostinato.ngram.smoothing.base import smoothings
from ostinato.ngram.table import BackoffTable


@dataclass(frozen=True, config=STRICT)
class WittenBell:
    """Interpolated Witten-Bell: the first occurrence of each word after h is counted as one of a new word.

    p(w | h) = (c(hw) + N1+(h) p(w | h without its oldest word)) / (c(h) + N1+(h))

    N1+(h): how many different words follow h; below order 1 stands 1 / outputs.
    Source: [Witten1991] method C; [Chen1999] for language models.
    """

    def fit(
        self, counts: Counts, heldout: NDArray[Any] | None = None, thresholds: tuple[int, ...] = ()
    ) -> BackoffTable:
        """The table of these counts; held-out text changes nothing."""
        return mixed(counts, trust, "witten-bell", thresholds)


def trust(order: int, total: Numbers, kinds: Numbers) -> Numbers:
    """lambda(h) = c(h) / (c(h) + N1+(h)); 0 for a context that nothing follows."""
    return total / np.maximum(total + kinds, 1)


smoothings.register("witten-bell")(WittenBell)
