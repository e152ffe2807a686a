"""Which words have vectors: by falling count, ties in the order they were first seen, and how often each was seen."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import ConfigError, DataError, ShapeError

Counts = NDArray[np.int64]


class Lexicon:
    """Distinct words with their counts; a word's id is its place.

    words: [V], as they are to be numbered. counts: [V], int64.
    Raises ShapeError if there are not as many counts as words, ConfigError for a word that comes twice.
    """

    def __init__(self, words: Sequence[str], counts: Counts):
        self.words = tuple(words)
        self.counts = np.array(counts, np.int64)
        self.counts.flags.writeable = False
        if self.counts.shape != (len(self.words),):
            raise ShapeError(f"{len(self.words):,} words need as many counts, not an array {self.counts.shape}")
        self._ids = {word: place for place, word in enumerate(self.words)}
        if len(self._ids) < len(self.words):
            twice = next(word for place, word in enumerate(self.words) if self._ids[word] != place)
            raise ConfigError(f"the word {twice!r} comes twice; give every word once")

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self._ids

    def __repr__(self) -> str:
        return f"Lexicon({len(self):,} words, {self.fingerprint})"

    @cached_property
    def packed(self) -> bytes:
        """The words as a JSON list."""
        return json.dumps(self.words, ensure_ascii=False).encode("utf8", "surrogatepass")

    @cached_property
    def fingerprint(self) -> str:
        """Twelve hexadecimal digits that change whenever a word or its place does; the counts may change.

        Vectors of these words have the same.
        """
        return hashlib.sha256(self.packed).hexdigest()[:12]

    def ids(self, words: Iterable[str]) -> NDArray[np.int32]:
        """The id of each word, [N]; -1 for one that is not there."""
        get = self._ids.get
        return np.fromiter((get(word, -1) for word in words), np.int32)


def chosen(words: Sequence[str], counts: Counts, min_count: int = 5, limit: int | None = None) -> Lexicon:
    """The words seen at least `min_count` times, and of them the `limit` most frequent.

    words: in the order first seen, which decides between equals. counts: how often each was seen.
    Raises DataError if none is left.
    """
    frequent = most_frequent(counts, min_count, limit)
    return Lexicon([words[place] for place in frequent.tolist()], np.asarray(counts, np.int64)[frequent])


def most_frequent(counts: Counts, min_count: int, limit: int | None) -> NDArray[np.int64]:
    """The places of counts of at least `min_count`, by falling count, no more than `limit`.

    Raises DataError if there are none.
    """
    places = _frequent(counts, min_count)[:limit]
    if not len(places):
        highest = int(np.max(counts, initial=0))
        raise DataError(
            f"no word was seen {min_count:,} times or more (the most frequent one {highest:,} times); "
            "give more text or a lower minimum count"
        )
    return places


def merged(
    lexicon: Lexicon, words: Sequence[str], counts: Counts, min_count: int = 5, limit: int | None = None
) -> Lexicon:
    """A lexicon for going on with new text: every word of the old one at its place, then what is new by falling count.

    words, counts: those of the new text, in the order first seen; the counts of words known already are added to
        the old ones. New words need `min_count` in the new text.
    limit: how many words there may be; those of the old lexicon stay in any case.
    """
    counts = np.asarray(counts, np.int64)
    places = lexicon.ids(words)
    total = np.array(lexicon.counts)
    total[places[places >= 0]] += counts[places >= 0]
    fresh = counts[places < 0]
    room = None if limit is None else max(0, limit - len(lexicon))
    frequent = _frequent(fresh, min_count)[:room]
    names: list[Any] = list(compress(words, (places < 0).tolist()))
    return Lexicon(
        [*lexicon.words, *(names[place] for place in frequent.tolist())], np.concatenate([total, fresh[frequent]])
    )


def _frequent(counts: Counts, min_count: int) -> NDArray[np.int64]:
    """The places of counts of at least `min_count`, by falling count."""
    counts = np.asarray(counts, np.int64)
    places = np.flatnonzero(counts >= min_count)
    return places[np.argsort(-counts[places], kind="stable")]
