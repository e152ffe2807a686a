"""The n-gram language model read from a compact table (ngram/compact.py), where it lies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import MismatchError, ShapeError
from ostinato.core.model import check_ids
from ostinato.core.state import State
from ostinato.core.vocabulary import Ids, LogProbs, Vocabulary
from ostinato.ngram.compact import CompactTable
from ostinato.ngram.model import TASK, NGramState, best_words, check_lines, check_targets, row_major
from ostinato.ngram.threads import in_threads, slices


class CompactModel:
    """A compact table behind the contract of core/model.py: the numbers and states of its expanded table.

    Stop, start and padding are read as NGramModel reads them. Several times slower a token than that. A call
    looks up the words of each row's state anew, so scoring whole lines is faster than `step` by `step`.
    Raises MismatchError if table and vocabulary predict different numbers of words.
    """

    def __init__(self, table: CompactTable, vocabulary: Vocabulary):
        if table.outputs != vocabulary.outputs:
            raise MismatchError(
                f"the table predicts {table.outputs} words, {vocabulary!r} has another number; "
                "load it with the vocabulary it was counted with"
            )
        self.table = table
        self._vocabulary = vocabulary

    @property
    def vocabulary(self) -> Vocabulary:
        """The pieces behind the ids."""
        return self._vocabulary

    @property
    def outputs(self) -> int:
        """How many ids can come next."""
        return self._vocabulary.outputs

    @property
    def parameters(self) -> int:
        """How many probabilities and back-offs are stored."""
        return self.table.parameters

    def init_state(self, batch: int) -> NGramState:
        """The state of `batch` rows that have read nothing: the empty context."""
        return NGramState(np.zeros(batch, np.int64))

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
        log_probs = np.empty((len(tokens), self.outputs), np.float32)
        compact.distribution(*self.table.columns(), after, np.empty(self.table.order), log_probs)
        return log_probs, NGramState(after)

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

    def score_lines(self, ids: NDArray[np.int32], ends: Ids, threads: int | None = 1) -> LogProbs:
        """Log-prob of every token of lines, each on its own, [T] in nats; the same numbers as `score`.

        ids: [T], each line ended by the stop symbol; ends: [L], one after each of those. threads: None for one a
        core. Raises ShapeError if the ends are not those of the ids, MismatchError for ids of another model.
        """
        from ostinato.kernels import compact

        check_lines(self._vocabulary, ids, ends)
        words, log_probs = np.ascontiguousarray(ids, np.int32), np.empty(len(ids), np.float32)

        def work(tasks: Iterator[tuple[int, int]]) -> None:
            for first, last in tasks:
                begin, end = int(ends[first - 1]) if first else 0, int(ends[last - 1])
                own = ends[first:last] - begin
                compact.score_lines(*self.table.columns(), words[begin:end], own, log_probs[begin:end])

        in_threads(work, slices(0, len(ends), 1 + len(ids) // TASK), threads)
        return log_probs

    def next_words(self, state: State, number: int) -> tuple[Ids, LogProbs]:
        """The most likely words after the state of each row and their log-probs in nats: [B, number], best first."""
        from ostinato.kernels import compact

        nodes = self._nodes(state, cast(NGramState, state)[0].shape)
        log_probs = np.empty((len(nodes), self.outputs), np.float32)
        compact.distribution(*self.table.columns(), nodes, np.empty(self.table.order), log_probs)
        return best_words(log_probs, number)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays of the table by name, to be stored."""
        return self.table.arrays()

    def metadata(self) -> dict[str, Any]:
        """Everything else that `load` needs, as JSON can hold it."""
        return {**self.table.metadata(), "vocabulary": self._vocabulary.fingerprint}

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
        made_for = metadata.get("vocabulary", vocabulary.fingerprint)
        if made_for != vocabulary.fingerprint:
            raise MismatchError(
                f"the model was made for vocabulary {made_for}, but this is {vocabulary.fingerprint}; "
                "restore the vocabulary or train again"
            )
        return cls(table, vocabulary)

    def _specials(self) -> tuple[int, int]:
        return self._vocabulary.stop, self._vocabulary.pad

    def _nodes(self, state: State | tuple[Ids], shape: tuple[int, ...]) -> NDArray[np.int64]:
        """The nodes of a state of this model, one for each row of `shape`."""
        nodes = cast(NGramState, state)[0]
        if nodes.shape != shape:
            raise ShapeError(f"a state of {len(nodes)} rows cannot read tokens of shape {shape}; one token a row")
        if not self.table.is_state(nodes):
            raise MismatchError("this state belongs to another model; begin with init_state")
        return row_major(nodes)
