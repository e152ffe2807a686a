"""Word vectors from a text in one call, and what a trained pair of matrices becomes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ostinato.core.progress import Progress, Watch, unwatched
from ostinato.embed import phrases
from ostinato.embed.corpus import Corpus, read_corpus, read_sentences
from ostinato.embed.folder import Folder, write_folder
from ostinato.embed.lexicon import Lexicon
from ostinato.embed.matrices import Matrices
from ostinato.embed.options import TextOptions, VectorOptions
from ostinato.embed.subwords import Subwords
from ostinato.embed.trainer import Report, Trainer
from ostinato.embed.vectors import Vectors

BLOCK = 4096
"""Words whose n-grams are added up at once."""

Sentences = Iterable[str] | Iterable[Sequence[str]]


@dataclass(frozen=True)
class Trained:
    """What training leaves: vectors of the words read, and of those predicted (None after a tree) [V, D]."""

    vectors: Vectors
    output: NDArray[np.float32] | None

    def save(self, folder: Path, force: bool = False) -> None:
        """Write both as a folder, see `folder`. Raises StorageError."""
        vectors = self.vectors
        content = Folder(vectors.words, vectors.array, vectors.counts, vectors.subwords, vectors.subword_array)
        write_folder(folder, content, output=self.output, force=force)


def train_vectors(
    text: str | Path | Sequence[Path] | Sentences,
    options: VectorOptions = VectorOptions(),  # noqa: B008, frozen
    *,
    min_count: int = 5,
    limit: int | None = None,
    watch: Watch = unwatched,
    told: Callable[[Report], None] = lambda report: None,
) -> Trained:
    """Train word vectors on files (a path, or a list of `Path`), or on sentences (strings, or lists of words).

    min_count, limit: which words get a vector. told: called every half a second or so.
    Raises DataError for a text that cannot be used, DivergedError if numbers grow without bounds.
    """
    with tempfile.TemporaryDirectory(prefix="ostinato-") as name:
        folder = Path(name) / "corpus"
        choice: Any = {"min_count": min_count, "limit": limit, "watch": watch}
        if isinstance(text, (str, Path)):
            corpus = read_corpus([text], folder, **choice)
        elif isinstance(text, Sequence) and text and all(isinstance(path, Path) for path in text):
            corpus = read_corpus(cast(Sequence[Path], text), folder, **choice)
        else:
            corpus = read_sentences(cast(Any, text), folder, **choice)
        with corpus:
            trainer = Trainer(corpus, options, options.threads or os.cpu_count() or 1)
            for report in trainer.run():
                told(report)
                watch(progress_of(report))
            return trained(trainer.matrices, corpus.lexicon, options)


def encoded(
    text: TextOptions, folder: Path, threads: int | None, before: Lexicon | None = None, watch: Watch = unwatched
) -> Corpus:
    """The text as ids in `folder`, with phrases joined if the options say so.

    before: a lexicon that keeps its numbers; frequent new words join it.
    """
    choice = {"min_count": text.min_count, "limit": text.limit, "threads": threads, "watch": watch}
    grow = {"lexicon": before, "grow": before is not None}
    if not text.phrases:
        return read_corpus(text.text, folder, **choice, **grow)  # type: ignore[arg-type]
    return phrases.read_phrased(text, folder, threads, before, watch)


def trained(matrices: Matrices, lexicon: Lexicon, options: VectorOptions) -> Trained:
    """The vectors in two matrices; with n-grams, each word's is the mean of its own and theirs."""
    output = np.ascontiguousarray(matrices.output) if options.loss != "hierarchical-softmax" else None
    if not options.subwords:
        vectors = Vectors(lexicon.words, np.ascontiguousarray(matrices.input), lexicon.counts)
        return Trained(vectors, output)
    subwords = Subwords(options.least, options.most, options.buckets)
    grams = np.ascontiguousarray(matrices.grams)
    array = composed(np.ascontiguousarray(matrices.input), grams, *subwords.table(lexicon.words))
    return Trained(Vectors(lexicon.words, array, lexicon.counts, subwords, grams), output)


def composed(
    own: NDArray[np.float32], grams: NDArray[np.float32], offsets: NDArray[np.int64], numbers: NDArray[np.int32]
) -> NDArray[np.float32]:
    """The mean of each word's own row and those of its n-grams numbers[offsets[word] : offsets[word + 1]], [V, D]."""
    array = own.copy()
    for begin in range(0, len(own), BLOCK):
        first, last = offsets[begin], offsets[min(begin + BLOCK, len(own))]
        sizes = np.diff(offsets[begin : begin + BLOCK + 1])
        some = np.flatnonzero(sizes)
        if len(some):
            sums = np.add.reduceat(grams[numbers[first:last]], offsets[begin + some] - first)
            array[begin + some] += sums
        array[begin : begin + BLOCK] /= (1 + sizes)[:, None].astype(np.float32)
    return array


def progress_of(report: Report) -> Progress:
    """A report as what a bar shows."""
    note = f"loss {report.loss:.4f} nats/pair  rate {report.learning_rate:.5f}"
    done = report.step / max(1, report.steps)
    return Progress("train", report.total_words, done, note)
