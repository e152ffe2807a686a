"""Counts of the n-grams of all orders, as sorted arrays that are already a trie.

A row of order k is one distinct k-gram. Rows are sorted by (row of the context in order k-1, last word), so
the words seen after a context lie together, and a row of order k+1 points to its context and its suffix by
row number. Every smoothing is a pass over these arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import ConfigError, DataError, ShapeError
from ostinato.core.progress import Progress, Watch, unwatched
from ostinato.core.vocabulary import STOP, Vocabulary

BLOCK = 1 << 20
"""Tokens that are read from the stream at a time."""

LIMIT = 2**31 - 2
"""Most positions, and most n-grams of an order, that 32-bit rows can number."""


@dataclass(frozen=True, eq=False)
class Level:
    """The distinct n-grams of one order, all arrays [N]; those that begin with the start symbol come last.

    parent, suffix: rows in the order below, of the n-gram without its last and without its first word.
    word: its last word. count: how often it occurs. inner: how many do not begin with the start symbol.
    """

    parent: NDArray[np.int32]
    word: NDArray[np.int32]
    suffix: NDArray[np.int32]
    count: NDArray[np.int32]
    inner: int


@dataclass(frozen=True, eq=False)
class Counts:
    """The n-grams of orders 1 to `order`: `levels[k - 1]` holds order k.

    Order 1 has a row for each of the `outputs` words, seen or not, and one for the start symbol. tokens:
    predicted tokens of the text, the stop symbols included. lines: its sentences, the empty ones included.
    """

    outputs: int
    tokens: int
    lines: int
    levels: tuple[Level, ...]

    @property
    def order(self) -> int:
        """The length of the longest n-grams."""
        return len(self.levels)

    def raw(self, order: int) -> NDArray[np.int64]:
        """How often each n-gram of that order occurs as a prediction: [N], 0 for the start symbol alone."""
        count = self.levels[order - 1].count.astype(np.int64)
        if order == 1:
            count[-1] = 0
        return count

    def adjusted(self, order: int) -> NDArray[np.int64]:
        """The counts Kneser-Ney smooths at that order: [N].

        In the highest order how often the n-gram occurs, below it how many different words precede it (the
        start symbol is one of them). N-grams that begin with the start symbol have nothing before them and
        keep their number of occurrences. Source: [Chen1999], modified Kneser-Ney smoothing.
        """
        count = self.raw(order)
        if order < self.order:
            inner = self.levels[order - 1].inner
            count[:inner] = np.bincount(self.levels[order].suffix, minlength=len(count))[:inner]
        return count


def count(ids: NDArray[Any], vocabulary: Vocabulary, order: int, watch: Watch = unwatched) -> Counts:
    """Count every n-gram of orders 1 to `order` in a stream of lines, each ended by the stop symbol.

    ids: [T], any integer type, may be memory-mapped. The start symbol is put before each line and no n-gram
        crosses a line, so an n-gram has it first or not at all.
    Raises ConfigError for an order below 1, DataError for a stream that is empty, too long, not ended, or
    holds start or padding, MismatchError for ids of another vocabulary. Cost: O(order * T); at most 40 bytes
    a token besides the result, which holds 16 bytes an n-gram.
    """
    if order < 1:
        raise ConfigError(f"the order of an n-gram model must be 1 or more, got {order}; 5 is usual")
    words, lines = frame(ids, vocabulary, order, watch)
    levels = [unigrams(words, vocabulary)]
    previous, places = words, sorted_places(words, vocabulary.start) if order > 1 else words
    for length in range(2, order + 1):
        level, previous, places = extend(levels[-1], words, previous, places)
        levels.append(level)
        watch(Progress("counting", len(ids) * length // order, length / order, f"order {length}"))
    return Counts(vocabulary.outputs, len(ids), lines, tuple(levels))


def frame(ids: NDArray[Any], vocabulary: Vocabulary, order: int, watch: Watch) -> tuple[NDArray[np.int32], int]:
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
    framed = np.full(len(ids) + lines, vocabulary.start, np.int32)
    at, before = 0, vocabulary.stop
    for block in blocks:
        piece = ids[block].astype(np.int64)
        check_piece(piece, vocabulary)
        begins = np.concatenate(([before], piece[:-1])) == vocabulary.stop
        places = at + np.arange(len(piece)) + np.cumsum(begins)
        framed[places] = piece
        at, before = int(places[-1]) + 1, int(piece[-1])
        done = min(block.stop, len(ids))
        watch(Progress("counting", done // order, done / len(ids) / order, "order 1"))
    return framed, lines


def check_piece(piece: NDArray[np.int64], vocabulary: Vocabulary) -> None:
    """Raise MismatchError for ids outside the vocabulary, DataError for those that only a model may be given."""
    vocabulary.check(piece, "the ids of the stream")
    if int(piece.max()) >= vocabulary.outputs:
        name = vocabulary.pieces[int(piece.max())]
        raise DataError(f"the stream holds {name}, which is never predicted; leave it out and end lines with {STOP}")


def unigrams(words: NDArray[np.int32], vocabulary: Vocabulary) -> Level:
    """Order 1: every word that can be predicted, then the start symbol, whether seen or not."""
    number = vocabulary.outputs + 1
    nothing = np.zeros(number, np.int32)
    occurrences = np.bincount(words, minlength=number).astype(np.int32)
    return Level(nothing, np.arange(number, dtype=np.int32), nothing, occurrences, vocabulary.outputs)


def sorted_places(words: NDArray[np.int32], start: int) -> NDArray[np.int32]:
    """Every position that holds a predicted word, sorted by that word, then by position."""
    from ostinato.kernels import counting

    places = np.empty(len(words), np.int32)
    counting.sort_by_word(words, np.zeros(start + 2, np.int64), places)
    return places[: np.searchsorted(words[places], start)]


def extend(
    below: Level, words: NDArray[np.int32], previous: NDArray[np.int32], places: NDArray[np.int32]
) -> tuple[Level, NDArray[np.int32], NDArray[np.int32]]:
    """The order above `below`, the row of its n-gram that ends at each position, and where there is one.

    previous: the rows of `below`, -1 where the line is too short. places: where one ended, by word.
    """
    from ostinato.kernels import counting

    by_context = np.empty(len(places), np.int32)
    kept = counting.sort_by_context(previous, places, np.zeros(len(below.word) + 1, np.int64), by_context)
    current = np.full(len(words), -1, np.int32)
    parent, word, suffix, occurrences = (np.empty(kept, np.int32) for _ in range(4))
    rows = counting.number_ngrams(words, previous, by_context[:kept], current, parent, word, suffix, occurrences)
    inner = int(np.searchsorted(parent[:rows], below.inner))
    level = Level(parent[:rows].copy(), word[:rows].copy(), suffix[:rows].copy(), occurrences[:rows].copy(), inner)
    return level, current, places[previous[places - 1] >= 0]
