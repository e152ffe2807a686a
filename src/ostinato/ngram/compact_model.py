"""The n-gram language model read from a compact table (ngram/compact.py), where it lies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostinato.core.model import check_ids
from ostinato.core.state import State
from ostinato.core.vocabulary import Ids, LogProbs, Vocabulary
from ostinato.ngram.compact import CompactTable
from ostinato.ngram.table_model import (
    NGramState,
    TableModel,
    check_made_for,
    check_targets,
    row_major,
)


class CompactModel(TableModel[CompactTable]):
    """A compact table behind the contract of core/model.py: the numbers and states of its expanded table.

    Stop, start and padding are read as NGramModel reads them. Several times slower a token than that. A call
    looks up the words of each row's state anew, so scoring whole lines is faster than `step` by `step`.
    Raises MismatchError if table and vocabulary predict different numbers of words.
    """

    def step(self, state: State, tokens: Ids) -> tuple[LogProbs, NGramState]:
        """Read one token a row, [B]; return the log-probs [B, outputs] of the next (nats) and the new state.

        Raises ShapeError if rows are missing, MismatchError for ids or states of another model.
        Cost: outputs a row, and the words seen after the context.
        """
        from ostinato.kernels import compact

        self._vocabulary.check(tokens, "input ids")
        before = self._nodes(state, tokens.shape)
        after = np.empty(len(tokens), np.int64)
        compact.read_each(*self.table.columns(), *self._specials(), before, row_major(tokens), after)
        return self._distributions(after), NGramState(after)

    def score(self, state: State, inputs: Ids, targets: Ids) -> tuple[LogProbs, NGramState]:
        """Log-prob of each target after the inputs up to and including its own place; a fold of `step`.

        inputs, targets: [B, T]; T may be 0. Start and padding are read, never predicted.
        Returns log-probs [B, T] in nats, float32, and the state after the last input.
        Raises ShapeError if the shapes differ, MismatchError for ids or states of another model.
        """
        from ostinato.kernels import compact

        check_ids(self._vocabulary, inputs, targets)
        before = self._nodes(state, inputs.shape[:1])
        after, log_probs = np.empty(len(inputs), np.int64), np.empty(inputs.shape, np.float32)
        columns, specials = self.table.columns(), self._specials()
        compact.score(*columns, *specials, before, row_major(inputs), row_major(targets), log_probs, after)
        return log_probs, NGramState(after)

    def score_each(self, states: Ids, tokens: Ids) -> tuple[LogProbs, Ids]:
        """Log-prob of one token a row after its state, [B], in nats, and the states after reading it.

        The same numbers as `score` and `step`, but no distributions are made.

        states: [B], as in NGramState; tokens: [B], words that can be predicted.
        Raises ShapeError if rows are missing, MismatchError for ids or states of another model.
        """
        from ostinato.kernels import compact

        before, words = self._nodes((states,), tokens.shape), row_major(tokens)
        check_targets(self._vocabulary, words)
        log_probs, after = np.empty(len(words), np.float32), np.empty(len(words), np.int64)
        compact.advance_each(*self.table.columns(), before, words, log_probs, after)
        after[words == self._vocabulary.stop] = self.table.sentence_start
        return log_probs, after

    @classmethod
    def load(
        cls,
        arrays: Mapping[str, NDArray[Any]],
        metadata: Mapping[str, Any],
        vocabulary: Vocabulary,
        check: bool = True,
    ) -> CompactModel:
        """The model that `arrays` and `metadata` describe; it gives the same numbers.

        check: as in `CompactTable.from_arrays`.
        Raises FormatError if they are damaged, MismatchError if it was made for another vocabulary.
        """
        table = CompactTable.from_arrays(arrays, metadata, check)
        check_made_for(metadata, vocabulary)
        return cls(table, vocabulary)

    def _distributions(self, nodes: Ids) -> LogProbs:
        """The log-probs of every word after each state: [B, outputs]."""
        from ostinato.kernels import compact

        log_probs = np.empty((len(nodes), self.outputs), np.float32)
        compact.distribution(*self.table.columns(), nodes, np.empty(self.table.order), log_probs)
        return log_probs

    def _score_lines(self, words: NDArray[np.int32], ends: Ids, out: LogProbs) -> None:
        """Fill `out` [T] with the log-probs of lines that end at `ends`."""
        from ostinato.kernels import compact

        compact.score_lines(*self.table.columns(), words, ends, out)
