"""Words as labels of characters and back: B begins a word, M is inside, E ends it, S is a word by itself.

>>> characters_of(["我", "喜歡", "圖書館"])
('我喜歡圖書館', ['S', 'B', 'E', 'B', 'M', 'E'])
>>> words_of("我喜歡圖書館", ["S", "B", "E", "B", "M", "E"])
['我', '喜歡', '圖書館']
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ostinato.core.errors import ShapeError
from ostinato.text.numbered import numbered_lines


def read_segmented(path: str | Path, empty_lines: bool = False) -> Iterator[tuple[str, ...]]:
    """The words of every line, which any white space parts (the blank of Chinese print too).

    empty_lines: a line without words comes as no words, for one who writes a line for each.
    Raises DataError, with file and line, for a text that cannot be read.
    """
    for line in numbered_lines(path):
        words = tuple(line.text.split())
        if words or empty_lines:
            yield words


def characters_of(words: Sequence[str], labels: Sequence[str] = ()) -> tuple[str, list[str]]:
    """The characters of all words, and B, M, E or S for each; with labels of words, as B-NOUN.

    Raises ShapeError unless there are no labels or one for each word.
    """
    if labels and len(labels) != len(words):
        raise ShapeError(f"{len(words)} words, but {len(labels)} labels")
    endings = [f"-{label}" for label in labels] or [""] * len(words)
    places = ["S" if len(word) == 1 else "B" + "M" * (len(word) - 2) + "E" if word else "" for word in words]
    return "".join(words), [
        place + ending for letters, ending in zip(places, endings, strict=True) for place in letters
    ]


def words_of(characters: str, labels: Sequence[str]) -> list[str]:
    """The words that the labels make of the characters; every character is in one, however ill-formed the labels.

    A word begins at B and S and after E and S. Raises ShapeError unless there is a label for each character.
    """
    if len(labels) != len(characters):
        raise ShapeError(f"{len(characters)} characters, but {len(labels)} labels")
    words: list[str] = []
    before = "E"
    for character, label in zip(characters, labels, strict=True):
        if label[:1] in ("B", "S") or before in ("E", "S"):
            words.append(character)
        else:
            words[-1] += character
        before = label[:1]
    return words
