"""Lines with their numbers and line ends, for formats in which the place of a line means something.

`text/read.py` cuts a very long line, which would move every line after it away from its number, and from its
partner in a parallel file; here such a line is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, NamedTuple

from ostinato.core.errors import DataError
from ostinato.text.read import LONGEST_LINE, STDIN, LineReader, decoded

_BLOCK = 1 << 18


class Line(NamedTuple):
    """A line: its number from 1, its text, and what ended it ("" where the last line has no end)."""

    number: int
    text: str
    end: str


def numbered_lines(path: str | Path) -> Iterator[Line]:
    """Every line of a text, as soon as it has arrived; `-` is standard input, `.gz` and `.zst` are unpacked.

    A byte order mark goes away; nothing else does.
    Raises DataError, with file and line, for a text that cannot be read or a line of more than 1 MiB.
    """
    reader = _Reader(path, "keep")
    due = 0  # line ends before the next chunk, if no line is cut
    for chunk, before in reader.chunks(_BLOCK):
        if before != due:
            raise DataError(f"{reader.name}:{before + 1}: a line of more than {LONGEST_LINE:,} bytes; break it up")
        lines = _text(reader.name, chunk, before).split("\n")
        due += len(lines)
        for number, text in enumerate(lines, before + 1):
            end = "" if reader.ended and number == due else "\n"
            yield Line(number, text.removesuffix("\r"), "\r" + end if text.endswith("\r") else end)


def _text(name: str, chunk: bytes, before: int) -> str:
    if b"\0" not in chunk:
        try:
            return chunk.decode()
        except UnicodeDecodeError:
            pass
    for _ in decoded(name, chunk, before):  # it knows how to say what is wrong, and where
        pass
    raise AssertionError("a chunk that is not text was decoded")


class _Reader(LineReader):
    """Knows when its text has come to its end: what it gives after that is a line without one."""

    ended = False

    def _unpacked(self, file: IO[bytes], size: int) -> Iterator[bytes]:
        yield from super()._unpacked(file, size)
        self.ended = True

    def _counted(self, read: Callable[[int], bytes], size: int) -> Iterator[bytes]:
        yield from super()._counted(read, size)
        self.ended = self.name == STDIN  # a packed file has not been unpacked yet
