"""A text as word numbers on disk, from which word vectors are trained without waiting for Python.

    NAME/  ids.bin       int32, little-endian: the ids of a lexicon, -1 behind every sentence
           lexicon.json  the words
           counts.npy    int64 [2, V]: the counts of the lexicon, and how often each word stands in ids.bin
           corpus.json   sizes; written last, so that a text that was not read to its end is not taken for whole

Words outside the lexicon are left out, and so are sentences of which nothing is left.
"""

from __future__ import annotations

import errno
import json
import os
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import ConfigError, DataError, FormatError, ShapeError, StorageError
from ostinato.core.files import atomic_path, check_format, read_json, storage_error, write_json
from ostinato.core.progress import Watch, unwatched
from ostinato.embed.encoding import Sentences, cores, counted, read_into, renumber
from ostinato.embed.lexicon import Counts, Lexicon, merged, most_frequent
from ostinato.text.normalise import Normaliser
from ostinato.text.pipeline import Pipeline
from ostinato.text.read import STDIN, check_readable
from ostinato.text.sources import Source, name_of
from ostinato.text.spool import Meter, Spool
from ostinato.text.tokenise import make_tokeniser

FORMAT = 1
BREAK = -1
"""Ends a sentence."""

OUTSIDE = -2
"""What is said of a word that is left out."""

LOOK = 10_000
"""So many ids beyond where a chunk should end, a sentence end is looked for."""

IDS, LEXICON, COUNTS, ABOUT = "ids.bin", "lexicon.json", "counts.npy", "corpus.json"


Spelled: TypeAlias = Callable[[NDArray[np.int64]], list[str]]
"""The words of these numbers, which count from 1 in the order words were first seen, and ascend."""


