"""Words and rows as they are read from a file, put together in memory or on disk; and words as a file holds them."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import ConfigError, DataError
from ostinato.core.files import storage_error

Errors: TypeAlias = Literal["strict", "replace", "keep"]
Repeated: TypeAlias = Literal["refuse", "first"]
Rows: TypeAlias = NDArray[np.float32]
Bytes: TypeAlias = NDArray[np.uint8]

HANDLERS: dict[str, str] = {"strict": "strict", "replace": "replace", "keep": "surrogateescape"}
"""What Python calls the ways to treat bytes that are not UTF-8."""

FIRST_ROOM = 1 << 24
"""Numbers for which there is room in memory before it is known how many come."""

WHITE = re.compile(r"[ \t\n\v\f\r]")
"""White space that ends a word in the formats of other programs."""


@dataclass(frozen=True)
class Reading:
    """How files of other programs are read.

    errors: a word that is not UTF-8 is an error ("strict"), gets U+FFFD for each bad part ("replace"), or keeps its
        bytes as surrogates ("keep"), which are written back as they were.
    repeated: a word that comes twice is an error ("refuse"), or its first vector counts ("first", as in gensim).
    counts: a file of lines `word count` that belongs to the vectors.
    """

    errors: Errors = "strict"
    repeated: Repeated = "refuse"
    counts: Path | None = None

    def __post_init__(self) -> None:
        if self.errors not in HANDLERS:
            raise ConfigError(f"errors is strict, replace or keep, got {self.errors!r}")
        if self.repeated not in ("refuse", "first"):
            raise ConfigError(f"repeated is refuse or first, got {self.repeated!r}")


class Undecodable(Exception):
    """The word of that number, counted from 0, is not UTF-8."""

    def __init__(self, number: int, spelled: bytes):
        super().__init__(number)
        self.number, self.spelled = number, spelled


def spelled(blob: bytes, ends: NDArray[np.int64] | None, errors: Errors) -> list[str]:
    """The words of `blob`, a line feed after each; with `ends` (one after each line feed) others may be inside.

    Raises Undecodable.
    """
    handler = HANDLERS[errors]
    try:
        words = blob.decode("utf8", handler).split("\n")[:-1]
    except UnicodeDecodeError as fault:
        if ends is None:
            number = blob.count(b"\n", 0, fault.start)
            raise Undecodable(number, blob.split(b"\n")[number]) from None
        number = int(np.searchsorted(ends, fault.start, "right"))
        raise Undecodable(number, blob[int(ends[number - 1]) if number else 0 : int(ends[number]) - 1]) from None
    if ends is not None and len(words) != len(ends):
        begins = [0, *ends[:-1].tolist()]
        words = [blob[begin : end - 1].decode("utf8", handler) for begin, end in zip(begins, ends, strict=True)]
    return words


class Sink(Protocol):
    """Where rows go."""

    def add(self, values: Rows) -> None: ...
    def finish(self) -> Rows: ...


class InMemory:
    """Rows in an array that grows; `rows` of them are expected, None if that is not known."""

    def __init__(self, dimensions: int, rows: int | None):
        room = FIRST_ROOM // dimensions + 1
        self._array = np.empty((room if rows is None else rows, dimensions), np.float32)
        self._rows = 0

    def add(self, values: Rows) -> None:
        """Copy rows behind those that are there."""
        end = self._rows + len(values)
        if end > len(self._array):
            self._array.resize((max(end, len(self._array) * 5 // 4), self._array.shape[1]), refcheck=False)
        self._array[self._rows : end] = values
        self._rows = end

    def finish(self) -> Rows:
        """All rows."""
        self._array.resize((self._rows, self._array.shape[1]), refcheck=False)
        return self._array


class OnDisk:
    """Rows in a .npy file, for vectors larger than memory. Raises StorageError if the disk is full.

    The rows are written, not stored to a memory map, which would end the process on a full disk.
    """

    def __init__(self, path: Path, dimensions: int):
        self._path, self._dimensions, self._rows = path, dimensions, 0
        self._write("wb", self._header())

    def _header(self) -> bytes:
        """The header, which is as long for any number of rows."""
        made, shape = io.BytesIO(), (self._rows, self._dimensions)
        np.lib.format.write_array_header_1_0(made, {"descr": "<f4", "fortran_order": False, "shape": shape})
        return made.getvalue()

    def _write(self, mode: str, content: bytes | memoryview) -> None:
        try:
            with self._path.open(mode) as file:
                file.write(content)
        except OSError as fault:
            raise storage_error(self._path, fault) from fault

    def add(self, values: Rows) -> None:
        """Write rows behind those that are there."""
        self._write("ab", np.ascontiguousarray(values, "<f4").data)
        self._rows += len(values)

    def finish(self) -> Rows:
        """All rows, memory-mapped."""
        self._write("r+b", self._header())
        array: Rows = np.load(self._path, mmap_mode="r", allow_pickle=False)
        return array


class Gathered:
    """Words and rows of one file, each block checked as it comes.

    where: how a message names the place of a row, given what the reader says of it. stated: the words that the
    file promises, None if it does not say. folder: where the rows go, None for memory.
    """

    def __init__(
        self,
        where: Callable[[int, int], str],
        reading: Reading,
        dimensions: int,
        stated: int | None,
        folder: Path | None,
    ):
        self.words: list[str] = []
        self.dimensions, self.stated, self.read = dimensions, stated, 0
        self._where, self._first = where, reading.repeated == "first"
        self._seen: set[str] = set()
        self._sink: Sink = InMemory(dimensions, stated) if folder is None else OnDisk(folder / "rows.npy", dimensions)
        self._places: list[NDArray[np.int64]] = []

    def add(self, words: list[str], values: Rows, places: NDArray[np.int64]) -> None:
        """Take words and their rows; places: what the reader says of each. Raises DataError for a repeated word."""
        if self.stated is not None and self.read + len(words) > self.stated:
            row = self.stated - self.read
            raise DataError(
                f"{self._where(self.stated, int(places[row]))}: {words[row]!r} is one more than the "
                f"{self.stated:,} words that the header states; mend the number, or remove what follows"
            )
        read, fresh = len(words), set(words)
        if len(fresh) == read and self._seen.isdisjoint(fresh):
            self._seen |= fresh
        else:
            kept = self._new(words, places)
            words, values, places = [words[row] for row in kept], values[kept], places[kept]
        self.words += words
        self._places.append(places)
        self._sink.add(values)
        self.read += read

    def _new(self, words: list[str], places: NDArray[np.int64]) -> list[int]:
        """The numbers of the words that come for the first time. Raises DataError for another, unless it may be."""
        kept = []
        for row, word in enumerate(words):
            if word not in self._seen:
                self._seen.add(word)
                kept.append(row)
            elif not self._first:
                self._refuse(word, self._where(self.read + row, int(places[row])), words, places)
        return kept

    def _refuse(self, word: str, where: str, words: list[str], places: NDArray[np.int64]) -> None:
        number = [*self.words, *words].index(word)
        first = self._where(number, int(np.concatenate([*self._places, places])[number]))
        raise DataError(
            f"{where}: {word!r} has a vector already, at {first}; remove one of them, or keep the first "
            "(repeated='first')"
        )

    def finish(self) -> Rows:
        """All rows [V, D]."""
        return self._sink.finish()


def writable(words: Sequence[str], replacement: str | None = None) -> Sequence[str]:
    """The words as a file of other programs can hold them: without white space, which becomes `replacement` if given.

    Raises DataError, naming the word, for one that holds white space, is empty or is not text, and for two that would
    become the same; ConfigError for a replacement that is no better.
    """
    if replacement is not None and (not replacement or WHITE.search(replacement)):
        raise ConfigError(f"blanks are replaced by something without white space, got {replacement!r}")
    odd = [number for number, word in enumerate(words) if not word or WHITE.search(word)]
    if odd and replacement is None:
        word = words[odd[0]]
        what = "holds white space, which ends a word in this format" if word else "is empty"
        raise DataError(
            f"word {odd[0] + 1:,}, {word!r}, {what}; replace it (--replace-blanks _), or save the vectors as a folder"
        )
    if odd and replacement is not None:
        made = list(words)
        for number in odd:
            made[number] = WHITE.sub(lambda _: replacement, made[number]) or replacement
        _check_distinct(words, made)
        words = made
    try:
        for word in words:
            word.encode("utf8", "surrogateescape")
    except UnicodeEncodeError:
        raise DataError(f"the word {word!r} holds a lone surrogate, which no UTF-8 text can; remove it") from None
    return words


def _check_distinct(words: Sequence[str], made: Sequence[str]) -> None:
    first: dict[str, str] = {}
    for word, new in zip(words, made, strict=True):
        if first.setdefault(new, word) != word:
            raise DataError(f"{first[new]!r} and {word!r} would both be written as {new!r}; choose another replacement")


def as_bytes(words: Sequence[str]) -> bytes:
    """Words as bytes, a line feed after each; surrogates that stand for invalid UTF-8 become those bytes again."""
    return ("\n".join(words) + "\n").encode("utf8", "surrogateescape")


def block_of(array: NDArray[Any], words: Sequence[str], begin: int, end: int) -> Rows:
    """Rows as float32. Raises DataError, naming the word, for a number that is not finite."""
    values = np.ascontiguousarray(array[begin:end], np.float32)
    if not np.isfinite(values).all():
        word = words[begin + int(np.argmin(np.isfinite(values).all(axis=1)))]
        raise DataError(f"the vector of {word!r} has a number that is not finite; train again, or remove the word")
    return values
