"""Writing ARPA files: an n-gram model as text that KenLM, SRILM, Kaldi and most others read.

Logarithms are to the base 10, printed with nine digits at most, so that reading them back gives the same
float32. A probability of zero is -99, that of the start symbol too, which nothing predicts. The first words are
`<unk>`, `<s>` and `</s>`; all n-grams of an order come sorted by their words' ids, context first.
"""

from __future__ import annotations

import gzip
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import DataError
from ostinato.core.files import atomic_path
from ostinato.core.progress import Progress, Watch, unwatched
from ostinato.core.vocabulary import Vocabulary
from ostinato.ngram.model import NGramModel
from ostinato.ngram.table import Logs
from ostinato.ngram.trie import Trie

Bytes: TypeAlias = NDArray[np.uint8]

BLOCK = 1 << 15
"""N-grams that a thread prints at a time."""

BUFFER = 1 << 22
"""Bytes they are printed into, at least."""

SEPARATORS = (" ", "\t", "\n", "\r")
"""What ends a word in an ARPA file; other white space may stand inside one."""


def write_arpa(model: NGramModel, target: str | Path | IO[bytes], watch: Watch = unwatched, threads: int = 2) -> None:
    """Write a model as an ARPA file, atomically; `.gz` and `.zst` are packed.

    target: a path, or a binary file that is open, such as standard output. threads: how many print at once; the
        file is the same for any number. Memory: the n-grams in order and their numbers, and a few blocks of lines.
    Raises DataError, before anything is written, for a word that no ARPA file can hold; StorageError.
    """
    write_ngrams(Ngrams(*model.table.contents()), model.vocabulary, target, watch, threads)


def write_ngrams(
    ngrams: Ngrams, vocabulary: Vocabulary, target: str | Path | IO[bytes], watch: Watch = unwatched, threads: int = 2
) -> None:
    """Write n-grams that are no table yet, or no longer; otherwise as `write_arpa`."""
    spelled = Spelled.of(vocabulary, ngrams.trie.order)
    if isinstance(target, str | Path):
        with atomic_path(Path(target), forced=False) as temporary, packed(temporary, str(target)) as file:
            write_to(file, ngrams, spelled, watch, threads)
    else:
        write_to(target, ngrams, spelled, watch, threads)


@contextmanager
def packed(path: Path, name: str) -> Iterator[IO[bytes]]:
    """The file at `path`, open to write, packed as the end of `name` says."""
    with path.open("wb") as plain:
        if name.endswith(".gz"):
            with gzip.GzipFile("", "wb", 6, plain, 0) as file:
                yield cast(IO[bytes], file)
        elif name.endswith(".zst"):
            import zstandard

            with zstandard.ZstdCompressor().stream_writer(plain, closefd=False) as file:
                yield cast(IO[bytes], file)
        else:
            yield plain


class Ngrams(NamedTuple):
    """What `BackoffTable.contents` gives: the n-grams, their log-probs [N] and log back-offs [M], nats."""

    trie: Trie
    log_prob: Logs
    log_backoff: Logs


class Spelled(NamedTuple):
    """The words of a vocabulary as kernels/arpa.py takes them, and the length no line exceeds."""

    text: Bytes
    starts: NDArray[np.int64]
    longest: int

    @classmethod
    def of(cls, vocabulary: Vocabulary, order: int) -> Spelled:
        """The words that a model of that vocabulary can read. Raises DataError for one that ARPA cannot hold."""
        from ostinato.kernels.arpa import NUMBER, PAD

        pieces = vocabulary.pieces[: vocabulary.start + 1]
        text = "\n".join(pieces)
        if any(blank in text for blank in SEPARATORS[:2] + SEPARATORS[3:]) or text.count("\n") >= len(pieces):
            text = "\n".join(map(spellable, pieces))  # finds the one that cannot be written
        try:
            joined = np.frombuffer(text.encode("utf8") + b"\n", np.uint8)
        except UnicodeEncodeError:
            joined = np.frombuffer("\n".join(map(spellable, pieces)).encode(), np.uint8)
        ends = np.flatnonzero(joined == ord("\n"))
        sizes = np.diff(ends, prepend=-1) - 1
        if not sizes.all():
            spellable("")
        longest = 2 * NUMBER + order * (int(sizes.max()) + 1 + PAD)
        packed_words = joined[joined != ord("\n")]
        return cls(np.append(packed_words, np.zeros(PAD, np.uint8)), np.cumsum(np.append(0, sizes)), longest)


