"""Batches: a stream laid out as rows of fixed length, sentence by sentence or continuously.

A plan says for every batch and row where its tokens stand in the stream; the tokens are fetched when the
batch is asked for. The plan is a pure function of stream, sizes, seed and epoch, so `batches[i]` is the same
today and after a resume, and every target of the stream is counted exactly once an epoch.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import ConfigError, DataError
from ostinato.core.vocabulary import Ids, Vocabulary
from ostinato.text.stream import TokenStream

_POOL = 64  # batches of shuffled sentences that are sorted by length together


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows to read and what comes next in each.

    inputs, targets: [B, T] int64. weight: [B, T] float32, 1 where the target counts and 0 at padding.
    fresh: [B] bool, the row begins with a new state; otherwise with the state after the batch before.
    """

    inputs: Ids
    targets: Ids
    weight: NDArray[np.float32]
    fresh: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Plan:
    """Where each row of each batch stands in the stream.

    at: [N, B] first token. count: [N, B] tokens; both 0 for an idle row. fresh: [N, B] a new state.
    begins: [N, B] the first input is the start symbol, otherwise it is the token before `at`.
    """

    at: Ids
    count: Ids
    fresh: NDArray[np.bool_]
    begins: NDArray[np.bool_]


class Batches:
    """The batches of one epoch, by number."""

    def __init__(self, stream: TokenStream, vocabulary: Vocabulary, plan: Plan):
        stream.check(vocabulary)
        self._ids, self._vocabulary, self._plan = stream.ids, vocabulary, plan
        self.targets = len(stream)
        """How many targets count in all batches together."""
        self.rows = plan.at.shape[1]
        """B of every batch: the rows asked for, or fewer if the text cannot fill them."""

    def __len__(self) -> int:
        return len(self._plan.at)

    def __getitem__(self, number: int) -> Batch:
        """Raises IndexError beyond the last."""
        at, count = self._plan.at[number], self._plan.count[number]
        places = np.arange(count.max())
        counted = places < count[:, None]  # [B, T]
        found = self._ids[np.where(counted, at[:, None] + places, 0)].astype(np.int64)
        before = self._ids[np.clip(at - 1, 0, self.targets - 1)].astype(np.int64)
        first = np.where(self._plan.begins[number], self._vocabulary.start, before)
        inputs = np.concatenate([first[:, None], found[:, :-1]], axis=1)
        return Batch(
            np.where(counted, inputs, self._vocabulary.pad),
            np.where(counted, found, self._vocabulary.stop),
            counted.astype(np.float32),
            self._plan.fresh[number],
        )

    def __iter__(self) -> Iterator[Batch]:
        return (self[number] for number in range(len(self)))


