"""Token streams: a text as ids on disk, read through a memory map.

A stream is a folder with `ids.bin` (uint16 or uint32, little-endian, as small as the vocabulary allows) and
`stream.json` (everything else). Every line ends with the stop id; the start and padding ids never occur.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import DataError, FormatError, MismatchError, StorageError
from ostinato.core.files import check_format, read_json, storage_error, write_json
from ostinato.core.progress import Watch, unwatched
from ostinato.core.vocabulary import Ids, Vocabulary
from ostinato.text.pipeline import Pipeline
from ostinato.text.read import EmptyLines, check_readable
from ostinato.text.sources import Source
from ostinato.text.spool import CHUNK, Meter, Spool

FORMAT = 1


@dataclass(frozen=True, eq=False)
class TokenStream:
    """A text as ids.

    ids: [tokens], uint16 or uint32, every line's end included. starts: [documents], where each document
    begins, int64. vocabulary: the fingerprint the ids belong to. characters, bytes: the size of the
    normalised text, a line end counted as one. unknown: how many ids are the unknown piece. data: a short
    name and eight digits that change with the content, for a score's signature.
    """

    ids: NDArray[Any]
    starts: Ids
    vocabulary: str
    stop: int
    characters: int
    bytes: int
    unknown: int
    lines: int
    data: str

    def __len__(self) -> int:
        """How many tokens there are, line ends included."""
        return len(self.ids)

    @cached_property
    def line_starts(self) -> Ids:
        """Where each line begins, [lines]."""
        ends = [begin + np.flatnonzero(self.ids[begin : begin + CHUNK] == self.stop) for begin in self._chunks()]
        return np.concatenate([np.zeros(1, np.int64), *(end + 1 for end in ends)])[:-1].astype(np.int64)

    def _chunks(self) -> range:
        return range(0, len(self.ids), CHUNK)

    def check(self, vocabulary: Vocabulary) -> None:
        """Raise MismatchError unless the ids belong to this vocabulary."""
        if vocabulary.fingerprint != self.vocabulary:
            raise MismatchError(
                f"{self.data} was encoded with vocabulary {self.vocabulary}, not with {vocabulary.fingerprint}; "
                "encode the text again with the model's vocabulary"
            )

    @classmethod
    def open(cls, directory: Path) -> TokenStream:
        """The stream in a folder, its ids memory-mapped.

        Raises FormatError if it is damaged, cut short, or newer.
        """
        content = read_json(directory / "stream.json")
        try:
            check_format(directory, content, FORMAT)
            tokens, kind = int(content["tokens"]), np.dtype(content["dtype"])
            starts = np.array(content["starts"], np.int64)
            facts = {name: content[name] for name in _FACTS}
        except (KeyError, TypeError, ValueError) as fault:
            raise FormatError(
                f"{directory}/stream.json: not a stream of ours ({fault!r}); encode the text again"
            ) from None
        ids = _mapped(directory / "ids.bin", kind, tokens)
        if zlib.crc32(ids.data) != content.get("crc32"):
            raise FormatError(f"{directory}/ids.bin: damaged (its checksum differs); encode the text again")
        return cls(ids=ids, starts=starts, **facts)

    def in_memory(self) -> TokenStream:
        """The same stream without its files."""
        return TokenStream(np.array(self.ids), self.starts, **{name: getattr(self, name) for name in _FACTS})


_FACTS = ("vocabulary", "stop", "characters", "bytes", "unknown", "lines", "data")


def _mapped(path: Path, kind: np.dtype[Any], tokens: int) -> NDArray[Any]:
    try:
        size = path.stat().st_size
        if size != tokens * kind.itemsize:
            raise FormatError(
                f"{path}: {size:,} bytes instead of {tokens * kind.itemsize:,}, so it is cut short; "
                "encode the text again"
            )
        return np.memmap(path, kind, "r", shape=(tokens,))
    except OSError as fault:
        raise FormatError(f"{path}: cannot be read ({fault.strerror}); encode the text again") from None


def encode(
    documents: Iterable[Iterable[str]],
    pipeline: Pipeline,
    vocabulary: Vocabulary,
    directory: Path | None = None,
    watch: Watch = unwatched,
    name: str = "text",
) -> TokenStream:
    """The documents (lines each) as a stream of that vocabulary, in `directory`, or in memory if that is None.

    Raises DataError for an empty text, StorageError if `directory` exists or cannot be written.
    """
    return _encode(Source.of_lines(name, documents), pipeline, vocabulary, directory, watch)


def encode_files(
    paths: Sequence[str | Path],
    pipeline: Pipeline,
    vocabulary: Vocabulary,
    directory: Path | None = None,
    watch: Watch = unwatched,
    empty_lines: EmptyLines = "skip",
) -> TokenStream:
    """The same for files (`-`: standard input), each of them one document."""
    check_readable(paths)
    return _encode(Source.of_files(paths, empty_lines), pipeline, vocabulary, directory, watch)


def _encode(
    source: Source, pipeline: Pipeline, vocabulary: Vocabulary, directory: Path | None, watch: Watch
) -> TokenStream:
    if directory is None:
        with tempfile.TemporaryDirectory(prefix="ostinato-") as folder:
            return _encode(source, pipeline, vocabulary, Path(folder) / "stream", watch).in_memory()
    with new_folder(directory) as folder_now, spooled([source], pipeline, folder_now, watch) as spool:
        if not spool.lines:
            raise DataError(f"{source.name}: the text is empty; give one with at least one line")
        write_stream(spool, (0, spool.lines), vocabulary, folder_now, source.name)
    return TokenStream.open(directory)


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """A folder beside `target` that becomes it when the block ends well, and vanishes otherwise.

    Raises StorageError if `target` exists or cannot be written.
    """
    if target.exists():
        raise StorageError(f"{target}: already exists and is never overwritten; choose another name or remove it")
    temporary = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent))
        temporary.chmod(0o755)
        yield temporary
        temporary.rename(target)
    except OSError as fault:
        raise storage_error(target, fault) from fault
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def spooled(sources: Sequence[Source], pipeline: Pipeline, folder: Path, watch: Watch) -> Iterator[Spool]:
    """The sources numbered in a folder inside `folder`, which is gone afterwards."""
    inside = folder / "spool"
    inside.mkdir()
    spool = Spool(inside, pipeline, Meter("reading", watch))
    spool.read(sources)
    yield spool
    shutil.rmtree(inside)


def write_stream(spool: Spool, lines: tuple[int, int], vocabulary: Vocabulary, folder: Path, name: str) -> None:
    """Write lines `lines[0]` to before `lines[1]` of a spool as a stream into a folder that exists."""
    first, last = lines
    begin, end = spool.tokens_before(first), spool.tokens_before(last)
    kind = np.dtype("<u2" if vocabulary.outputs <= 1 << 16 else "<u4")
    final = spool.final_ids(vocabulary).astype(kind)
    checksum = unknown = 0
    with (folder / "ids.bin").open("wb") as file:
        for chunk in spool.ids(begin, end):
            ids = final[chunk]
            unknown += int(np.count_nonzero(ids == vocabulary.unknown))
            checksum = zlib.crc32(ids.data, checksum)
            file.write(ids.data)
        file.flush()
        os.fsync(file.fileno())
    documents = [first] + [line for line in spool.documents if first < line < last]
    facts = spool.facts(first, last)
    content = {
        "format": FORMAT,
        "dtype": kind.str,
        "tokens": end - begin,
        "crc32": checksum,
        "vocabulary": vocabulary.fingerprint,
        "stop": vocabulary.stop,
        "characters": int(facts["characters"].sum(dtype=np.int64)),
        "bytes": int(facts["bytes"].sum(dtype=np.int64)),
        "unknown": unknown,
        "lines": last - first,
        "data": f"{name}#{spool.digest(first, last, [line - first for line in documents])}",
        "starts": (spool.tokens_before_each(documents) - begin).tolist(),
    }
    write_json(folder / "stream.json", content)