def spellable(piece: str) -> str:
    """A piece that can be written. Raises DataError if the file would not be read back."""
    if not piece or any(separator in piece for separator in SEPARATORS):
        raise DataError(
            f"the piece {piece!r} cannot be written: ARPA files separate words by blanks and line ends; "
            "replace them in the text, as by '▁' or '<space>', and train again"
        )
    try:
        piece.encode("utf8")
    except UnicodeEncodeError:
        raise DataError(f"the piece {piece!r} cannot be written: it is not Unicode text; train without it") from None
    return piece


def write_to(file: IO[bytes], ngrams: Ngrams, spelled: Spelled, watch: Watch, threads: int) -> None:
    """Write the lines of a table to an open file."""
    counts = "".join(f"ngram {order}={number}\n" for order, number in enumerate(ngrams.trie.ngrams, 1))
    file.write(f"\\data\\\n{counts}".encode())
    done, total = 0, sum(ngrams.trie.ngrams)
    with ThreadPoolExecutor(threads) as pool:
        for order in range(1, ngrams.trie.order + 1):
            file.write(f"\n\\{order}-grams:\n".encode())
            for lines, text in printed(pool, threads, ngrams, spelled, order):
                file.write(text.data)
                done += lines
                watch(Progress("writing ARPA", done, done / total, f"order {order}"))
    file.write(b"\n\\end\\\n")


def printed(
    pool: ThreadPoolExecutor, threads: int, ngrams: Ngrams, spelled: Spelled, order: int
) -> Iterator[tuple[int, Bytes]]:
    """The lines of one order, in their order: how many, and a text that is valid until the next is asked for."""
    spare = [np.empty(max(BUFFER, 4 * spelled.longest), np.uint8) for _ in range(threads + 1)]
    waiting: deque[tuple[Future[tuple[int, int]], int, int, Bytes]] = deque()

    def start(begin: int, end: int) -> None:
        buffer = spare.pop()
        waiting.append((pool.submit(print_block, ngrams, spelled, order, begin, end, buffer), begin, end, buffer))

    for begin, end in blocks(ngrams.trie, order):
        if not spare:
            yield from finished(waiting, spare, ngrams, spelled, order)
        start(begin, end)
    while waiting:
        yield from finished(waiting, spare, ngrams, spelled, order)


def finished(
    waiting: deque[tuple[Future[tuple[int, int]], int, int, Bytes]],
    spare: list[Bytes],
    ngrams: Ngrams,
    spelled: Spelled,
    order: int,
) -> Iterator[tuple[int, Bytes]]:
    """The texts of the block that was begun first; what did not fit into its buffer is printed here."""
    future, begin, end, buffer = waiting.popleft()
    reached, size = future.result()
    yield reached - begin, buffer[:size]
    while reached < end:
        begin = reached
        reached, size = print_block(ngrams, spelled, order, begin, end, buffer)
        yield reached - begin, buffer[:size]
    spare.append(buffer)


def blocks(trie: Trie, order: int) -> Iterator[tuple[int, int]]:
    """The nodes of an order in pieces, first and last + 1; of the words the start symbol comes second."""
    first = 1 + sum(trie.ngrams[: order - 1])
    last = first + trie.ngrams[order - 1]
    if order == 1:
        unknown, stop = 1, 2
        yield unknown, unknown + 1
        yield trie.sentence_start, trie.sentence_start + 1
        yield stop, stop + 1
        first, last = 3, last - 1
    for begin in range(first, last, BLOCK):
        yield begin, min(begin + BLOCK, last)


def print_block(ngrams: Ngrams, spelled: Spelled, order: int, begin: int, end: int, out: Bytes) -> tuple[int, int]:
    """Print nodes `begin` to `end` - 1 while they fit into `out`; the node not printed and the bytes filled."""
    from ostinato.kernels import arpa as kernel

    trie, log_prob, log_backoff = ngrams
    begins = np.cumsum([0, 1, *trie.ngrams])
    contexts, ends, prefix = np.empty(order, np.int64), np.empty(order, np.int64), np.empty(spelled.longest, np.uint8)
    numbers = trie.word, trie.first_child, log_prob, log_backoff
    reached, size = kernel.write_ngrams(*numbers, begins, order, begin, end, *spelled, contexts, prefix, ends, out)
    return int(reached), int(size)
