"""What all of KenLM's binary files have in common: a header, the words, and n-grams stored last word first."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import DataError
from ostinato.ngram.levels import Level
from ostinato.ngram.table import Logs
from ostinato.ngram.trie import LIMIT, Nodes

Bytes: TypeAlias = NDArray[np.uint8]
Rows: TypeAlias = NDArray[np.int64]

MAGIC = b"mmap lm http://kheafield.com/code "
VERSION = MAGIC + b"format version 5\n\0"
CHECKED = VERSION.ljust(56, b"\0") + struct.pack("<3f3IQ", 0.0, 1.0, -0.5, 1, 0xFFFFFFFF, 0, 1)
"""How every file begins: numbers that read wrongly on a machine of another kind."""

PROBING, REST_PROBING, TRIE, QUANT_TRIE, ARRAY_TRIE, QUANT_ARRAY_TRIE = range(6)


class Header(NamedTuple):
    """What a file says of itself: its kind, the n-grams of each order, and where the rest begins.

    multiplier: buckets an entry of its hash tables. has_words: whether the words themselves are in it.
    """

    path: Path
    kind: int
    counts: tuple[int, ...]
    multiplier: float
    has_words: bool
    size: int

    @property
    def order(self) -> int:
        """The length of the longest n-grams."""
        return len(self.counts)

    def damaged(self, why: str) -> DataError:
        """The error for what no such file holds."""
        return DataError(f"{self.path}: a damaged KenLM file: {why}; copy it again or build it from its ARPA file")


def read_header(path: Path, data: Bytes) -> Header:
    """The header. Raises DataError if this is not a file of version 5 made on a machine like ours."""
    begin = data[: len(CHECKED)].tobytes()
    if not begin.startswith(MAGIC):
        raise DataError(f"{path}: not a binary file of KenLM; give one that its build_binary made, or an ARPA file")
    if begin != CHECKED:
        why = "not finished" if begin.startswith(MAGIC + b"incomplete") else "of another version or kind of machine"
        raise DataError(f"{path}: the KenLM file is {why}; build it again from its ARPA file with a current KenLM")
    fixed = struct.Struct("<B3xfIB3xI")
    at = len(CHECKED) + fixed.size
    head = data[len(CHECKED) : at].tobytes()
    if len(head) < fixed.size or len(data) < at + 8 * head[0]:
        raise DataError(f"{path}: the KenLM file is cut short; copy it again")
    order, multiplier, kind, has_words, version = fixed.unpack(head)
    counts = np.frombuffer(data[at : at + 8 * order].tobytes(), "<u8")
    header = Header(path, kind, tuple(counts.tolist()), multiplier, bool(has_words), (at + 8 * order + 7) // 8 * 8)
    if order < 2 or not 1 <= multiplier < 1e6:
        raise header.damaged("its header makes no sense")
    if kind > QUANT_ARRAY_TRIE or version != (1 if kind >= TRIE else 0):
        raise DataError(f"{path}: a kind of KenLM file not known here ({kind}, version {version}); give its ARPA file")
    if not has_words:
        raise DataError(
            f"{path}: the KenLM file holds hashes of its words, not the words; give the ARPA file it is from"
        )
    if sum(header.counts) > LIMIT:
        raise DataError(f"{path}: {sum(header.counts):,} n-grams are more than one table can hold; prune the model")
    return header


def need(header: Header, data: Bytes, end: int) -> None:
    """Raise DataError unless the file reaches to byte `end`."""
    if len(data) < end:
        raise DataError(
            f"{header.path}: cut short: {len(data):,} bytes, but its header asks for {end:,}; copy it again"
        )


def read_words(header: Header, data: Bytes, begin: int, number: int) -> list[str]:
    """The words in the order of their ids there, `<unk>` first; they end the file."""
    listed = data[begin:].tobytes().split(b"\0")[:-1]
    if len(listed) != number:
        raise header.damaged(f"{len(listed):,} words for {number:,} unigrams")
    try:
        return [word.decode() for word in listed]
    except UnicodeDecodeError as fault:
        raise DataError(
            f"{header.path}: the word {fault.object!r} is not UTF-8; build it from an ARPA that is"
        ) from None


class Reversed(NamedTuple):
    """The n-grams of one order by their last words, sorted by (parent, word).

    word: [n], the first word (KenLM's id). parent: [n], the row of the other words in the order below (0 for
    the unigrams). log_prob, log_backoff: [n] float32, nats.
    """

    word: Rows
    parent: Rows
    log_prob: Logs
    log_backoff: Logs


def nats(log10: NDArray[np.float32]) -> Logs:
    """Logarithms to the base 10 as natural ones; -99 is a probability of zero, as in ARPA files."""
    with np.errstate(over="ignore", invalid="ignore"):  # the numbers of a damaged file
        value: Logs = (log10.astype(np.float64) * np.log(10)).astype(np.float32)
    value[log10 == -99] = -np.inf
    return value


def turned(header: Header, found: Sequence[Reversed], words: Level, ids: Nodes) -> tuple[list[Level], int]:
    """The levels by first words, and how many n-grams were left out: those with the start symbol inside.

    found: the orders above 1. words: the level of the words. ids: our id of each of KenLM's.
    The context of `a b c` is the n-gram that has `a` before the context of `b c`.
    """
    for log_prob, log_backoff in [(part[2], part[3]) for part in found] + [(words.log_prob, words.log_backoff)]:
        if np.any(np.isnan(log_prob)) or not np.all(log_backoff < np.inf):
            raise header.damaged("a log-prob or back-off is not a number")
    levels, unused, outputs, vocabulary = [words], 0, len(words) - 1, len(ids)
    keys = np.arange(vocabulary, dtype=np.int64)  # of the order below, ascending
    last, context, place = ids.astype(np.int64), np.zeros(vocabulary, np.int64), ids.astype(np.int64)
    for level in found:
        wanted = context[level.parent] * vocabulary + level.word
        context = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        if not np.array_equal(keys[context], wanted):
            raise header.damaged("the context of an n-gram is missing")
        last = last[level.parent]
        kept = np.flatnonzero((place[context] >= 0) & (last < outputs))
        ours = place[context[kept]] * outputs + last[kept]
        order = np.argsort(ours)
        kept = kept[order]
        levels.append(Level.of_keys(ours[order], outputs, level.log_prob[kept], level.log_backoff[kept]))
        unused += len(last) - len(kept)
        place = np.full(len(last), -1, np.int64)
        place[kept] = np.arange(len(kept))
        keys = level.parent * vocabulary + level.word
    return levels, unused
