"""Model files: an n-gram model with its vocabulary and its way to cut text, in one file that opens in milliseconds.

An array file (core/arrays.py): nothing is read before it is used, and processes that open it share its memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ostinato.core.arrays import ArrayFile, intact, new_array_file, open_arrays
from ostinato.core.errors import FormatError
from ostinato.core.vocabulary import Vocabulary, pieces_in, spelled
from ostinato.ngram.blocks import Sink
from ostinato.ngram.compact import CompactTable
from ostinato.ngram.compact_model import CompactModel
from ostinato.ngram.counts import Counts
from ostinato.ngram.merge import from_arrays, to_arrays
from ostinato.ngram.model import NGramModel
from ostinato.ngram.table import BackoffTable
from ostinato.text.pipeline import Pipeline
from ostinato.text.scan import Encoder

Model: TypeAlias = NGramModel | CompactModel

CHECKED = 1 << 24
"""Bytes up to which a file is checked whole when it is opened; it takes a few milliseconds."""

PIECES, WORDS = "vocabulary", "vocabulary."
"""The array of the pieces, and what comes before the names of those that text is looked up in."""
TEXT = "vocabulary_text"
"""The array of the pipeline, where that says more than a header holds."""

COUNTS = "ngram-counts"
"""The kind of a file of counts, which is no model."""

OWN = ("format", "digest", "kind", "table", "vocabulary", "words", "text")
"""What every header says; the rest is what a label has besides."""

MANY = 1 << 15
"""Pieces from which on such a table is kept: making one takes time, and loading the compiler that makes it."""


@dataclass(frozen=True)
class Stored:
    """A model from a file; about: what the file says of itself; words: the arrays of its encoder, if there."""

    model: Model
    pipeline: Pipeline
    about: Mapping[str, Any]
    words: Mapping[str, NDArray[Any]]

    def encoder(self) -> Encoder:
        """What cuts text at white space and gives it ids."""
        return Encoder.from_arrays(self.words) if self.words else Encoder(self.model.vocabulary)


@dataclass(frozen=True)
class Label:
    """What stands in a model file besides the table: vocabulary, pipeline, and anything else worth telling."""

    vocabulary: Vocabulary
    pipeline: Pipeline
    more: Mapping[str, Any]

    def about(self, kind: str, table: Mapping[str, Any]) -> dict[str, Any]:
        """The header of the file."""
        return {
            **self.more,
            "kind": kind,
            "table": dict(table),
            "vocabulary": self.vocabulary.fingerprint,
            "words": self.vocabulary.outputs - 2,
            "text": {name: value for name, value in self.pipeline.to_json().items() if name != "stored"},
        }

    def add_text(self, file: ArrayFile) -> None:
        """Add the pipeline as an array if trained normalisers are in it."""
        if self.pipeline.normaliser.stored:
            content = json.dumps(self.pipeline.to_json(), ensure_ascii=False)
            file.add(TEXT, np.frombuffer(content.encode("utf8", "surrogatepass"), np.uint8))


def pipeline_in(arrays: Mapping[str, NDArray[Any]], about: Mapping[str, Any]) -> Pipeline:
    """The pipeline of a file."""
    if TEXT in arrays:
        return Pipeline.from_json(json.loads(bytes(arrays[TEXT]).decode("utf8", "surrogatepass")))
    return Pipeline.from_json(about["text"])


def save_model(path: Path, model: Model, pipeline: Pipeline, **more: Any) -> None:
    """Write a model file, atomically. Raises StorageError."""
    label = Label(model.vocabulary, pipeline, more)
    kind = "ngram" if isinstance(model, NGramModel) else "ngram-compact"
    with new_array_file(path) as file:
        add_vocabulary(file, model.vocabulary)
        label.add_text(file)
        for name, array in model.table.arrays().items():
            file.add(name, array)
        file.finish(label.about(kind, model.table.metadata()), CHECKED)


@contextmanager
def new_model(path: Path, rows: int) -> Iterator[tuple[ArrayFile, Sink]]:
    """A model file whose table is written into it row by row; `finish_model` it inside. Raises StorageError."""
    with new_array_file(path) as file:
        place = file.reserve("rows", "<i4", (3 * rows,))
        yield file, lambda first, chunk: file.write(place + 12 * first, chunk)


def finish_model(
    file: ArrayFile, label: Label, table: Mapping[str, Any], words: Mapping[str, NDArray[Any]] | None = None
) -> None:
    """Write what is left of a `new_model`; table: the metadata of its rows; words: `word_arrays`, if at hand."""
    add_vocabulary(file, label.vocabulary, words)
    label.add_text(file)
    file.finish(label.about("ngram", table), CHECKED)


def add_vocabulary(file: ArrayFile, vocabulary: Vocabulary, words: Mapping[str, NDArray[Any]] | None = None) -> None:
    """Add the arrays of a vocabulary."""
    for name, array in (words or word_arrays(vocabulary)).items():
        file.add(name, array)


def word_arrays(vocabulary: Vocabulary) -> dict[str, NDArray[Any]]:
    """The pieces of a vocabulary, and if they are many the table in which text is looked up."""
    found = {PIECES: spelled(vocabulary)}
    if vocabulary.outputs >= MANY:
        found |= {WORDS + name: array for name, array in Encoder(vocabulary).arrays().items()}
    return found


def open_model(path: Path, check: bool | None = None) -> Stored:
    """The model in a file, memory-mapped.

    check: whether to read and check all of it first; None does so for small files. A file that was not checked
    and is damaged may give any numbers, or end the process.
    Raises FormatError if the file is missing, cut short, damaged, newer or something else.
    """
    arrays, about = open_arrays(path)
    size = sum(array.nbytes for array in arrays.values())
    try:
        if about["kind"] == "stream":
            raise FormatError("holds an exported network, which has no n-grams to work on")
        vocabulary = Vocabulary.later(int(about["words"]), str(about["vocabulary"]), lambda: pieces_in(arrays[PIECES]))
        kind, described = about["kind"], about["table"]
        if kind == COUNTS:
            raise FormatError("holds counts, not a model; `ostinato ngram estimate` makes a model from them")
        thorough = size <= CHECKED if check is None else check
        if thorough and not intact(arrays, about):
            raise FormatError("the contents were changed after saving; restore the file or train again")
        table_arrays = {name: array for name, array in arrays.items() if not name.startswith(PIECES)}
        model: Model
        if kind == "ngram":
            model = NGramModel(BackoffTable.from_arrays(table_arrays, described, thorough), vocabulary)
        elif kind == "ngram-compact":
            model = CompactModel(CompactTable.from_arrays(table_arrays, described, thorough), vocabulary)
        else:
            raise FormatError(f"holds a model of unknown kind {kind!r}; upgrade Ostinato")
        if thorough:
            assert len(vocabulary.pieces) == len(vocabulary)
        pipeline = pipeline_in(arrays, about)
        words = {name.removeprefix(WORDS): array for name, array in arrays.items() if name.startswith(WORDS)}
        return Stored(model, pipeline, about, words)
    except FormatError as fault:
        raise FormatError(f"{path}: {fault}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as fault:
        raise FormatError(f"{path}: not a model of ours ({fault!r}); restore it or train again") from None


def is_model_file(path: Path) -> bool:
    """Whether a file looks like one of ours."""
    try:
        with path.open("rb") as file:
            head = file.read(64)
    except OSError:
        return False
    return len(head) > 9 and int.from_bytes(head[:8], "little") < 1 << 30 and head[8:9] == b"{" and b"metadata" in head


def save_counts(path: Path, counts: Counts, label: Label) -> None:
    """Write a file of counts, atomically. Raises StorageError."""
    arrays, described = to_arrays(counts)
    with new_array_file(path) as file:
        file.add(PIECES, spelled(label.vocabulary))
        label.add_text(file)
        for name, array in arrays.items():
            file.add(name, array)
        file.finish(label.about(COUNTS, described), CHECKED)


def open_counts(path: Path) -> tuple[Counts, Label]:
    """The counts in a file, read and checked, and what else stands there.

    Raises FormatError if the file is missing, cut short, damaged, newer or something else.
    """
    arrays, about = open_arrays(path)
    try:
        if about["kind"] != COUNTS:
            raise FormatError(f"holds a model ({about['kind']}), not counts; `ostinato ngram count` makes those")
        if not intact(arrays, about):
            raise FormatError("the contents were changed after saving; restore the file or count again")
        vocabulary = Vocabulary.later(int(about["words"]), str(about["vocabulary"]), lambda: pieces_in(arrays[PIECES]))
        counts = from_arrays({name: np.array(array) for name, array in arrays.items()}, about["table"])
        if counts.outputs != len(vocabulary.pieces) - 2:
            raise FormatError(f"counts of {counts.outputs} words with a vocabulary of {vocabulary.outputs}")
        pipeline = pipeline_in(arrays, about)
    except FormatError as fault:
        raise FormatError(f"{path}: {fault}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as fault:
        raise FormatError(f"{path}: not counts of ours ({fault!r}); restore the file or count again") from None
    more = {name: value for name, value in about.items() if name not in OWN}
    return counts, Label(vocabulary, pipeline, more)


def is_counts_file(path: Path) -> bool:
    """Whether a file is one of ours that holds counts."""
    try:
        return is_model_file(path) and open_arrays(path)[1].get("kind") == COUNTS
    except FormatError:
        return False
