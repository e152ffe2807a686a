"""What both forms of an n-gram model share: a table and its vocabulary behind the contract of core/model.py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import MismatchError, ShapeError
from ostinato.core.state import State
from ostinato.core.vocabulary import Ids, LogProbs, Vocabulary
from ostinato.ngram.threads import in_threads, slices

TASK = 1 << 14
"""Tokens that a thread scores at a time."""


class NGramState(NamedTuple):
    """What an n-gram model remembers: the longest context that still matters, as one integer."""

    node: NDArray[np.int64]  # [B]


class Table(Protocol):
    """What a model asks of its table."""

    @property
    def outputs(self) -> int:
        """How many words can be predicted."""
        ...

    @property
    def parameters(self) -> int:
        """How many probabilities and back-offs it has."""
        ...

    def is_state(self, states: NDArray[np.int64]) -> bool:
        """Whether all of these are states of it."""
        ...

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Its arrays by name."""
        ...

    def metadata(self) -> dict[str, Any]:
        """Everything else."""
        ...


AnyTable = TypeVar("AnyTable", bound=Table)


class TableModel(Generic[AnyTable]):
    """A table and its vocabulary. Raises MismatchError if they predict different numbers of words."""

    def __init__(self, table: AnyTable, vocabulary: Vocabulary):
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

    def score_lines(self, ids: NDArray[np.int32], ends: Ids, threads: int | None = 1) -> LogProbs:
        """Log-prob of every token of lines, each on its own, [T] in nats; the same numbers as `score`, faster.

        ids: [T], each line ended by the stop symbol; ends: [L], one after each of those. threads: None for one a
        core. Raises ShapeError if the ends are not those of the ids, MismatchError for ids of another model.
        """
        check_lines(self._vocabulary, ids, ends)
        words, log_probs = np.ascontiguousarray(ids, np.int32), np.empty(len(ids), np.float32)

        def work(tasks: Iterator[tuple[int, int]]) -> None:
            for first, last in tasks:
                begin, end = int(ends[first - 1]) if first else 0, int(ends[last - 1])
                self._score_lines(words[begin:end], ends[first:last] - begin, log_probs[begin:end])

        in_threads(work, slices(0, len(ends), 1 if threads == 1 else 1 + len(ids) // TASK), threads)
        return log_probs

    def next_words(self, state: State, number: int) -> tuple[Ids, LogProbs]:
        """The most likely words after the state of each row and their log-probs in nats: [B, number], best first."""
        nodes = self._nodes(state, cast(NGramState, state)[0].shape)
        return best_words(self._distributions(nodes), number)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays of the table by name, to be stored."""
        return self.table.arrays()

    def metadata(self) -> dict[str, Any]:
        """Everything else that `load` needs, as JSON can hold it."""
        return {**self.table.metadata(), "vocabulary": self._vocabulary.fingerprint}

    def _distributions(self, nodes: Ids) -> LogProbs:
        """The log-probs of every word after each state: [B, outputs]."""
        raise NotImplementedError

    def _score_lines(self, words: NDArray[np.int32], ends: Ids, out: LogProbs) -> None:
        """Fill `out` [T] with the log-probs of lines that end at `ends`."""
        raise NotImplementedError

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


def check_made_for(metadata: Mapping[str, Any], vocabulary: Vocabulary) -> None:
    """Raise MismatchError if a stored model was made for another vocabulary."""
    made_for = metadata.get("vocabulary", vocabulary.fingerprint)
    if made_for != vocabulary.fingerprint:
        raise MismatchError(
            f"the model was made for vocabulary {made_for}, but this is {vocabulary.fingerprint}; "
            "restore the vocabulary or train again"
        )


def check_lines(vocabulary: Vocabulary, ids: NDArray[Any], ends: Ids) -> None:
    """Raise ShapeError unless `ends` are where lines of these ids end; as `check_targets` besides."""
    if len(ids) and (not len(ends) or ends[-1] != len(ids) or np.any(np.diff(ends) < 1) or ends[0] < 1):
        raise ShapeError("the ends of the lines do not fit the ids")
    check_targets(vocabulary, ids)


def best_words(log_probs: LogProbs, number: int) -> tuple[Ids, LogProbs]:
    """The ids of the highest log-probs of each row, [B, number], best first, and these."""
    chosen = np.argpartition(-log_probs, min(number, log_probs.shape[1]) - 1, axis=1)[:, :number]
    found = np.take_along_axis(log_probs, chosen, 1)
    order = np.lexsort((chosen, -found), axis=1)
    return np.take_along_axis(chosen, order, 1), np.take_along_axis(found, order, 1)


def check_targets(vocabulary: Vocabulary, ids: NDArray[Any]) -> None:
    """Raise MismatchError for ids that this vocabulary does not predict."""
    if ids.size and not (0 <= int(ids.min()) and int(ids.max()) < vocabulary.outputs):
        raise MismatchError(
            f"ids reach from {int(ids.min())} to {int(ids.max())}, but {vocabulary!r} predicts 0 to "
            f"{vocabulary.outputs - 1}; encode the text with this model's vocabulary"
        )


def row_major(ids: NDArray[Any]) -> Ids:
    """A read-only int64 view or copy, rows contiguous: one kind of array, so one compiled kernel."""
    view = np.require(ids, np.int64, ["C", "A", "E"])[:]
    view.flags.writeable = False
    return view
