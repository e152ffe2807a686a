"""Files of word vectors: found out, read, written and converted.

    vectors = read_vectors("GoogleNews-vectors-negative300.bin.gz")
    write_vectors(vectors, "vectors.txt", "word2vec-text")
    convert_vectors("crawl-300d-2M.vec", "crawl", "ostinato")        # larger than memory, too

Every file is checked to its end: what it cannot hold or does not keep is an error with file and line, or word and
byte, and what to do. Pickles are never opened.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import ConfigError, DataError, FormatError
from ostinato.core.files import storage_error
from ostinato.core.progress import Watch, unwatched
from ostinato.core.registry import unknown
from ostinato.embed.folder import Which, folder_in
from ostinato.embed.gathering import Errors, Reading, Repeated, as_bytes, writable
from ostinato.embed.interchange import from_gensim, to_gensim
from ostinato.embed.stored import Stored, Teller, written
from ostinato.embed.vectors import Vectors
from ostinato.embed.word2vec_binary import read_binary, write_binary
from ostinato.embed.word2vec_text import HEADER, count_numbers, read_text, shown, write_text

__all__ = [
    "Errors", "Kind", "Reading", "Repeated", "convert_vectors", "from_gensim", "kind_of", "open_vectors",
    "read_counts", "read_vectors", "to_gensim", "write_counts", "write_vectors",
]  # fmt: skip

Kind: TypeAlias = Literal["word2vec-text", "word2vec-binary", "glove", "ostinato"]
"""word2vec's and fastText's text (.vec), word2vec's binary, text without a header, and a folder of ours."""

CONTROLS = frozenset([*range(7), *range(14, 27)])
"""Bytes that numbers have and text has not."""


def read_vectors(
    path: str | Path,
    kind: Kind | None = None,
    *,
    errors: Errors = "strict",
    repeated: Repeated = "refuse",
    counts: str | Path | None = None,
    folder: str | Path | None = None,
    watch: Watch = unwatched,
) -> Vectors:
    """The vectors of a file or folder, float32; gzip and zstd are unpacked.

    kind: None to find it out from the content. errors, repeated, counts: see `Reading`; a folder of ours needs none
    of them. folder: where a file's rows are laid out, to be memory-mapped; None for memory.
    Words may hold blanks and be empty; numbers are rounded as numpy.float32(float(text)).
    Raises DataError, with file and line (text) or word and byte (binary), for a damaged file, one that is cut short
    or has more words than its header states, a wrong number of numbers, one that is not finite, a repeated word and
    a file of another kind; FormatError for a damaged folder.
    """
    reading = Reading(errors, repeated, None if counts is None else Path(counts))
    return _read(Path(path), kind, reading, None if folder is None else Path(folder), watch)


def open_vectors(path: str | Path, which: Which = "input", watch: Watch = unwatched) -> Vectors:
    """The vectors of a folder of ours, of a run that has one, or of a file.

    Raises ConfigError for a matrix that only a folder of ours may have, FormatError for a run that has no vectors, or
    none yet, and as `read_vectors` and `Vectors.load` do.
    """
    path = Path(path)
    folder = folder_in(path)
    if folder is not None:
        return Vectors.load(folder, which)
    if (path / "config.toml").is_file():
        raise FormatError(
            f"{path}: a run without word vectors; if it is to have some, `ostinato resume {path}` ends it"
        )
    if which != "input":
        raise ConfigError(f"{path}: only a folder of ours may hold output vectors; leave out --which")
    return read_vectors(path, watch=watch)


def write_vectors(
    vectors: Vectors,
    path: str | Path,
    kind: Kind,
    *,
    counts: str | Path | None = None,
    replace_blanks: str | None = None,
    watch: Watch = unwatched,
) -> None:
    """Write vectors as a file, packed if its name ends in .gz or .zst, or as a folder; atomically.

    counts: a file to write lines `word count` to. replace_blanks: what becomes of white space inside a word.
    Of subwords only a folder keeps more than what they make of each word.
    Raises DataError, naming the word, for one that the format cannot hold and a number that is not finite;
    StorageError if the disk is full.
    """
    target, check = Path(path), _check_kind(kind)
    if check == "ostinato":
        vectors.save(target)
        words: Sequence[str] = vectors.words
    else:
        words = writable(vectors.words, replace_blanks)
        _write_file(vectors, words, target, check, watch)
    if counts is not None:
        write_counts(vectors, counts, replace_blanks)


def convert_vectors(
    source: str | Path,
    target: str | Path,
    to: Kind,
    *,
    kind: Kind | None = None,
    reading: Reading | None = None,
    counts: str | Path | None = None,
    replace_blanks: str | None = None,
    watch: Watch = unwatched,
) -> Vectors:
    """Read vectors of one kind and write them as another; what was written.

    The numbers pass through a file beside `target`, so they may be larger than memory; only the words must fit.
    kind: that of the source. reading: how it is read. counts: a file to write the counts to.
    Raises as `read_vectors` and `write_vectors`.
    """
    target, reading = Path(target), reading or Reading()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent)
    except OSError as fault:
        raise storage_error(target, fault) from fault
    with scratch as folder:
        vectors = _read(Path(source), kind, reading, Path(folder), watch)
        write_vectors(vectors, target, to, counts=counts, replace_blanks=replace_blanks, watch=watch)
        return Vectors.load(target) if to == "ostinato" else vectors


