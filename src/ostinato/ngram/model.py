"""The n-gram language model: a back-off table read one token at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import MismatchError, ShapeError
from ostinato.core.model import check_ids
from ostinato.core.state import State
from ostinato.core.vocabulary import Ids, LogProbs, Vocabulary
from ostinato.ngram.table import BackoffTable


class NGramState(NamedTuple):
    """What an n-gram model remembers: the longest context that still matters, as one integer."""

    node: NDArray[np.int64]  # [B]


class NGramModel:
    """A back-off table behind the contract of core/model.py.

    Reading the stop symbol begins the next sentence, exactly as reading the start symbol does: so a text read
    on and on gives the same numbers as one read sentence by sentence. Reading padding changes nothing.
    Raises MismatchError if table and vocabulary predict different numbers of words.
    """

    def __init__(self, table: BackoffTable, vocabulary: Vocabulary):
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
        from ostinato.kernels import backoff

        self._vocabulary.check(tokens, "input ids")
        before = self._nodes(state, tokens.shape)
        after = np.empty(len(tokens), np.int64)
        backoff.read_each(*self.table.columns(), *self._specials(), before, row_major(tokens), after)
        log_probs = np.empty((len(tokens), self.outputs), np.float32)
        depth = self.table.order
        backoff.distribution(*self.table.columns(), after, np.empty(depth, np.int64), np.empty(depth), log_probs)
        return log_probs, NGramState(after)

    def score(self, state: State, inputs: Ids, targets: Ids) -> tuple[LogProbs, NGramState]:
        """Log-prob of each target after the inputs up to and including its own place; a fold of `step`.

        inputs, targets: [B, T]; T may be 0. Start and padding are read, never predicted.
        Returns log-probs [B, T] in nats, float32, and the state after the last input.
        Raises ShapeError if the shapes differ, MismatchError for ids or states of another model.
        """
        from ostinato.kernels import backoff

        check_ids(self._vocabulary, inputs, targets)
        before = self._nodes(state, inputs.shape[:1])
        after, log_probs = np.empty(len(inputs), np.int64), np.empty(inputs.shape, np.float32)
        backoff.score(
            *self.table.columns(), *self._specials(), before, row_major(inputs), row_major(targets), log_probs, after
        )
        return log_probs, NGramState(after)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays of the table by name, to be stored."""
        return self.table.arrays()

    def metadata(self) -> dict[str, Any]:
        """Everything else that `load` needs, as JSON can hold it."""
        return {**self.table.metadata(), "vocabulary": self._vocabulary.fingerprint}

    @classmethod
    def load(
        cls, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, Any], vocabulary: Vocabulary
    ) -> NGramModel:
        """The model that `arrays` and `metadata` describe; it gives the same numbers.

        Raises FormatError if they are damaged, MismatchError if it was made for another vocabulary.
        """
        table = BackoffTable.from_arrays(arrays, metadata)
        made_for = metadata.get("vocabulary", vocabulary.fingerprint)
        if made_for != vocabulary.fingerprint:
            raise MismatchError(
                f"the model was made for vocabulary {made_for}, but this is {vocabulary.fingerprint}; "
                "restore the vocabulary or train again"
            )
        return cls(table, vocabulary)

    def _specials(self) -> tuple[int, int]:
        return self._vocabulary.stop, self._vocabulary.pad

    def _nodes(self, state: State, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """The nodes of a state of this model, one for each row of `shape`."""
        nodes = cast(NGramState, state)[0]
        if nodes.shape != shape:
            raise ShapeError(f"a state of {len(nodes)} rows cannot read tokens of shape {shape}; one token a row")
        if nodes.size and not (0 <= int(nodes.min()) and int(nodes.max()) < len(self.table.word)):
            raise MismatchError("this state belongs to another model; begin with init_state")
        return row_major(nodes)


def row_major(ids: NDArray[Any]) -> Ids:
    """A read-only int64 view or copy, rows contiguous: one kind of array, so one compiled kernel."""
    view = np.require(ids, np.int64, ["C", "A", "E"])[:]
    view.flags.writeable = False
    return view
