"""Lines of text from files and standard input, in bounded memory.

Only a line feed ends a line (a carriage return before it goes too); a form feed or U+2028 does not. The
text is UTF-8 and nothing else: a byte that is not is an error with its file and line, never a guess.
"""

from __future__ import annotations

import gzip
import io
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal, TypeAlias, cast

import numpy as np

from ostinato.core.errors import DataError

EmptyLines: TypeAlias = Literal["skip", "keep"]

STDIN = "-"
LONGEST_LINE = 1 << 20
"""Bytes after which a line is cut, at the last blank or tab before, or else between two characters."""

_BLOCK = 1 << 20
_PACKED_BLOCK = 1 << 13  # a small packed block cannot unpack to much
_FEED = ord("\n")
_BOM = b"\xef\xbb\xbf"


def read_lines(path: str | Path, empty_lines: EmptyLines = "skip") -> Iterator[str]:
    """Every line of a text, without its line end; `-` is standard input, `.gz` and `.zst` are unpacked.

    Lines of nothing but white space are left out unless `empty_lines` is "keep". A line longer than
    LONGEST_LINE bytes comes in several.
    Raises DataError, with file and line where there is one, for a text that cannot be read.
    """
    return iter(LineReader(path, empty_lines))


def check_readable(paths: Iterable[str | Path]) -> None:
    """Raise DataError for the first path that cannot be opened, or for a second use of standard input."""
    seen_stdin = False
    for path in paths:
        if str(path) == STDIN:
            if seen_stdin:
                raise DataError("standard input can be read only once; save it to a file and name that")
            seen_stdin = True
        else:
            with _explained(str(path)), open(path, "rb"):
                pass


class LineReader:
    """One text, to be read once; `done` of `size` bytes (as stored, packed or not) have been read.

    `size` is None for standard input. Standard input gives each line as soon as it has arrived.
    """

    def __init__(self, path: str | Path, empty_lines: EmptyLines = "skip"):
        self.name = str(path)
        self.empty_lines = empty_lines
        self.done = 0
        self.size = _size(self.name)

    def __iter__(self) -> Iterator[str]:
        for chunk, before in self.chunks(_BLOCK):
            yield from self.decoded(chunk, before)

    def chunks(self, size: int) -> Iterator[tuple[bytes, int]]:
        """Whole lines as bytes, without the last line end, and how many line ends came before them.

        They are read about `size` bytes at a time, and given as soon as they are there.
        """
        with _explained(self.name):
            if self.name == STDIN:
                stdin = cast(io.BufferedReader, sys.stdin.buffer)
                yield from _whole_lines(self._counted(stdin.read1, size))
            else:
                with open(self.name, "rb") as file:
                    yield from _whole_lines(self._unpacked(file, size))

    def decoded(self, chunk: bytes, before: int) -> Iterator[str]:
        """The lines of a chunk; those before a fault come before its error."""
        for line in decoded(self.name, chunk, before):
            if self.empty_lines == "keep" or (line and not line.isspace()):
                yield line

    def _counted(self, read: Callable[[int], bytes], size: int) -> Iterator[bytes]:
        while block := read(size):
            self.done += len(block)
            yield block

    def _unpacked(self, file: IO[bytes], size: int) -> Iterator[bytes]:
        if self.name.endswith(".gz"):
            packed = _Blocks(self._counted(file.read, _PACKED_BLOCK))
            with gzip.GzipFile(fileobj=io.BufferedReader(packed)) as unpacked:
                while block := unpacked.read1(size):
                    yield block
        elif self.name.endswith(".zst"):
            yield from _unpack_zstd(self.name, self._counted(file.read, _PACKED_BLOCK))
        else:
            yield from self._counted(file.read, size)


def _whole_lines(blocks: Iterator[bytes]) -> Iterator[tuple[bytes, int]]:
    pending, before = b"", 0  # the line not yet ended, the line ends before it
    first = True
    for block in blocks:
        whole, end, pending = (pending + block).rpartition(b"\n")
        if end:
            yield (whole.removeprefix(_BOM) if first else whole), before
            feeds = np.count_nonzero(np.frombuffer(whole, np.uint8) == _FEED)  # four times as fast as bytes.count
            before, first = before + int(feeds) + 1, False
        while len(rest := pending.removeprefix(_BOM) if first else pending) > LONGEST_LINE:
            head, pending = _cut(rest)
            yield head, before
            first = False
    if pending:
        yield (pending.removeprefix(_BOM) if first else pending), before