def kind_of(path: str | Path) -> Kind:
    """The kind of a file or folder, by its content. Raises DataError if it is none of them."""
    if folder_in(Path(path)) is not None:
        return "ostinato"
    with Stored(Path(path)) as source:
        return _kind_in(source)


def _kind_in(source: Stored) -> Kind:
    """The kind of a file by how it begins."""
    line, _, rest = source.begin.partition(b"\n")
    stated = HEADER.fullmatch(line)
    if stated is None:
        if not count_numbers(line):
            raise DataError(
                f"{source.path}: not a file of word vectors; its first line should be a header of two numbers, or a "
                f"word and its numbers, not {shown(line)}"
            )
        return "glove"
    first = rest.lstrip(b" \t\r\n").partition(b"\n")[0]
    if count_numbers(b"x " + first) < int(stated[2]) and not CONTROLS.isdisjoint(rest):
        return "word2vec-binary"
    return "word2vec-text"


def _check_kind(kind: str) -> Kind:
    for known in get_args(Kind):
        if kind == known:
            found: Kind = known
            return found
    raise ConfigError(unknown("kind of vectors", kind, get_args(Kind)))


def _read(path: Path, kind: Kind | None, reading: Reading, folder: Path | None, watch: Watch) -> Vectors:
    """The vectors of a file, whose rows go to a file in `folder`, or to memory; or those of a folder of ours."""
    kind = None if kind is None else _check_kind(kind)
    if kind == "ostinato" or (kind is None and folder_in(path) is not None):
        vectors = Vectors.load(folder_in(path) or path)
    else:
        vectors = _read_file(path, kind, reading, folder, watch)
    if reading.counts is None:
        return vectors
    counts = _counts_of(read_counts(reading.counts, reading.errors), vectors.words, reading.counts)
    return Vectors(vectors.words, vectors.array, counts, vectors.subwords, vectors.subword_array)


def _read_file(path: Path, kind: Kind | None, reading: Reading, folder: Path | None, watch: Watch) -> Vectors:
    teller = Teller(f"reading {path.name}", watch)
    with Stored(path) as source:
        kind = kind or _kind_in(source)
        if kind == "word2vec-binary":
            gathered = read_binary(source, reading, folder, teller)
        else:
            gathered = read_text(source, kind == "word2vec-text", reading, folder, teller)
    if not gathered.words:
        raise DataError(f"{path}: there are no vectors in it")
    teller.tell(gathered.read, 1.0, last=True)
    return Vectors(gathered.words, gathered.finish())


def _write_file(vectors: Vectors, words: Sequence[str], target: Path, kind: Kind, watch: Watch) -> None:
    teller = Teller(f"writing {target.name}", watch)
    if kind == "glove" and words[0].startswith("\ufeff"):
        raise DataError(f"the first word, {words[0]!r}, begins with a byte order mark, which readers drop; remove it")

    def tell(rows: int) -> None:
        teller.tell(rows, rows / len(vectors), last=rows == len(vectors))

    with written(target) as file:
        if kind == "word2vec-binary":
            write_binary(file, words, vectors.array, tell)
        else:
            write_text(file, words, vectors.array, kind == "word2vec-text", tell)


def read_counts(path: str | Path, errors: Errors = "strict") -> dict[str, int]:
    """How often each word was seen, from lines `word count`, as word2vec -save-vocab and gensim's fvocab have them.

    Raises DataError with file and line for another line and a repeated word.
    """
    reading = Reading(errors)
    counts: dict[str, int] = {}
    line = 1
    with Stored(Path(path)) as source:
        for block in source.lines():
            for text in block.split(b"\n")[:-1]:
                if text.strip():
                    _add_count(counts, text, f"{path}:{line}", reading.errors)
                line += 1
    return counts


def _add_count(counts: dict[str, int], line: bytes, where: str, errors: Errors) -> None:
    spelled, blank, number = line.rstrip(b" \t\r").rpartition(b" ")
    if not blank or not number.isdigit() or len(number) > 18:
        raise DataError(f"{where}: a word, a blank and its count should be here, not {shown(line)}")
    try:
        word = spelled.decode("utf8", {"keep": "surrogateescape"}.get(errors, errors))
    except UnicodeDecodeError:
        raise DataError(f"{where}: {shown(spelled)} is not UTF-8; read it with errors 'replace' or 'keep'") from None
    if word in counts:
        raise DataError(f"{where}: {word!r} has a count already; remove one of them")
    counts[word] = int(number)


def _counts_of(counts: Mapping[str, int], words: Sequence[str], path: Path) -> NDArray[np.int64]:
    """The count of each word. Raises DataError for one that has none."""
    try:
        return np.array([counts[word] for word in words], np.int64)
    except KeyError as fault:
        word = fault.args[0]
        raise DataError(f"{path}: no count of the word {word!r}; give the file made with the vectors") from None


def write_counts(vectors: Vectors, path: str | Path, replace_blanks: str | None = None) -> None:
    """Write a line `word count` a word, as gensim's fvocab is. Raises DataError if the vectors have no counts."""
    if vectors.counts is None:
        raise DataError("these vectors have no counts; train them here, or read them with a file of counts")
    words = writable(vectors.words, replace_blanks)
    lines = [f"{word} {count}" for word, count in zip(words, vectors.counts.tolist(), strict=True)]
    with written(Path(path)) as file:
        file.write(as_bytes(lines))
