"""One token a row at a time: what greedy decoding and sampling share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ostinato.core.model import Stepper
from ostinato.core.state import State, take
from ostinato.core.vocabulary import Ids, LogProbs
from ostinato.decode.penalty import Penalty
from ostinato.decode.strategy import Hypothesis, Request, check_request, check_scores

Chooser: TypeAlias = Callable[[NDArray[np.floating], Ids], tuple[Ids, NDArray[np.float64]]]
"""Of scores [N, V] and the rows' numbers [N], the ids chosen [N] and what each adds to its row's score [N]."""


class Move(NamedTuple):
    """One step of the rows still going: their numbers, ids, log-probs and scores, each [N]."""

    rows: Ids
    tokens: Ids
    log_probs: LogProbs
    scores: NDArray[np.float64]


class Walk(ABC):
    """A strategy that settles each token before it looks at the next."""

    penalty: Penalty

    @abstractmethod
    def chooser(self, batch: int, seed: int) -> Chooser:
        """How the next ids of up to `batch` rows are chosen."""

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
        """The one hypothesis of each row; see `Strategy.decode`."""
        request = check_request(model, state, tokens, stop, max_tokens, seed, history)
        return _hypotheses(self._moves(model, state, tokens, request), request)

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
        """After each step the token of every row, None once it has stopped; see `Strategy.stream`."""
        request = check_request(model, state, tokens, stop, max_tokens, seed, history)
        return _columns(self._moves(model, state, tokens, request), request)

    def _moves(self, model: Stepper, state: State, tokens: Ids, request: Request) -> Iterator[Move]:
        """Every step, the rows that have stopped left out."""
        choose = self.chooser(len(tokens), request.seed)
        said = [row.tolist() for row in request.history]
        rows = np.arange(len(tokens))
        for _ in range(request.max_tokens if len(rows) else 0):
            log_probs, state = model.step(state, tokens)
            check_scores(log_probs)
            scores = self.penalty.apply(log_probs, [said[row] for row in rows], request.stop)
            tokens, gained = choose(scores, rows)
            yield Move(rows, tokens, log_probs[np.arange(len(rows)), tokens], gained)
            for row, token in zip(rows.tolist(), tokens.tolist(), strict=True):
                said[row].append(token)
            going = np.flatnonzero(~request.is_stop(tokens))
            if not len(going):
                return
            if len(going) < len(rows):
                rows, tokens, state = rows[going], tokens[going], take(state, going)


def _hypotheses(moves: Iterator[Move], request: Request) -> list[list[Hypothesis]]:
    batch = len(request.history)
    said: list[list[int]] = [[] for _ in range(batch)]
    log_probs, scores, finished = np.zeros(batch), np.zeros(batch), np.zeros(batch, np.bool_)
    for move in moves:
        log_probs[move.rows] += move.log_probs
        scores[move.rows] += move.scores
        stopped = request.is_stop(move.tokens)
        finished[move.rows] = stopped
        for row, token in zip(move.rows[~stopped].tolist(), move.tokens[~stopped].tolist(), strict=True):
            said[row].append(token)
    totals = zip(said, log_probs.tolist(), scores.tolist(), finished.tolist(), strict=True)
    return [[Hypothesis(tuple(ids), log_prob, score, ended)] for ids, log_prob, score, ended in totals]


def _columns(moves: Iterator[Move], request: Request) -> Iterator[list[int | None]]:
    for move in moves:
        column: list[int | None] = [None] * len(request.history)
        for row, token in zip(move.rows.tolist(), move.tokens.tolist(), strict=True):
            column[row] = None if token == request.stop else token
        yield column
