"""The contract: what every sequence model offers, and the slow definition of `score`."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from ostinato.core.errors import ShapeError
from ostinato.core.state import State
from ostinato.core.vocabulary import Ids, LogProbs, Vocabulary


@runtime_checkable
class Stepper(Protocol):
    """All that decoding, mixing and serving ask for."""

    @property
    def outputs(self) -> int:
        """How many ids can come next."""

    def step(self, state: State, tokens: Ids) -> tuple[LogProbs, State]:
        """Read one token a row, [B]; return the log-probs [B, outputs] of the next (nats) and the new state."""


@runtime_checkable
class LanguageModel(Stepper, Protocol):
    """A stepper with a vocabulary, a beginning, and whole-sequence scoring."""

    @property
    def vocabulary(self) -> Vocabulary:
        """The pieces behind the ids."""

    def init_state(self, batch: int) -> State:
        """The state of `batch` rows that have read nothing; reading the start symbol comes first."""

    def score(self, state: State, inputs: Ids, targets: Ids) -> tuple[LogProbs, State]:
        """Log-prob of each target after the inputs up to and including its own place.

        inputs, targets: [B, T]; T may be 0. Inputs may hold any id of the vocabulary, targets only ids
            below `outputs`: the start symbol and padding are read, never predicted.
        Returns log-probs [B, T] in nats, float32, and the state after the last input.
        Raises ShapeError if the two differ in shape, MismatchError for ids outside the vocabulary.
        """


def score_by_steps(model: Stepper, state: State, inputs: Ids, targets: Ids) -> tuple[LogProbs, State]:
    """What `score` means: read the inputs one step at a time and pick each target's log-prob."""
    check_shapes(inputs, targets)
    rows = np.arange(len(inputs))
    picked = np.zeros(inputs.shape, np.float32)
    for place in range(inputs.shape[1]):
        log_probs, state = model.step(state, inputs[:, place])
        picked[:, place] = log_probs[rows, targets[:, place]]
    return picked, state


def check_shapes(inputs: Ids, targets: Ids) -> None:
    """Raise ShapeError unless both are [B, T] of one shape."""
    if inputs.ndim != 2 or inputs.shape != targets.shape:
        raise ShapeError(f"inputs {inputs.shape} and targets {targets.shape} must have one shape [batch, time]")


def check_ids(vocabulary: Vocabulary, inputs: Ids, targets: Ids) -> None:
    """Raise ShapeError or MismatchError unless a model of this vocabulary can score these arrays."""
    check_shapes(inputs, targets)
    vocabulary.check(inputs, "input ids")
    if targets.size and (int(targets.min()) < 0 or int(targets.max()) >= vocabulary.outputs):
        vocabulary.check(targets, "target ids")
        raise ShapeError(
            f"target id {int(targets.max())} can be read but never predicted; give the start symbol and "
            "padding as inputs only"
        )
