"""What is to be answered, and answers in the form of it: columns for columns, words parted by blanks for plain text."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import ConfigError, DataError
from ostinato.tasks.tagging.answers import Answer
from ostinato.tasks.tagging.data import Labels
from ostinato.tasks.tagging.reading import Source
from ostinato.tasks.tagging.report import cut
from ostinato.tasks.task import PredictOptions
from ostinato.text.columns import Sentence, read_columns, with_column
from ostinato.text.numbered import numbered_lines
from ostinato.text.read import STDIN
from ostinato.text.schemes import spans

LEAST = 0.001
"""Probability below which a label is not shown in columns."""


class Item(Protocol):
    """Something to be answered."""

    @property
    def words(self) -> Sequence[str]:
        """What the network reads; there may be none."""

    def columns(self, answer: Answer, labels: Labels, options: PredictOptions) -> str:
        """The answer in the form of what was read, without its last line end."""

    def told(self, answer: Answer, labels: Labels, options: PredictOptions) -> dict[str, Any] | None:
        """The answer as plain values, if there is one."""


def items(source: Source, path: str) -> Iterator[Item]:
    """Everything in a file (`-` is standard input), in its order. Raises DataError with file and line, ConfigError."""
    if source.unit == "word":
        for sentence in read_columns(path, rest=True):
            _check(source, sentence)
            yield Columns(source, sentence)
        return
    name = "standard input" if path == STDIN else path
    for line in numbered_lines(path):
        if "\t" in line.text:
            raise DataError(
                f"{name}:{line.number}: a tab, but this run cuts plain text into words, a sentence a line; "
                "to be judged on a file in columns, give it to `ostinato evaluate`"
            )
        yield Plain(source, line.text)


def _check(source: Source, sentence: Sentence) -> None:
    layout = sentence.layout
    if layout.separator == " " and source.separator != " ":
        raise DataError(
            f"{sentence.name}:{sentence.number}: words parted by blanks, but this run reads columns, a word a line and "
            "a blank line after each sentence; break the lines (tr ' ' '\\n'), or answer plain text with --online"
        )
    if layout.format == "conllu" and not isinstance(source.column, str):
        raise ConfigError(
            f"{sentence.name}: CoNLL-U, but the run has learnt labels of column {source.column} of files in columns, "
            "which have no place here; give the words alone, a word a line"
        )


@dataclass(frozen=True)
class Columns:
    """A sentence of a file in columns."""

    source: Source
    sentence: Sentence

    @property
    def words(self) -> Sequence[str]:
        """The words."""
        return self.sentence.words

    def columns(self, answer: Answer, labels: Labels, options: PredictOptions) -> str:
        """The lines with the labels in their column; scores and probabilities in more columns, in CoNLL-U in MISC."""
        if not self.words:
            return self.sentence.text.removesuffix("\n")
        text = self.source.with_labels(self.sentence, labels.answers(answer.labels.tolist()))
        more = {"LogProb": scores(answer)} if options.scores else {}
        more |= {"Labels": shown(answer, labels)} if options.align else {}
        for name, values in more.items():
            text = _with_values(self.sentence, text, name, values)
        return text.removesuffix("\n")

    def told(self, answer: Answer, labels: Labels, options: PredictOptions) -> dict[str, Any] | None:
        """Words, labels and, if they are written as spans, the spans; nothing for lines without words."""
        if not self.words:
            return None
        found = labels.answers(answer.labels.tolist())
        content: dict[str, Any] = {"words": self.words, "labels": found, "log_prob": round(answer.log_prob, 6)}
        if labels.scheme != "none":
            content["spans"] = [
                {"label": span.label, "start": span.start, "end": span.end, "words": self.words[span.start : span.end]}
                for span in spans(found, labels.scheme)
            ]
        if options.nbest > 1:
            ways = [(labels.answers(way.tolist()), score) for way, score in answer.others]
            content["nbest"] = [{"labels": way, "log_prob": round(score, 6)} for way, score in ways]
        return content | more_told(answer, labels, options)


def _with_values(before: Sentence, text: str, name: str, values: Sequence[str]) -> str:
    """The lines of a sentence with one more value for each word."""
    lines = text.split("\n")
    given = [line._replace(text=new.removesuffix("\r")) for line, new in zip(before.lines, lines, strict=False)]
    layout, width = before.layout, len(before.layout.fields(given[before.rows[0]].text))
    separator = layout.separator or "\t"
    now = dataclasses.replace(layout, width=width, separator=separator)
    fields = [now.fields(given[row].text) for row in before.rows]
    columns = tuple(zip(*fields, strict=True))
    sentence = dataclasses.replace(before, lines=tuple(given), layout=now, columns=columns)
    if layout.format != "conllu":
        return with_column(sentence, width, values)
    misc = sentence.column("misc")
    marked = [f"{name}={value}" for value in values]
    return with_column(
        sentence, "misc", [m if old == "_" else f"{old}|{m}" for old, m in zip(misc, marked, strict=True)]
    )


@dataclass(frozen=True)
class Plain:
    """A line of text that is to be cut into words; its blanks are where words end already."""

    source: Source
    line: str

    @property
    def words(self) -> Sequence[str]:
        """The characters that are not white space."""
        return "".join(self.line.split())

    def columns(self, answer: Answer, labels: Labels, options: PredictOptions) -> str:
        """The words parted by blanks, with their labels behind a low line; score and probabilities after tabs."""
        parts = [" ".join(f"{word}_{label}" if label else word for word, label in self._cut(answer.labels, labels))]
        if options.scores:
            parts.append(f"{answer.log_prob:.4f}")
        if options.align:
            looked = zip(self.words, shown(answer, labels), strict=True)
            parts.append(" ".join(f"{character}={values}" for character, values in looked))
        return "\t".join(parts)

    def told(self, answer: Answer, labels: Labels, options: PredictOptions) -> dict[str, Any]:
        """The words, and their labels if they have any."""
        content = {"text": self.line, **self._told(answer.labels, labels), "log_prob": round(answer.log_prob, 6)}
        if options.nbest > 1:
            content["nbest"] = [
                {**self._told(way, labels), "log_prob": round(score, 6)} for way, score in answer.others
            ]
        return content | more_told(answer, labels, options)

    def _told(self, numbers: NDArray[np.int64], labels: Labels) -> dict[str, Any]:
        found = self._cut(numbers, labels)
        named = {"labels": [label for _, label in found]} if self.source.labelled else {}
        return {"words": [word for word, _ in found], **named}

    def _cut(self, numbers: NDArray[np.int64], labels: Labels) -> list[tuple[str, str]]:
        """Words with their labels, each run between blanks by itself."""
        names, at = labels.answers(numbers.tolist()), 0
        found: list[tuple[str, str]] = []
        for run in self.line.split():
            found += zip(*cut(run, names[at : at + len(run)]), strict=True)
            at += len(run)
        return found


def scores(answer: Answer) -> list[str]:
    """The log-prob (nats) of each word's label."""
    assert answer.probabilities is not None
    chosen = np.take_along_axis(answer.probabilities, answer.labels[:, None], axis=1)[:, 0]
    return [f"{value:.4f}" for value in np.log(np.maximum(chosen, np.finfo(np.float32).tiny))]


def shown(answer: Answer, labels: Labels) -> list[str]:
    """The labels of each word as they were learnt, and their probabilities, likeliest first: `NOUN:0.93,VERB:0.06`."""
    assert answer.probabilities is not None
    found = []
    for row in answer.probabilities:
        order = [place for place in np.argsort(-row, kind="stable").tolist() if row[place] >= LEAST]
        found.append(",".join(f"{labels.names[place]}:{row[place]:.3f}" for place in order))
    return found


def more_told(answer: Answer, labels: Labels, options: PredictOptions) -> dict[str, Any]:
    """Scores and probabilities as plain values."""
    content: dict[str, Any] = {}
    if options.scores:
        content["log_probs"] = [float(value) for value in scores(answer)]
    if options.align:
        assert answer.probabilities is not None
        content["probabilities"] = [
            {labels.names[place]: round(float(row[place]), 4) for place in np.flatnonzero(row >= LEAST)}
            for row in answer.probabilities
        ]
    return content


def as_json(content: Any) -> str:
    """An object on one line."""
    return json.dumps(content, ensure_ascii=False)
