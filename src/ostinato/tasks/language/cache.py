"""A language model with a cache: what followed places like this one lately is likely to follow again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import ConfigError
from ostinato.core.model import LanguageModel, check_ids
from ostinato.core.state import State
from ostinato.core.vocabulary import Ids, LogProbs, Vocabulary
from ostinato.tasks.language.reading import Features, FreshLines, make_reader

QUERIES = 128  # places that look into the cache at once; changes speed and memory, never a number


class CacheState(NamedTuple):
    """What a model with a cache remembers, always of one size."""

    model: State
    keys: Features  # [B, size, width] features after each of the last tokens, the oldest first
    words: Ids  # [B, size] the id that followed each; padding behind the last, which nothing followed yet
    filled: Ids  # [B] how many places are taken; they are the last ones


class Looks(NamedTuple):
    """How a cache weighs its places: by exp(theta h . h_i) decay^age, age 0 for the latest."""

    theta: float
    decay: float


class CacheLM:
    """Any language model with a cache of the last `size` places.

    p(w) = (1 - weight) p_model(w) + weight p_cache(w);  p_model alone while the cache is empty
    p_cache(w) ~ sum over places i that w followed of exp(theta h . h_i) decay^age(i)

    h are the features of a neural model; a mixture has those of all its members. Without features, or with theta 0,
    this is the unigram cache, over a window (decay 1) or fading [Kuhn1990] [Clarkson1997]. `</s>` is a word like any
    other: reading the symbol before a line says that `</s>` came. fresh_lines: the model below forgets at each line's
    end, the cache does not.
    Raises ConfigError for numbers out of range.
    Source: [Grave2017b], linear interpolation. The decay of a neural cache is ours.
    """

    def __init__(
        self,
        model: LanguageModel,
        size: int,
        weight: float,
        theta: float = 0.0,
        decay: float = 1.0,
        fresh_lines: bool = False,
    ):
        if size < 1:
            raise ConfigError(f"a cache of {size} places: give at least 1; 500 to 2000 are usual")
        if not 0 <= weight <= 1:
            raise ConfigError(f"the cache's weight must lie between 0 and 1, got {weight:g}; 0.1 is usual")
        if not (np.isfinite(theta) and theta >= 0 and 0 < decay <= 1):
            raise ConfigError(f"theta must be at least 0 and decay above 0 and at most 1, got {theta:g} and {decay:g}")
        self.model, self.size, self.weight, self.looks = model, size, weight, Looks(theta, decay)
        reader = make_reader(model)
        self.reader = FreshLines(reader, model.vocabulary) if fresh_lines else reader

    @property
    def vocabulary(self) -> Vocabulary:
        """The model's vocabulary."""
        return self.model.vocabulary

    @property
    def outputs(self) -> int:
        """How many ids can come next."""
        return self.model.outputs

    def init_state(self, batch: int) -> CacheState:
        """The state of `batch` rows that have read nothing."""
        return CacheState(
            self.reader.init_state(batch),
            np.zeros((batch, self.size, self.reader.width), np.float32),
            np.full((batch, self.size), self.vocabulary.pad),
            np.zeros(batch, np.int64),
        )

    def step(self, state: State, tokens: Ids) -> tuple[LogProbs, CacheState]:
        """Read tokens [B]; return log-probs [B, outputs] of the next in nats and the new state."""
        inner, keys, words, filled = CacheState(*state)
        log_probs, features, inner = self.reader.read_one(inner, tokens)
        words = np.concatenate([words[:, :-1], self._followers(tokens)[:, None]], axis=1)
        taken = np.arange(self.size) >= self.size - filled[:, None]
        raw = self.looks.theta * np.einsum("bsw,bw->bs", keys, features) + fading(self.looks, self.size)
        raw = np.where(taken, raw, -np.inf)
        empty = filled[:, None] == 0
        shares = np.exp(raw - np.where(empty, 0, raw.max(axis=1, keepdims=True)))
        shares /= np.where(empty, 1, shares.sum(axis=1, keepdims=True))
        rows, places = np.nonzero(taken)
        cached = np.zeros(log_probs.shape)
        np.add.at(cached, (rows, words[rows, places]), shares[rows, places])
        with np.errstate(divide="ignore"):
            mixed = interpolate(log_probs, np.log(cached), empty, self.weight)
        return mixed, CacheState(
            inner,
            np.concatenate([keys[:, 1:], features[:, None]], axis=1),
            np.concatenate([words[:, 1:], np.full((len(tokens), 1), self.vocabulary.pad)], axis=1),
            np.minimum(filled + 1, self.size),
        )

    def score(self, state: State, inputs: Ids, targets: Ids) -> tuple[LogProbs, CacheState]:
        """Log-prob [B, T] in nats of each target, and the last state; see `LanguageModel.score`."""
        log_probs, cached, empty, after = self.parts(state, inputs, targets, [self.looks])
        return interpolate(log_probs, cached[0], empty, self.weight), after

    def parts(
        self, state: State, inputs: Ids, targets: Ids, looks: Sequence[Looks]
    ) -> tuple[LogProbs, NDArray[np.float64], NDArray[np.bool_], CacheState]:
        """What `score` mixes: log-probs [B, T] of the model, and of the cache [looks, B, T] for several ways to look.

        Third, where [B, T] the cache is empty, and the state after the last input.
        """
        check_ids(self.vocabulary, inputs, targets)
        inner, keys, words, filled = CacheState(*state)
        log_probs, features, inner = self.reader.read(inner, inputs, targets)
        keys = np.concatenate([keys, features], axis=1)
        nothing = np.full((len(inputs), 1), self.vocabulary.pad)
        words = np.concatenate([words[:, :-1], self._followers(inputs), nothing], axis=1)
        cached = np.empty((len(looks), *inputs.shape))
        for row, taken in enumerate(filled.tolist()):
            cached[:, row] = look_up(keys[row], words[row], targets[row], self.size, self.size - taken, looks)
        empty = (filled[:, None] + np.arange(inputs.shape[1])) == 0
        steps = inputs.shape[1]
        filled = np.minimum(filled + steps, self.size)
        return log_probs, cached, empty, CacheState(inner, keys[:, steps:].copy(), words[:, steps:].copy(), filled)

    def _followers(self, tokens: Ids) -> Ids:
        """What came before each of these was read: the token itself, or `</s>` for the symbol before a line."""
        return np.where(tokens < self.outputs, tokens, self.vocabulary.stop)


