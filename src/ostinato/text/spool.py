"""Text numbered in one pass: pieces get ids in the order they are first seen, written to disk as they come.

The vocabulary is fixed only when everything was read, so these ids are provisional; `Spool.write` turns a
range of lines into a stream's final ids, chunk by chunk. Memory holds the distinct pieces and one chunk.
"""

from __future__ import annotations

import itertools
import time
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import DataError
from ostinato.core.progress import Progress, Watch
from ostinato.core.vocabulary import Ids, Vocabulary
from ostinato.text import scan
from ostinato.text.pipeline import Pipeline
from ostinato.text.sources import Chunked, Document, Source

CHUNK = 1 << 18
"""Tokens handled at a time."""

_EVERY = 0.2  # seconds between two reports
_LINE = np.dtype([("tokens", "<u4"), ("characters", "<u4"), ("bytes", "<u4"), ("crc32", "<u4")])

Files: TypeAlias = tuple[BinaryIO, BinaryIO]
"""Where ids go, and where facts go."""

LINE_END = 0
"""The provisional id of a line end; the first piece seen is 1."""


class Numbering(dict[str, int]):
    """Ids in the order pieces are first asked for, from 1 on."""

    def __missing__(self, piece: str) -> int:
        number = self[piece] = len(self) + 1
        return number


class Meter:
    """Tells a watcher now and then how many tokens are done, and how many a second."""

    def __init__(self, label: str, watch: Watch):
        self._label, self._watch = label, watch
        self._begun = self._told = time.monotonic()

    def tell(self, tokens: int, share: Callable[[], float | None], last: bool = False) -> None:
        """Report if it is time again, or if this is the last report."""
        now = time.monotonic()
        if last or now - self._told >= _EVERY:
            self._told = now
            rate = tokens / max(now - self._begun, 1e-6)
            self._watch(Progress(self._label, tokens, share(), f"{rate:,.0f} tokens/s"))


def _utf8(line: str, number: int) -> bytes:
    try:
        return line.encode()
    except UnicodeEncodeError as fault:
        raise DataError(
            f"line {number:,} holds {line[fault.start]!r}, which is no character; send UTF-8 text"
        ) from None


