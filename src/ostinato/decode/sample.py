"""Sampling: temperature, top-k and nucleus."""

from __future__ import annotations

import math
from dataclasses import field

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass

from ostinato.core.config import STRICT
from ostinato.core.errors import ConfigError
from ostinato.core.vocabulary import Ids
from ostinato.decode.penalty import Penalty
from ostinato.decode.strategy import strategies
from ostinato.decode.walk import Chooser, Walk

NEVER = 1e-300
"""Relative to the most likely id, a probability that no draw can meet."""


@dataclass(frozen=True, config=STRICT)
class Sample(Walk):
    """Each token drawn from the model's distribution, reshaped in this order:

    penalty      scores s(w) from log-probs
    temperature  q(w) proportional to exp(s(w) / temperature)
    top_k        only the k most likely ids; 0 keeps all
    top_p        of those, renormalised, the smallest set whose mass is at least top_p: most likely first,
                 always one at least; 1 keeps all

    Among equally likely ids the lower is kept. Row r draws from a generator of its own, seeded by (seed, r),
    so neither the batch size nor the other rows change its text. A draw inverts the cumulative distribution
    in float64, ids ascending. A hypothesis' score is the log-prob of its draws under q.
    Raises ConfigError for a temperature that is not above 0, a negative top_k, a top_p outside (0, 1].
    Source: top-k [Fan2018]; nucleus [Holtzman2020] section 3.1.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    penalty: Penalty = field(default_factory=Penalty)

    def __post_init__(self) -> None:
        if not 0 < self.temperature < math.inf:
            raise ConfigError(
                f"temperature: must be above 0 and finite, got {self.temperature}; for the most likely token use greedy"
            )
        if self.top_k < 0:
            raise ConfigError(f"top_k: cannot be negative, got {self.top_k}; 0 keeps every token")
        if not 0 < self.top_p <= 1:
            raise ConfigError(f"top_p: must be above 0 and at most 1, got {self.top_p}; 1 keeps every token")

    def kept(self, scores: NDArray[np.floating]) -> tuple[Ids, NDArray[np.float64]]:
        """The ids [K] that may be drawn, ascending, and their probabilities [K], for scores [V] after the penalty."""
        scaled = scores.astype(np.float64) - scores.max()
        with np.errstate(over="ignore"):  # a tiny temperature makes all but the best impossible
            scaled /= self.temperature
        weights = np.exp(scaled)
        ids: Ids = np.flatnonzero(weights > NEVER)
        if 0 < self.top_k < len(ids):
            ids = np.sort(_most_likely(weights, ids, self.top_k))
        if self.top_p < 1:
            ids = np.sort(_nucleus(weights, ids, self.top_p))
        return ids, weights[ids] / weights[ids].sum()

    def chooser(self, batch: int, seed: int) -> Chooser:
        generators = [np.random.default_rng([seed, row]) for row in range(batch)]

        def draw(scores: NDArray[np.floating], rows: Ids) -> tuple[Ids, NDArray[np.float64]]:
            tokens, gained = np.zeros(len(rows), np.int64), np.zeros(len(rows))
            for place, row in enumerate(rows):
                ids, probs = self.kept(scores[place])
                drawn = invert(probs, generators[row].random())
                tokens[place], gained[place] = ids[drawn], math.log(probs[drawn])
            return tokens, gained

        return draw


def invert(probs: NDArray[np.float64], level: float) -> int:
    """The first place whose cumulative probability exceeds `level`, in [0, 1), of their sum."""
    reached = probs.cumsum()
    return min(int(np.searchsorted(reached, level * reached[-1], side="right")), len(probs) - 1)


def _most_likely(weights: NDArray[np.float64], ids: Ids, count: int) -> Ids:
    """The `count` ids of the largest weights, the lower of equals."""
    smallest = np.partition(weights[ids], len(ids) - count)[len(ids) - count]
    ids = ids[weights[ids] >= smallest]
    return ids[np.argsort(-weights[ids], kind="stable")[:count]]


def _nucleus(weights: NDArray[np.float64], ids: Ids, mass: float) -> Ids:
    """The fewest ids, largest weights first, that hold that share of the weight of all `ids`."""
    ids = ids[np.argsort(-weights[ids], kind="stable")]
    reached = weights[ids].cumsum()
    needed = int(np.searchsorted(reached, mass * reached[-1], side="left")) + 1
    return ids[:needed]


strategies.register("sample")(Sample)
