"""Decoding, written from the definitions: one row, plain lists, no thought of speed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from ostinato.core.model import Stepper
from ostinato.core.state import State
from ostinato.decode import Hypothesis


def next_log_probs(model: Stepper, state: State, read: Sequence[int]) -> list[float]:
    """The log-probs after reading the tokens one by one into a state of one row."""
    log_probs = None
    for token in read:
        log_probs, state = model.step(state, np.array([token]))
    assert log_probs is not None
    return [float(value) for value in log_probs[0]]


def rank(total: float, length: int, alpha: float) -> float:
    """Wu et al. 2016, equation 14: log p / lp, lp = (5 + |Y|)^alpha / (5 + 1)^alpha."""
    return total / ((5 + length) ** alpha / (5 + 1) ** alpha)


def best_first(hypotheses: list[Hypothesis]) -> list[Hypothesis]:
    return sorted(hypotheses, key=lambda one: (-one.score, len(one.tokens) + one.finished, one.tokens))


def exhaustive(
    model: Stepper, state: State, token: int, *, stop: int | None, max_tokens: int, alpha: float = 0.0
) -> list[Hypothesis]:
    """Every possible outcome of at most `max_tokens` steps, best first."""
    outcomes = []
    for length in range(max_tokens + 1):
        for tokens in itertools.product(range(model.outputs), repeat=length):
            ends = stop in tokens[-1:] and stop is not None
            if stop in tokens[:-1] or not (ends or length == max_tokens):
                continue
            read = [token, *tokens]
            total = sum(next_log_probs(model, state, read[: place + 1])[said] for place, said in enumerate(tokens))
            if total > -math.inf:
                said = tokens[:-1] if ends else tokens
                outcomes.append(Hypothesis(said, total, rank(total, length, alpha), ends))
    return best_first(outcomes)


def beam(
    model: Stepper,
    state: State,
    token: int,
    *,
    stop: int | None,
    max_tokens: int,
    width: int,
    alpha: float = 0.0,
    n_best: int = 1,
    penalised=None,
) -> list[Hypothesis]:
    """Beam search without any early end: every row runs to `max_tokens`.

    `penalised(log_probs, said)` gives the scores that are ranked.
    """
    live: list[tuple[float, float, tuple[int, ...]]] = [(0.0, 0.0, ())]
    ended: list[Hypothesis] = []
    for length in range(1, max_tokens + 1):
        found = []
        for parent, (total, log_prob, said) in enumerate(live):
            log_probs = next_log_probs(model, state, [token, *said])
            scores = penalised(log_probs, said) if penalised else log_probs
            found += [
                (-(total + scores[w]), parent, w, log_prob + log_probs[w])
                for w in range(model.outputs)
                if scores[w] > -math.inf
            ]
        found.sort()
        ended += [
            Hypothesis(live[parent][2], log_prob, rank(-loss, length, alpha), True)
            for loss, parent, w, log_prob in found[:width]
            if w == stop
        ]
        others = [one for one in found if one[2] != stop][:width]
        live = [(-loss, log_prob, (*live[parent][2], w)) for loss, parent, w, log_prob in others]
    cut = [Hypothesis(said, log_prob, rank(total, max_tokens, alpha), False) for total, log_prob, said in live]
    return best_first(ended + cut)[:n_best]


def penalised(
    log_probs: Sequence[float],
    said: Sequence[int],
    stop: int | None,
    repetition: float = 1.0,
    frequency: float = 0.0,
    presence: float = 0.0,
    order: int = 0,
) -> list[float]:
    """Scores after the penalties, id by id."""
    scores = list(log_probs)
    for w in set(said) - {stop}:
        if w < len(scores):
            count = sum(other == w for other in said)
            scores[w] = repetition * scores[w] - frequency * count - presence
    grams = {tuple(said[place : place + order]) for place in range(len(said) - order + 1)} if order else set()
    end = tuple(said[len(said) - order + 1 :]) if order > 1 else ()
    banned = {w for w in range(len(scores)) if w != stop and len(said) >= order - 1 and (*end, w) in grams}
    if all(w in banned or scores[w] == -math.inf for w in range(len(scores))):
        return scores
    return [-math.inf if w in banned else score for w, score in enumerate(scores)]


def nucleus(probs: Sequence[float], mass: float) -> set[int]:
    """Of all subsets that hold the mass, the one of fewest ids; of those, the one that holds the most."""
    ids = [w for w, p in enumerate(probs) if p > 0]
    for size in range(1, len(ids) + 1):
        subsets = [set(chosen) for chosen in itertools.combinations(ids, size)]
        enough = [chosen for chosen in subsets if sum(probs[w] for w in chosen) >= mass]
        if enough:
            return max(enough, key=lambda chosen: sum(probs[w] for w in chosen))
    return set(ids)


def inverse_cdf(probs: Sequence[float], level: float) -> int:
    """The first id whose cumulative probability exceeds the level."""
    reached = 0.0
    for w, p in enumerate(probs):
        reached += p
        if level < reached:
            return w
    return max(w for w, p in enumerate(probs) if p > 0)


def em_round(weights: Sequence[float], log_probs: Sequence[Sequence[float]]) -> list[float]:
    """One round of EM for mixture weights: the mean responsibility of each member."""
    totals = [0.0] * len(weights)
    tokens = list(zip(*log_probs, strict=True))
    for token in tokens:
        shares = [weight * math.exp(value) for weight, value in zip(weights, token, strict=True)]
        for member, share in enumerate(shares):
            totals[member] += share / sum(shares)
    return [total / len(tokens) for total in totals]
