"""KenLM's `Model` over our n-gram models."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import ConfigError, MismatchError, OstinatoError
from ostinato.kenlm.batch import as_bytes, score_all
from ostinato.kenlm.opening import Desk, open_path
from ostinato.kenlm.values import Config, FullScoreReturn, State
from ostinato.ngram.table_model import NGramState

UNKNOWN = 0
"""The id of a word that is not in the vocabulary; the same everywhere."""

REMEMBERED = 1 << 20
"""Words whose ids are remembered; then all are forgotten."""


class Model:
    """An n-gram model as KenLM's Python module offers one; see the methods of that module.

    path: str, bytes or Path of a model file of ours, a run directory, an ARPA file, packed or not, or a binary file
        of KenLM. config: accepted, and of no effect.
    Text is cut at ASCII white space; probabilities are logarithms to the base 10.
    Raises OSError for a path that no n-gram model can be read from.
    """

    path: bytes

    def __init__(self, path: str | bytes | os.PathLike[str], config: Config | None = None):
        self.path = os.path.abspath(os.fsencode(path))
        try:
            self._model, self._stored = open_path(Path(os.fsdecode(self.path)))
        except (OstinatoError, OSError) as fault:
            raise OSError(f"Cannot read model {path!r} ({fault})") from fault
        self._begin, self._address = self._model.table.sentence_start, 0
        self._ids: dict[str, int] = {}
        self._opened: Desk | None = None
        self._advance: Callable[[int, int, int], tuple[float, int]] = self._first_advance
        self._score: Callable[[int, bytes, int, int], float] = self._first_score

    @property
    def order(self) -> int:
        """The length of the longest n-grams."""
        return self._model.table.order

    def score(self, sentence: str | bytes, bos: bool = True, eos: bool = True) -> float:
        """The log10 probability of a sentence; bos: after its beginning, eos: with its end.

        Leave `<s>` out of the sentence: nothing predicts it.
        """
        text = sentence.encode() if type(sentence) is str else as_bytes(sentence)
        return self._score(self._address, text, self._begin if bos else 0, 1 if eos else 0)

    def perplexity(self, sentence: str | bytes) -> float:
        """10^(-score / words), where the end of the sentence is a word and unknown ones count."""
        words = len(as_bytes(sentence).split()) + 1
        return float(10.0 ** (-self.score(sentence) / words))

    def full_scores(
        self, sentence: str | bytes, bos: bool = True, eos: bool = True
    ) -> Iterator[tuple[float, int, bool]]:
        """For each word its log10 probability, the length of the n-gram that was found, whether it is unknown."""
        log_probs, lengths, unknown, _ = self._desk.read(as_bytes(sentence), self._begin if bos else 0, eos)
        yield from zip(log_probs.tolist(), lengths.tolist(), unknown.tolist(), strict=True)

    def BeginSentenceWrite(self, state: State) -> None:
        """Make a state that of a sentence's beginning."""
        state.row = self._begin

    def NullContextWrite(self, state: State) -> None:
        """Make a state that of the empty context."""
        state.row = 0

    def BaseScore(self, in_state: State, word: str, out_state: State) -> float:
        """The log10 probability of a word after a state; the next state is written to `out_state`.

        Raises MismatchError for a state of another model, if it is not one of this model by chance.
        """
        try:
            number = self._ids[word]
        except KeyError:
            number = self._find(word)
        log_prob, after = self._advance(self._address, in_state.row, number)
        if after < 0:
            raise foreign()
        out_state.row = after
        return log_prob

    def BaseFullScore(self, in_state: State, word: str, out_state: State) -> FullScoreReturn:
        """The same, with the length of the n-gram that was found and whether the word is unknown."""
        number = self._find(word)
        log_prob, after, length = self._desk.advance_full(in_state.row, number)
        if after < 0:
            raise foreign()
        out_state.row = after
        return FullScoreReturn(log_prob, length, number == UNKNOWN)

    def score_batch(self, sentences: Iterable[str | bytes], threads: int | None = 2) -> NDArray[np.float64]:
        """The `score` of each sentence, with beginning and end; not in KenLM. threads: None for one a core."""
        return score_all(self._desk, self._model.vocabulary.start, self._begin, sentences, threads)

    def next_words(self, context: State | str | bytes = "", k: int = 10) -> list[tuple[str, float]]:
        """The k most likely next words and their log10 probabilities, best first; not in KenLM.

        context: a state, or the words from the beginning of a sentence on. `</s>` and `<unk>` are words too.
        Fewer come back if no more have a probability.
        Raises ConfigError for a k below 1, MismatchError for a state of another model.
        """
        if k < 1:
            raise ConfigError(f"k is how many words come back, at least 1, not {k}")
        row = context.row if isinstance(context, State) else self._desk.read(as_bytes(context), self._begin, False)[3]
        words, log_probs = self._model.next_words(NGramState(np.array([row], np.int64)), k)
        possible = np.isfinite(log_probs[0])
        pieces = self._model.vocabulary.pieces_of(words[0][possible])
        return list(zip(pieces, (log_probs[0][possible] / np.log(10)).tolist(), strict=True))

    def __contains__(self, word: str | bytes) -> bool:
        return self._desk.find(as_bytes(word)) != UNKNOWN

    def __repr__(self) -> str:
        return f"<Model from {os.path.basename(self.path)!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path,)

    @property
    def _desk(self) -> Desk:
        """The arrays that the kernels read; made at first use, which loads the compiler."""
        if self._opened is None:
            self._opened = Desk(self._model, self._stored)
        return self._opened

    def _find(self, word: str) -> int:
        """The id of a word, which is remembered."""
        if not isinstance(word, str):
            raise TypeError(f"Argument 'word' has incorrect type (expected str, got {type(word).__name__})")
        number = self._ids.get(word)
        if number is None:
            if len(self._ids) >= REMEMBERED:
                self._ids.clear()
            number = self._ids[word] = self._desk.find(word.encode())
        return number

    def _first_advance(self, address: int, state: int, word: int) -> tuple[float, int]:
        """The first call of `_advance`: the kernel takes its place, so that later calls go straight to it."""
        self._address, self._advance = self._desk.address, self._desk.advance()
        return self._advance(self._address, state, word)

    def _first_score(self, address: int, text: bytes, state: int, ended: int) -> float:
        """The first call of `_score`, likewise."""
        self._address, self._score = self._desk.address, self._desk.score()
        return self._score(self._address, text, state, ended)


def foreign() -> MismatchError:
    """The error for a state that a model does not have."""
    return MismatchError("this state belongs to another model; begin with BeginSentenceWrite or NullContextWrite")


class LanguageModel(Model):
    """The older name of Model."""
