"""Additive smoothing: every word is counted a little more often than it occurs (Laplace, Lidstone)."""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
from annotated_types import Gt
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass

from ostinato.core.config import STRICT
from ostinato.ngram.backing_off import finished, logs
from ostinato.ngram.counts import Counts
from ostinato.ngram.smoothing.base import smoothings
from ostinato.ngram.smoothing.heldout import Evidence, context_totals, gather, source_of
from ostinato.ngram.table import BackoffTable

SMALLEST, LARGEST = 1e-6, 100.0
"""Between these k is sought."""


@dataclass(frozen=True, config=STRICT)
class Additive:
    """Add k to every count of the full order; k = 1 is Laplace's rule.

    p(w | h) = (c(hw) + k) / (c(h) + k V), V words that can be predicted

    h: the n - 1 words before, or fewer back to the line's beginning; nothing shorter is asked. So an h never
    seen, or too short, gives 1 / V, and so does the state that has read nothing.
    k: None for the one that a held-out text likes best, or without one the training text, each token of it
        left out in turn; the table's notes say it.
    Source: [Chen1999] section 2.1; [Lidstone1920] for k other than 1.
    """

    k: Annotated[float, Gt(0)] | None = None

    def fit(
        self, counts: Counts, heldout: NDArray[Any] | None = None, thresholds: tuple[int, ...] = ()
    ) -> BackoffTable:
        """The table of these counts; held-out text chooses k."""
        k, notes = self.k, list[str]()
        if k is None:
            k = best_k(gather(counts, heldout), counts.outputs)
            notes.append(f"k = {k:.3g}, chosen {source_of(heldout)}")
        trie, totals, outputs = counts.trie, context_totals(counts), counts.outputs
        asked = asked_contexts(counts)
        log_prob = np.zeros(trie.nodes, np.float32)
        for order in range(1, counts.order + 1):
            parent, level = trie.parents(order), trie.level(order)
            own = (counts.raw(order) + k) / (totals[parent] + k * outputs)
            log_prob[level] = logs(np.where(asked[parent], own, 1 / outputs))
        log_prob[trie.sentence_start] = -np.inf
        log_backoff = logs(np.where(asked & (totals > 0), k * outputs / (totals + k * outputs), 1.0))
        log_backoff[0] = 0
        return finished(counts, log_prob, log_backoff, "additive", thresholds, notes=tuple(notes))


def asked_contexts(counts: Counts) -> NDArray[np.bool_]:
    """Which inner nodes, [M], are the whole context of a prediction: n - 1 words, or the line from its start."""
    asked = np.zeros(counts.trie.inner, np.bool_)
    for order in range(1, counts.order):
        level = counts.trie.level(order)
        asked[level.start + counts.starting(order) : level.stop] = True
    asked[counts.trie.level(counts.order - 1)] = True
    return asked


def best_k(evidence: Evidence, outputs: int) -> float:
    """The k under which the predictions are likeliest: the best of a grid, then a golden section around it."""
    pairs, place = np.unique(np.stack(evidence.longest()), axis=1, return_inverse=True)
    (counted, total), times = pairs, np.bincount(place.ravel(), evidence.times)

    def loss(log_k: float) -> float:
        k = math.exp(log_k)
        return float(times @ (np.log(total + k * outputs) - np.log(counted + k)))

    grid = np.linspace(math.log(SMALLEST), math.log(LARGEST), 38)
    lowest = int(np.argmin([loss(log_k) for log_k in grid]))
    low, high = float(grid[max(lowest - 1, 0)]), float(grid[min(lowest + 1, len(grid) - 1)])
    golden = (math.sqrt(5) - 1) / 2
    while high - low > 1e-4:
        left, right = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, right) if loss(left) <= loss(right) else (left, high)
    return math.exp((low + high) / 2)


smoothings.register("additive")(Additive)
