"""Small exact language models for tests: what they say is written in a table."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ostinato.core.model import check_ids
from ostinato.core.state import State
from ostinato.core.vocabulary import Ids, LogProbs, Vocabulary


class ChainState(NamedTuple):
    last: Ids  # [B, 2], the older id first; padding where nothing was read


class Chain:
    """A Markov chain of order 2: `table` [ids, ids, outputs] holds log p(next | last but one, last) in nats.

    `reads` counts the rows that `step` was asked for, so a test can see what a decoder costs.
    """

    def __init__(self, vocabulary: Vocabulary, table: LogProbs):
        assert table.shape == (len(vocabulary), len(vocabulary), vocabulary.outputs)
        self.vocabulary, self.table, self.outputs, self.reads = vocabulary, table, vocabulary.outputs, 0

    @property
    def parameters(self) -> int:
        return self.table.size

    def init_state(self, batch: int) -> ChainState:
        return ChainState(np.full((batch, 2), self.vocabulary.pad))

    def step(self, state: State, tokens: Ids) -> tuple[LogProbs, ChainState]:
        self.reads += len(tokens)
        older, last = ChainState(*state).last[:, 1], tokens
        return self.table[older, last], ChainState(np.stack([older, last], axis=1))

    def score(self, state: State, inputs: Ids, targets: Ids) -> tuple[LogProbs, ChainState]:
        check_ids(self.vocabulary, inputs, targets)
        read = np.hstack([ChainState(*state).last, inputs])
        return self.table[read[:, 1:-1], read[:, 2:], targets], ChainState(read[:, -2:])


def letters(count: int) -> Vocabulary:
    """A vocabulary of that many ordinary pieces: a, b, c..."""
    return Vocabulary([chr(ord("a") + place) for place in range(count)])


def log_of(probs: NDArray[np.float64]) -> LogProbs:
    """Log-probs float32 of probabilities, zeros included."""
    return np.log(probs, out=np.full(probs.shape, -np.inf), where=probs > 0).astype(np.float32)


def random_chain(seed: int, pieces: int = 3, *, peaked: float = 1.0, zeros: float = 0.0, ties: bool = False) -> Chain:
    """A chain drawn by seed: `peaked` sharpens it, `zeros` is the share of impossible ids, `ties` makes many equal."""
    generator, vocabulary = np.random.default_rng(seed), letters(pieces)
    shape = (len(vocabulary), len(vocabulary), vocabulary.outputs)
    weights = generator.integers(1, 3, shape).astype(float) if ties else generator.exponential(size=shape) ** peaked
    weights[generator.random(shape) < zeros] = 0
    weights[weights.sum(axis=-1) == 0] = 1
    return Chain(vocabulary, log_of(weights / weights.sum(axis=-1, keepdims=True)))


def constant_chain(*probs: float) -> Chain:
    """A chain that gives these probabilities (unknown, stop, a, b...) whatever it has read."""
    vocabulary = letters(len(probs) - 2)
    shape = (len(vocabulary), len(vocabulary), vocabulary.outputs)
    return Chain(vocabulary, log_of(np.broadcast_to(np.array(probs, float), shape)))
