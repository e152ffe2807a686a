"""Files of word vectors as bytes: packed or not, read in blocks; and files that are no such thing, by name."""

from __future__ import annotations

import gzip
import os
import time
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, cast

from ostinato.core.errors import DataError
from ostinato.core.files import atomic_path
from ostinato.core.progress import Progress, Watch

CHUNK = 1 << 20
"""Bytes that are read at a time."""

LONGEST_LINE = 1 << 26
"""Bytes after which a file without line ends is not taken for text."""

PEEK = 1 << 16
"""Bytes at the beginning by which a file is known."""

GZIP, ZSTD, ZIP = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PK\x03\x04"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
GZIP_LEVEL, ZSTD_LEVEL = 6, 3
_TORCH = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."  # the pickled number that old torch.save files begin with
_EVERY = 0.2  # seconds between two reports

_GENSIM = (
    "a Python pickle, as gensim's save() writes (.kv, .model) and old versions of torch; loading one can run any code, "
    "so it is never opened here. In Python, load it with gensim and call kv.save_word2vec_format(PATH, binary=True), "
    "or ostinato.embed.files.from_gensim(kv)"
)
_TENSORS = (
    "tensors of torch, which have no words beside them; write words and numbers as text, or make "
    "ostinato.embed.vectors.Vectors(words, array) in Python and save it"
)
STRANGERS = {
    b"\xba\x16\x4f\x2f": "a fastText model (.bin); give the .vec file that fastText writes beside it, or print its "
    "words with `fasttext dump MODEL dict` and their vectors with `fasttext print-word-vectors MODEL`",
    b"\x89HDF\r\n\x1a\n": "an HDF5 file; read it with h5py, and make ostinato.embed.vectors.Vectors(words, array)",
    b"\x93NUMPY": "a NumPy array, which has no words beside it; give the folder of vectors that it belongs to",
    b"PAR1": "a Parquet file; read it with pandas, and make ostinato.embed.vectors.Vectors(words, array)",
    b"\xff\xfe": "UTF-16 text, or none; convert it with iconv -f UTF-16 -t UTF-8",
    b"\xfe\xff": "UTF-16 text, or none; convert it with iconv -f UTF-16 -t UTF-8",
    _TORCH: _TENSORS,
}
"""How files that hold no vectors we read begin, and what to do with them."""


