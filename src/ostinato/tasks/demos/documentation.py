"""Capitals and blanks put back into the documentation that comes with Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from ostinato.tasks.demos.prepared import Prepared, percent, write_lines
from ostinato.tasks.metrics.spans import segmentation_score
from ostinato.tasks.tagging.options import Config, DataOptions, ModelOptions
from ostinato.text.embedded import python_docs
from ostinato.train.options import TaskTrainOptions

Lines = list[list[str]]

WORDS = (4, 30)
"""Words of a line that is taken, at least and at most."""

PARTS = {"train": 4000, "valid": 300, "test": 600}
"""Lines of each part, each from documents of its own."""

CASES: dict[str, Callable[[str], str]] = {"lower": str, "title": lambda word: capitalised(word), "upper": str.upper}
"""How a word is written, and how it is made so of one in lower case; `mixed` is not made again."""


def parts(share: float) -> dict[str, Lines]:
    """Lines of the documentation as words, parted at blanks."""
    docs = python_docs()
    found: dict[str, Lines] = {}
    for part, count in PARTS.items():
        lines = [line.split() for document in getattr(docs, part) for line in document]
        fit = [words for words in lines if WORDS[0] <= len(words) <= WORDS[1]]
        step = max(1, len(fit) // max(1, int(count * share)))
        found[part] = fit[::step][: int(count * share)]
    return found


def casing(folder: Path, share: float = 1.0) -> Prepared:
    """Words in lower case, each labelled with how it was written."""
    lines = parts(share)
    files = {part: write_columns(folder / f"{part}.conll", rows) for part, rows in lines.items()}
    data = DataOptions(**{part: (path,) for part, path in files.items()}, form="conll", scheme="none")  # type: ignore[arg-type]
    model = ModelOptions(kind="lstm", hidden=128, embedding=64, affixes=3, hidden_rare=1.0, dropout=0.3)
    config = Config(data, model, TaskTrainOptions(epochs=4, rows=32))
    given = tuple(" ".join(words).lower() for words in lines["test"][:5])
    asked = write_lines(folder / "asked.conll", ("\n".join([*text.split(), ""]) for text in given))
    common = most_common(lines["train"])
    right = sum(common.get(word.lower(), "lower") == case_of(word) for words in lines["test"] for word in words)
    beside: dict[str, float | str] = {
        "each word as it is written most often": percent(right, sum(map(len, lines["test"])))
    }
    return Prepared("tagging", config, asked, given, restored, beside)


def write_columns(path: Path, rows: Lines) -> str:
    """A file of words in lower case and how they are written, an empty line after each line."""
    return write_lines(path, ("\n".join([*(f"{word.lower()}\t{case_of(word)}" for word in row), ""]) for row in rows))


def case_of(word: str) -> str:
    """`lower`, `title`, `upper` or `mixed`.

    >>> [case_of(word) for word in ("the", "(The", "HTTP", "A", "isDone")]
    ['lower', 'title', 'upper', 'title', 'mixed']
    """
    made = {name: make(word.lower()) for name, make in CASES.items()}
    return next((name for name, same in made.items() if same == word), "mixed")


def capitalised(word: str) -> str:
    """A word with its first letter in upper case, whatever signs stand before it."""
    first = next((place for place, letter in enumerate(word) if letter.isalpha()), len(word))
    return word[:first] + word[first : first + 1].upper() + word[first + 1 :]


def restored(answer: str) -> str:
    """A line of words as the labels of an answer in columns say."""
    rows = [line.split("\t") for line in answer.split("\n") if line]
    return " ".join(CASES.get(row[-1], str)(row[0]) for row in rows)


def most_common(rows: Lines) -> dict[str, str]:
    """How each word is written most often."""
    counts: dict[str, Counter[str]] = {}
    for word in (word for row in rows for word in row):
        counts.setdefault(word.lower(), Counter())[case_of(word)] += 1
    return {word: cases.most_common(1)[0][0] for word, cases in counts.items()}


def segmentation(folder: Path, share: float = 1.0) -> Prepared:
    """Lines without blanks, which are put back."""
    lines = parts(share)
    files = {part: write_lines(folder / f"{part}.txt", map(" ".join, rows)) for part, rows in lines.items()}
    data = DataOptions(**{part: (path,) for part, path in files.items()}, form="segmented", unit="character")  # type: ignore[arg-type]
    model = ModelOptions(kind="gru", hidden=128, embedding=64, dropout=0.3)
    config = Config(data, model, TaskTrainOptions(epochs=4, rows=32))
    given = tuple("".join(words) for words in lines["test"][:5])
    asked = write_lines(folder / "asked.txt", given)
    known = {word for row in lines["train"] for word in row}
    guessed = [longest_match("".join(row), known) for row in lines["test"]]
    value = 100 * segmentation_score(lines["test"], guessed).f1
    beside: dict[str, float | str] = {"the longest word that training had, again and again": value}
    return Prepared("tagging", config, asked, given, beside=beside)


def longest_match(text: str, known: Iterable[str]) -> list[str]:
    """A text cut into the longest known words from its beginning on; where there is none, a letter."""
    words = set(known)
    longest = max(map(len, words), default=1)
    found: list[str] = []
    at = 0
    while at < len(text):
        ends = range(min(len(text), at + longest), at, -1)
        end = next((end for end in ends if text[at:end] in words), at + 1)
        found.append(text[at:end])
        at = end
    return found
