"""Sentences with a label each, in the forms such files come in, and the same lines with another label.

| form       | a line                            | where its parts stand                                         |
|------------|-----------------------------------|---------------------------------------------------------------|
| `tsv`      | `good<TAB>a fine film`            | columns by number from 0 (-1 is the last), or name of a header |
| `jsonl`    | `{"text": "...", "label": "..."}` | keys, `text` and `label` unless named                          |
| `fasttext` | `__label__good a fine film`       | one label; a line with several is refused                     |
| `first`    | `good a fine film`                | the label ends at the first blank (SST; TREC's `DESC:manner`)  |
| `plain`    | `a fine film`                     | no label: what is to be predicted                              |

`found_form` says which of them a file is in. A tab-separated file is taken as it stands: quotes are letters.

>>> form = Form("first", coarse=True)
>>> example = form.example("DESC:manner How did it end ?")
>>> example.label, example.text
('DESC', 'How did it end ?')
>>> example.with_label("HUM")
'HUM How did it end ?'
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ostinato.core.errors import ConfigError, DataError
from ostinato.text.numbered import Line, numbered_lines
from ostinato.text.read import STDIN

Kind: TypeAlias = Literal["tsv", "jsonl", "fasttext", "first", "plain"]
Column: TypeAlias = int | str

MARK = "__label__"
LOOKED_AT = 1000
"""Lines from which the form of a file is found out."""

NEARLY = 0.8
"""Share of them that must have a form; the rest is taken for damage."""

_LABELS = ("label", "class", "category", "target", "sentiment", "intent")
_TEXTS = ("text", "sentence", "question", "review", "utterance", "content")


@dataclass(frozen=True)
class Example:
    """A sentence, its label (None if it has none), and the line it stood on, without its line end."""

    text: str
    label: str | None
    line: str
    number: int
    form: Form

    def with_label(self, label: str) -> str:
        """The line with that label in place of its own, or added; for `plain` the label alone.

        In JSON Lines a number stays a number; blanks between keys may change.
        """
        return self.form.written(self, label)


@dataclass(frozen=True)
class Form:
    """How a file writes sentences with labels.

    label, text: a column of `tsv` or key of `jsonl`, else without meaning. header: the names of the columns, if
    the first line has them. coarse: of a label like `DESC:manner` only the part before the colon.
    """

    kind: Kind
    label: Column = 0
    text: Column = -1
    header: tuple[str, ...] = ()
    coarse: bool = False

    def example(self, line: str, number: int = 1, name: str = "text", labelled: bool = True) -> Example:
        """What a line says. Raises DataError if it is not in this form, or has no label but must."""
        where = f"{name}:{number}"
        text, label = _PARTS[self.kind](self, line, where)
        if not label:
            label = None
        if label is None and labelled:
            raise DataError(f"{where}: no label; expected {self}")
        if label is not None and self.coarse:
            label = label.partition(":")[0]
        return Example(text, label, line, number, self)

    def place(self, column: Column) -> int:
        """The number of a column of `tsv`. Raises ConfigError for a name that the header does not have."""
        if isinstance(column, int):
            return column
        if column not in self.header:
            known = f"the header has {', '.join(self.header)}" if self.header else "the file has no header"
            raise ConfigError(f"no column {column!r}; {known}; give a number from 0 or a name of the header")
        return self.header.index(column)

    def written(self, example: Example, label: str) -> str:
        """The line of an example of this form with that label. Raises DataError for a label that has no place in it."""
        self._check(label)
        if self.kind == "jsonl":
            return _json_with(example.line, str(self.label), label)
        if self.kind == "tsv":
            return self._row_with(example.line, label)
        if self.kind == "plain":
            return label
        mark = MARK if self.kind == "fasttext" else ""
        return f"{mark}{label} {example.text}"

    def _row_with(self, line: str, label: str) -> str:
        fields, place = line.split("\t"), self.place(self.label)
        if len(fields) == 1:  # a text without a label
            return "\t".join([label, line] if place == 0 else [line, label])
        fields[place] = label
        return "\t".join(fields)

    def _check(self, label: str) -> None:
        bad = "\n\r" + {"tsv": "\t", "fasttext": " \t", "first": " \t"}.get(self.kind, "")
        if self.kind != "jsonl" and (not label or any(letter in label for letter in bad)):
            raise DataError(f"the label {label!r} cannot be written as {self}; use JSON Lines, or rename it")

    def __str__(self) -> str:
        if self.kind == "tsv":
            return f"columns parted by tabs, the label in column {self.label}, the text in column {self.text}"
        if self.kind == "jsonl":
            return f"an object with the keys {self.text!r} and {self.label!r}"
        return {"fasttext": f"{MARK}LABEL TEXT", "first": "LABEL TEXT", "plain": "TEXT"}[self.kind]


class LabelledReader:
    """The examples of a file in the order they stand; `-` is standard input, `.gz` and `.zst` are unpacked.

    labelled: every line must have a label. Lines of nothing but white space are left out, except in `plain`, where
    each line is to be answered. A header is left out too; `header` is that line, once it has been read.
    Raises DataError, with file and line, for a line that is not in this form.
    """

    def __init__(self, path: str | Path, form: Form, labelled: bool = True):
        self.path, self.form = str(path), form
        self.labelled = labelled and form.kind != "plain"
        self.header: str | None = None

    def __iter__(self) -> Iterator[Example]:
        name = "standard input" if self.path == STDIN else self.path
        for line in numbered_lines(self.path):
            if line.number == 1 and self.form.header and tuple(line.text.split("\t")) == self.form.header:
                self.header = line.text
            elif self.form.kind == "plain" or line.text.strip():
                yield self.form.example(line.text, line.number, name, self.labelled)


def found_form(
    path: str | Path,
    kind: Kind | None = None,
    label: Column | None = None,
    text: Column | None = None,
    coarse: bool = False,
) -> Form:
    """The form of a labelled file: what is given, and the rest found out from its first thousand lines.

    Columns and keys are those with a usual name (`label`, `class`, ...; `text`, `sentence`, ...). In a tab-separated
    file of two columns without a header, the label is the one without blanks, or else with fewer different values.
    Raises ConfigError for standard input, where kind and columns must be given, and for columns that cannot be told
    apart, DataError if the file has no lines.
    """
    if str(path) == STDIN:
        raise ConfigError("the form of standard input cannot be found out; save it to a file and name that")
    lines = [line for line in islice(numbered_lines(path), LOOKED_AT) if line.text.strip()]
    if not lines:
        raise DataError(f"{path}: no lines; give a file with a sentence and its label on each")
    kind = kind or _kind([line.text for line in lines])
    if kind == "jsonl":
        label, text = _keys(lines[0], str(path), label, text)
        return Form(kind, label, text, coarse=coarse)
    if kind == "tsv":
        rows = [line.text.split("\t") for line in lines if "\t" in line.text]
        header = _header(rows[0], label, text)
        label, text = _columns(rows, header, str(path), label, text)
        return Form(kind, label, text, header, coarse)
    if label is not None or text is not None:
        raise ConfigError(
            f"{path}: columns were named, but lines are {Form(kind)}; leave them out, or name the form tsv"
        )
    return Form(kind, coarse=coarse)


def found_input(path: str | Path, form: Form, labels: Container[str]) -> Form:
    """The form of what a model of `labels` is to answer: `form`, or `plain` if its lines have no such labels.

    Only in the form `first` must that be found out: by the first thousand lines, and standard input is plain.
    """
    if form.kind != "first":
        return form
    lines = [] if str(path) == STDIN else [line.text for line in islice(numbered_lines(path), LOOKED_AT)]
    examples = [form.example(line) for line in lines if line.strip()]
    return form if examples and all(example.label in labels for example in examples) else Form("plain")


def _kind(lines: Sequence[str]) -> Kind:
    """The form that nearly all lines have: the others are faulty, and are refused when they are read."""
    signs: dict[Kind, Callable[[str], bool]] = {
        "jsonl": lambda line: line.lstrip().startswith("{") and line.rstrip().endswith("}"),
        "fasttext": lambda line: line.lstrip().startswith(MARK),
        "tsv": lambda line: "\t" in line,
    }
    for kind, fits in signs.items():
        if sum(map(fits, lines)) >= NEARLY * len(lines):
            return kind
    return "first"


def _keys(line: Line, name: str, label: Column | None, text: Column | None) -> tuple[Column, Column]:
    """The keys of label and text: what is given, or the usual ones that the first object has."""
    found = _object(line.text, f"{name}:{line.number}")
    label = next((key for key in _LABELS if key in found), None) if label is None else label
    text = next((key for key in _TEXTS if key in found), None) if text is None else text
    if text is None or label is None:
        what = "text" if text is None else "label"
        raise ConfigError(f"{name}:{line.number}: which key is the {what} is not clear; name one of {', '.join(found)}")
    return label, text


def _header(row: Sequence[str], *given: Column | None) -> tuple[str, ...]:
    """The first row if it names columns: those that are given by name, or else a usual one of a label or text."""
    names = {column for column in given if isinstance(column, str)}
    distinct = len(set(row)) == len(row) > 1
    is_header = names <= set(row) if names else distinct and bool({*_LABELS, *_TEXTS}.intersection(row))
    return tuple(row) if is_header else ()


def _columns(
    rows: Sequence[Sequence[str]], header: tuple[str, ...], name: str, label: Column | None, text: Column | None
) -> tuple[Column, Column]:
    """The columns of label and text: what is given, what the header says, or what they look like."""
    label = next((key for key in _LABELS if key in header), None) if label is None else label
    text = next((key for key in _TEXTS if key in header), None) if text is None else text
    if {len(row) for row in rows} == {2}:
        if label is None and text is None:
            label = _label_place(rows)
        place = Form("tsv", header=header).place
        if text is None and label is not None:
            text = 1 - place(label) % 2
        if label is None and text is not None:
            label = 1 - place(text) % 2
    if label is None or text is None:
        raise ConfigError(
            f"{name}: which of its {len(rows[0])} columns is the {'label' if label is None else 'text'} is not clear; "
            "name the columns of label and text by number, the first is 0"
        )
    form = Form("tsv", label, text, header)
    if (form.place(label) - form.place(text)) % len(rows[0]) == 0:
        raise ConfigError(f"{name}: column {label} is named for label and text; name two columns")
    return label, text


def _label_place(rows: Sequence[Sequence[str]]) -> int | None:
    """Which of two columns is the label, if that is clear."""
    values = [{row[place].strip() for row in rows} for place in (0, 1)]
    single = [not any(" " in value for value in found) for found in values]
    if single[0] != single[1]:
        return single.index(True)
    if len(values[0]) != len(values[1]):
        return 0 if len(values[0]) < len(values[1]) else 1
    return None


def _tsv(form: Form, line: str, where: str) -> tuple[str, str | None]:
    fields = line.split("\t")
    if len(fields) == 1:
        return line.strip(), None
    places = [form.place(column) for column in (form.text, form.label)]
    try:
        text, label = (fields[place].strip() for place in places)
    except IndexError:
        raise DataError(f"{where}: {len(fields)} columns, but expected {form}") from None
    return text, label


def _jsonl(form: Form, line: str, where: str) -> tuple[str, str | None]:
    found = _object(line, where)
    text, label = found.get(str(form.text)), found.get(str(form.label))
    if not isinstance(text, str):
        raise DataError(f"{where}: no text under the key {form.text!r}; the object has {', '.join(found) or 'no keys'}")
    if isinstance(label, (list, dict)):
        raise DataError(
            f"{where}: the label is {json.dumps(label)[:60]}, but a sentence has one label; keep one a line"
        )
    return text, label if label is None or isinstance(label, str) else json.dumps(label)


def _fasttext(form: Form, line: str, where: str) -> tuple[str, str | None]:
    words = line.split()
    labels = [word for word in words if word.startswith(MARK)]
    if len(labels) > 1:
        raise DataError(f"{where}: {len(labels)} labels ({' '.join(labels)}), but a sentence has one; keep one a line")
    if not labels:
        return line.strip(), None
    label = labels[0]
    before, _, after = line.partition(label)
    return f"{before.strip()} {after.strip()}".strip(), label.removeprefix(MARK)


def _first(form: Form, line: str, where: str) -> tuple[str, str | None]:
    label, *rest = line.split(maxsplit=1)
    return (rest[0].rstrip() if rest else ""), label


def _plain(form: Form, line: str, where: str) -> tuple[str, str | None]:
    return line.strip(), None


_PARTS = {"tsv": _tsv, "jsonl": _jsonl, "fasttext": _fasttext, "first": _first, "plain": _plain}


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError as fault:
        raise DataError(f"{where}: not JSON ({fault}); JSON Lines has one object a line") from None
    if not isinstance(found, dict):
        raise DataError(f"{where}: a JSON {type(found).__name__}, not an object with a text and a label")
    return found


def _json_with(line: str, key: str, label: str) -> str:
    found = json.loads(line)
    value: Any = label
    if not isinstance(found.get(key, ""), str):  # a number, true or null
        try:
            value = json.loads(label)
        except ValueError:
            value = label
    return json.dumps(found | {key: value if type(value) is type(found.get(key)) else label}, ensure_ascii=False)
