"""The 1-grams of an ARPA file, which are its vocabulary, and what is said of a faulty line."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import DataError
from ostinato.core.progress import Progress, Watch
from ostinato.core.vocabulary import PAD, START, STOP, UNKNOWN, Vocabulary
from ostinato.ngram.arpa_source import BLANKS, Source
from ostinato.ngram.levels import Level, word_level
from ostinato.ngram.table import Logs
from ostinato.ngram.trie import Nodes

Array = TypeVar("Array", bound=NDArray[Any])

MISSING = -100 * np.log(10)
"""The log-prob of `<unk>` and `</s>` where a file has none; KenLM gives `<unk>` the same."""

CAPITAL_UNKNOWN = "<UNK>"
FIRST_ROOM = 1 << 16
"""N-grams for which there is room at first; it grows."""


class Words(NamedTuple):
    """The 1-grams: the vocabulary, their numbers, and how a kernel finds them."""

    vocabulary: Vocabulary
    level: Level
    slots: NDArray[np.int64]
    text: NDArray[np.uint8]
    starts: NDArray[np.int64]
    ids: Nodes  # of each word in the order of the file
    spelled: list[str]
    unknown: str  # as the file spells it
    notes: list[str]


def read_words(source: Source, watch: Watch) -> Words:
    """The 1-grams, which come first. Raises DataError with file and line."""
    from ostinato.kernels import arpa_parse as kernel

    room, rows = FIRST_ROOM, 0
    slots, text, starts = np.zeros(4 * room, np.int64), np.empty(16 * room, np.uint8), np.zeros(room + 1, np.int64)
    lines, log_prob, log_backoff = np.empty(room, np.int64), np.empty(room, np.float32), np.empty(room, np.float32)
    while source.at < len(source.block) or source.more():
        source.at, source.line, rows, why = kernel.parse_words(
            source.block, source.at, source.line, rows, slots, text, starts, lines, log_prob, log_backoff
        )
        watch(Progress("reading ARPA", rows, source.share, "order 1"))
        if why == kernel.SECTION:
            break
        if why == kernel.FULL:
            room *= 2
            starts, lines = enlarged(starts, room + 1), enlarged(lines, room)
            log_prob, log_backoff = enlarged(log_prob, room), enlarged(log_backoff, room)
            text = enlarged(text, max(2 * len(text), len(text) + len(source.this_line())))
            slots = np.zeros(4 * room, np.int64)
            kernel.index_words(slots, text, starts, rows)
        elif why == kernel.REPEATED:
            word = shown(text[starts[rows] : starts[rows + 1]].tobytes())
            raise DataError(
                f"{source.path}:{source.line}: the word {word} stands on line {lines[rows]} too; remove one"
            )
        elif why != kernel.ENDED:
            raise faulty(source, 1, why, set())
    spelled = decoded(source.path, text[: starts[rows]].tobytes(), starts[: rows + 1], lines)
    return numbered(source.path, spelled, lines, (log_prob[:rows], log_backoff[:rows]), (slots, text, starts))


def decoded(path: Path, text: bytes, starts: NDArray[np.int64], lines: NDArray[np.int64]) -> list[str]:
    """The words as text. Raises DataError with the line of one that is not UTF-8."""
    places = starts.tolist()
    words = []
    for number, (begin, end) in enumerate(pairwise(places)):
        try:
            words.append(text[begin:end].decode())
        except UnicodeDecodeError:
            where, word = f"{path}:{lines[number]}", text[begin:end]
            raise DataError(f"{where}: the word {word!r} is not UTF-8; convert the file with iconv -t UTF-8") from None
    return words


def numbered(
    path: Path,
    spelled: list[str],
    lines: NDArray[np.int64],
    logs: tuple[Logs, Logs],
    index: tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.int64]],
) -> Words:
    """The words of a file with their ids and numbers."""
    unknown = UNKNOWN if UNKNOWN in spelled else CAPITAL_UNKNOWN
    where = f"{path}:{lines[spelled.index(PAD)]}" if PAD in spelled else str(path)
    vocabulary, ids, notes = identified(spelled, unknown, where)
    return Words(vocabulary, spread(vocabulary, ids, *logs), *index, ids, spelled, unknown, notes)


def identified(spelled: list[str], unknown: str, where: str) -> tuple[Vocabulary, Nodes, list[str]]:
    """The vocabulary of these words, the id of each, and notes: specials have their own, the others keep their order.

    unknown: how the unknown word is spelled. Raises DataError, which says `where`, for words no vocabulary holds.
    """
    specials = (unknown, STOP, START)
    if PAD in spelled:
        raise DataError(f"{where}: the word {PAD} stands for padding here; rename it in the file")
    if len(set(spelled)) != len(spelled):
        raise DataError(f"{where}: a word is listed twice; the file is damaged, make it again")
    vocabulary = Vocabulary(word for word in spelled if word not in specials)
    own = dict(zip(specials, (vocabulary.unknown, vocabulary.stop, vocabulary.start), strict=True))
    ids, number, notes = np.empty(len(spelled), np.int32), 2, []
    for place, word in enumerate(spelled):
        ids[place] = own.pop(word, number)
        number += word not in specials
    if unknown in own:
        notes.append(f"there is no {UNKNOWN}; it was given the log10 probability -100")
    if STOP in own:
        notes.append(f"there is no {STOP}; it was given the log10 probability -100")
    if START in own:
        notes.append(f"there is no {START}; a line begins without a context")
    return vocabulary, ids, notes


def spread(vocabulary: Vocabulary, ids: Nodes, log_prob: Logs, log_backoff: Logs) -> Level:
    """The level of the words, given the numbers of those with these ids."""
    log_probs = np.full(vocabulary.outputs + 1, MISSING, np.float32)
    log_backoffs = np.zeros(vocabulary.outputs + 1, np.float32)
    log_probs[ids], log_backoffs[ids] = log_prob, log_backoff
    return word_level(log_probs, log_backoffs)


def enlarged(array: Array, size: int) -> Array:
    """The array with its first axis as long as `size`; what is new is not set."""
    larger = np.empty((size, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return cast(Array, larger)


def shown(line: bytes) -> str:
    """A line or word of a file as a message shows it."""
    text = line.decode(errors="backslashreplace")
    return repr(text if len(text) <= 60 else text[:57] + "...")


def faulty(source: Source, order: int, why: int, words: set[str]) -> DataError:
    """The error for the line of `source` at which a kernel stopped; `words` are the 1-grams."""
    from ostinato.kernels import arpa_parse as kernel

    line = source.this_line().strip(BLANKS + b"\n")
    where, fields = f"{source.path}:{source.line}", [field for field in re.split(rb"[ \t\r]+", line) if field]
    if why == kernel.BAD_WORD:
        unknown = next(field for field in fields[1:] if field.decode(errors="replace") not in words)
        return DataError(f"{where}: the word {shown(unknown)} is not among the 1-grams; add it there")
    if why == kernel.BAD_NUMBER:
        return DataError(f"{where}: a log10 probability or back-off is not a number: {shown(line)}; mend the line")
    holds = f"a {order}-gram is a number, {'a word' if order == 1 else f'{order} words'} and perhaps a back-off"
    return DataError(f"{where}: {holds}, not {shown(line)}; mend the line")
