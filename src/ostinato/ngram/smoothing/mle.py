"""No smoothing: relative frequencies, so what was never seen is impossible."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass

from ostinato.core.config import STRICT
from ostinato.ngram.backing_off import finished, logs
from ostinato.ngram.counts import Counts
from ostinato.ngram.smoothing.base import smoothings
from ostinato.ngram.smoothing.heldout import context_totals
from ostinato.ngram.table import BackoffTable


@dataclass(frozen=True, config=STRICT)
class MaximumLikelihood:
    """Maximum likelihood: what the training text itself would like best.

    p(w | h) = c(hw) / c(h), c(h) the times that a word follows h

    A word not seen after a seen h has probability zero, log-prob minus infinity; an h never seen says what the
    longest suffix of it that was seen says. Pruned n-grams share what they had: see `finished`.
    """

    def fit(
        self, counts: Counts, heldout: NDArray[Any] | None = None, thresholds: tuple[int, ...] = ()
    ) -> BackoffTable:
        """The table of these counts; held-out text changes nothing."""
        trie, totals = counts.trie, context_totals(counts)
        log_prob = np.zeros(trie.nodes, np.float32)
        for order in range(1, counts.order + 1):
            log_prob[trie.level(order)] = logs(counts.raw(order) / totals[trie.parents(order)])
        log_backoff = np.where(totals > 0, -np.inf, 0).astype(np.float32)
        log_backoff[0] = 0
        return finished(counts, log_prob, log_backoff, "mle", thresholds)


smoothings.register("mle")(MaximumLikelihood)
