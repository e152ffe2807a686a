"""Beam search: the best whole hypotheses, as far as a beam can see."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass

from ostinato.core.config import STRICT
from ostinato.core.errors import ConfigError
from ostinato.core.model import Stepper
from ostinato.core.state import State, take
from ostinato.core.vocabulary import Ids, LogProbs
from ostinato.decode.penalty import Penalty
from ostinato.decode.strategy import Hypothesis, Request, check_request, check_scores, strategies

STRONGEST = 10.0


PARTS, LONGEST = 16, 512
"""A row of scores is looked at in so many parts, in more if they were longer than that."""


class Live(NamedTuple):
    """Hypotheses [N] that go on: rows ascending, within a row the best first.

    total is the sum of penalised scores, log_prob that of the model's own log-probs, past what was said.
    """

    row: Ids
    total: NDArray[np.float64]
    log_prob: NDArray[np.float64]
    past: Ids  # [N, steps so far]


class Candidates(NamedTuple):
    """Extensions [M] of live hypotheses by one token, ordered as `Live` is; `place` counts within the row."""

    parent: Ids
    token: Ids
    row: Ids
    total: NDArray[np.float64]
    log_prob: NDArray[np.float64]
    place: Ids

    def only(self, chosen: NDArray[np.bool_]) -> Candidates:
        return Candidates(
            self.parent[chosen],
            self.token[chosen],
            self.row[chosen],
            self.total[chosen],
            self.log_prob[chosen],
            self.place[chosen],
        )


@dataclass(frozen=True, config=STRICT)
class Beam:
    """The `n_best` best hypotheses of each row, found by a beam of `width`.

    score(Y) = log p(Y) / ((5 + |Y|) / 6)^length_penalty       |Y| counts the stop symbol

    with log p after penalties; 0 ranks by probability alone, 0.6 to 1 favours longer ones. What is ranked are
    outcomes: hypotheses that stopped, and those that `max_tokens` cut off (`finished` tells); their
    probabilities sum to one. At each step a row's extensions are ranked together. Those among the best
    `width` that end with the stop symbol are put aside and take no place in the beam; the best `width` others
    go on. A row ends when `n_best` outcomes are put aside and no live hypothesis, even if it lost nothing up to
    `max_tokens`, could beat them; a penalty that rewards repetition leaves no such bound, and every row then
    runs on. Equal extensions: the better parent, then the lower id; equal outcomes: the shorter, then
    the lower ids. An impossible outcome is never returned, so there may be fewer than `n_best`.
    Width 1 with length_penalty 0 is greedy. A step costs one model step of up to B * width rows.
    Raises ConfigError for a width or n_best below 1, n_best above width, a length_penalty outside [0, 10].
    Source: [Graves2012] (beam), [Wu2016] eq. 14 (length).
    """

    width: int = 4
    length_penalty: float = 0.0
    n_best: int = 1
    penalty: Penalty = field(default_factory=Penalty)

    def __post_init__(self) -> None:
        if self.width < 1:
            raise ConfigError(f"width: a beam holds at least one hypothesis, got {self.width}; 4 is usual")
        if not 1 <= self.n_best <= self.width:
            raise ConfigError(
                f"n_best: must lie between 1 and the width {self.width}, got {self.n_best}; widen the beam"
            )
        if not 0 <= self.length_penalty <= STRONGEST:
            raise ConfigError(
                f"length_penalty: must lie between 0 and {STRONGEST:g}, got {self.length_penalty}; "
                "0 is off, 0.6 is usual"
            )

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
        """Refused with a ConfigError: a beam knows its first token only when it knows its last."""
        raise ConfigError("strategy: beam cannot stream, its best hypothesis is known at the end; use greedy or sample")

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
        """At most `n_best` hypotheses a row, best first; see `Strategy.decode`. The seed is not used."""
        request = check_request(model, state, tokens, stop, max_tokens, seed, history)
        batch = len(tokens)
        found: list[list[Hypothesis]] = [[] for _ in range(batch)]
        live = Live(np.arange(batch), np.zeros(batch), np.zeros(batch), np.zeros((batch, 0), np.int64))
        for _ in range(max_tokens):
            if not len(live.row):
                break
            log_probs, state = model.step(state, tokens)
            ended, going = self._split(self._extend(live, log_probs, request), request)
            self._put_aside(found, ended, live.past[ended.parent], finished=True)
            going = going.only(self._hopeful(found, going, max_tokens))
            past = np.hstack([live.past[going.parent], going.token[:, None]])
            live = Live(going.row, going.total, going.log_prob, past)
            state, tokens = take(state, going.parent), going.token
        self._put_aside(found, live, live.past, finished=False)
        return found

    def _extend(self, live: Live, log_probs: LogProbs, request: Request) -> Candidates:
        """Every extension that may matter: of each hypothesis the best `width` + 1 ids (one may be the stop)."""
        check_scores(log_probs)
        said = () if self.penalty.neutral else _said(live, request)
        scores = self.penalty.apply(log_probs, said, request.stop)
        places = _at_least_rank(scores, self.width + 1)
        parent, token = np.divmod(places, scores.shape[1])
        total = live.total[parent] + scores[parent, token]
        order = np.lexsort((token, parent, -total, live.row[parent]))
        parent, token = parent[order], token[order]
        row = live.row[parent]
        log_prob = live.log_prob[parent] + log_probs[parent, token]
        place = np.arange(len(row)) - np.searchsorted(row, row)
        return Candidates(parent, token, row, total[order], log_prob, place)

    def _split(self, extensions: Candidates, request: Request) -> tuple[Candidates, Candidates]:
        """The extensions that end now, and the beam that goes on."""
        stops = request.is_stop(extensions.token)
        others = extensions.only(~stops)
        place = np.arange(len(others.row)) - np.searchsorted(others.row, others.row)
        going = others._replace(place=place).only(place < self.width)
        return extensions.only(stops & (extensions.place < self.width)), going

    def _put_aside(self, found: list[list[Hypothesis]], which: Live | Candidates, past: Ids, *, finished: bool) -> None:
        """Add hypotheses that said `past` [N, T] to their rows' outcomes; keep the best `n_best`."""
        scale = self._length(past.shape[1] + finished)
        for row, total, log_prob, ids in zip(which.row, which.total, which.log_prob, past, strict=True):
            found[row].append(Hypothesis(tuple(ids.tolist()), float(log_prob), float(total) / scale, finished))
        for row in set(which.row.tolist()):
            found[row].sort(key=lambda one: (-one.score, len(one.tokens) + one.finished, one.tokens))
            del found[row][self.n_best :]

    def _hopeful(self, found: list[list[Hypothesis]], going: Candidates, max_tokens: int) -> NDArray[np.bool_]:
        """Which extensions belong to rows where one may still win a place."""
        hopeful = np.ones(len(going.row), np.bool_)
        if self.penalty.may_reward:
            return hopeful
        scale = self._length(max_tokens)
        for best in np.flatnonzero(going.place == 0):
            outcomes = found[going.row[best]]
            if len(outcomes) == self.n_best and going.total[best] / scale < outcomes[-1].score:
                hopeful[going.row == going.row[best]] = False
        return hopeful

    def _length(self, length: int) -> float:
        return float(((5 + length) / 6) ** self.length_penalty)


