"""What every decoding strategy is asked and what it answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import ConfigError, DivergedError, ShapeError
from ostinato.core.model import Stepper
from ostinato.core.registry import Registry
from ostinato.core.state import State, batch_size, leaves
from ostinato.core.vocabulary import Ids


@dataclass(frozen=True)
class Hypothesis:
    """One continuation.

    tokens: what was produced, without the stop symbol. log_prob: its log-prob under the model's own
    distribution (nats), the stop symbol included when `finished`. score: what the strategy ranked by, after
    penalties. finished: the stop symbol was produced; otherwise `max_tokens` cut it off.
    """

    tokens: tuple[int, ...]
    log_prob: float
    score: float
    finished: bool


@dataclass(frozen=True)
class Request:
    """The keyword arguments of `decode` and `stream`, checked; `history` has one entry a row."""

    stop: int | None
    max_tokens: int
    seed: int
    history: tuple[Ids, ...]

    def is_stop(self, tokens: Ids) -> NDArray[np.bool_]:
        """Which tokens are the stop symbol."""
        return np.zeros(tokens.shape, np.bool_) if self.stop is None else tokens == self.stop


class Strategy(Protocol):
    """A way to choose what comes next."""

    def decode(
        self,
        model: Stepper,
        state: State,
        tokens: Ids,
        *,
        stop: int | None,
        max_tokens: int,
        seed: int = 0,
        history: Sequence[Ids] | None = None,
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each row, best first.

        state, tokens: what has been read and the token [B] to read next, as `read_prompts` returns them.
        stop: the id that ends a row; None never ends one. max_tokens: steps at most, the stop symbol's own
            counted. seed: of every random choice. history: ids of each row that penalties count as said
            before (usually the prompt); nothing else looks at them.
        Raises ConfigError for a bad `stop`, `max_tokens` or `seed`, ShapeError if tokens, state and history
            differ in their number of rows, DivergedError if the model offers no possible token.
        """

    def stream(
        self,
        model: Stepper,
        state: State,
        tokens: Ids,
        *,
        stop: int | None,
        max_tokens: int,
        seed: int = 0,
        history: Sequence[Ids] | None = None,
    ) -> Iterator[list[int | None]]:
        """After each step the token of every row: the columns of what `decode` returns.

        None stands for a row that has produced the stop symbol, from that step on. The stream ends when
        every row has, or after `max_tokens` steps. Arguments and errors as in `decode`, raised by the call.
        """


strategies: Registry[type[Strategy]] = Registry("decoding strategy")


def check_request(
    model: Stepper,
    state: State,
    tokens: Ids,
    stop: int | None,
    max_tokens: int,
    seed: int,
    history: Sequence[Ids] | None,
) -> Request:
    """The request, if it is a sound one. Raises as `Strategy.decode` says."""
    if stop is not None and not 0 <= stop < model.outputs:
        raise ConfigError(f"stop: {stop} can never come next; give an id below {model.outputs}, or None to never stop")
    if max_tokens < 0:
        raise ConfigError(f"max_tokens: cannot be negative, got {max_tokens}; 0 produces nothing")
    if seed < 0:
        raise ConfigError(f"seed: cannot be negative, got {seed}; any whole number from 0 on will do")
    if tokens.ndim != 1 or (any(True for _ in leaves(state)) and batch_size(state) != len(tokens)):
        raise ShapeError(f"tokens {tokens.shape} must be one a row of the state, which has {batch_size(state)} rows")
    said = [np.zeros(0, np.int64)] * len(tokens) if history is None else history
    if len(said) != len(tokens):
        raise ShapeError(f"history has {len(said)} rows, tokens {len(tokens)}; give one (maybe empty) a row")
    return Request(stop, max_tokens, seed, tuple(np.asarray(row, np.int64) for row in said))


def check_scores(scores: NDArray[np.floating]) -> None:
    """Raise DivergedError if a row of [B, V] has NaN or no possible token."""
    possible = scores.max(axis=1) > -np.inf  # false for NaN too
    if not possible.all():
        raise DivergedError(
            f"the model gives row {int(np.argmin(possible))} no possible next token (NaN, or every probability is "
            "zero); its weights are damaged, load an earlier checkpoint"
        )
