"""Whether an engine steps the model it is said to step, and what its precision costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from ostinato.bench.stream_case import StreamCase, model, tokens

Read: TypeAlias = Callable[[Any], Any]
"""Reads words [sessions], gives log-probs [sessions, V]; it keeps its state, and may use the memory again."""

STEPS = 32


def alone(case: StreamCase) -> StreamCase:
    """The same model with one session."""
    return replace(case, sessions=1)


def loss(case: StreamCase, read: Read) -> dict[str, float]:
    """How far an engine that has read nothing is from the float32 model on the first words of one session.

    difference: of a log-prob at most, in nats. kl: from the right distributions to the engine's, mean, in nats.
    perplexity_factor: by how much that raises the perplexity of a text that the right model has made.
    """
    right, case = model(case), alone(case)
    state, divergence, difference = right.init_state(1), [], 0.0
    for words in tokens(case, STEPS):
        wanted, state = right.step(state, words)
        found = read(words)
        difference = max(difference, float(np.abs(found - wanted).max()))
        divergence.append(float((np.exp(wanted.astype(np.float64)) * (wanted - found)).sum()))
    mean = float(np.mean(divergence))
    return {"difference": difference, "kl": mean, "perplexity_factor": float(np.exp(mean))}