class SentenceBatches(Batches):
    """One line, one sequence: `<s> w1 .. wn` predicts `w1 .. wn </s>`, from a new state.

    Sentences of similar length share a batch. One longer than `length` continues in the next batch, same
    row, not fresh. seed: the order is shuffled, anew in every epoch; None sorts the whole text by length.
    """

    def __init__(
        self, stream: TokenStream, vocabulary: Vocabulary, rows: int, length: int, seed: int | None, epoch: int = 0
    ):
        _check_sizes(rows, length)
        starts, rows = stream.line_starts, min(rows, stream.lines)
        sizes = np.diff(starts, append=len(stream))
        groups = _groups(sizes, rows, seed, epoch)  # [G, rows], -1 for none
        used = groups >= 0
        starts, sizes = np.where(used, starts[groups], 0), np.where(used, sizes[groups], 0)
        batches = -(-sizes.max(axis=1) // length)  # how many each group needs
        group = np.repeat(np.arange(len(groups)), batches)
        part = np.arange(len(group)) - np.repeat(np.cumsum(batches) - batches, batches)
        done = part[:, None] * length
        count = np.clip(sizes[group] - done, 0, length)
        fresh = np.broadcast_to(part[:, None] == 0, count.shape)
        at = np.where(count > 0, starts[group] + done, 0)
        super().__init__(stream, vocabulary, Plan(at, count, fresh, fresh))


def _groups(sizes: Ids, rows: int, seed: int | None, epoch: int) -> Ids:
    """Sentence numbers by batch, [G, rows], of similar length; -1 fills up the last."""
    if seed is None:
        return _filled(np.argsort(sizes, kind="stable"), rows)
    chance = np.random.default_rng([seed, epoch])
    order = chance.permutation(len(sizes))
    pool = np.arange(len(order)) // (rows * _POOL)
    order = order[np.lexsort((sizes[order], pool))]
    return chance.permutation(_filled(order, rows))


def _filled(order: Ids, rows: int) -> Ids:
    padded = np.full(-(-len(order) // rows) * rows, -1, np.int64)
    padded[: len(order)] = order
    return padded.reshape(-1, rows)


class ContinuousBatches(Batches):
    """Documents laid into rows; a row's state goes on from batch to batch until its document ends.

    A document begins with the start symbol, a new state and a new batch; after its end the row idles to the
    end of the batch. split=True cuts documents longer than a fair share (tokens / rows) into equal pieces,
    each with a new state, so that all rows are busy: for training. split=False keeps them whole, so that
    numbers do not depend on `rows`: for evaluation. seed shuffles the order in which a row takes its
    documents, anew in every epoch.
    """

    def __init__(
        self,
        stream: TokenStream,
        vocabulary: Vocabulary,
        rows: int,
        length: int,
        split: bool,
        seed: int | None,
        epoch: int = 0,
    ):
        _check_sizes(rows, length)
        starts = np.append(stream.starts, len(stream)).astype(np.int64)
        if split:
            starts = _with_cuts(starts, -(-len(stream) // rows))
        sizes = np.diff(starts)
        rows = min(rows, len(sizes))
        columns = -(-sizes // length)
        row, column = _laid(columns, rows, seed, epoch)
        piece = np.repeat(np.arange(len(sizes)), columns)
        part = np.arange(len(piece)) - np.repeat(np.cumsum(columns) - columns, columns)
        where = column[piece] + part, row[piece]
        shape = (int((column + columns).max()), rows)
        at, count = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        fresh = np.ones(shape, np.bool_)
        at[where] = starts[piece] + part * length
        count[where] = np.minimum(sizes[piece] - part * length, length)
        fresh[where] = part == 0
        begins = fresh & np.isin(at, stream.starts)
        super().__init__(stream, vocabulary, Plan(at, count, fresh, begins))


def _with_cuts(starts: Ids, share: int) -> Ids:
    """The places where documents begin and end, and more so that no piece is longer than the share."""
    sizes = np.diff(starts)
    pieces = -(-sizes // share)
    document = np.repeat(np.arange(len(sizes)), pieces)
    part = np.arange(len(document)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    return np.append(starts[document] + part * sizes[document] // pieces[document], starts[-1])


def _laid(columns: Ids, rows: int, seed: int | None, epoch: int) -> tuple[Ids, Ids]:
    """The row and first column of every piece: the longest first, each to the row that is free first.

    Within its row the pieces then stand in shuffled order, or in that of the text.
    """
    count = len(columns)
    order = np.arange(count) if seed is None else np.random.default_rng([seed, epoch]).permutation(count)
    free = [(0, row) for row in range(rows)]
    row = np.zeros(count, np.int64)
    for piece in order[np.argsort(-columns[order], kind="stable")].tolist():
        busy, chosen = heapq.heappop(free)
        row[piece] = chosen
        heapq.heappush(free, (busy + int(columns[piece]), chosen))
    sequence = order[np.argsort(row[order], kind="stable")]  # row by row
    ends = np.cumsum(columns[sequence])
    before = ends - columns[sequence]
    row_begins = np.searchsorted(row[sequence], row[sequence])
    column = np.zeros(count, np.int64)
    column[sequence] = before - before[row_begins]
    return row, column


def _check_sizes(rows: int, length: int) -> None:
    if rows < 1 or length < 1:
        raise ConfigError(f"a batch has at least one row of length one, got {rows} rows of length {length}")


def make_batches(
    regime: Literal["sentence", "stream"],
    stream: TokenStream,
    vocabulary: Vocabulary,
    rows: int,
    length: int,
    seed: int | None = None,
    epoch: int = 0,
    training: bool = False,
) -> Batches:
    """The batches of that regime; training cuts long documents and wants at least one full batch of text.

    Raises DataError if the training text is shorter than a batch, ConfigError for sizes below one.
    """
    _check_sizes(rows, length)
    have, want, unit = (stream.lines, rows, "lines") if regime == "sentence" else (len(stream), rows * length, "tokens")
    if training and have < want:
        raise DataError(
            f"{stream.data}: {have:,} {unit} are fewer than one batch of {rows} rows"
            f"{'' if regime == 'sentence' else f' of {length} tokens'}; give more text or smaller batches"
        )
    if regime == "sentence":
        return SentenceBatches(stream, vocabulary, rows, length, seed, epoch)
    return ContinuousBatches(stream, vocabulary, rows, length, training, seed, epoch)
