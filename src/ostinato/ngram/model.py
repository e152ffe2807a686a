"""The n-gram language model: a back-off table read one token at a time."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import ShapeError
from ostinato.core.model import check_ids
from ostinato.core.state import State
from ostinato.core.vocabulary import Ids, LogProbs, Vocabulary
from ostinato.ngram.table import BackoffTable
from ostinato.ngram.table_model import (
    NGramState,
    TableModel,
    check_made_for,
    check_targets,
    row_major,
)


class NGramModel(TableModel[BackoffTable]):
    """A back-off table behind the contract of core/model.py.

    Reading the stop symbol begins the next sentence, exactly as reading the start symbol does: so a text read
    on and on gives the same numbers as one read sentence by sentence. Reading padding changes nothing.
    Raises MismatchError if table and vocabulary predict different numbers of words.
    """

    def step(self, state: State, tokens: Ids) -> tuple[LogProbs, NGramState]:
        """Read one token a row, [B]; return the log-probs [B, outputs] of the next (nats) and the new state.

        Raises ShapeError if rows are missing, MismatchError for ids or states of another model.
        Cost: outputs a row, and the words seen after the context.
        """
        self._vocabulary.check(tokens, "input ids")
        before = self._nodes(state, tokens.shape)
        after = np.empty(len(tokens), np.int64)
        kernels().read_each(self.table.rows, *self._specials(), before, row_major(tokens), after)
        return self._distributions(after), NGramState(after)

    def score(self, state: State, inputs: Ids, targets: Ids) -> tuple[LogProbs, NGramState]:
        """Log-prob of each target after the inputs up to and including its own place; a fold of `step`.

        inputs, targets: [B, T]; T may be 0. Start and padding are read, never predicted.
        Returns log-probs [B, T] in nats, float32, and the state after the last input.
        Raises ShapeError if the shapes differ, MismatchError for ids or states of another model.
        """
        check_ids(self._vocabulary, inputs, targets)
        before = self._nodes(state, inputs.shape[:1])
        after, log_probs = np.empty(len(inputs), np.int64), np.empty(inputs.shape, np.float32)
        kernels().score(
            self.table.rows, *self._specials(), before, row_major(inputs), row_major(targets), log_probs, after
        )
        return log_probs, NGramState(after)

    def score_each(self, states: Ids, tokens: Ids) -> tuple[LogProbs, Ids]:
        """Log-prob of one token a row after its state, [B], in nats, and the states after reading it.

        The same numbers as `score` and `step`, but no distributions are made.

        states: [B] int64, as in NGramState; tokens: [B] int64, words that can be predicted.
        Raises ShapeError if rows are missing, MismatchError for ids or states of another model.
        """
        if states.shape != tokens.shape or states.ndim != 1:
            raise ShapeError(f"states of shape {states.shape} cannot read tokens of shape {tokens.shape}; one a row")
        log_probs, after = np.empty(len(tokens), np.float32), np.empty(len(tokens), np.int64)
        specials = self._vocabulary.outputs, self._vocabulary.stop
        wrong = kernels().advance_each(self.table.rows, *specials, states, tokens, log_probs, after)
        if wrong >= 0:
            check_targets(self._vocabulary, tokens)
            self._nodes((states,), tokens.shape)
        return log_probs, after

    @classmethod
    def load(
        cls, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, Any], vocabulary: Vocabulary
    ) -> NGramModel:
        """The model that `arrays` and `metadata` describe; it gives the same numbers.

        Raises FormatError if they are damaged, MismatchError if it was made for another vocabulary.
        """
        table = BackoffTable.from_arrays(arrays, metadata)
        check_made_for(metadata, vocabulary)
        return cls(table, vocabulary)

    def _distributions(self, nodes: Ids) -> LogProbs:
        """The log-probs of every word after each state: [B, outputs]."""
        log_probs, depth = np.empty((len(nodes), self.outputs), np.float32), self.table.order
        scratch = np.empty(depth, np.int64), np.empty(depth)
        kernels().distribution(self.table.rows, self._words, nodes, *scratch, log_probs)
        return log_probs

    def _score_lines(self, words: NDArray[np.int32], ends: Ids, out: LogProbs) -> None:
        """Fill `out` [T] with the log-probs of lines that end at `ends`."""
        kernels().score_lines(self.table.rows, self.table.sentence_start, words, ends, out)

    @cached_property
    def _words(self) -> LogProbs:
        """What the empty context says of every word."""
        return self.table.rows[4 : 3 * self.outputs + 3 : 3].copy().view(np.float32)


@cache
def kernels() -> Any:
    """The kernels of queries; asked for at every step, so looked up once."""
    from ostinato.kernels import backoff

    return backoff
