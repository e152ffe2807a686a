"""The bytes of an ARPA file, unpacked, in blocks of whole lines."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, TypeAlias, cast

import numpy as np
import zstandard
from numpy.typing import NDArray

from ostinato.core.errors import DataError

Bytes: TypeAlias = NDArray[np.uint8]

CHUNK = 1 << 22
"""Bytes that are unpacked at a time."""

LONGEST_LINE = 1 << 20
"""Bytes after which a file without line ends is not taken for an ARPA file."""

BLANKS = b" \t\r"
"""What may stand around words, besides line ends."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

PACKED = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\0": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
"""How packed files begin."""


class Source:
    """A file read once: `block`, whole lines as bytes, of which those before `at` are done; `line` is that of `at`.

    Packed files are known by how they begin, whatever their name. Raises DataError for a file that cannot be
    read or unpacked, from any method.
    """

    def __init__(self, path: Path):
        self.path = path
        self.block: Bytes = np.zeros(0, np.uint8)
        self.at, self.line = 0, 1
        self._whole = b""  # the block and the begin of the next line
        with self._explained():
            self._file = path.open("rb")
            self._size = os.fstat(self._file.fileno()).st_size
            begin = self._file.peek(6)[:6]
            self._unpacked = unpack(self._file, begin)

    def __enter__(self) -> Source:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: object, trace: TracebackType | None) -> None:
        self._file.close()

    @property
    def share(self) -> float | None:
        """How much of the file has been read; None for one without a size, such as a pipe."""
        return min(1.0, self._file.tell() / self._size) if self._size else None

    def more(self) -> bool:
        """Read on, keeping what is not done; False at the end of the file."""
        left = self._whole[self.at :]
        pieces = [left]
        while True:
            with self._explained():
                pieces.append(self._unpacked.read(CHUNK))
            if not pieces[-1] or b"\n" in pieces[-1]:
                break
            if sum(map(len, pieces)) > LONGEST_LINE:
                raise DataError(f"{self.path}:{self.line}: a line of more than {LONGEST_LINE:,} bytes; no ARPA file")
        ended = not pieces[-1]
        whole = b"".join(pieces).removeprefix(BYTE_ORDER_MARK if self.line == 1 and self.at == 0 else b"")
        self._whole = whole + b"\n" if ended and whole and not whole.endswith(b"\n") else whole
        self.at, end = 0, self._whole.rfind(b"\n") + 1
        self.block = np.frombuffer(self._whole, np.uint8)[:end]
        return not ended or len(self._whole) > len(left)

    def next_line(self) -> bytes | None:
        """The next line without blanks around it, done; None at the end of the file."""
        if self.at == len(self.block) and not self.more():
            return None
        line = self.this_line()
        self.at += len(line)
        self.line += 1
        return line.strip(BLANKS + b"\n")

    def this_line(self) -> bytes:
        """The line at `at`, with its end, not done."""
        return self._whole[self.at : self._whole.index(b"\n", self.at) + 1]

    def first_lines(self) -> list[bytes]:
        """The lines of the block, without blanks around them."""
        return [line.strip(BLANKS) for line in self._whole[: len(self.block)].splitlines()]

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turns what the system or an unpacker says about the file into one line of ours."""
        try:
            yield
        except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError, zstandard.ZstdError) as fault:
            raise DataError(f"{self.path}: damaged or cut short ({fault}); pack or copy it again") from None
        except FileNotFoundError:
            raise DataError(f"{self.path}: no such file") from None
        except IsADirectoryError:
            raise DataError(f"{self.path}: a directory, not an ARPA file") from None
        except OSError as fault:
            raise DataError(f"{self.path}: cannot be read ({fault.strerror or fault})") from None


def unpack(file: IO[bytes], begin: bytes) -> IO[bytes]:
    """The unpacked content of a file that begins so."""
    kind = next((kind for magic, kind in PACKED.items() if begin.startswith(magic)), "")
    if kind == "gzip":
        return cast(IO[bytes], gzip.GzipFile(fileobj=file))
    if kind == "bzip2":
        return bz2.BZ2File(file)
    if kind == "xz":
        return lzma.LZMAFile(file)
    if kind == "zstd":
        return cast(IO[bytes], zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True))
    return file
