"""What a stream is made from: documents of lines, and how much of them has been read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from ostinato.text.read import STDIN, EmptyLines, LineReader


class Document(Protocol):
    """Lines to be read once; `done` of `size` units have been read (size None: not known)."""

    @property
    def done(self) -> int: ...
    @property
    def size(self) -> int | None: ...
    def __iter__(self) -> Iterator[str]: ...


@runtime_checkable
class Chunked(Document, Protocol):
    """A document whose lines also come many at once, as text/read.LineReader gives them."""

    @property
    def empty_lines(self) -> EmptyLines: ...
    def chunks(self, size: int) -> Iterator[tuple[bytes, int]]: ...
    def decoded(self, chunk: bytes, before: int) -> Iterator[str]: ...


class GivenLines:
    """Lines that are in memory already, or come from anywhere."""

    def __init__(self, lines: Iterable[str]):
        self._lines = lines
        self.done = 0
        self.size = len(lines) if isinstance(lines, Sequence) else None

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            self.done += 1
            yield line


@dataclass(frozen=True)
class Source:
    """Documents under a short name, which becomes part of a score's signature."""

    name: str
    documents: tuple[Document, ...]

    @classmethod
    def of_lines(cls, name: str, documents: Iterable[Iterable[str]]) -> Source:
        """Documents that are lines already."""
        return cls(name, tuple(GivenLines(lines) for lines in documents))

    @classmethod
    def of_files(cls, paths: Sequence[str | Path], empty_lines: EmptyLines = "skip") -> Source:
        """Files, each one document. Raises DataError for the first that is not there."""
        return cls(name_of(paths), tuple(LineReader(path, empty_lines) for path in paths))

    def share(self) -> float | None:
        """The share that has been read, None if not known."""
        sizes = [document.size for document in self.documents]
        total = sum(size for size in sizes if size is not None)
        if None in sizes or not total:
            return None
        return min(1.0, sum(document.done for document in self.documents) / total)


def name_of(paths: Sequence[str | Path]) -> str:
    """The first file's name, and how many more there are: `a.txt+2`."""
    first = "stdin" if str(paths[0]) == STDIN else Path(paths[0]).name
    more = f"+{len(paths) - 1}" if len(paths) > 1 else ""
    return "".join("_" if letter.isspace() or letter in "|:#" else letter for letter in first) + more
