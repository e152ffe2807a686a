"""Sentences in columns: a word a line, its labels beside it, a blank line after each sentence.

| format   | what it is                                                                              |
|----------|-----------------------------------------------------------------------------------------|
| `conll`  | CoNLL-2000, CoNLL-2003, WNUT and their kind: columns parted by tabs, or else by blanks  |
| `conllu` | CoNLL-U, ten named columns parted by tabs, comments, ranges `1-2`, empty nodes `8.1`    |

Which of them a file has, and what parts its columns, is found out from its first sentence. A sentence keeps
its lines as they stood, so that writing what was read gives the same bytes (without a byte order mark).

>>> sentence, = read_text("The\\tDT\\nend\\tNN\\n\\n")
>>> sentence.words, sentence.column(-1)
(('The', 'end'), ('DT', 'NN'))
>>> with_column(sentence, 1, ["X", "Y"])
'The\\tX\\nend\\tY\\n\\n'
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal, TypeAlias

from ostinato.core.errors import ConfigError, DataError, ShapeError
from ostinato.core.registry import unknown
from ostinato.text.numbered import Line, numbered_lines

Format: TypeAlias = Literal["conll", "conllu"]
Key: TypeAlias = int | str
"""A column: its number from 0, or from the end (-1 is the last), or in CoNLL-U its name, in any case."""

CONLLU = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
DOCUMENT = "-DOCSTART-"
"""The word of CoNLL-2003 that begins a document and belongs to no sentence."""

_WORD = re.compile(r"\d+")
_NOT_A_WORD = re.compile(r"\d+-\d+|\d+\.\d+")
_FIELD = re.compile(r"[^ ]+")


@dataclass(frozen=True)
class Layout:
    """How a file writes its columns: its format, how many there are, and what parts them ("" if there is one)."""

    format: Format
    width: int
    separator: str

    def fields(self, text: str) -> list[str]:
        """The fields of a line."""
        return _FIELD.findall(text) if self.separator == " " else text.split("\t") if self.separator else [text]

    def replaced(self, text: str, place: int, value: str) -> str:
        """The line with one field replaced; `place` may be one behind the last."""
        if place == self.width:
            return f"{text}{self.separator or chr(9)}{value}"
        if self.separator == " ":
            field = list(_FIELD.finditer(text))[place]
            return text[: field.start()] + value + text[field.end() :]
        fields = self.fields(text)
        fields[place] = value
        return "\t".join(fields)

    def place(self, key: Key) -> int:
        """The number from 0 of a column, or of the one to be added behind the last. Raises ConfigError."""
        if isinstance(key, str):
            if self.format != "conllu":
                raise ConfigError(f"columns of this file have no names, got {key!r}; give a number, -1 for the last")
            if key.upper() not in CONLLU:
                raise ConfigError(unknown("column of CoNLL-U", key, (name.lower() for name in CONLLU)))
            return CONLLU.index(key.upper())
        place = key + self.width if key < 0 else key
        if not 0 <= place <= self.width:
            raise ConfigError(f"column {key} of {self.width}; they are numbered 0 to {self.width - 1}, -1 is the last")
        return place

    def __str__(self) -> str:
        parted = {"\t": " parted by tabs", " ": " parted by blanks", "": ""}[self.separator]
        return f"{self.width} column{'s' if self.width > 1 else ''}{parted}"


@dataclass(frozen=True)
class Sentence:
    """A sentence of a file in columns.

    words: without CoNLL-U's ranges and empty nodes. columns: each as long as `words`, the words' own among them.
    lines: everything from the end of the sentence before to its own end: comments, blank lines, rows.
    rows: which of the lines each word stands on. name, number: the file, and the number of the first line.
    """

    words: tuple[str, ...]
    columns: tuple[tuple[str, ...], ...]
    lines: tuple[Line, ...]
    rows: tuple[int, ...]
    layout: Layout
    name: str

    def __len__(self) -> int:
        return len(self.words)

    @property
    def number(self) -> int:
        """The line of the first word."""
        return self.lines[self.rows[0] if self.rows else 0].number

    @property
    def text(self) -> str:
        """The sentence as it stood in the file, with its line ends."""
        return "".join(line.text + line.end for line in self.lines)

    @property
    def comments(self) -> tuple[str, ...]:
        """The comments before the words, as they stand."""
        if self.layout.format != "conllu":
            return ()
        return tuple(line.text for line in self.lines if line.text.startswith("#"))

    @property
    def new_document(self) -> bool:
        """Whether a document begins here."""
        if self.layout.format == "conllu":
            return any(re.match(r"#\s*newdoc\b", comment) for comment in self.comments)
        return any(_is_document(line.text) for line in self.lines)

    def column(self, key: Key) -> tuple[str, ...]:
        """The fields of one column. Raises ConfigError if the file has no such column."""
        place = self.layout.place(key)
        if place == self.layout.width:
            raise ConfigError(f"{self.name}: column {key} is wanted, but the file has {self.layout}")
        return self.columns[place]


def read_columns(path: str | Path, format: Format | None = None, rest: bool = False) -> Iterator[Sentence]:  # noqa: A002
    """Every sentence of a file, as soon as it has ended; `-` is standard input, `.gz` and `.zst` are unpacked.

    format: found out if left out. rest: lines that follow the last sentence come too, as a sentence without
    words, for one who writes the file again.
    Raises DataError, with file and line, for a row with more or fewer columns than the first, for CoNLL-U with
    numbers that do not count up, and for a text that cannot be read.
    """
    shown = "standard input" if str(path) == "-" else str(path)
    return _sentences(numbered_lines(path), shown, format, rest)


def read_text(text: str, format: Format | None = None, rest: bool = False, name: str = "text") -> Iterator[Sentence]:  # noqa: A002
    """Every sentence of a text in columns, as `read_columns`."""
    ends = [(line, "\n") for line in text.split("\n")]
    ends[-1] = (ends[-1][0], "")
    lines = [
        Line(number, line.removesuffix("\r"), "\r" + end if line.endswith("\r") else end)
        for number, (line, end) in enumerate(ends, 1)
        if line or end
    ]
    return _sentences(iter(lines), name, format, rest)


def with_column(sentence: Sentence, key: Key, values: Sequence[str]) -> str:
    """The sentence's text with the fields of one column replaced, and nothing else changed.

    The column may be a new one behind the last, except in CoNLL-U.
    Raises ShapeError unless there is a value for each word, and DataError for a value that is no field.
    """
    layout = sentence.layout
    place = layout.place(key)
    if place == layout.width and layout.format == "conllu":
        raise ConfigError(f"{sentence.name}: CoNLL-U has ten columns and takes no other; write into misc")
    if len(values) != len(sentence):
        raise ShapeError(f"{sentence.name}:{sentence.number}: {len(sentence)} words, but {len(values)} values")
    bad = next((value for value in values if not _is_field(value, layout)), None)
    if bad is not None:
        raise DataError(f"{sentence.name}: {bad!r} cannot stand in a column of {layout}")
    texts = [line.text for line in sentence.lines]
    for row, value in zip(sentence.rows, values, strict=True):
        texts[row] = layout.replaced(texts[row], place, value)
    return "".join(text + line.end for text, line in zip(texts, sentence.lines, strict=True))


def _is_field(value: str, layout: Layout) -> bool:
    if "\n" in value or "\r" in value or (not value and (layout.separator == " " or layout.format == "conllu")):
        return False
    return (" " if layout.separator == " " else "\t") not in value


def _sentences(lines: Iterator[Line], name: str, given: Format | None, rest: bool) -> Iterator[Sentence]:
    begin = list(_first_block(lines, given))
    layout = _found(begin, given)
    read = _read_conllu if layout.format == "conllu" else _read_conll
    block: list[Line] = []
    rows: list[int] = []
    for line in chain(begin, lines):
        ends = not line.text.strip(" \t")
        mark = layout.format == "conll" and _is_document(line.text)
        if rows and mark:  # no blank line before it
            yield read(block, rows, layout, name)
            block, rows = [], []
        if not (ends or mark or (layout.format == "conllu" and line.text.startswith("#"))):
            rows.append(len(block))
        block.append(line)
        if rows and ends:
            yield read(block, rows, layout, name)
            block, rows = [], []
    if rows or (rest and block):
        yield read(block, rows, layout, name)


def _is_document(text: str) -> bool:
    return text.startswith(DOCUMENT) and text[len(DOCUMENT) :][:1] in ("", " ", "\t")


def _first_block(lines: Iterator[Line], given: Format | None) -> Iterator[Line]:
    """The lines up to the end of the first sentence, at most: no more is needed to see how a file is written."""
    seen = False
    for line in lines:
        yield line
        blank = not line.text.strip(" \t")
        if given == "conllu" or (blank and seen):
            return
        seen = seen or not (blank or line.text.startswith("#") or _is_document(line.text))


def _found(begin: Iterable[Line], given: Format | None) -> Layout:
    """How a file is written, by its first sentence."""
    texts = [line.text for line in begin if line.text.strip(" \t") and not _is_document(line.text)]
    first = next((text for text in texts if not text.startswith("#")), "")
    number, _, _ = first.partition("\t")
    is_conllu = first.count("\t") == 9 and (_WORD.fullmatch(number) or _NOT_A_WORD.fullmatch(number))
    if given == "conllu" or (given is None and is_conllu):
        return Layout("conllu", len(CONLLU), "\t")
    layouts = [_layout(texts, "\t"), _layout(texts, " ")]
    sound = [layout for layout in layouts if layout.width > 1 and _agrees(layout, texts)]
    likely = [layout for layout in layouts if layout.width > 1]
    return next(iter(sound or likely), Layout("conll", 1, ""))


def _layout(texts: Sequence[str], separator: str) -> Layout:
    """How the first of the texts is written, if that is what parts its columns."""
    width = max((len(Layout("conll", 0, separator).fields(text)) for text in texts[:1]), default=1)
    return Layout("conll", width, separator)


def _agrees(layout: Layout, texts: Iterable[str]) -> bool:
    return all(len(layout.fields(text)) == layout.width for text in texts)


def _read_conll(block: Sequence[Line], rows: Sequence[int], layout: Layout, name: str) -> Sentence:
    fields = [layout.fields(block[row].text) for row in rows]
    for row, found in zip(rows, fields, strict=True):
        if len(found) != layout.width:
            raise DataError(
                f"{name}:{block[row].number}: {len(found)} column{'s' if len(found) > 1 else ''}, but the file has "
                f"{layout} (found in its first sentence); mend the line, or set a blank line between sentences"
            )
    columns = tuple(zip(*fields, strict=True)) or ((),) * layout.width
    return Sentence(columns[0], columns, tuple(block), tuple(rows), layout, name)


def _read_conllu(block: Sequence[Line], rows: Sequence[int], layout: Layout, name: str) -> Sentence:
    places: list[int] = []
    fields: list[list[str]] = []
    for row in rows:
        found = block[row].text.split("\t")
        where = f"{name}:{block[row].number}"
        if len(found) != len(CONLLU):
            raise DataError(f"{where}: {len(found)} columns parted by tabs, but CoNLL-U has ten; is it another format?")
        if _NOT_A_WORD.fullmatch(found[0]):
            continue
        if found[0] != str(len(places) + 1):
            raise DataError(
                f"{where}: word number {found[0]!r} where {len(places) + 1} is due; words count from 1 and a blank "
                "line ends a sentence"
            )
        places.append(row)
        fields.append(found)
    columns = tuple(zip(*fields, strict=True)) or ((),) * len(CONLLU)
    return Sentence(columns[1], columns, tuple(block), tuple(places), layout, name)
