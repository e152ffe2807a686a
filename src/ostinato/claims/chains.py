"""Hidden Markov chains: a generator of text under which the probability of any continuation is known exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Probs = NDArray[np.float64]
Symbols = NDArray[np.int64]


@dataclass(frozen=True)
class Chain:
    """start: [K]; moves: [K, K], from state to state; says: [K, V], symbols by state; rows sum to one.

    Source: [Rabiner1989].
    """

    start: Probs
    moves: Probs
    says: Probs

    @classmethod
    def drawn(cls, rng: np.random.Generator, states: int, symbols: int, sparse: float, noise: float) -> Chain:
        """Rows from a Dirichlet distribution; the smaller `sparse`, the fewer states and symbols are likely.

        noise: the share of every row that is spread evenly, above 0 so that nothing is impossible.
        """

        def rows(count: int, width: int) -> Probs:
            return (1 - noise) * rng.dirichlet(np.full(width, sparse), count) + noise / width

        return cls(np.full(states, 1 / states), rows(states, states), rows(states, symbols))

    def begin(self, rows: int) -> Probs:
        """What is believed of the state [rows, K] before anything was read."""
        return np.tile(self.start, (rows, 1))

    def next(self, belief: Probs) -> Probs:
        """The probabilities [B, V] of the next symbol."""
        return belief @ self.says

    def read(self, belief: Probs, symbols: Symbols) -> Probs:
        """The belief [B, K] about the next state after reading symbols [B]: the forward algorithm, each row scaled."""
        joint = belief * self.says[:, symbols].T
        after: Probs = joint / joint.sum(axis=1, keepdims=True) @ self.moves
        return after

    def texts(self, rng: np.random.Generator, rows: int, steps: int) -> Symbols:
        """Texts [B, T] that the chain writes."""
        belief, found = self.begin(rows), []
        for _ in range(steps):
            found.append(chosen(self.next(belief), rng))
            belief = self.read(belief, found[-1])
        return np.stack(found, axis=1)


class Walk(NamedTuple):
    """Texts [B, T], and by place [T] means over them in nats, each of the next symbol given the text so far.

    p is the chain's distribution, q the model's. entropy: of p, what a symbol of the chain costs. surprise: -sum q log
    p, what a symbol of the model costs under the chain. regret: KL(p || q), what the model's loss is beyond the least.
    """

    texts: Symbols
    entropy: Probs
    surprise: Probs
    regret: Probs


Believe = Callable[[Symbols | None], Probs]
"""A model that reads symbols [B], none at first, and says the probabilities [B, V] of the next; it keeps its state."""


def walk(chain: Chain, model: Believe, rng: np.random.Generator, rows: int, steps: int, own: bool) -> Walk:
    """Texts that the chain writes and the model reads, as in teacher forcing; with `own`, that the model writes too."""
    belief, last = chain.begin(rows), None
    texts, costs = [], []
    for _ in range(steps):
        p, q = chain.next(belief), model(last)
        log_p = np.log(p)
        costs.append([float(-(weight * log).sum() / rows) for weight, log in ((p, log_p), (q, log_p), (p, np.log(q)))])
        last = chosen(q if own else p, rng)
        texts.append(last)
        belief = chain.read(belief, last)
    entropy, surprise, loss = np.array(costs).T
    return Walk(np.stack(texts, axis=1), entropy, surprise, loss - entropy)


def chosen(probs: Probs, rng: np.random.Generator) -> Symbols:
    """A symbol [B] drawn from each row [B, V]."""
    sums = probs.cumsum(axis=1)
    found: Symbols = (sums < rng.random((len(probs), 1)) * sums[:, -1:]).sum(axis=1)
    return found
