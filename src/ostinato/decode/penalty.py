"""Penalties on saying the same again."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass

from ostinato.core.config import STRICT
from ostinato.core.errors import ConfigError
from ostinato.core.vocabulary import Ids, LogProbs

LARGEST = 1000.0


@dataclass(frozen=True, config=STRICT)
class Penalty:
    """How the score of a token that was said before is lowered; the defaults change nothing.

    score(w) = repetition * log p(w) - frequency * count(w) - presence    if count(w) > 0, else log p(w)

    count(w) is how often w stands in the row's history and what was produced after it. An id that would
    complete an n-gram (n = no_repeat_ngram, 0 for off) standing there already gets -inf; where that would
    leave nothing possible, the ban is lifted for that row and step. The stop symbol is exempt from all of
    it, so a row can always end. Scores are not renormalised: they rank, or are what sampling starts from.
    repetition above 1 and frequency, presence above 0 discourage; below, they encourage.
    Raises ConfigError for repetition outside (0, 1000], frequency or presence beyond 1000 either way, and a
    negative no_repeat_ngram.
    Source: repetition [Keskar2019] section 4.1; differs: applied to log-probs, which are never positive,
    instead of logits, so p becomes p^repetition whatever the logits' offset. n-grams: [Paulus2018] section 2.5.
    """

    repetition: float = 1.0
    frequency: float = 0.0
    presence: float = 0.0
    no_repeat_ngram: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.repetition <= LARGEST:
            raise ConfigError(
                f"penalty.repetition: must be above 0 and at most {LARGEST:g}, got {self.repetition}; "
                "1 is off, 1.2 is usual"
            )
        for name, value in (("frequency", self.frequency), ("presence", self.presence)):
            if not (math.isfinite(value) and abs(value) <= LARGEST):
                raise ConfigError(
                    f"penalty.{name}: must lie between {-LARGEST:g} and {LARGEST:g}, got {value}; 0 is off"
                )
        if self.no_repeat_ngram < 0:
            raise ConfigError(f"penalty.no_repeat_ngram: cannot be negative, got {self.no_repeat_ngram}; 0 is off")

    @property
    def neutral(self) -> bool:
        """Whether nothing is changed."""
        return self == Penalty()

    @property
    def may_reward(self) -> bool:
        """Whether a score may rise above zero, so that a longer hypothesis may gain."""
        return self.frequency < 0 or self.presence < 0

    def apply(
        self, log_probs: LogProbs, said: Sequence[Ids | Sequence[int]], stop: int | None = None
    ) -> NDArray[np.floating]:
        """The scores [B, V] of log-probs [B, V] after what each row has said, oldest id first.

        The log-probs themselves are returned if nothing is to be changed, float64 scores otherwise.
        """
        if self.neutral:
            return log_probs
        scores = log_probs.astype(np.float64)
        for row, ids in zip(scores, said, strict=True):
            past = np.asarray(ids, np.int64)
            self._discourage(row, past, stop)
            self._ban(row, past, stop)
        return scores

    def _discourage(self, scores: NDArray[np.float64], past: Ids, stop: int | None) -> None:
        ids, counts = np.unique(past, return_counts=True)
        counted = _touchable(ids, len(scores), stop)
        ids, counts = ids[counted], counts[counted]
        scores[ids] = self.repetition * scores[ids] - self.frequency * counts - self.presence

    def _ban(self, scores: NDArray[np.float64], past: Ids, stop: int | None) -> None:
        banned = completions(past, self.no_repeat_ngram)
        banned = banned[_touchable(banned, len(scores), stop)]
        lowered = scores.copy()
        lowered[banned] = -np.inf
        if lowered.max() > -np.inf:
            scores[:] = lowered


def _touchable(ids: Ids, outputs: int, stop: int | None) -> NDArray[np.bool_]:
    """Which ids a penalty may touch: those that can come next, but not the stop symbol."""
    touchable: NDArray[np.bool_] = (ids >= 0) & (ids < outputs) & (ids != (-1 if stop is None else stop))
    return touchable


def completions(past: Ids, order: int) -> Ids:
    """The ids that would complete an n-gram of that order that `past` [T] holds; none if order is 0."""
    if order == 0 or len(past) < order:
        return np.zeros(0, np.int64)
    grams = np.lib.stride_tricks.sliding_window_view(past, order)
    begun = (grams[:, :-1] == past[len(past) - order + 1 :]).all(axis=1)
    last: Ids = grams[begun, -1]
    return last
