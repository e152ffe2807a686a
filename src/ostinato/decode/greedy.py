"""Greedy decoding: always the best next token."""

from __future__ import annotations

from dataclasses import field

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass

from ostinato.core.config import STRICT
from ostinato.core.vocabulary import Ids
from ostinato.decode.penalty import Penalty
from ostinato.decode.strategy import strategies
from ostinato.decode.walk import Chooser, Walk


@dataclass(frozen=True, config=STRICT)
class Greedy(Walk):
    """The id of the highest score at each step, the lowest id among equals.

    A hypothesis' score is the sum of its penalised log-probs. Nothing is random: the seed is not used.
    """

    penalty: Penalty = field(default_factory=Penalty)

    def chooser(self, batch: int, seed: int) -> Chooser:
        return _best


def _best(scores: NDArray[np.floating], rows: Ids) -> tuple[Ids, NDArray[np.float64]]:
    chosen: Ids = scores.argmax(axis=1)
    return chosen, scores[np.arange(len(rows)), chosen].astype(np.float64)


strategies.register("greedy")(Greedy)
