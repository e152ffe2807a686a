"""Counts of the n-grams of all orders, hung on the trie they form. Every smoothing is a pass over them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import ConfigError, DataError, ShapeError
from ostinato.core.progress import Progress, Watch, unwatched
from ostinato.core.vocabulary import STOP, Vocabulary
from ostinato.ngram.counting import Counter
from ostinato.ngram.threads import in_threads, slices
from ostinato.ngram.trie import LIMIT, Trie
from ostinato.ngram.workspace import IN_MEMORY, Workspace

Numbers: TypeAlias = NDArray[np.int64]

UnknownMass: TypeAlias = Literal["kenlm", "srilm", "closed"]
"""How the mass of words never seen is shared out, named after those who do it so."""

BLOCK = 1 << 20
"""Tokens that are read from the stream at a time."""

SMALL = 1 << 18
"""Positions up to which NumPy alone counts: it needs no compiler, which takes longer to load than this takes."""


@dataclass(frozen=True, eq=False)
class Counts:
    """How often every n-gram of orders 1 to `order` occurs.

    trie: the distinct n-grams; order 1 has a node for each word that can be predicted, seen or not, and one
        for the start symbol. count: [N] int32, occurrences; for node 0 the number of all predicted tokens,
        for the start symbol that of the lines. tokens: predicted tokens of the text, the stop symbols
        included. lines: its sentences, the empty ones included. space: where large arrays are made.
    unknown: how smoothing shares out what order 1 does not give to words seen, see `base`.
    """

    trie: Trie
    count: NDArray[np.int32]
    tokens: int
    lines: int
    space: Workspace = IN_MEMORY
    unknown: UnknownMass = "kenlm"
    _continuations: dict[int, NDArray[np.int32]] = field(default_factory=dict, repr=False)

    @property
    def order(self) -> int:
        """The length of the longest n-grams."""
        return self.trie.order

    @property
    def outputs(self) -> int:
        """How many words can be predicted."""
        return self.trie.outputs

    @property
    def small(self) -> bool:
        """Whether there is so little that loading a compiler takes longer than it saves."""
        return self.tokens < SMALL

    def base(self) -> NDArray[np.float64]:
        """What stands below order 1: [outputs + 1], sums to one; 0 for the start symbol.

        kenlm: every word alike, the unknown one among them. srilm: everything for the unknown word. closed:
        every word but the unknown one, which is impossible unless the text holds it.
        """
        base = np.zeros(self.outputs + 1)
        base[:-1] = {"kenlm": 1 / self.outputs, "srilm": 0.0, "closed": 1 / (self.outputs - 1)}[self.unknown]
        base[0] = {"kenlm": 1 / self.outputs, "srilm": 1.0, "closed": 0.0}[self.unknown]
        return base

    def raw(self, order: int) -> Numbers:
        """How often each n-gram of that order occurs as a prediction: 0 for the start symbol alone."""
        count = self.count[self.trie.level(order)].astype(np.int64)
        if order == 1:
            count[-1] = 0
        return count

    def starting(self, order: int) -> int:
        """How many n-grams of that order do not begin with the start symbol; those that do come last."""
        level, node = self.trie.level(order), self.trie.sentence_start
        for _ in range(order - 1):
            node = int(self.trie.first_child[node])
        return int(node - level.start)

    def adjusted(self, order: int) -> Numbers:
        """The counts Kneser-Ney smooths at that order.

        In the highest order how often the n-gram occurs, below it how many different words precede it (the
        start symbol is one of them). N-grams that begin with the start symbol have nothing before them and
        keep their number of occurrences. Source: [Chen1999], modified Kneser-Ney smoothing.
        """
        return self.continuations(order).astype(np.int64)

    def continuations(self, order: int) -> NDArray[np.int32]:
        """The same as int32, kept for the next time; not to be changed."""
        known = self._continuations.get(order)
        if known is None:
            known = self._continuations[order] = continuations(self, order)
        return known

    def forget(self, order: int) -> None:
        """Give the memory of `continuations` back."""
        self._continuations.pop(order, None)


def count(
    ids: NDArray[Any],
    vocabulary: Vocabulary,
    order: int,
    watch: Watch = unwatched,
    threads: int | None = None,
    space: Workspace = IN_MEMORY,
) -> Counts:
    """Count every n-gram of orders 1 to `order` in a stream of lines, each ended by the stop symbol.

    ids: [T], any integer type, may be memory-mapped. The start symbol is put before each line and no n-gram
        crosses a line, so an n-gram has it first or not at all.
    threads: None for one a core. space: where large arrays are made, to bound the memory; whatever these are, the
        result is the same bit for bit.
    Raises ConfigError for an order below 1, DataError for a stream that is empty, too long, not ended, or
    holds start or padding, MismatchError for ids of another vocabulary.
    """
    if order < 1:
        raise ConfigError(f"the order of an n-gram model must be 1 or more, got {order}; 5 is usual")
    words, lines = frame(ids, vocabulary, order, watch, space)
    tokens = len(words) - lines
    if tokens < SMALL:
        found = count_small(words, vocabulary, order, lines)
        watch(Progress("counting", tokens, 1.0))
        return found
    trie, counted = Counter(words, vocabulary.outputs, vocabulary.stop, order, threads, space, watch).trie()
    counted[0] = tokens
    return Counts(trie, counted, tokens, lines, space)


def continuations(counts: Counts, order: int) -> NDArray[np.int32]:
    """See `Counts.adjusted`."""
    trie, level = counts.trie, counts.trie.level(order)
    count = counts.space.empty(level.stop - level.start, np.int32)
    count[:] = counts.count[level]
    if order == 1:
        count[-1] = 0
    if order == counts.order:
        return count
    inner, longer = counts.starting(order), trie.level(order + 1)
    if counts.small:
        count[:inner] = np.bincount(trie.suffix[longer] - level.start, minlength=len(count))[:inner]
        return count
    from ostinato.kernels import discount as kernel

    count[:inner] = 0

    def work(tasks: Iterator[tuple[int, int]]) -> None:
        for low, high in tasks:
            for begin in range(longer.start, longer.stop, BLOCK):
                end = min(begin + BLOCK, longer.stop)
                kernel.count_extensions(trie.suffix, begin, end, low, high, count[low - level.start :])
                counts.space.relieve()

    in_threads(work, slices(level.start, level.start + inner, os.cpu_count() or 1))
    return count


def frame(
    ids: NDArray[Any], vocabulary: Vocabulary, order: int, watch: Watch, space: Workspace = IN_MEMORY
) -> tuple[NDArray[np.int32], int]:
    """The stream with the start symbol before each line, [T + lines], and the number of lines."""
    if ids.ndim != 1 or not np.issubdtype(ids.dtype, np.integer):
        raise ShapeError(f"a stream of ids is one row of integers, got {ids.dtype} of shape {ids.shape}")
    if not len(ids):
        raise DataError("the text is empty, so there is nothing to count; give a text of at least one line")
    if ids[-1] != vocabulary.stop:
        raise DataError("the last line of the stream is not ended by the stop symbol; append it")
    blocks = [slice(begin, begin + BLOCK) for begin in range(0, len(ids), BLOCK)]
    lines = sum(int(np.count_nonzero(ids[block] == vocabulary.stop)) for block in blocks)
    if len(ids) + lines > LIMIT:
        raise DataError(f"{len(ids):,} tokens are more than the {LIMIT - lines:,} that can be counted at once")
    framed = space.empty(len(ids) + lines, np.int32)
    at, before = 0, vocabulary.stop
    for block in blocks:
        piece = np.asarray(ids[block])
        check_piece(piece, vocabulary)
        at = frame_piece(piece, before, vocabulary, at, framed)
        before = int(piece[-1])
        space.relieve()
    return framed, lines


def frame_piece(piece: NDArray[Any], before: int, vocabulary: Vocabulary, at: int, framed: NDArray[np.int32]) -> int:
    """Frame a piece that comes after the id `before`, from `at` on; return where it ends."""
    if len(framed) >= SMALL:
        from ostinato.kernels import counting as kernel

        return int(kernel.frame(piece.astype(np.int32), before, vocabulary.stop, vocabulary.start, at, framed))
    begins = np.concatenate(([before], piece[:-1])) == vocabulary.stop
    places = np.arange(len(piece)) + np.cumsum(begins)
    size = int(places[-1]) + 1
    framed[at : at + size] = vocabulary.start
    framed[at : at + size][places] = piece
    return at + size


def check_piece(piece: NDArray[Any], vocabulary: Vocabulary) -> None:
    """Raise MismatchError for ids outside the vocabulary, DataError for those that only a model may be given."""
    vocabulary.check(piece, "the ids of the stream")
    if int(piece.max()) >= vocabulary.outputs:
        name = vocabulary.pieces[int(piece.max())]
        raise DataError(f"the stream holds {name}, which is never predicted; leave it out and end lines with {STOP}")


def count_small(words: NDArray[np.int32], vocabulary: Vocabulary, order: int, lines: int) -> Counts:
    """The counts of framed lines, order by order: an n-gram is a row of the order below and a word, sorted.

    Cost: a sort of the positions an order.
    """
    number = vocabulary.outputs + 1
    ngrams = [number]
    word, suffix = [np.zeros(1, np.int32), np.arange(number, dtype=np.int32)], [np.zeros(1 + number, np.int32)]
    tokens = len(words) - lines
    counted = [np.array([tokens], np.int32), np.bincount(words, minlength=number).astype(np.int32)]
    children = [np.array([1], np.int32)]
    below, begin = 1, 1  # where the order below begins, and after it the next
    row = words.astype(np.int64)  # of the n-gram that ends at each position, -1 where the line is too short
    places = np.flatnonzero(words != vocabulary.start)
    for _ in range(2, order + 1):
        begin = below + ngrams[-1]
        places = places[row[places - 1] >= 0]
        keys, first, rows, times = np.unique(
            row[places - 1] * number + words[places], return_index=True, return_inverse=True, return_counts=True
        )
        parent, last = np.divmod(keys, number)
        children.append((begin + np.searchsorted(parent, np.arange(ngrams[-1]))).astype(np.int32))
        word.append(last.astype(np.int32))
        suffix.append((below + row[places[first]]).astype(np.int32))
        counted.append(times.astype(np.int32))
        row = np.full(len(words), -1, np.int64)
        row[places] = rows
        below = begin
        ngrams.append(len(keys))
    children.append(np.array([below + ngrams[-1]], np.int32))
    trie = Trie(np.concatenate(word), np.concatenate(children), np.concatenate(suffix), tuple(ngrams))
    return Counts(trie, np.concatenate(counted), tokens, lines)
