"""Word vectors as text: a line a word, as word2vec, gensim, fastText (.vec) and, without a header, GloVe write it.

    71291 100                      the header: words and dimensions; GloVe has none
    the -0.23 0.0117 ...           the word and its numbers, a blank before each

The word is what stands before the last D numbers of its line, so it may hold blanks, as those of GloVe 840B do.
Lines of white space are passed over; a carriage return before a line end, blanks at the ends of a line and a byte
order mark go away.
"""

from __future__ import annotations

import os
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import DataError
from ostinato.embed.gathering import (
    Bytes,
    Errors,
    Gathered,
    Reading,
    Rows,
    Undecodable,
    as_bytes,
    block_of,
    spelled,
)
from ostinato.embed.stored import Stored, Teller

HEADER = re.compile(rb"[ \t]*(\d{1,18})[ \t]+(\d{1,9})[ \t\r]*")
NUMBER = re.compile(rb"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
NOT_FINITE = re.compile(rb"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
BLANKS = re.compile(rb"[ \t\r]+")

GUESSED = 64
"""Lines by which the number of dimensions is known where no header states it."""
PRINTED_NUMBERS = 100_000
"""Numbers that are printed together; threads share them."""
PAD = 16
"""Bytes more than their content that kernels want."""

Given = TypeVar("Given")
Made = TypeVar("Made")


class Parsed(NamedTuple):
    """What lines hold."""

    words: list[str]
    values: Rows  # [N, D]
    lines: NDArray[np.int64]  # [N]


def read_text(source: Stored, headed: bool, reading: Reading, folder: Path | None, teller: Teller) -> Gathered:
    """The words and rows of a text, with a header or without.

    folder: where the rows go, None for memory. Raises DataError with file and line for what cannot be used.
    """
    rows, dimensions = read_header(source) if headed else (None, guess_dimensions(source))

    def where(number: int, line: int) -> str:
        return f"{source.path}:{line}"

    def parse(block: tuple[bytes, int]) -> Parsed:
        return parse_lines(source.path, *block, dimensions, reading.errors)

    gathered = Gathered(where, reading, dimensions, rows, folder)
    for parsed in in_threads(parse, numbered(source, headed)):
        gathered.add(*parsed)
        teller.tell(gathered.read, source.share())
    if rows is not None and gathered.read < rows:
        raise DataError(
            f"{source.path}: the header states {rows:,} words, but there are {gathered.read:,}; the file is cut short, "
            "copy it again, or mend the number"
        )
    return gathered


def read_header(source: Stored) -> tuple[int, int]:
    """The words and dimensions that the first line states. Raises DataError."""
    line = source.begin.partition(b"\n")[0]
    found = HEADER.fullmatch(line)
    if found is None:
        raise DataError(
            f"{source.path}:1: the number of words and of dimensions should be here, not {shown(line)}; a file without "
            "them is read as kind glove"
        )
    rows, dimensions = int(found[1]), int(found[2])
    if not rows or not dimensions:
        raise DataError(f"{source.path}:1: the header states {rows:,} words of {dimensions:,} numbers: no vectors")
    if source.size is not None and rows * (2 * dimensions + 1) > source.size:
        raise DataError(
            f"{source.path}:1: {source.size:,} bytes cannot hold the {rows:,} words of {dimensions:,} numbers that the "
            "header states; the file is cut short, copy it again"
        )
    return rows, dimensions


def guess_dimensions(source: Stored) -> int:
    """The number of numbers that most of the first lines end with, the higher one of two as frequent.

    Most, since a word may hold blanks and end with a number itself.
    """
    lines = [line for line in source.begin.split(b"\n")[:GUESSED] if line.strip()]
    found = Counter(count_numbers(line) for line in (lines[:-1] if len(lines) > 2 else lines))
    dimensions, _ = max(found.items(), key=lambda item: (item[1], item[0]), default=(0, 0))
    if not dimensions:
        first = lines[0] if lines else b""
        raise DataError(f"{source.path}:1: a word and its numbers should be here, not {shown(first)}")
    return dimensions


def count_numbers(line: bytes) -> int:
    """How many numbers the line ends with, what it begins with not counted."""
    fields = BLANKS.split(line.rstrip(b" \t\r"))
    count = 0
    while count < len(fields) - 1 and NUMBER.fullmatch(fields[-1 - count]):
        count += 1
    return count


def numbered(source: Stored, headed: bool) -> Iterator[tuple[bytes, int]]:
    """Whole lines without the header, many at a time, and the number of the first of them."""
    line = 1
    for block in source.lines():
        if headed and line == 1:
            block = block[block.index(b"\n") + 1 :]
            line = 2
        yield block, line
        line += block.count(b"\n")


def parse_lines(path: Path, block: bytes, line: int, dimensions: int, errors: Errors) -> Parsed:
    """What the lines of a block hold, the first of which has that number. Raises DataError with file and line."""
    from ostinato.kernels import vector_files as kernel

    data = np.frombuffer(block, np.uint8)
    room = min(block.count(b"\n"), len(block) // (2 * dimensions + 1) + 1)
    values, lines = np.empty((room, dimensions), np.float32), np.empty(room, np.int64)
    words, asked = np.empty(len(block) + PAD, np.uint8), np.empty((dimensions + 256, 4), np.int64)
    cursor = np.array([0, line, 0, 0, 0], np.int64)
    why = kernel.FULL
    while why == kernel.FULL:
        why = kernel.read_rows(data, values, words, lines, asked, cursor)
        for row, column, begin, end in asked[: cursor[kernel.ASKED]].tolist():
            values[row, column] = asked_float(path, int(lines[row]), block[begin:end])
    if why == kernel.FAULT:
        begin = int(cursor[kernel.AT])
        faulty = block[begin : block.index(b"\n", begin)]
        raise DataError(f"{path}:{cursor[kernel.LINE]}: {what_is_wrong(faulty, dimensions)}")
    rows = int(cursor[kernel.ROWS])
    try:
        found = spelled(words[: cursor[kernel.SIZE]].tobytes(), None, errors)
    except Undecodable as fault:
        raise DataError(
            f"{path}:{lines[fault.number]}: the word {shown(fault.spelled)} is not UTF-8; convert the file with iconv, "
            "or read it with errors 'replace' or 'keep'"
        ) from None
    return Parsed(found, values[:rows], lines[:rows])


def asked_float(path: Path, line: int, text: bytes) -> np.float32:
    """The number as Python reads it. Raises DataError if float32 cannot hold it."""
    with np.errstate(over="ignore"):
        value = np.float32(float(text))
    if not np.isfinite(value):
        raise DataError(f"{path}:{line}: {shown(text)} is too large for float32; mend or remove the line")
    return value


def what_is_wrong(line: bytes, dimensions: int) -> str:
    """Why the line holds no word with so many numbers, and what to do."""
    fields = BLANKS.split(line.rstrip(b" \t\r"))
    if b"\0" in line:
        return "binary data (a NUL byte), not text; is it kind word2vec-binary?"
    numbers = fields[1:][-dimensions:]
    for place, field in enumerate(numbers, 1):
        if NOT_FINITE.fullmatch(field):
            word = shown(fields[0])
            return f"number {place} of {word} is {shown(field)}, not finite; train again, or remove the line"
        if len(numbers) == dimensions and not NUMBER.fullmatch(field):
            return f"{shown(field)} is no number; the word {shown(fields[0])} needs {dimensions:,} of them"
    if len(numbers) == dimensions:
        return f"a number is too large for float32; mend or remove the line of {shown(fields[0])}"
    return (
        f"a word and {dimensions:,} numbers should be here, not {len(numbers):,} after {shown(fields[0])}; "
        "the file is damaged or cut short, copy it again, or remove the line"
    )


def shown(text: bytes) -> str:
    """Bytes as a message shows them, not too many."""
    found = text[:40].decode("utf8", "backslashreplace")
    return repr(found + "..." if len(text) > 40 else found)


def write_text(
    file: IO[bytes], words: Sequence[str], array: NDArray[Any], headed: bool, tell: Callable[[int], None]
) -> None:
    """Write a line a word; each number with the fewest digits that name its float32."""
    rows, dimensions = array.shape
    if headed:
        file.write(b"%d %d\n" % (rows, dimensions))
    step = max(1, PRINTED_NUMBERS // dimensions)

    def printed(begin: int) -> Bytes:
        end = min(begin + step, rows)
        return print_lines(words[begin:end], block_of(array, words, begin, end))

    for number, text in enumerate(in_threads(printed, range(0, rows, step)), 1):
        file.write(text.data)
        tell(min(number * step, rows))


def print_lines(words: Sequence[str], values: Rows) -> Bytes:
    """The lines of words, without white space inside, and their numbers [N, D]."""
    from ostinato.kernels import vector_files as kernel
    from ostinato.kernels.decimals import PRINTED

    blob = as_bytes(words)
    spelled_words = np.frombuffer(blob + bytes(PAD), np.uint8)
    out = np.empty(len(blob) + values.size * PRINTED + 2 * PAD, np.uint8)
    cursor = np.zeros(4, np.int64)
    while kernel.print_rows(spelled_words, values, values.view(np.uint32), out, cursor) == kernel.FULL:
        text = str(values[cursor[kernel.ROW], cursor[kernel.COLUMN]]).encode()
        begin = int(cursor[kernel.FILLED])
        out[begin : begin + len(text)] = np.frombuffer(text, np.uint8)
        cursor[kernel.FILLED] += len(text)
        cursor[kernel.COLUMN] += 1
    return out[: cursor[kernel.FILLED]]


def in_threads(make: Callable[[Given], Made], given: Iterable[Given]) -> Iterator[Made]:
    """What `make` makes of each, in order, by a thread a processor; a few are made ahead."""
    threads = os.cpu_count() or 1
    waiting: deque[Future[Made]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for one in given:
                waiting.append(pool.submit(make, one))
                if len(waiting) > threads + 1:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
