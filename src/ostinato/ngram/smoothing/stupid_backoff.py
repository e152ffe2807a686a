"""Stupid back-off: relative frequencies and a fixed price for forgetting a word. Scores, not probabilities."""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
from annotated_types import Gt, Le
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass

from ostinato.core.config import STRICT
from ostinato.ngram.backing_off import kept, logs
from ostinato.ngram.counts import Counts
from ostinato.ngram.smoothing.base import smoothings
from ostinato.ngram.smoothing.heldout import context_totals
from ostinato.ngram.table import BackoffTable


@dataclass(frozen=True, config=STRICT)
class StupidBackoff:
    """Stupid back-off; cheap, and good where the text is huge. Its scores do not sum to one.

    S(w | h) = c(hw) / c(h) if hw was seen, else alpha S(w | h without its oldest word)
    S(w)     = c(w) / c, or alpha / c for a word never seen; c all predicted tokens

    Source: [Brants2007] section 4. Differs: a context never seen costs no alpha, since the model's state forgets
    it; c(h) are the occurrences that a word follows, so those of the start symbol are the lines; a word never
    seen has a score above 0, so that texts with such words can still be compared.
    """

    alpha: Annotated[float, Gt(0), Le(1)] = 0.4

    def fit(
        self, counts: Counts, heldout: NDArray[Any] | None = None, thresholds: tuple[int, ...] = ()
    ) -> BackoffTable:
        """The table of these counts; held-out text changes nothing."""
        trie, totals = counts.trie, context_totals(counts)
        log_prob = np.zeros(trie.nodes, np.float32)
        for order in range(1, counts.order + 1):
            count = counts.raw(order)
            log_prob[trie.level(order)] = logs(np.where(count, count, self.alpha) / totals[trie.parents(order)])
        log_prob[trie.sentence_start] = -np.inf
        keep = kept(counts, thresholds)
        if keep is not None:
            trie, old = trie.select(keep)
            log_prob = log_prob[old]
        continued = np.diff(trie.first_child) > 0
        continued[0] = False
        log_backoff = np.where(continued, math.log(self.alpha), 0).astype(np.float32)
        return BackoffTable.build(trie, log_prob, log_backoff, "stupid-backoff", normalised=False)


smoothings.register("stupid-backoff")(StupidBackoff)