def fading(looks: Looks, size: int) -> NDArray[np.float32]:
    """age log decay for each place of a window."""
    fades: NDArray[np.float32] = (np.arange(size - 1, -1, -1) * np.log(looks.decay)).astype(np.float32)
    return fades


def look_up(
    keys: Features, words: Ids, targets: Ids, size: int, first: int, looks: Sequence[Looks]
) -> NDArray[np.float64]:
    """The cache's log-prob [looks, T] of each target; -inf where it does not hold the word.

    keys [size + T, width], words [size + T]: the window of target t is t .. t + size - 1, without what stands before
    `first`, and its query is keys[size + t]. Cost: T (size + QUERIES) (width + a few passes for each look).
    """
    found = np.full((len(looks), len(targets)), -np.inf)
    fades = [fading(look, size) for look in looks]
    for begin in range(0, len(targets), QUERIES):
        goals = targets[begin : begin + QUERIES]
        window = slice(max(begin, first), begin + size + len(goals) - 1)
        if window.start >= window.stop:
            continue  # nothing was read yet
        likeness = keys[begin + size : begin + size + len(goals)] @ keys[window].T
        hit = words[window] == goals[:, None]
        ages = np.arange(begin, begin + len(goals))[:, None] + size - 1 - np.arange(window.start, window.stop)
        inside = (ages >= 0) & (ages < size)
        ages = np.where(inside, ages, 0)
        for number, (look, fade) in enumerate(zip(looks, fades, strict=True)):
            raw = likeness * np.float32(look.theta)
            if look.decay < 1:
                raw += fade[::-1][ages]
            found[number, begin : begin + len(goals)] = log_share(np.where(inside, raw, -np.inf), hit)
    return found


def log_share(raw: Features, hit: NDArray[np.bool_]) -> NDArray[np.float64]:
    """log of the share of exp(raw) [T, places] that stands at hits; -inf for none."""
    most = raw.max(axis=1, keepdims=True)
    share = np.exp(raw - np.where(np.isfinite(most), most, 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.einsum("ts,ts->t", share, hit, dtype=np.float64) / share.sum(axis=1, dtype=np.float64)
        log_ratio: NDArray[np.float64] = np.log(np.nan_to_num(ratio))
    return log_ratio


def interpolate(log_probs: LogProbs, cached: NDArray[np.float64], empty: NDArray[np.bool_], weight: float) -> LogProbs:
    """(1 - weight) p_model + weight p_cache as log-probs; p_model where the cache is empty."""
    with np.errstate(divide="ignore"):
        mixed = np.logaddexp(log_probs + np.log1p(-weight, dtype=np.float64), cached + np.log(np.float64(weight)))
    result: LogProbs = np.where(empty, log_probs, mixed).astype(np.float32)
    return result
