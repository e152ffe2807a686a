"""Files that word vectors are judged by: pairs of words with a score, or analogies in sections."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import DataError
from ostinato.text.read import STDIN, read_lines

Numbered: TypeAlias = tuple[int, str]
"""A line with its number, from 1 on."""
Question: TypeAlias = tuple[str, str, str, str]

SEPARATORS = ("\t", ";", ",")
"""What may stand between the fields of pairs, tried in this order; else white space."""
UNNAMED = "all"
"""The section of analogies that stand in none."""


@dataclass(frozen=True)
class Pairs:
    """Pairs of words, and how similar people find them [N]."""

    name: str
    pairs: tuple[tuple[str, str], ...]
    scores: NDArray[np.float64]


@dataclass(frozen=True)
class Analogies:
    """Sections of questions (a, b, c, d): a is to b as c is to d."""

    name: str
    sections: tuple[tuple[str, tuple[Question, ...]], ...]


def read_benchmark(path: str | Path) -> Pairs | Analogies:
    """What is in the file, by its content; `-` is standard input, .gz and .zst are unpacked.

    Pairs: two words and a score, with tabs, commas, semicolons or blanks between them; the score is the first
    number after the words. Analogies: four words a line, sections begin with a line ": name". Lines that begin
    with # are left out.
    Raises DataError, with file and line, for a line that fits neither, or a file with nothing in it.
    """
    name = "standard input" if str(path) == STDIN else str(path)
    lines = list(significant(path))
    if not lines:
        raise DataError(f"{name}: empty; give pairs of words with a score, or analogies")
    if are_analogies(lines):
        return analogies_in(name, lines)
    return pairs_in(name, lines)


def read_pairs(path: str | Path) -> Iterator[tuple[str, str]]:
    """Two words a line, as soon as the line is there; what comes after them does not matter.

    Raises DataError, with file and line, for a line with fewer.
    """
    name = "standard input" if str(path) == STDIN else str(path)
    split: Callable[[str], list[str]] | None = None
    for number, line in significant(path):
        split = split or splitter(line)
        words = split(line)[:2]
        if len(words) < 2 or not all(words):
            raise DataError(f"{name}:{number}: a pair is two words, got {line!r}")
        yield words[0], words[1]


def significant(path: str | Path) -> Iterator[Numbered]:
    """The lines with something on them that are no comments."""
    for number, line in enumerate(read_lines(path, "keep"), 1):
        if line.strip() and not line.startswith("#"):
            yield number, line


def are_analogies(lines: Sequence[Numbered]) -> bool:
    """Whether a section begins here, or the first two lines have four fields and none is a number."""
    if lines[0][1].startswith(":"):
        return True
    return all(len(line.split()) == 4 and not any(map(is_number, line.split())) for _, line in lines[:2])


def analogies_in(name: str, lines: Iterable[Numbered]) -> Analogies:
    """The sections of questions. Raises DataError for a line that has not four words, or if there is no question."""
    sections: dict[str, list[Question]] = {}
    section: list[Question] | None = None
    for number, line in lines:
        if line.startswith(":"):
            section = sections.setdefault(line[1:].strip(), [])
            continue
        words = line.split()
        if len(words) != 4:
            raise DataError(f"{name}:{number}: an analogy has four words, got {line!r}")
        if section is None:
            section = sections.setdefault(UNNAMED, [])
        section.append((words[0], words[1], words[2], words[3]))
    if not any(sections.values()):
        raise DataError(f"{name}: there are sections but no analogies in it")
    return Analogies(name, tuple((title, tuple(questions)) for title, questions in sections.items()))


def pairs_in(name: str, lines: Sequence[Numbered]) -> Pairs:
    """The pairs; a first line without a number is a header. Raises DataError for another that has none."""
    split = splitter(lines[0][1])
    pairs, scores = [], []
    for place, (number, line) in enumerate(lines):
        fields = split(line)
        score = next((float(field) for field in fields[2:] if is_number(field)), None)
        if score is None and place == 0 and len(fields) > 2:
            continue
        if score is None or not all(fields[:2]):
            raise DataError(f"{name}:{number}: two words and a score are expected, got {line!r}")
        pairs.append((fields[0], fields[1]))
        scores.append(score)
    if not pairs:
        number, line = lines[0]
        raise DataError(
            f"{name}:{number}: two words and a score are expected, got {line!r}, and no other line is there; "
            "a first line without a number is a header"
        )
    return Pairs(name, tuple(pairs), np.array(scores))


def splitter(line: str) -> Callable[[str], list[str]]:
    """How to cut lines like this one into fields."""
    separator = next((mark for mark in SEPARATORS if line.count(mark)), None)
    if separator is None:
        return str.split
    if separator == "\t":
        return lambda text: [field.strip() for field in text.split("\t")]
    return lambda text: [field.strip() for field in next(csv.reader([text], delimiter=separator))]


def is_number(field: str) -> bool:
    """Whether a field is a finite number."""
    try:
        return math.isfinite(float(field))
    except ValueError:
        return False