class Stored:
    """A file of vectors while it is read; `begin` is how it begins, unpacked, without a byte order mark.

    Packed files (gzip, zstd) are known by how they begin, whatever their name.
    Raises DataError for one that cannot be read or unpacked, from any method, and for one of another kind.
    """

    def __init__(self, path: Path):
        self.path = path
        with self.explained():
            self._file = path.open("rb")
        try:
            with self.explained():
                self.begin = self._read_begin()
            refuse_strangers(path, self.begin)
        except BaseException:
            self._file.close()
            raise
        self._left = self.begin

    def _read_begin(self) -> bytes:
        self._size = os.fstat(self._file.fileno()).st_size
        magic = self._file.peek(8)[:8]
        self.packed = magic.startswith((GZIP, ZSTD))
        self._unpacked = unpack(self._file, magic)
        found = b""
        while len(found) < PEEK and (block := next(self._unpacked, b"")):
            found += block
        self.marked = len(BYTE_ORDER_MARK) * found.startswith(BYTE_ORDER_MARK)
        return found[self.marked :]

    def __enter__(self) -> Stored:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: object, trace: TracebackType | None) -> None:
        self._file.close()

    @property
    def size(self) -> int | None:
        """The bytes there are, unpacked; None if not known."""
        return None if self.packed or not self._size else self._size - self.marked

    def share(self) -> float | None:
        """How much of the file has been read; None for one without a size, such as a pipe."""
        return min(1.0, self._file.tell() / self._size) if self._size else None

    def read(self) -> bytes:
        """The next bytes, none at the end."""
        block, self._left = self._left, b""
        with self.explained():
            return block or next(self._unpacked, b"")

    def lines(self) -> Iterator[bytes]:
        """Whole lines, many at a time, the last one ended too if it was not."""
        pending = b""
        while block := self.read():
            end = block.rfind(b"\n") + 1
            if end:
                yield b"".join((pending, memoryview(block)[:end]))
                pending = block[end:]
            else:
                pending += block
            if len(pending) > LONGEST_LINE:
                raise DataError(f"{self.path}: no line end in {LONGEST_LINE:,} bytes, so it is not text; is it binary?")
        if pending:
            yield pending + b"\n"

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turns what the system or an unpacker says about the file into one line of ours."""
        try:
            yield
        except (EOFError, gzip.BadGzipFile, zlib.error) as fault:
            raise DataError(f"{self.path}: damaged or cut short ({fault}); pack or copy it again") from None
        except FileNotFoundError:
            raise DataError(f"{self.path}: no such file") from None
        except IsADirectoryError:
            raise DataError(f"{self.path}: a directory without vectors of ours (words.json)") from None
        except OSError as fault:
            raise DataError(f"{self.path}: cannot be read ({fault.strerror or fault})") from None


def unpack(file: IO[bytes], magic: bytes) -> Iterator[bytes]:
    """The unpacked content of a file that begins so, in blocks."""
    if magic.startswith(ZSTD):
        return unpack_zstd(file)
    source = cast(IO[bytes], gzip.GzipFile(fileobj=file)) if magic.startswith(GZIP) else file
    return iter(lambda: source.read(CHUNK), b"")


def unpack_zstd(file: IO[bytes]) -> Iterator[bytes]:
    """The content of one or several frames. Raises EOFError where one has no end, OSError where it is damaged."""
    import zstandard

    frame, begun = zstandard.ZstdDecompressor().decompressobj(), False
    try:
        while block := file.read(CHUNK >> 2):
            while block:
                if found := frame.decompress(block):
                    yield found
                begun, block = not frame.eof, frame.unused_data if frame.eof else b""
                if frame.eof:
                    frame = zstandard.ZstdDecompressor().decompressobj()
    except zstandard.ZstdError as fault:
        raise EOFError(str(fault)) from None
    if begun:
        raise EOFError("the last frame has no end")


def refuse_strangers(path: Path, begin: bytes) -> None:
    """Raise DataError, saying what to do, for a file that is known to be something else."""
    for magic, what in STRANGERS.items():
        if begin.startswith(magic):
            raise DataError(f"{path}: {what}")
    if begin.startswith(ZIP):
        raise DataError(f"{path}: {_zipped(path)}")
    if begin[:1] == b"\x80" and b"\x02" <= begin[1:2] <= b"\x05":
        raise DataError(f"{path}: {_GENSIM}")
    if not begin:
        raise DataError(f"{path}: empty; there are no vectors in it")


def _zipped(path: Path) -> str:
    """What a zip archive is, and what to do with it."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return "a damaged zip archive; copy it again"
    if any(name.endswith("data.pkl") for name in names):
        return _TENSORS
    return f"a zip archive (of {', '.join(names[:3]) or 'nothing'}); unpack it, and give one of its files"


@contextmanager
def written(target: Path) -> Iterator[IO[bytes]]:
    """A file that replaces `target` when the block ends well; packed if its name ends in .gz or .zst.

    Raises StorageError if the disk is full or the folder cannot be written.
    """
    with atomic_path(target) as temporary, temporary.open("wb") as file:
        if target.name.endswith(".gz"):
            with gzip.GzipFile("", "wb", GZIP_LEVEL, file, mtime=0) as packed:
                yield cast(IO[bytes], packed)
        elif target.name.endswith(".zst"):
            import zstandard

            with zstandard.ZstdCompressor(ZSTD_LEVEL, write_checksum=True).stream_writer(
                file, closefd=False
            ) as packed_zstd:
                yield cast(IO[bytes], packed_zstd)
        else:
            yield file


class Teller:
    """Tells a watcher now and then how many words are done, and how many a second."""

    def __init__(self, label: str, watch: Watch):
        self._label, self._watch = label, watch
        self._begun = self._told = time.monotonic()

    def tell(self, words: int, share: float | None, last: bool = False) -> None:
        """Report if it is time again, or if this is the last report."""
        now = time.monotonic()
        if last or now - self._told >= _EVERY:
            self._told = now
            rate = words / max(now - self._begun, 1e-6)
            self._watch(Progress(self._label, words, share, f"{rate:,.0f} words/s"))