def decoded(name: str, chunk: bytes, before: int) -> Iterator[str]:
    """The lines of a chunk of a text, which comes after `before` line ends; those before a fault come first.

    Raises DataError, with the name of the text and the line, for what is not UTF-8 or not text.
    """
    if (at := chunk.find(b"\0")) >= 0:
        yield from _sound(name, chunk, at, before)
        line = before + chunk.count(b"\n", 0, at) + 1
        raise DataError(
            f"{name}:{line}: binary data (a NUL byte), not text; give a UTF-8 text "
            "(UTF-16 can be converted with iconv -f UTF-16 -t UTF-8)"
        )
    try:
        text = chunk.decode("utf-8")
    except UnicodeDecodeError as fault:
        yield from _sound(name, chunk, fault.start, before)
        line = before + chunk.count(b"\n", 0, fault.start) + 1
        column = fault.start - chunk.rfind(b"\n", 0, fault.start)
        raise DataError(
            f"{name}:{line}: byte {column} (0x{chunk[fault.start]:02x}) is not UTF-8; "
            "convert the file with iconv -t UTF-8"
        ) from None
    if len(chunk) > LONGEST_LINE:
        text = "\n".join(part for line in text.split("\n") for part in _parts(line))
    for line_text in text.split("\n"):
        yield line_text.removesuffix("\r")


def _sound(name: str, chunk: bytes, fault: int, before: int) -> Iterator[str]:
    """The lines of a chunk that end before the byte at `fault`."""
    end = chunk.rfind(b"\n", 0, fault)
    if end >= 0:
        yield from decoded(name, chunk[:end], before)


def _cut(line: bytes) -> tuple[bytes, bytes]:
    """A line of more than LONGEST_LINE bytes as its beginning and the rest; a blank between goes away."""
    at = max(line.rfind(blank, 0, LONGEST_LINE + 1) for blank in (b" ", b"\t"))
    if at > 0:
        return line[:at], line[at + 1 :]
    at = LONGEST_LINE
    for _ in range(3):
        at -= line[at] & 0xC0 == 0x80
    return line[:at], line[at:]


def _parts(line: str) -> Iterator[str]:
    if len(line) * 4 > LONGEST_LINE:
        rest = line.encode()
        while len(rest) > LONGEST_LINE:
            head, rest = _cut(rest)
            yield head.decode()
        line = rest.decode()
    yield line


class _Blocks(io.RawIOBase):
    """Blocks of bytes as a file, for a library that wants one."""

    def __init__(self, blocks: Iterator[bytes]):
        self._source, self._left = blocks, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        self._left = self._left or next(self._source, b"")
        count = min(len(buffer), len(self._left))
        buffer[:count], self._left = self._left[:count], self._left[count:]
        return count


def _unpack_zstd(name: str, packed: Iterator[bytes]) -> Iterator[bytes]:
    """The content of one or several frames; a frame without its end is an error, not the end of the text."""
    import zstandard

    frame = zstandard.ZstdDecompressor().decompressobj()
    begun = False
    try:
        for block in packed:
            while block:
                begun = True
                yield frame.decompress(block)
                block = frame.unused_data if frame.eof else b""
                if frame.eof:
                    frame, begun = zstandard.ZstdDecompressor().decompressobj(), False
    except zstandard.ZstdError as fault:
        raise DataError(f"{name}: not a whole zstd file ({fault}); pack or copy it again") from None
    if begun:
        raise DataError(f"{name}: the zstd file is cut short; pack or copy it again")


def _size(name: str) -> int | None:
    if name == STDIN:
        return None
    with _explained(name):
        return os.stat(name).st_size


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Turns what the system or gzip says about a file into one line of ours."""
    shown = "standard input" if name == STDIN else name
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error) as fault:
        raise DataError(f"{shown}: not a whole gzip file ({fault}); pack or copy it again") from None
    except FileNotFoundError:
        raise DataError(f"{shown}: no such file") from None
    except IsADirectoryError:
        raise DataError(f"{shown}: a directory, not a text; name the files in it") from None
    except OSError as fault:
        raise DataError(f"{shown}: cannot be read ({fault.strerror or fault})") from None
