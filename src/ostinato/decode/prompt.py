"""Prompts as start states."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ostinato.core.errors import ConfigError, ShapeError
from ostinato.core.model import LanguageModel
from ostinato.core.state import State, stack, take
from ostinato.core.vocabulary import Ids

PIECE = 128
"""Tokens read at once, so that a long prompt does not cost [B, T, V] memory."""


def read_prompts(model: LanguageModel, prompts: Sequence[Ids]) -> tuple[State, Ids]:
    """The state [B] after the start symbol and all but the last token, and that last token [B], still to be read.

    prompts: one array [T] of ids a row, of any lengths; an empty one leaves just the start symbol to be read.
    Rows of one length are read together and none is padded, so a row never depends on the others.
    Raises ConfigError without prompts, ShapeError for one that is not one-dimensional, MismatchError for ids
    outside the vocabulary.
    """
    if not len(prompts):
        raise ConfigError("prompts: give at least one; an empty one begins from nothing")
    rows = [_with_start(model, prompt) for prompt in prompts]
    lengths = np.array([len(row) for row in rows])
    groups = [np.flatnonzero(lengths == length) for length in np.unique(lengths)]
    states = [_read(model, np.stack([rows[row] for row in group])[:, :-1]) for group in groups]
    state = take(stack(states), np.argsort(np.concatenate(groups)))
    return state, np.array([row[-1] for row in rows], np.int64)


def _with_start(model: LanguageModel, prompt: Ids) -> Ids:
    ids = np.asarray(prompt, np.int64)
    if ids.ndim != 1:
        raise ShapeError(f"a prompt must be one row of ids, got shape {ids.shape}; give a list of rows")
    model.vocabulary.check(ids, "prompt ids")
    return np.concatenate([[model.vocabulary.start], ids])


def _read(model: LanguageModel, inputs: Ids) -> State:
    """The state of rows that have read inputs [B, T]."""
    state = model.init_state(len(inputs))
    for begin in range(0, inputs.shape[1], PIECE):
        piece = inputs[:, begin : begin + PIECE]
        _, state = model.score(state, piece, np.full_like(piece, model.vocabulary.unknown))
    return state
