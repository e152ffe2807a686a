"""Words as numbers: ids of words, their letters, affixes and shapes; kept inside the run."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ostinato.core.errors import FormatError
from ostinato.core.files import check_format, read_json, write_json
from ostinato.core.vocabulary import Ids, Vocabulary
from ostinato.tasks.tagging.options import DataOptions, ModelOptions
from ostinato.tasks.words import extended
from ostinato.text import vocabulary as vocabularies
from ostinato.text.normalise import Normaliser

if TYPE_CHECKING:
    from ostinato.embed.vectors import Vectors

FORMAT = 1
FILE = "lexicon.json"

LONGEST_WORD = 64
"""Letters of a word that are read; of a longer one the first and the last half of so many."""

SHAPES = ("lower", "Title", "UPPER", "X", "mixed", "12", "a1", "no case", "signs", "nothing")
"""How words are capitalised: X is one capital letter, 12 a number, a1 letters and digits."""


@dataclass(frozen=True)
class Forms:
    """Distinct words: ids [W], letters one after another from `begins` [W + 1] on, affixes [W, A], shapes [W]."""

    words: Ids
    letters: Ids
    begins: Ids
    affixes: Ids
    shapes: Ids

    @property
    def lengths(self) -> Ids:
        """Letters of each, the boundaries too."""
        return np.diff(self.begins)

    def spelled(self, places: Ids, pad: int) -> Ids:
        """The letters [W, L] of some of them, `pad` behind shorter ones."""
        lengths = self.lengths[places]
        steps = np.arange(lengths.max(initial=1))
        inside = steps < lengths[:, None]
        found = np.full(inside.shape, pad, np.int64)
        found[inside] = self.letters[(self.begins[places][:, None] + steps)[inside]]
        return found


@dataclass(frozen=True)
class Encoded:
    """Sentences as places in their distinct words."""

    forms: Forms
    sentences: list[Ids]

    @property
    def lengths(self) -> Ids:
        """Words of each."""
        return np.array([len(sentence) for sentence in self.sentences], np.int64)


@dataclass(frozen=True)
class Lexicon:
    """What is known of words. letters, affixes: None where they are not read; longest: of an affix.

    pairs: [P] known pairs of neighbours as `before * len(words) + word`, ascending.
    """

    normaliser: Normaliser
    words: Vocabulary
    letters: Vocabulary | None
    affixes: Vocabulary | None
    longest: int
    shapes: bool
    pairs: Ids

    @property
    def fingerprint(self) -> str:
        """Twelve hexadecimal digits that change whenever a number of a word does."""
        parts = [part and part.fingerprint for part in (self.words, self.letters, self.affixes)]
        facts = [parts, self.normaliser.names, self.longest, self.shapes, self.pairs.tolist()]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:12]

    def encode(self, sentences: Iterable[Sequence[str]]) -> Encoded:
        """Sentences of words as numbers, each distinct word looked at once."""
        index: dict[str, int] = {}
        found = [np.array([index.setdefault(word, len(index)) for word in words], np.int64) for words in sentences]
        return Encoded(self.forms(list(index)), found)

    def forms(self, words: Sequence[str]) -> Forms:
        """Distinct words as numbers."""
        ids = self.words.ids(map(self.normaliser, words))
        letters = [self._letters(word) for word in words]
        begins = np.cumsum([0, *map(len, letters)])
        flat = np.concatenate([np.zeros(0, np.int64), *letters])
        affixes = np.zeros((len(words), 0), np.int64)
        if self.affixes is not None:
            affixes = np.array([self.affixes.ids(affixes_of(word, self.longest)) for word in words], np.int64)
        shapes = np.array([shape_of(word) if self.shapes else 0 for word in words], np.int64)
        return Forms(ids, flat, begins.astype(np.int64), affixes.reshape(len(words), -1), shapes)

    def _letters(self, word: str) -> Ids:
        """The letters between the start and the stop symbol, so never nothing; none are read without `letters`."""
        if self.letters is None:
            return np.zeros(1, np.int64)
        if len(word) > LONGEST_WORD:
            word = word[: LONGEST_WORD // 2] + word[-LONGEST_WORD // 2 :]
        return np.concatenate([[self.letters.start], self.letters.ids(word), [self.letters.stop]])

    def save(self, folder: Path) -> None:
        """Write it all."""
        kept = {"words": self.words, "letters": self.letters, "affixes": self.affixes}
        for name, vocabulary in kept.items():
            if vocabulary is not None:
                vocabulary.save(folder / f"{name}.json")
        write_json(
            folder / FILE,
            {
                "format": FORMAT,
                "normalise": self.normaliser.names,
                "letters": self.letters is not None,
                "affixes": self.longest if self.affixes is not None else 0,
                "shapes": self.shapes,
                "pairs": self.pairs.tolist(),
            },
        )

    @classmethod
    def load(cls, folder: Path) -> Lexicon:
        """What `save` wrote. Raises FormatError if it is damaged."""
        path = folder / FILE
        content = read_json(path)
        try:
            check_format(path, content, FORMAT)
            longest = int(content["affixes"])
            return cls(
                Normaliser(content["normalise"]),
                Vocabulary.load(folder / "words.json"),
                Vocabulary.load(folder / "letters.json") if content["letters"] else None,
                Vocabulary.load(folder / "affixes.json") if longest else None,
                longest,
                bool(content["shapes"]),
                np.array(content["pairs"], np.int64),
            )
        except (KeyError, TypeError, ValueError) as fault:
            raise FormatError(f"{path}: damaged ({fault}); restore the file or train again") from None


def made(
    data: DataOptions, model: ModelOptions, sentences: Sequence[Sequence[str]], vectors: Vectors | None = None
) -> Lexicon:
    """The lexicon of the training sentences, as the options ask for; vectors: whose words it takes in too."""
    normaliser, is_word = Normaliser(data.normalise), data.unit == "word"
    counts = Counter(word for words in sentences for word in words)
    normalised: Counter[str] = Counter()
    for form, times in counts.items():
        normalised[normaliser(form)] += times
    numbers = np.array(list(normalised.values()), np.int64)
    words = vocabularies.from_counts(list(normalised), numbers, data.min_count, data.limit)
    words = extended(words, vectors, model.more_words) if vectors is not None else words
    reads_letters = is_word if model.letters is None else model.letters != "none"
    affixes = Counter(affix for form in counts for affix in affixes_of(form, model.affixes))
    wants_pairs = not is_word if model.pairs is None else model.pairs
    return Lexicon(
        normaliser,
        words,
        Vocabulary(sorted({letter for form in counts for letter in form})) if reads_letters else None,
        Vocabulary(affix for affix, times in affixes.items() if times >= model.affix_count) if model.affixes else None,
        model.affixes,
        is_word if model.shapes is None else model.shapes,
        _pairs(words, normaliser, sentences, model.pair_count) if wants_pairs else np.zeros(0, np.int64),
    )


def _pairs(words: Vocabulary, normaliser: Normaliser, sentences: Sequence[Sequence[str]], least: int) -> Ids:
    """The pairs of neighbours that are seen often enough, the start symbol and the first word among them."""
    size = len(words)
    remembered: dict[str, int] = {}
    for form in {word for sentence in sentences for word in sentence}:
        remembered[form] = int(words.ids([normaliser(form)])[0])
    keys = []
    for sentence in sentences:
        ids = np.array([words.start, *(remembered[word] for word in sentence)], np.int64)
        keys.append(ids[:-1] * size + ids[1:])
    found, counts = np.unique(np.concatenate(keys), return_counts=True)
    kept: Ids = found[counts >= least]
    return kept


def affixes_of(word: str, longest: int) -> Iterator[str]:
    """The beginnings of 1 to `longest` letters and the ends of as many, marked as such, all in lower case.

    Of a shorter word, the word.
    """
    word = word.lower()
    for size in range(1, longest + 1):
        yield f"{word[:size]}-"
        yield f"-{word[-size:]}"


def shape_of(word: str) -> int:
    """The place in SHAPES of how a word is capitalised."""
    return SHAPES.index(_shape(word))


def _shape(word: str) -> str:
    if not word:
        return "nothing"
    if not any(letter.isalnum() for letter in word):
        return "signs"
    if any(letter.isdigit() for letter in word):
        return "a1" if any(letter.isalpha() for letter in word) else "12"
    if word.isupper():
        return "UPPER" if sum(letter.isupper() for letter in word) > 1 else "X"
    if word.islower():
        return "lower"
    if not any(letter.isupper() for letter in word):
        return "no case"
    return "Title" if word[0].isupper() and not any(letter.isupper() for letter in word[1:]) else "mixed"
