"""Word vectors as a value: look up, compare, and ask for what is near, whatever trained them.

vectors = Vectors.load("runs/vectors")
vectors.most_similar(["king", "queen"], k=5)          # one matrix product for all queries
vectors.analogy("man", "king", "woman")               # man is to king as woman is to ...
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ostinato.core.errors import ConfigError, DataError, ShapeError
from ostinato.core.registry import nearest
from ostinato.embed import nearest as engine
from ostinato.embed.analogies import Method, scorer, solve
from ostinato.embed.folder import KINDS, Folder, Which, fingerprint, folder_in, read_folder, write_folder
from ostinato.embed.nearest import Best, Floats, Places

if TYPE_CHECKING:
    from ostinato.embed.subwords import Subwords

Query: TypeAlias = str | tuple[str | Sequence[str], str | Sequence[str]]
"""A word, or the words to go towards and those to go away from."""
Neighbors: TypeAlias = list[tuple[str, float]]
SPELLED = 50_000
"""Words among which a similar spelling is looked for."""


class Vectors:
    """Words and a row for each, never changed.

    words: distinct, by convention the most frequent first. array: [V, D] float32 or float16; it may be
    memory-mapped and stays so, what is computed is float32. counts: [V], how often each word was seen.
    subwords, subword_array [buckets, D]: what makes vectors for words outside the vocabulary.
    Raises ShapeError if these do not fit each other, DataError for a repeated word or none at all.
    """

    def __init__(
        self,
        words: Sequence[str],
        array: NDArray[Any],
        counts: NDArray[np.int64] | None = None,
        subwords: Subwords | None = None,
        subword_array: NDArray[Any] | None = None,
    ):
        self.words, self.array, self.counts = tuple(words), array, counts
        self.subwords, self.subword_array = subwords, subword_array
        self._check_shapes()
        self._places = {word: place for place, word in enumerate(self.words)}
        if len(self._places) < len(self.words):
            twice = next(word for place, word in enumerate(self.words) if self._places[word] != place)
            raise DataError(f"the word {twice!r} has two vectors; keep one of them")

    def _check_shapes(self) -> None:
        if self.array.ndim != 2 or len(self.array) != len(self.words):
            raise ShapeError(f"{len(self.words):,} words need as many rows, but the array is {self.array.shape}")
        if not self.array.size:
            raise DataError("there is no word or no dimension, so there are no vectors")
        if self.array.dtype not in KINDS:
            raise ShapeError(f"vectors are float32 or float16, not {self.array.dtype}; use array.astype(np.float32)")
        if self.counts is not None and self.counts.shape != (len(self.words),):
            raise ShapeError(f"{len(self.words):,} words, but the counts are {self.counts.shape}")
        if (self.subwords is None) != (self.subword_array is None):
            raise ShapeError("subwords need the rows of their buckets, and those need the subwords")
        if self.subwords is not None and self.subword_array is not None:
            wanted = (self.subwords.buckets, self.dimensions)
            if self.subword_array.shape != wanted:
                raise ShapeError(f"the rows of the subwords are {self.subword_array.shape}, not {wanted}")

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        """Whether the word has a row of its own."""
        return word in self._places

    def __repr__(self) -> str:
        return f"Vectors({len(self):,} words, {self.dimensions} dimensions, {self.array.dtype}, {self.fingerprint})"

    @property
    def dimensions(self) -> int:
        """The numbers a vector has."""
        return int(self.array.shape[1])

    @property
    def places(self) -> Mapping[str, int]:
        """The row of each word."""
        return MappingProxyType(self._places)

    @cached_property
    def fingerprint(self) -> str:
        """Twelve hexadecimal digits that change whenever a word or its place does."""
        return fingerprint(self.words)

    @cached_property
    def norms(self) -> Floats:
        """The length of each row [V]. Raises DataError, naming the word, for a number that is not finite."""
        found = np.concatenate([engine.lengths(block) for _, block in engine.blocks(self.array, engine.MOST)])
        if not np.isfinite(found).all():
            word = self.words[int(np.argmin(np.isfinite(found)))]
            raise DataError(f"the vector of {word!r} has a number that is not finite; train again, or remove the word")
        return found.astype(np.float32)

    @cached_property
    def _inverses(self) -> Floats:
        return engine.inverse(self.norms)

    def ids(self, words: Iterable[str]) -> NDArray[np.int64]:
        """The row of each word [N], -1 for a word outside the vocabulary."""
        get = self._places.get
        return np.fromiter((get(word, -1) for word in words), np.int64)

    def vector(self, word: str) -> Floats:
        """The vector [D] of a word; for one outside the vocabulary, what its n-grams make.

        Raises DataError, with the nearest spelling, if there are no subwords or the word has none.
        """
        found = self.get(word)
        if found is None:
            alike = self._spelled_like(word)
            hint = f"; did you mean {alike!r}?" if alike else ""
            raise DataError(f"{word!r} is not among the {len(self):,} words of these vectors{hint}")
        return found

    def get(self, word: str, default: Floats | None = None) -> Floats | None:
        """The vector [D] of a word as `vector` gives it, or `default` where there is none."""
        place = self._places.get(word)
        if place is not None:
            return np.array(self.array[place], np.float32)
        return self._composed(word, default)

    def _composed(self, word: str, default: Floats | None) -> Floats | None:
        if self.subwords is None or self.subword_array is None:
            return default
        buckets = self.subwords.ngrams(word)
        if not len(buckets):
            return default
        made: Floats = self.subword_array[buckets].mean(axis=0, dtype=np.float32)
        return made

    def _spelled_like(self, word: str) -> str | None:
        """A frequent word of similar spelling: another case of it, or one of about its length that begins alike."""
        for other in (word.lower(), word.capitalize(), word.upper()):
            if other in self._places:
                return other
        begin, size = word[:1].casefold(), len(word)
        alike = [
            other
            for other in self.words[:SPELLED]
            if abs(len(other) - size) <= 2 and other[:1].casefold() == begin
        ]  # fmt: skip
        return nearest(word, alike)

    def rows(self, words: Sequence[str]) -> Floats:
        """The vectors [N, D] of many words. Raises DataError as `vector` does."""
        ids = self.ids(words)
        found: Floats = np.asarray(self.array)[np.maximum(ids, 0)].astype(np.float32)
        for number in np.flatnonzero(ids < 0).tolist():
            found[number] = self.vector(words[number])
        return found

    def mean(self, words: Sequence[str], *, normalised: bool = True) -> Floats:
        """The mean [D] of the words' vectors, each of length one first unless told otherwise.

        Raises DataError for no words, and as `vector` does.
        """
        if isinstance(words, str) or not len(words):
            raise DataError("a mean needs a list of at least one word")
        found = self.rows(words)
        made: Floats = (engine.unit(found) if normalised else found).mean(axis=0)
        return made

    def similarity(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        """The cosine [N] of each pair of words. Raises DataError as `vector` does."""
        if not len(pairs):
            return np.zeros(0, np.float32)
        left, right = (engine.unit(self.rows([pair[side] for pair in pairs])) for side in (0, 1))
        cosine: Floats = np.einsum("nd,nd->n", left, right).clip(-1, 1)
        return cosine

    def most_similar(
        self,
        queries: str | Sequence[Query] | NDArray[Any],
        k: int = 10,
        *,
        restrict: int | None = None,
        exclude: bool = True,
    ) -> list[Neighbors]:
        """The `k` nearest words of each query with their cosines, nearest first, on a tie the lower row first.

        queries: words; or vectors [Q, D]; or pairs (words to go towards, words to go away from), of which the
            vectors of length one are added and subtracted.
        restrict: look among the first words only. exclude: leave out the words of the query itself.
        Raises DataError as `vector` does, ShapeError for vectors of another length, ConfigError for a bad number.
        """
        limit = self._limit(k, restrict)
        found: list[Neighbors] = []
        wanted: Any = [queries] if isinstance(queries, str) else queries
        for first in range(0, len(wanted), engine.QUERIES):
            directions, without = self._directions(wanted[first : first + engine.QUERIES])
            score = engine.cosines(directions)
            found += self._named(self._search(score, len(directions), k, limit, without if exclude else engine.NONE), 1)
        return found

    def _limit(self, k: int, restrict: int | None) -> int:
        for name, value in (("the number of answers", k), ("restrict", restrict)):
            if value is not None and value < 1:
                raise ConfigError(f"{name} must be at least 1, got {value}")
        return len(self) if restrict is None else min(restrict, len(self))

    def _search(self, score: engine.Score, queries: int, k: int, limit: int, without: Places) -> Best:
        inside = without[1] < limit
        places = (without[0][inside], without[1][inside])
        return engine.search(self.array[:limit], self._inverses, score, queries, min(k, limit), places)

    def _named(self, best: Best, most: float = np.inf) -> list[Neighbors]:
        words = self.words
        return [
            [(words[row], min(score, most)) for row, score in zip(rows, scores, strict=True) if row >= 0]
            for rows, scores in zip(best.rows.tolist(), best.scores.tolist(), strict=True)
        ]

    def _directions(self, queries: Sequence[Query] | NDArray[Any]) -> tuple[Floats, Places]:
        """Directions [Q, D] of length one, and the rows of the words each query names."""
        if isinstance(queries, np.ndarray):
            if queries.ndim != 2 or queries.shape[1] != self.dimensions:
                raise ShapeError(f"queries are words or vectors [Q, {self.dimensions}], got {queries.shape}")
            return engine.unit(queries), engine.NONE
        plus, minus = zip(*map(sides, queries), strict=True)
        number, words = flat([*zip(plus, minus, strict=True)])
        signs = np.concatenate([np.repeat((1.0, -1.0), (len(p), len(m))) for p, m in zip(plus, minus, strict=True)])
        directions = np.zeros((len(queries), self.dimensions), np.float32)
        np.add.at(directions, number, engine.unit(self.rows(words)) * signs[:, None].astype(np.float32))
        ids = self.ids(words)
        return engine.unit(directions), (number[ids >= 0], ids[ids >= 0])

    def analogy(
        self, a: str, b: str, c: str, k: int = 10, *, method: Method = "3cosadd", restrict: int | None = None
    ) -> Neighbors:
        """The `k` best words x for "a is to b as c is to x" with their scores, best first; a, b and c left out.

        The score is a cosine (3cosadd) or a ratio of products (3cosmul). Raises DataError as `vector` does.
        Source: [Mikolov2013c] sec. 4; [Levy2014] eq. 4.
        """
        limit = self._limit(k, restrict)
        words = np.array([[a, b, c]], object)
        anchors, inverse = np.unique(words.ravel(), return_inverse=True)
        ids = self.ids([a, b, c])
        without = (np.zeros(3, np.int64)[ids >= 0], ids[ids >= 0])
        score = scorer(engine.unit(self.rows(anchors.tolist())), inverse.reshape(1, 3), method)
        return self._named(self._search(score, 1, k, limit, without), np.inf if method == "3cosmul" else 1)[0]

    def analogies(
        self, questions: Sequence[Sequence[str]], *, method: Method = "3cosadd", restrict: int | None = None
    ) -> list[str | None]:
        """The best word for each question [Q, 3], as `analogy` gives it, or None where a word has no row.

        restrict: only the first words may answer. Cost: one product of the different words of the questions with
            the rows, and a few passes over [questions, rows] in cache.
        """
        ids = self.ids(word for question in questions for word in three(question)).reshape(-1, 3)
        whole = np.flatnonzero((ids >= 0).all(axis=1))
        answers = self.answer(ids[whole], method, restrict)
        found: list[str | None] = [None] * len(questions)
        for number, answer in zip(whole.tolist(), answers.tolist(), strict=True):
            found[number] = self.words[answer] if answer >= 0 else None
        return found

    def answer(
        self,
        questions: NDArray[np.int64],
        method: Method = "3cosadd",
        restrict: int | None = None,
        without: Places | None = None,
    ) -> NDArray[np.int64]:
        """The best row [Q] for each question [Q, 3] of rows, -1 where none is left.

        without: pairs of a question and a row that is no answer; None for the three rows of each.
        """
        limit = self._limit(1, restrict)
        if without is None:
            without = (np.repeat(np.arange(len(questions)), 3), questions.ravel())
        anchors, inverse = np.unique(questions, return_inverse=True)
        rows = engine.unit(np.asarray(self.array)[anchors])
        return solve(self.array[:limit], self._inverses, rows, inverse.reshape(-1, 3), without, method)

    def top(self, number: int) -> Vectors:
        """The first words alone, with the same rows; all of them if there are no more. Raises ConfigError below 1."""
        if number < 1:
            raise ConfigError(f"at least 1 of the first words can be taken, got {number}")
        kept = min(number, len(self))
        counts = None if self.counts is None else self.counts[:kept]
        return Vectors(self.words[:kept], self.array[:kept], counts, self.subwords, self.subword_array)

    def save(
        self,
        folder: str | Path,
        dtype: DTypeLike | None = None,
        output: NDArray[Any] | None = None,
        force: bool = False,
    ) -> None:
        """Write words.json and the arrays into a folder.

        dtype: float32 or float16; None for what they have. output: the other matrix of the training [V, D].
        force: replace vectors that are there. Raises StorageError, ConfigError, DataError.
        """
        if output is not None and output.shape != self.array.shape:
            raise ShapeError(f"the output matrix is {output.shape}, the vectors are {self.array.shape}")
        content = Folder(self.words, self.array, self.counts, self.subwords, self.subword_array)
        write_folder(Path(folder), content, dtype, output, force)

    @classmethod
    def load(cls, folder: str | Path, which: Which = "input") -> Vectors:
        """The vectors that `save` wrote, or those of a run, memory-mapped; "mean" of both matrices is made in memory.

        Raises FormatError, naming the file, for what is missing, damaged, cut short or newer.
        """
        from ostinato.core.errors import FormatError

        found = read_folder(folder_in(Path(folder)) or Path(folder), which)
        try:
            return cls(found.words, found.array, found.counts, found.subwords, found.subword_array)
        except (DataError, ShapeError) as fault:
            raise FormatError(f"{folder}: {fault}") from None


def sides(query: Query) -> tuple[Sequence[str], Sequence[str]]:
    """The words to go towards and those to go away from."""
    if isinstance(query, str):
        return (query,), ()
    if not isinstance(query, tuple) or len(query) != 2:
        raise ConfigError(f"a query is a word or a pair (words to go towards, words to go away from), got {query!r}")
    plus, minus = ((side,) if isinstance(side, str) else tuple(side) for side in query)
    if not plus and not minus:
        raise ConfigError("a query of no words has no direction; name at least one")
    return plus, minus


def flat(queries: Sequence[tuple[Sequence[str], Sequence[str]]]) -> tuple[NDArray[np.int64], list[str]]:
    """The words of all queries in a row, and the number of the query each belongs to."""
    words = [[*plus, *minus] for plus, minus in queries]
    return np.repeat(np.arange(len(words)), [len(some) for some in words]), [word for some in words for word in some]


def three(question: Sequence[str]) -> Sequence[str]:
    """A question, if it has three words. Raises DataError."""
    if isinstance(question, str) or len(question) != 3:
        raise DataError(f"an analogy question has three words, got {question!r}")
    return question
