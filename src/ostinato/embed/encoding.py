"""Passes over a file of word numbers, too large for memory perhaps, by all cores."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import DataError, FormatError
from ostinato.core.progress import Watch
from ostinato.text.read import EmptyLines, decoded
from ostinato.text.spool import CHUNK, Meter

Task = TypeVar("Task")
Result = TypeVar("Result")


def cores(threads: int | None) -> int:
    """That many threads, or one a processor."""
    return threads or os.cpu_count() or 1


def in_order(work: Callable[[Task], Result], tasks: Iterable[Task], threads: int) -> Iterator[Result]:
    """What `work` makes of each task, in their order; at most 2 * `threads` are begun and not yet taken."""
    if threads == 1:
        yield from map(work, tasks)
        return
    with ThreadPoolExecutor(threads) as pool:
        pending: deque[Future[Result]] = deque()
        for task in tasks:
            if len(pending) == 2 * threads:
                yield pending.popleft().result()
            pending.append(pool.submit(work, task))
        while pending:
            yield pending.popleft().result()


def read_into(file: int, place: int, out: NDArray[Any], name: object) -> None:
    """Fill an array with what stands at a place (counted in bytes) of an open file; for any thread.

    Raises FormatError if the file called `name` ends before.
    """
    left = memoryview(out.view(np.uint8).data)
    while left:
        count = os.preadv(file, [left], place)
        if not count:
            raise FormatError(f"{name}: cut short; read the text again")
        left, place = left[count:], place + count


def write_at(file: int, place: int, values: NDArray[Any]) -> None:
    """Write an array at a place (counted in bytes) of an open file."""
    left = memoryview(np.ascontiguousarray(values).view(np.uint8).data)
    while left:
        count = os.pwrite(file, left, place)
        left, place = left[count:], place + count


def counted(path: Path, size: int, words: int, threads: int) -> NDArray[np.int64]:
    """How often each number below `words` stands among the `size` uint32 of a file, [words]."""
    from ostinato.kernels import scan as kernels

    def share(first: int) -> NDArray[np.int64]:
        counts, buffer = np.zeros(words, np.int64), np.empty(CHUNK, np.uint32)
        with path.open("rb") as file:
            for begin in range(first * CHUNK, size, threads * CHUNK):
                ids = buffer[: size - begin]
                read_into(file.fileno(), 4 * begin, ids, path)
                kernels.tally(ids, counts)
        return counts

    total = np.zeros(words, np.int64)
    for counts in in_order(share, range(threads), threads):
        total += counts
    return total


class Renumbered(NamedTuple):
    """What a file of numbers holds: ids in all, and how many of them are breaks."""

    size: int
    sentences: int


def renumber(path: Path, size: int, numbers: NDArray[np.int32], threads: int, watch: Watch) -> Renumbered:
    """Replace the `size` numbers (uint32) of a file by their entries of `numbers` (int32), where they stand.

    Words outside and sentences without words are left out, and the file becomes shorter. What is written never
    passes what was read.
    """
    from ostinato.kernels import words as kernels

    meter = Meter("encoding", watch)
    buffers = np.empty((1 if threads == 1 else 2 * threads, CHUNK), np.uint32)
    with path.open("r+b", buffering=0) as file:
        handle = file.fileno()

        def piece(number: int) -> tuple[NDArray[np.int32], int, int]:
            begin = number * CHUNK
            ids = buffers[number % len(buffers), : size - begin]
            read_into(handle, 4 * begin, ids, path)
            out = ids.view(np.int32)
            count, breaks = kernels.renumber(ids, 0, len(ids), numbers, out)
            return out[:count], breaks, begin + len(ids)

        written, sentences, last = 0, 0, kernels.BREAK
        for ids, breaks, done in in_order(piece, range(-(-size // CHUNK)), threads):
            if last == kernels.BREAK and len(ids) and ids[0] == kernels.BREAK:
                ids, breaks = ids[1:], breaks - 1
            if len(ids):
                write_at(handle, 4 * written, ids)
                written, sentences, last = written + len(ids), sentences + breaks, ids[-1]
            meter.tell(done, partial(float, done / size))
        file.truncate(4 * written)
    meter.tell(size, lambda: 1.0, last=True)
    return Renumbered(written, sentences)


class Sentences:
    """Strings, each a sentence, as a document to be read once (text/sources.Chunked)."""

    name = "sentences"
    empty_lines: EmptyLines = "skip"

    def __init__(self, sentences: Iterable[str], size: int | None = None):
        self._sentences = sentences
        self.done = 0
        self.size = size

    def __iter__(self) -> Iterator[str]:
        """The sentences; a line end inside is white space."""
        for sentence in self._sentences:
            self.done += 1
            if not isinstance(sentence, str):
                raise DataError(
                    f"sentence {self.done:,} is {sentence!r:.60}, but the first one was a string; "
                    "give all sentences as strings, or all as lists of words"
                )
            yield sentence.replace("\n", " ") if "\n" in sentence else sentence

    def chunks(self, size: int) -> Iterator[tuple[bytes, int]]:
        """Sentences of about so many characters together, one a line, and how many came before."""
        lines: list[str] = []
        length = before = 0
        for sentence in self:
            lines.append(sentence)
            length += len(sentence) + 1
            if length >= size:
                yield self._encoded(lines, before), before
                before, lines, length = before + len(lines), [], 0
        if lines:
            yield self._encoded(lines, before), before

    def decoded(self, chunk: bytes, before: int) -> Iterator[str]:
        """The sentences of a chunk one by one; those before a fault come before its error."""
        return decoded(self.name, chunk, before)

    def _encoded(self, lines: list[str], before: int) -> bytes:
        try:
            return "\n".join(lines).encode()
        except UnicodeEncodeError as fault:
            number = before + fault.object.count("\n", 0, fault.start) + 1
            raise DataError(
                f"sentence {number:,} holds {fault.object[fault.start]!r}, which is no character; give Unicode text"
            ) from None
