"""Files of sentences as words with labels, and the same files with other labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ostinato.core.errors import ConfigError, DataError
from ostinato.core.progress import Progress, Watch
from ostinato.tasks.tagging.options import DataOptions
from ostinato.text.columns import CONLLU, Key, Layout, Sentence, read_columns, with_column
from ostinato.text.numbered import numbered_lines
from ostinato.text.read import STDIN, check_readable
from ostinato.text.segmented import characters_of, read_segmented
from ostinato.text.sources import name_of

Form: TypeAlias = Literal["conll", "conllu", "segmented"]
Unit: TypeAlias = Literal["word", "character"]


@dataclass(frozen=True)
class Tagged:
    """The words of a sentence (or the characters of a text without blanks), a label for each, and where it stood.

    auxiliary: the labels in each auxiliary column, where those were asked for.
    """

    words: tuple[str, ...]
    labels: tuple[str, ...]
    where: str
    auxiliary: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class Source:
    """How files are written. column: where labels are, None for text that is only cut into words.

    width: the columns of the training file; separator: what parts them.
    """

    form: Form
    unit: Unit
    column: Key | None
    width: int
    separator: str

    @property
    def labelled(self) -> bool:
        """Whether words have labels."""
        return self.column is not None

    def tagged(self, sentence: Sentence, where: str, auxiliary: Sequence[Key] = ()) -> Tagged:
        """A sentence of columns. Raises ConfigError if it has no such column."""
        labels = () if self.column is None else sentence.column(self.column)
        if self.unit == "word":
            return Tagged(sentence.words, labels, where, tuple(sentence.column(key) for key in auxiliary))
        return characters(sentence.words, labels, where)

    def with_labels(self, sentence: Sentence, labels: Sequence[str]) -> str:
        """The lines of a sentence with these labels in their column, or in a new one behind the last."""
        assert self.column is not None
        layout, column = sentence.layout, self.column
        if isinstance(column, int):
            column = min(column, layout.width)
        elif layout.format != "conllu":
            column = layout.width
        return with_column(sentence, column, labels)


def characters(words: Sequence[str], labels: Sequence[str], where: str) -> Tagged:
    """The characters of all words, labelled with where a word begins and ends."""
    letters, tags = characters_of(words, labels)
    return Tagged(tuple(letters), tuple(tags), where)


def found_source(path: str, options: DataOptions) -> Source:
    """How a training file is written: what the options say, and the rest found out. Raises ConfigError, DataError."""
    if path == STDIN:
        raise ConfigError("training reads its files more than once; save standard input to a file and name that")
    form = options.form
    if form is None and options.unit == "character" and options.column is None and not _has_tabs(path):
        form = "segmented"
    if form == "segmented":
        return Source(form, "character", None, 1, " ")
    first = next(read_columns(path, form), None)
    if first is None:
        raise DataError(f"{path}: no sentences; give a file with a word and its label on each line")
    layout = first.layout
    column = _column(options, layout, path)
    return Source(layout.format, options.unit, column, layout.width, layout.separator)


def _has_tabs(path: str) -> bool:
    """Whether the first line that is no comment has a tab."""
    lines = (line.text for line in numbered_lines(path))
    return "\t" in next((line for line in lines if line.strip() and not line.startswith("#")), "")


def _column(options: DataOptions, layout: Layout, path: str) -> Key | None:
    """Where labels are; a number counts from 0, whatever was given."""
    given = options.column
    if given is None:
        if options.unit == "character":
            return None
        return "upos" if layout.format == "conllu" else _place(layout, -1, path)
    return _key(given, layout, path)


def auxiliary_columns(path: str, source: Source, options: DataOptions) -> tuple[Key, ...]:
    """The auxiliary columns of a training file. Raises ConfigError for one that it lacks or that is the labels'."""
    if not options.further:
        return ()
    assert source.form != "segmented"
    layout = next(read_columns(path, source.form)).layout
    found = {given: _key(given, layout, path) for given in options.further}
    for given, key in found.items():
        if source.column is not None and layout.place(key) == layout.place(source.column):
            raise ConfigError(f"data.auxiliary {given} is the column of the labels; name others, or leave it out")
    return tuple(found.values())


def _key(given: str, layout: Layout, path: str) -> Key:
    """A column as options give it: a number from 0 (-1 is the last), or a name of CoNLL-U."""
    if given.removeprefix("-").isdecimal():
        place = _place(layout, int(given), path)
        return CONLLU[place].lower() if layout.format == "conllu" else place
    layout.place(given)
    return given.lower()


def _place(layout: Layout, number: int, path: str) -> int:
    place = layout.place(number)
    words = 1 if layout.format == "conllu" else 0
    if place in (words, layout.width):
        raise ConfigError(
            f"{path}: column {number} holds the words themselves, or is behind the last; the file has {layout}: name "
            "the column of the labels with data.column"
        )
    return place


def read_tagged(source: Source, paths: Sequence[str], watch: Watch, auxiliary: Sequence[Key] = ()) -> list[Tagged]:
    """All sentences of these files. Raises DataError, with file and line, or if there is none."""
    check_readable(paths)
    found: list[Tagged] = []
    for path in paths:
        for sentence in _read(source, path, auxiliary):
            found.append(sentence)
            if len(found) % 1000 == 0:
                watch(Progress("read", len(found)))
    if not found:
        raise DataError(f"{name_of(paths)}: no sentences; give a file with a word and its label on each line")
    return found


def _read(source: Source, path: str, auxiliary: Sequence[Key]) -> Iterator[Tagged]:
    name = name_of([path])
    if source.form == "segmented":
        for number, words in enumerate(read_segmented(path, empty_lines=True), 1):
            if words:
                yield characters(words, (), f"{name}:{number}")
        return
    for sentence in read_columns(path, source.form):
        tagged = source.tagged(sentence, f"{name}:{sentence.number}", auxiliary)
        if tagged.words:
            yield tagged
