"""Jelinek-Mercer smoothing: every order is mixed with the one below it, by weights that a held-out text likes."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass

from ostinato.core.config import STRICT
from ostinato.ngram.backing_off import Numbers, mixed
from ostinato.ngram.counts import Counts
from ostinato.ngram.smoothing.base import smoothings
from ostinato.ngram.smoothing.heldout import Evidence, gather, source_of
from ostinato.ngram.table import BackoffTable

Weights: TypeAlias = Numbers

BUCKETS = 32
"""Classes of contexts an order: those seen once, 2-3, 4-7, 8-15, ... times."""

ENOUGH = 1e-6
"""EM ends when the mean log-likelihood (nats) grows by less."""

MOST_ROUNDS = 200


@dataclass(frozen=True, config=STRICT)
class JelinekMercer:
    """Jelinek-Mercer, or deleted interpolation.

    p(w | h) = lambda c(hw) / c(h) + (1 - lambda) p(w | h without its oldest word)

    lambda is one number for all h of an order with the same floor(log2 c(h)); below order 1 stands 1 / outputs.
    They are found by EM on held-out text, or without one on the training text, each token of it left out of
    the counts in turn; either may not have seen much of a class, so each begins with one observation, half of
    it for the order, half for those below: no lambda is 0 or 1.
    Source: [JelinekMercer1980]; [Chen1999] for the classes, which differ: here by powers of two.
    """

    def fit(
        self, counts: Counts, heldout: NDArray[Any] | None = None, thresholds: tuple[int, ...] = ()
    ) -> BackoffTable:
        """The table of these counts; held-out text chooses the weights."""
        weights = estimate(gather(counts, heldout), counts.outputs)

        def weight(order: int, total: Numbers, kinds: Numbers) -> Numbers:
            return np.take(weights[order - 1], bucket(total))

        notes = (f"the weights were estimated {source_of(heldout)}",)
        return mixed(counts, weight, "jelinek-mercer", thresholds, notes=notes)


def bucket(total: NDArray[Any]) -> NDArray[np.intp]:
    """The class of a context seen so often, floor(log2 c); BUCKETS for one never seen."""
    return np.where(total > 0, np.frexp(total)[1] - 1, BUCKETS).astype(np.intp)


def estimate(evidence: Evidence, outputs: int) -> Weights:
    """The lambdas, [orders, BUCKETS + 1], by EM; in the last column 0, for contexts never seen.

    Expected are, for each prediction, whether it came from the words of its order or from below; made largest
    is the likelihood times the made-up observation of each class. Cost: a few passes over the rows a round.
    Source: [JelinekMercer1980]; [Dempster1977].
    """
    classes = bucket(evidence.total)
    own = evidence.counted / evidence.total.clip(1)
    weights = np.full((len(own), BUCKETS + 1), 0.5)
    weights[:, BUCKETS] = 0
    before, everything = -np.inf, evidence.times.sum()
    for _ in range(MOST_ROUNDS):
        weights, likelihood = improved(weights, classes, own, evidence.times, outputs)
        if likelihood - before < ENOUGH * everything:
            break
        before = likelihood
    return weights


def improved(
    weights: Weights, classes: NDArray[np.intp], own: Numbers, times: NDArray[np.int64], outputs: int
) -> tuple[Weights, float]:
    """One round of EM: better weights, and the log-likelihood (nats) of the ones given."""
    orders = range(len(own))
    mine = np.stack([weights[k, classes[k]] * own[k] for k in orders])
    p = np.full((len(own) + 1, own.shape[1]), 1 / outputs)
    for k in orders:
        p[k + 1] = mine[k] + (1 - weights[k, classes[k]]) * p[k]
    reached, new = times.astype(np.float64), np.zeros_like(weights)
    for k in reversed(orders):
        taken = reached * mine[k] / p[k + 1]
        for_order, all_of = (np.bincount(classes[k], of, BUCKETS + 1)[:BUCKETS] for of in (taken, reached))
        new[k, :BUCKETS] = (for_order + 0.5) / (all_of + 1)
        reached = reached - taken
    return new, float(times @ np.log(p[-1]))


smoothings.register("jelinek-mercer")(JelinekMercer)