class Spool:
    """Numbered lines in a folder of their own, to be read back by line.

    threads: how many read a file that is only cut at white space; None for one a processor.
    told: whether to keep facts about each line; without them only `ids_path`, `tokens`, `distinct` and `spelled` are
        of use.
    """

    def __init__(self, folder: Path, pipeline: Pipeline, meter: Meter, threads: int | None = None, told: bool = True):
        self.numbering = Numbering()
        self.lines = 0
        self.tokens = 0
        self.documents: list[int] = []
        """The line each document begins at; an empty document has none."""
        self.ends: list[int] = []
        """One after the last line of each source."""
        self.ids_path = folder / "provisional.bin"
        """The ids, uint32, each line ended by LINE_END."""
        self._pipeline, self._meter, self._threads, self._told = pipeline, meter, threads, told
        self._lines_path = folder / "lines.bin"
        self._ids, self._facts = array("I"), array("I")
        self._plain = pipeline.plain
        self._bytes = 0  # of plain text
        self._scanner: scan.Scanner | None = None
        self._final: tuple[Vocabulary, NDArray[np.int64]] | None = None

    def read(self, sources: Sequence[Source]) -> None:
        """Number every line of every document of every source."""
        share = Source("all", tuple(document for source in sources for document in source.documents)).share
        with closing(self), self._written() as files:
            for source in sources:
                for document in source.documents:
                    if not self.documents or self.documents[-1] < self.lines:
                        self.documents.append(self.lines)
                    for _ in self._steps(document, files):
                        self._meter.tell(self.tokens, share)
                self.ends.append(self.lines)
            if self._told:
                self._catch_up()
        self._meter.tell(self.tokens, share, last=True)

    def take(self, lines: Iterable[Iterable[str]], share: Callable[[], float | None]) -> None:
        """Number lines that are cut into pieces already; of them nothing is told."""
        assert not self._told
        with self._written() as files:
            for pieces in lines:
                before = len(self._ids)
                self._ids.extend(map(self.numbering.__getitem__, pieces))
                self._ids.append(LINE_END)
                self.lines += 1
                self.tokens += len(self._ids) - before
                if len(self._ids) >= CHUNK:
                    self._flush(files)
                    self._meter.tell(self.tokens, share)
        self._meter.tell(self.tokens, share, last=True)

    @contextmanager
    def _written(self) -> Iterator[Files]:
        """The files to write to; what is pending is written when the block ends."""
        with self.ids_path.open("wb") as ids, self._lines_path.open("wb") as facts:
            yield (ids, facts)
            self._flush((ids, facts))

    def close(self) -> None:
        """Let go of what only reading needs."""
        if self._scanner is not None:
            self._scanner.close()

    def _steps(self, document: Document, files: Files) -> Iterator[None]:
        """Number a document, with a stop now and then."""
        if self._plain and isinstance(document, Chunked):
            return self._scan(document, files)
        return self._add(document, files)

    def _add(self, lines: Iterable[str], files: Files) -> Iterator[None]:
        """Number lines one by one."""
        self._catch_up()
        for line in lines:
            normal = self._pipeline.normalise(line)
            pieces = self._pipeline.tokeniser.line(normal)
            self._ids.extend(map(self.numbering.__getitem__, pieces))
            self._ids.append(LINE_END)
            raw = _utf8(line, self.lines + 1)
            if self._told:
                size = len(raw) if normal == line else len(normal.encode())
                self._facts.extend((len(pieces) + 1, len(normal) + 1, size + 1, zlib.crc32(raw)))
            self.lines += 1
            self.tokens += len(pieces) + 1
            if len(self._ids) >= CHUNK or self.lines % 1000 == 0:
                self._flush(files)
                yield

    def _scan(self, document: Chunked, files: Files) -> Iterator[None]:
        """Number a document many lines at once, where that is possible."""
        for group in scan.gathered(document.chunks(scan.BLOCK)):
            parts = self._scanned([chunk for chunk, _ in group], document.empty_lines == "keep")
            if parts is None:
                yield from self._add((line for chunk in group for line in document.decoded(*chunk)), files)
                continue
            self._flush(files)
            for part in parts:
                files[0].write(part.ids.data)
                files[1].write(part.facts.data)
                self.lines += part.lines
                self.tokens += len(part.ids)
            yield

    def _scanned(self, chunks: list[bytes], keep: bool) -> list[scan.Part] | None:
        """The chunks read by kernels; None if they have to be read line by line."""
        self._bytes += sum(map(len, chunks))
        if self._scanner is None:
            if self._bytes < scan.SMALL:
                return None
            self._scanner = scan.Scanner(self._threads, self._told)
        if self._pipeline.normaliser.names:
            if not self._told:  # nobody asks what the line was before
                chunks = list(map(self._changed, chunks))
            elif not all(map(self._normal, chunks)):
                return None
        known = self._scanner.words.count - 1
        if len(self.numbering) > known:
            self._scanner.words.add(list(itertools.islice(self.numbering, known, None)))
        return self._scanner.scan(chunks, keep)

    def _normal(self, chunk: bytes) -> bool:
        """Whether the normaliser leaves these lines as they are; if they are not text, that is found later."""
        try:
            text = chunk.decode()
        except UnicodeDecodeError:
            return True
        return self._pipeline.normalise(text) == text

    def _changed(self, chunk: bytes) -> bytes:
        """These lines normalised; if they are not text, that is found later."""
        try:
            return self._pipeline.normalise(chunk.decode()).encode()
        except UnicodeDecodeError:
            return chunk

    def _catch_up(self) -> None:
        """Take over the pieces that were numbered many lines at once."""
        if self._scanner is not None:
            known = len(self.numbering)
            self.numbering.update(zip(self._scanner.words.spelled(known + 1), itertools.count(known + 1), strict=False))

    @property
    def distinct(self) -> int:
        """How many pieces there are; their numbers go from 1 to that."""
        return max(len(self.numbering), 0 if self._scanner is None else self._scanner.words.count - 1)

    def spelled(self, numbers: Ids) -> list[str]:
        """The pieces of these numbers, which ascend."""
        known = int(np.searchsorted(numbers, len(self.numbering), "right"))
        first = list(self.numbering) if known else []
        found = [first[number - 1] for number in numbers[:known].tolist()]
        return found if self._scanner is None else found + self._scanner.words.spelled_each(numbers[known:])

    def _flush(self, files: Files) -> None:
        for file, numbers in zip(files, (self._ids, self._facts), strict=True):
            file.write(numbers.tobytes())
        self._ids, self._facts = array("I"), array("I")

    def ids(self, first: int, last: int) -> Iterator[NDArray[np.uint32]]:
        """The provisional ids of tokens `first` to before `last`, in chunks."""
        with self.ids_path.open("rb") as file:
            file.seek(4 * first)
            while first < last:
                count = min(CHUNK, last - first)
                yield np.frombuffer(file.read(4 * count), np.uint32)
                first += count

    def facts(self, first: int, last: int) -> NDArray[np.void]:
        """What is known of lines `first` to before `last`: tokens, characters, bytes, CRC-32."""
        if first == last:
            return np.empty(0, _LINE)
        return np.memmap(self._lines_path, _LINE, "r", first * _LINE.itemsize, (last - first,))

    def tokens_before(self, line: int) -> int:
        """How many tokens stand before that line."""
        return int(self.facts(0, line)["tokens"].sum(dtype=np.int64))

    def tokens_before_each(self, lines: list[int]) -> NDArray[np.int64]:
        """How many tokens stand before each of those lines (ascending)."""
        steps = [
            self.facts(first, last)["tokens"].sum(dtype=np.int64) for first, last in itertools.pairwise([0, *lines])
        ]
        return np.cumsum(np.array(steps, np.int64))

    def counts(self, first: int, last: int) -> NDArray[np.int64]:
        """How often each piece occurs in lines `first` to before `last`, in the order of `numbering`."""
        counts = np.zeros(len(self.numbering) + 1, np.int64)
        for chunk in self.ids(self.tokens_before(first), self.tokens_before(last)):
            counts += np.bincount(chunk, minlength=len(counts))
        return counts[1:]

    def final_ids(self, vocabulary: Vocabulary) -> NDArray[np.int64]:
        """The final id of every provisional one."""
        if self._final is None or self._final[0] is not vocabulary:
            ids = np.concatenate([np.array([vocabulary.stop], np.int64), vocabulary.ids(self.numbering)])
            self._final = vocabulary, ids
        return self._final[1]

    def digest(self, first: int, last: int, documents: list[int]) -> str:
        """Eight hexadecimal digits for the content of those lines, as read, and where documents begin."""
        digest = sha256(np.array(documents, "<i8").tobytes())
        facts = self.facts(first, last)
        for begin in range(0, len(facts), CHUNK):
            digest.update(np.ascontiguousarray(facts["crc32"][begin : begin + CHUNK]).tobytes())
        return digest.hexdigest()[:8]
