"""Word vectors as word2vec and gensim write them in binary.

    a header         words and dimensions, a line feed, as in the text format
    for each word    the word, a blank, its D numbers as little-endian float32, and a line feed (gensim writes none)

A blank ends a word, so one with blanks inside can be told only where line feeds follow the vectors: there the word
ends at the first blank whose vector is followed by one. Line feeds before a word go away, as in gensim; those inside
stay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import DataError
from ostinato.embed.gathering import Gathered, Reading, Undecodable, as_bytes, block_of, spelled
from ostinato.embed.stored import Stored, Teller
from ostinato.embed.word2vec_text import read_header, shown

WRITTEN = 1 << 20
"""Bytes that are written together."""
PAD = 16
"""Bytes more than their content that kernels want."""
SURE = 4
"""Words in a row that end where a line feed follows their vector; without line feeds that is no accident."""

DAMAGED = "the file is damaged, or a word before holds a blank, which this format cannot tell; make the file again"


def read_binary(source: Stored, reading: Reading, folder: Path | None, teller: Teller) -> Gathered:
    """The words and rows of a binary file.

    folder: where the rows go, None for memory. Raises DataError with the file, the number of the word and the byte
    it begins at for what cannot be used.
    """
    rows, dimensions = read_header(source)
    if source.size is not None and rows * (4 * dimensions + 1) > source.size:
        raise DataError(
            f"{source.path}: {source.size:,} bytes cannot hold the {rows:,} words of {dimensions:,} numbers that the "
            "header states; the file is cut short, copy it again"
        )
    return Records(source, reading, rows, dimensions, folder).read(teller)


class Records:
    """A binary file while it is read: `data`, of which `byte` bytes of the file come before."""

    def __init__(self, source: Stored, reading: Reading, rows: int, dimensions: int, folder: Path | None):
        self.source, self.errors, self.rows, self.width = source, reading.errors, rows, 4 * dimensions
        self.gathered = Gathered(self.where, reading, dimensions, rows, folder)
        self.data, self.byte, self.ended = source.read(), source.marked, False
        self._drop(self.data.index(b"\n") + 1)
        self.fed = self._is_fed()

    def where(self, number: int, byte: int) -> str:
        """How a message names a word, counted from 0, and where it begins."""
        return f"{self.source.path}: word {number + 1:,} (byte {byte:,})"

    def _drop(self, size: int) -> None:
        self.data = self.data[size:]
        self.byte += size

    def _more(self) -> None:
        """Read on, keeping what there is; at least as much again, so that a long record does not take long."""
        parts, size = [self.data], 0
        while size < max(1, len(self.data)) and not self.ended:
            parts.append(self.source.read())
            size += len(parts[-1])
            self.ended = not parts[-1]
        self.data = b"".join(parts)

    def _is_fed(self) -> bool:
        """Whether line feeds follow the vectors: the first one, or those of the first few words, which end there.

        A blank inside the first word hides its own.
        """
        from ostinato.kernels import vector_files as kernel

        few = min(self.rows, SURE)
        while len(self.data) < few * (kernel.LONGEST_WORD + self.width + 2) and not self.ended:
            self._more()
        begin = len(self.data) - len(self.data.lstrip(b"\n"))
        after = self.data.find(b" ", begin) + 1 + self.width
        if self.data[after : after + 1] == b"\n":
            return True
        values, places = np.empty((few, self.width), np.uint8), np.empty((few, 2), np.int64)
        words, cursor = np.empty(len(self.data) + PAD, np.uint8), np.zeros(5, np.int64)
        kernel.read_records(np.frombuffer(self.data, np.uint8), values, words, places, True, self.ended, cursor)
        return few > 0 and bool(cursor[kernel.ROWS] == few)

    def read(self, teller: Teller) -> Gathered:
        """All words and rows."""
        while self.gathered.read < self.rows:
            self._read_block()
            teller.tell(self.gathered.read, self.source.share())
            if self.gathered.read < self.rows:
                self._more()
        while not self.data.strip(b"\n") and not self.ended:
            self._drop(len(self.data))
            self._more()
        if self.data.strip(b"\n"):
            raise DataError(
                f"{self.source.path}: something follows the last of the {self.rows:,} words that the header states, at "
                f"byte {self.byte:,}; {DAMAGED}"
            )
        return self.gathered

    def _read_block(self) -> None:
        """Take the words that are whole."""
        from ostinato.kernels import vector_files as kernel

        data = np.frombuffer(self.data, np.uint8)
        room = min(self.rows - self.gathered.read, len(data) // (self.width + 1) + 1)
        values, places = np.empty((room, self.width), np.uint8), np.empty((room, 2), np.int64)
        words, cursor = np.empty(len(data) + PAD, np.uint8), np.zeros(5, np.int64)
        why = kernel.read_records(data, values, words, places, self.fed, self.ended, cursor)
        rows = int(cursor[kernel.ROWS])
        self._take(values[:rows], words[: cursor[kernel.SIZE]].tobytes(), places[:rows])
        self._drop(int(cursor[kernel.AT]))
        if why != kernel.ENDED:
            self._check(why, kernel.MORE, kernel.LONG)

    def _take(self, values: NDArray[np.uint8], blob: bytes, places: NDArray[np.int64]) -> None:
        """Check words and rows and hand them on."""
        first, bytes_at = self.gathered.read, places[:, 0] + self.byte
        numbers = values.view("<f4").astype(np.float32, copy=False)
        try:
            words = spelled(blob, places[:, 1], self.errors)
        except Undecodable as fault:
            where = self.where(first + fault.number, int(bytes_at[fault.number]))
            raise DataError(
                f"{where}: {shown(fault.spelled)} is not UTF-8; read the file with errors 'replace' or 'keep', "
                f"unless {DAMAGED}"
            ) from None
        finite = np.isfinite(numbers).all(axis=1)
        if not finite.all():
            row = int(np.argmin(finite))
            raise DataError(
                f"{self.where(first + row, int(bytes_at[row]))}: {words[row]!r} has a number that is not finite; "
                f"train again, unless {DAMAGED}"
            )
        self.gathered.add(words, numbers, bytes_at)

    def _check(self, why: int, more: int, too_long: int) -> None:
        """Raise DataError unless reading on helps."""
        where = self.where(self.gathered.read, self.byte)
        if why == more:
            if self.ended:
                raise DataError(
                    f"{where}: the file ends before the last of the {self.rows:,} words that the header states; it is "
                    "cut short, copy it again"
                )
        elif why == too_long:
            raise DataError(f"{where}: no blank ends this word; {DAMAGED}")
        else:
            word = self.data.lstrip(b"\n").partition(b" ")[0]
            raise DataError(
                f"{where}: the vector of {shown(word)} is not followed by a line feed, as that of the first word is; "
                "the file is damaged, copy it again"
            )


def write_binary(file: IO[bytes], words: Sequence[str], array: NDArray[Any], tell: Callable[[int], None]) -> None:
    """Write words and vectors as word2vec does, a line feed after each."""
    from ostinato.kernels import vector_files as kernel

    rows, dimensions = array.shape
    file.write(b"%d %d\n" % (rows, dimensions))
    step = max(1, WRITTEN // (4 * dimensions))
    for begin in range(0, rows, step):
        end = min(begin + step, rows)
        values = block_of(array, words, begin, end).astype("<f4", copy=False).view(np.uint8)
        blob = np.frombuffer(as_bytes(words[begin:end]), np.uint8)
        out = np.empty(len(blob) + values.size + end - begin, np.uint8)
        file.write(out[: kernel.join_records(blob, values, out)].data)
        tell(end)