def _at_least_rank(scores: NDArray[np.floating], rank: int) -> Ids:
    """The flat places, in any order, where scores [N, V] are possible and not below the row's `rank`-th best; ties may
    make it more.

    A row in parts is a table: a glance at every score tells which columns have the `rank` best bests, and nothing
    elsewhere, and nothing below the least of these, can count.
    """
    rows, outputs = scores.shape
    parts = max(PARTS, outputs // LONGEST)
    width = outputs // parts
    if width <= rank:
        possible: NDArray[np.bool_] = scores > -np.inf
        if rank < outputs:
            possible &= scores >= np.partition(scores, outputs - rank, axis=1)[:, outputs - rank, None]
        return np.flatnonzero(possible)
    tops = scores[:, : width * parts].reshape(rows, parts, width).max(axis=1)
    bound = np.partition(tops, width - rank, axis=1)[:, width - rank, None]
    among = tops >= bound
    plain = np.count_nonzero(among, axis=1) == rank
    row = np.flatnonzero(plain)
    best = np.flatnonzero(among[plain]).reshape(-1, rank, 1) % width
    inside = (best + width * np.arange(parts)).reshape(-1, rank * parts)
    behind = np.broadcast_to(np.arange(width * parts, outputs), (len(row), outputs - width * parts))
    places = row[:, None] * outputs + np.hstack([inside, behind])
    found = scores.ravel()[places]
    kept: Ids = places[found >= np.partition(found, -rank, axis=1)[:, -rank, None]]
    if len(row) < rows:
        kept = np.concatenate([kept, _sorted_out(scores, np.flatnonzero(~plain), bound[~plain], rank)])
    return kept


def _sorted_out(scores: NDArray[np.floating], rows: Ids, bound: NDArray[np.floating] | float, rank: int) -> Ids:
    """The same for some rows whose `rank`-th best is at least `bound`, whatever is equal or impossible in them."""
    some = scores[rows]
    row, token = np.nonzero((some > -np.inf) & (some >= bound))
    found = some[row, token]
    ranked = found[np.lexsort((-found, row))]
    limits = np.full(len(rows), np.inf, scores.dtype)
    there, first, count = np.unique(row, return_index=True, return_counts=True)
    limits[there] = ranked[first + np.minimum(rank, count) - 1]
    kept = found >= limits[row]
    places: Ids = rows[row[kept]] * scores.shape[1] + token[kept]
    return places


def _said(live: Live, request: Request) -> list[Ids]:
    return [np.concatenate([request.history[row], past]) for row, past in zip(live.row, live.past, strict=True)]


strategies.register("beam")(Beam)
