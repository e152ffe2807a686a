"""How good word vectors are: agreement with people about similarity, and analogies solved; always with coverage."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import ConfigError
from ostinato.embed import nearest as engine
from ostinato.embed.analogies import Method
from ostinato.embed.benchmarks import Analogies, Pairs, Question
from ostinato.embed.vectors import Vectors

SEMANTIC = ("capital-common-countries", "capital-world", "currency", "city-in-state", "family")
"""Sections of the analogies of [Mikolov2013a] about meaning; those about grammar begin with "gram"."""


@dataclass(frozen=True)
class SimilarityScore:
    """Agreement of cosines with the scores of people; nan where there are not two different numbers."""

    name: str
    pairs: int
    used: int
    """Pairs of which both words have a vector; the others do not count."""
    composed: int
    """Of these, the pairs for which n-grams made one."""
    spearman: float
    pearson: float
    case_ignored: bool
    restrict: int | None
    """Only the first words of the vectors were used; None for all."""

    @property
    def coverage(self) -> float:
        """The share of the pairs that were used."""
        return self.used / self.pairs

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"kind": "similarity", **asdict(self), "coverage": self.coverage}


@dataclass(frozen=True)
class Section:
    """Some questions, those of which all four words have a vector, and those answered rightly."""

    name: str
    questions: int
    answered: int
    correct: int

    @property
    def accuracy(self) -> float:
        """The share of those answered that were right, nan if none was answered."""
        return self.correct / self.answered if self.answered else float("nan")

    @property
    def coverage(self) -> float:
        """The share of the questions that were answered."""
        return self.answered / self.questions if self.questions else float("nan")

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "accuracy": self.accuracy, "coverage": self.coverage}


@dataclass(frozen=True)
class AnalogyScore:
    """Analogies solved, by section."""

    name: str
    sections: tuple[Section, ...]
    method: Method
    case_ignored: bool
    restrict: int | None
    """Only the first words of the vectors were used, in questions and for answers; None for all."""

    @property
    def total(self) -> Section:
        """All questions."""
        return together("total", self.sections)

    @property
    def semantic(self) -> Section:
        """The questions about meaning, in the analogies of [Mikolov2013a]."""
        return together("semantic", [section for section in self.sections if section.name in SEMANTIC])

    @property
    def syntactic(self) -> Section:
        """The questions about grammar, in the analogies of [Mikolov2013a]."""
        return together("syntactic", [section for section in self.sections if section.name.startswith("gram")])

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        sums = {part.name: part.to_json() for part in (self.total, self.semantic, self.syntactic)}
        about = {"method": self.method, "case_ignored": self.case_ignored, "restrict": self.restrict}
        sections = [section.to_json() for section in self.sections]
        return {"kind": "analogies", "name": self.name, **about, **sums, "sections": sections}


def together(name: str, sections: Any) -> Section:
    """Sections as one."""
    chosen = list(sections)
    questions, answered, correct = (
        sum(getattr(section, field) for section in chosen) for field in ("questions", "answered", "correct")
    )
    return Section(name, questions, answered, correct)


def evaluate(
    vectors: Vectors,
    benchmark: Pairs | Analogies,
    *,
    lower: bool = True,
    restrict: int | None = None,
    method: Method = "3cosadd",
) -> SimilarityScore | AnalogyScore:
    """The score on a benchmark of either kind; `method` is for analogies."""
    if isinstance(benchmark, Pairs):
        return similarity(vectors, benchmark, lower=lower, restrict=restrict)
    return analogies(vectors, benchmark, lower=lower, restrict=restrict, method=method)


def similarity(vectors: Vectors, pairs: Pairs, *, lower: bool = True, restrict: int | None = None) -> SimilarityScore:
    """The correlation of the cosines of pairs with what people say.

    Pairs with a word that has no vector are left out; n-grams make vectors where the vectors have subwords.
    lower: ignore case; of words that differ in case alone, the first is taken. restrict: use the first words only.
    """
    places, _ = known(vectors, lower, restrict)
    rows = {word: row_of(vectors, word, places, lower) for pair in pairs.pairs for word in pair}
    used = [number for number, pair in enumerate(pairs.pairs) if all(rows[word] is not None for word in pair)]
    composed = sum(any(spelled(word, lower) not in places for word in pairs.pairs[number]) for number in used)
    left, right = (
        engine.unit(np.array([rows[pairs.pairs[number][side]] for number in used]).reshape(-1, vectors.dimensions))
        for side in (0, 1)
    )
    cosine = np.einsum("nd,nd->n", left, right, dtype=np.float64)
    scores = pairs.scores[used]
    found = (spearman(scores, cosine), pearson(scores, cosine))
    return SimilarityScore(pairs.name, len(pairs.pairs), len(used), composed, *found, lower, restrict)


def row_of(vectors: Vectors, word: str, places: dict[str, int], lower: bool) -> engine.Floats | None:
    """The vector of a word of a benchmark: its row, or what its n-grams make if it is no word of the vectors."""
    spelling = spelled(word, lower)
    if spelling in places:
        return np.array(vectors.array[places[spelling]], np.float32)
    return None if spelling in vectors else vectors.get(spelling)


def analogies(
    vectors: Vectors,
    questions: Analogies,
    *,
    lower: bool = True,
    restrict: int | None = None,
    method: Method = "3cosadd",
) -> AnalogyScore:
    """The questions whose fourth word comes out first, by section.

    Questions with a word that has no row are left out. The first three words are no answers, with `lower` in any
    case. restrict: use the first words only, as word2vec's compute-accuracy does with 30,000.
    Source: [Mikolov2013a]; [Levy2014] for 3cosmul.
    """
    places, variants = known(vectors, lower, restrict)
    everything = [question for _, some in questions.sections for question in some]
    ids = ids_of(everything, places, lower)
    whole: NDArray[np.bool_] = np.all(ids >= 0, axis=1)
    asked = ids[whole]
    right = np.zeros(len(ids), bool)
    right[whole] = forms(vectors, asked, method, restrict, variants) == asked[:, 3]
    ends = np.cumsum([0, *(len(some) for _, some in questions.sections)])
    sections = tuple(
        Section(
            name, len(some), int(whole[first : first + len(some)].sum()), int(right[first : first + len(some)].sum())
        )
        for (name, some), first in zip(questions.sections, ends[:-1].tolist(), strict=True)
    )
    return AnalogyScore(questions.name, sections, method, lower, restrict)


def forms(
    vectors: Vectors, asked: NDArray[np.int64], method: Method, restrict: int | None, variants: dict[int, list[int]]
) -> NDArray[np.int64]:
    """The answers [Q] to questions [Q, 4], each as the first row of its spelling when case is ignored."""
    number, row = np.repeat(np.arange(len(asked)), 3), asked[:, :3].ravel()
    more = [(n, other) for n, r in zip(number.tolist(), row.tolist(), strict=True) for other in variants.get(r, ())]
    others = np.array(more, np.int64).reshape(-1, 2)
    without = (np.concatenate([number, others[:, 0]]), np.concatenate([row, others[:, 1]]))
    answers = vectors.answer(asked[:, :3], method, restrict, without)
    first = {other: row for row, some in variants.items() for other in some}
    return np.array([first.get(answer, answer) for answer in answers.tolist()], np.int64)


def spelled(word: str, lower: bool) -> str:
    """A word as it is compared."""
    return word.lower() if lower else word


def known(vectors: Vectors, lower: bool, restrict: int | None) -> tuple[dict[str, int], dict[int, list[int]]]:
    """The row of each spelling among the first words, and for such a row those that differ from it in case alone."""
    if restrict is not None and restrict < 1:
        raise ConfigError(f"restrict must be at least 1, got {restrict}")
    places: dict[str, int] = {}
    variants: dict[int, list[int]] = {}
    for row, word in enumerate(vectors.words[:restrict]):
        first = places.setdefault(spelled(word, lower), row)
        if first != row:
            variants.setdefault(first, []).append(row)
    return places, variants


def ids_of(questions: list[Question], places: dict[str, int], lower: bool) -> NDArray[np.int64]:
    """The rows [Q, 4] of the words of questions, -1 for a word without."""
    get = places.get
    return np.array([get(spelled(word, lower), -1) for some in questions for word in some], np.int64).reshape(-1, 4)


def spearman(left: NDArray[Any], right: NDArray[Any]) -> float:
    """Spearman's rank correlation of two lists, equal numbers sharing the mean of their ranks; nan if undefined."""
    return pearson(ranks(left), ranks(right))


def ranks(numbers: NDArray[Any]) -> NDArray[np.float64]:
    """The rank of each number from 1 on, the mean of their ranks for equal ones."""
    _, inverse, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    mean: NDArray[np.float64] = np.cumsum(counts) - (counts - 1) / 2
    return mean[inverse]


def pearson(left: NDArray[Any], right: NDArray[Any]) -> float:
    """Pearson's correlation of two lists; nan if one of them has not two different numbers."""
    if len(left) < 2 or not (np.ptp(left) > 0 and np.ptp(right) > 0):
        return float("nan")
    left, right = (numbers - numbers.mean(dtype=np.float64) for numbers in (left, right))
    return float((left * right).sum() / np.sqrt((left**2).sum() * (right**2).sum()))