class Corpus:
    """A text that was read; `open_corpus` makes it from its folder. Reading is safe from any thread.

    ids: the file of ids. lexicon: the words they stand for. counts: how often each of them stands there, [V], int64
        (not those of the lexicon if that came from another text). words: ids without breaks. sentences: breaks.
    read_words: words of the text, with those outside the lexicon. sources: 12 hexadecimal digits for the names and
        sizes of the files, see `digest_of`; None if there were none.
    """

    def __init__(self, folder: Path, lexicon: Lexicon, counts: Counts, about: dict[str, Any]):
        self.folder, self.ids = folder, folder / IDS
        self.lexicon, self.counts = lexicon, counts
        self.words, self.sentences = int(about["words"]), int(about["sentences"])
        self.read_words: int = int(about["read_words"])
        self.sources: str | None = about["sources"]
        try:
            self._file = os.open(self.ids, os.O_RDONLY)
        except OSError as fault:
            raise FormatError(f"{self.ids}: cannot be read ({fault.strerror}); read the text again") from None
        self._close = weakref.finalize(self, os.close, self._file)
        if os.fstat(self._file).st_size != 4 * self.size:
            raise FormatError(f"{self.ids}: not the {self.size:,} ids it should hold; read the text again")

    @property
    def size(self) -> int:
        """The ids in the file, breaks included."""
        return self.words + self.sentences

    def __repr__(self) -> str:
        return f"Corpus({self.words:,} of {self.read_words:,} words, {self.sentences:,} sentences, {self.lexicon!r})"

    def __enter__(self) -> Corpus:
        return self

    def __exit__(self, *fault: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file of ids; it also closes when nobody holds the corpus any more."""
        self._close()

    def read(self, begin: int, end: int, out: NDArray[np.int32]) -> NDArray[np.int32]:
        """The ids from place `begin` to before `end`, written to the beginning of `out`; that part of it.

        Raises ShapeError if they do not fit or do not exist.
        """
        if not 0 <= begin <= end <= self.size or end - begin > len(out) or out.dtype != np.int32:
            raise ShapeError(
                f"places {begin:,} to {end:,} of {self.size:,} ids do not fit into {len(out):,} of type {out.dtype}"
            )
        part = out[: end - begin]
        read_into(self._file, 4 * begin, part, self.ids)
        return part

    def chunks(self, words_per_chunk: int) -> NDArray[np.int64]:
        """Places [C + 1] between which chunks of about that many ids lie, from 0 to `size`.

        A chunk ends with a sentence if one ends within the next LOOK ids, else where it has its length.
        """
        step = max(1, -(-self.size // max(1, round(self.size / words_per_chunk))))
        bounds, ahead = [0], np.empty(LOOK + 1, np.int32)
        while bounds[-1] < self.size:
            target = min(bounds[-1] + step, self.size)
            near = self.read(target - 1, min(target + LOOK, self.size), ahead)
            ends = np.flatnonzero(near == BREAK)
            bounds.append(target + int(ends[0]) if len(ends) else target)
        return np.array(bounds, np.int64)

    def pieces(self, ids_at_once: int = 1 << 20) -> Iterator[NDArray[np.int32]]:
        """The ids chunk by chunk, in one array that is used again."""
        bounds = self.chunks(ids_at_once)
        buffer = np.empty(int(np.diff(bounds).max()), np.int32)
        for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            yield self.read(begin, end, buffer)


def read_corpus(
    paths: Sequence[str | Path],
    folder: Path,
    *,
    min_count: int = 5,
    limit: int | None = None,
    lexicon: Lexicon | None = None,
    grow: bool = False,
    pipeline: Pipeline | None = None,
    threads: int | None = None,
    watch: Watch = unwatched,
) -> Corpus:
    """Texts, a sentence a line, as a corpus in `folder` (new or empty); `-` is standard input.

    min_count, limit: which words the lexicon has, see `lexicon.chosen`.
    lexicon: number by this one instead; with `grow`, frequent new words join it, see `lexicon.merged`.
    pipeline: how a line becomes words; None: cut at white space. threads: None for one a processor; the result is
        the same. Memory holds the distinct words, never the text. A line of more than 2**20 bytes becomes several
        sentences.
    Raises DataError for a text that cannot be read or has no words, StorageError if the folder holds a corpus.
    """
    check_readable(paths)
    if not paths:
        raise ConfigError("no text was named; name files, or - for standard input")
    sources = digest_of(paths)

    def read(spool: Spool) -> None:
        spool.read([Source.of_files(paths)])

    choice = Choice(min_count, limit, lexicon, grow)
    return _read(read, folder, choice, pipeline, threads, watch, sources, name_of(paths))


def read_sentences(
    sentences: Iterable[str] | Iterable[Sequence[str]],
    folder: Path,
    *,
    min_count: int = 5,
    limit: int | None = None,
    lexicon: Lexicon | None = None,
    grow: bool = False,
    pipeline: Pipeline | None = None,
    threads: int | None = None,
    watch: Watch = unwatched,
) -> Corpus:
    """The same for sentences from anywhere, gone through once: strings, or lists of words.

    Strings go through the pipeline. The words of a list are taken as they are, and may hold blanks.
    Raises DataError for a sentence of another kind than the first.
    """
    if isinstance(sentences, (str, bytes)):
        raise ConfigError(f"sentences are wanted, not one text; give [{sentences[:20]!r}, ...], or a file's name")
    size = len(sentences) if isinstance(sentences, Sized) else None
    source = iter(sentences)
    try:
        first = next(source)
    except StopIteration:
        raise DataError("there are no sentences; was the iterator used before?") from None
    given: Iterable[Any] = chain([first], source)

    def read(spool: Spool) -> None:
        if isinstance(first, str):
            spool.read([Source("sentences", (Sentences(given, size),))])
        else:
            spool.take(_lists(given), lambda: None)
            if odd := [word for word in spool.numbering if not isinstance(word, str)]:
                raise DataError(f"{odd[0]!r:.60} stands where a word should; give every sentence as a list of strings")

    return _read(read, folder, Choice(min_count, limit, lexicon, grow), pipeline, threads, watch, None, "the sentences")


def open_corpus(folder: Path) -> Corpus:
    """The corpus in a folder. Raises FormatError if it is missing, unfinished, damaged, cut short or newer."""
    path = folder / ABOUT
    about = read_json(path)
    try:
        check_format(path, about, FORMAT)
        counts, found = np.load(folder / COUNTS, allow_pickle=False)
        lexicon = Lexicon(read_json(folder / LEXICON), counts)
        if lexicon.fingerprint != about["lexicon"]:
            raise FormatError(f"{folder}: {LEXICON} does not belong to {ABOUT}; restore it or read the text again")
        return Corpus(folder, lexicon, found, about)
    except (KeyError, TypeError, ValueError, EOFError, OSError, ConfigError, ShapeError) as fault:
        raise FormatError(f"{path}: not a corpus of ours ({fault}); read the text again") from None


def digest_of(paths: Sequence[str | Path]) -> str:
    """Twelve hexadecimal digits that change whenever the name or size of a file does."""
    sizes = [(str(path), None if str(path) == STDIN else os.stat(path).st_size) for path in paths]
    return sha256(json.dumps(sizes).encode("utf8", "surrogatepass")).hexdigest()[:12]


@contextmanager
def workplace(folder: Path) -> Iterator[Path]:
    """A folder for what is temporary, inside the folder of a corpus to come.

    Raises StorageError if there is a corpus already, or no place.
    """
    if (folder / ABOUT).exists():
        raise StorageError(f"{folder}: holds a corpus already; choose another folder or remove it first")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".reading-", dir=folder, ignore_cleanup_errors=True) as inside:
            yield Path(inside)
    except OSError as fault:
        if fault.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EEXIST, errno.ENOTDIR):
            raise storage_error(folder, fault) from fault
        raise


def _lists(sentences: Iterable[Any]) -> Iterator[Iterable[str]]:
    """Lists of words; anything else is an error."""
    for number, sentence in enumerate(sentences, 1):
        if isinstance(sentence, (str, bytes)) or not isinstance(sentence, Iterable):
            raise DataError(
                f"sentence {number:,} is {sentence!r:.60}, not a list of words; "
                "give all sentences as strings, or all as lists of words"
            )
        yield sentence


@dataclass(frozen=True)
class Choice:
    """Which words a text is numbered by: see `read_corpus`."""

    min_count: int = 5
    limit: int | None = None
    lexicon: Lexicon | None = None
    grow: bool = False

    def __post_init__(self) -> None:
        if self.grow and self.lexicon is None:
            raise ConfigError("grow adds words to a lexicon; give the lexicon too")

    def made(self, spelled: Spelled, counts: Counts) -> tuple[Lexicon, NDArray[np.int32]]:
        """The lexicon, and the id there of each word that was read, -1 outside; counts: in the order first seen."""
        if self.lexicon is not None:
            words = spelled(np.arange(1, len(counts) + 1))
            grown = merged(self.lexicon, words, counts, self.min_count, self.limit) if self.grow else self.lexicon
            return grown, grown.ids(words)
        order = most_frequent(counts, self.min_count, self.limit)
        ascending = np.sort(order)
        words = spelled(ascending + 1)
        ids = np.full(len(counts), BREAK, np.int32)
        ids[order] = np.arange(len(order), dtype=np.int32)
        return Lexicon([words[place] for place in np.searchsorted(ascending, order).tolist()], counts[order]), ids


def _read(
    read: Callable[[Spool], None],
    folder: Path,
    choice: Choice,
    pipeline: Pipeline | None,
    threads: int | None,
    watch: Watch,
    sources: str | None,
    name: str,
) -> Corpus:
    """Number the words as they come, choose a lexicon, put its ids in their place."""
    threads = cores(threads)
    pipeline = pipeline or Pipeline(Normaliser(), make_tokeniser("blank"))
    with workplace(folder) as inside:
        spool = Spool(inside, pipeline, Meter("reading", watch), threads, told=False)
        read(spool)
        if not spool.distinct:
            raise DataError(f"{name}: no words in it; give another text")
        counts = counted(spool.ids_path, spool.tokens, spool.distinct + 1, threads)[1:]
        return finish(folder, spool.ids_path, spool.tokens, counts, spool.spelled, choice, threads, watch, sources)


def finish(
    folder: Path,
    path: Path,
    size: int,
    counts: Counts,
    spelled: Spelled,
    choice: Choice,
    threads: int,
    watch: Watch,
    sources: str | None,
    order: NDArray[np.int64] | None = None,
) -> Corpus:
    """A corpus from a file of `size` numbers, 0 for a break, which becomes its file of ids.

    counts: of the words in the order first seen. spelled: those of given places in this order, from 1 on. order: the
    number of each of them in the file, less 1; None if they are numbered in that order.
    """
    lexicon, ids = choice.made(spelled, counts)
    found = np.zeros(len(lexicon), np.int64)
    found[ids[ids >= 0]] = counts[ids >= 0]
    if not found.any():
        raise DataError("no word of the text is in the lexicon; give another text")
    order = np.arange(len(ids)) if order is None else order
    numbers = np.full(int(order.max()) + 2, OUTSIDE, np.int32)
    numbers[0] = BREAK
    numbers[order + 1] = np.where(ids < 0, OUTSIDE, ids)
    done = renumber(path, size, numbers, threads, watch)
    path.replace(folder / IDS)
    about = {"words": done.size - done.sentences, "sentences": done.sentences, "read_words": int(counts.sum())}
    return _saved(folder, lexicon, found, {**about, "sources": sources})


def _saved(folder: Path, lexicon: Lexicon, counts: Counts, about: dict[str, Any]) -> Corpus:
    """Finish a corpus whose ids are in the folder already, and open it."""
    with atomic_path(folder / LEXICON, forced=False) as temporary:
        temporary.write_bytes(lexicon.packed)
    with atomic_path(folder / COUNTS, forced=False) as temporary, temporary.open("wb") as file:
        np.save(file, np.stack([lexicon.counts, counts]), allow_pickle=False)
    write_json(folder / ABOUT, {"format": FORMAT, "lexicon": lexicon.fingerprint, **about})
    return Corpus(folder, lexicon, counts, about)
