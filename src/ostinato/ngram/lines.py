"""Lines of text scored by an n-gram model, each on its own, at the speed of its kernels."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ostinato.core.vocabulary import Ids, LogProbs, Vocabulary
from ostinato.ngram.model import NGramModel
from ostinato.text.pipeline import Pipeline
from ostinato.text.read import decoded
from ostinato.text.scan import Encoder

Text: TypeAlias = Sequence[str] | bytes
"""Lines, or the bytes of lines that each end with a line feed (the last need not)."""

NUL = "\0"


@dataclass(frozen=True, eq=False)
class Lines:
    """The scores of lines.

    ids: [T], each line ended by the stop symbol. ends: [L], the place after each of those. log_probs: [T], nats.
    """

    ids: NDArray[np.int32]
    ends: Ids
    log_probs: LogProbs
    unknown_id: int

    def __len__(self) -> int:
        """How many lines there are."""
        return len(self.ends)

    @cached_property
    def tokens(self) -> Ids:
        """How many tokens of each line were predicted, the stop symbol included, [L]."""
        return np.diff(self.ends, prepend=0)

    @cached_property
    def nats(self) -> NDArray[np.float64]:
        """Minus the summed log-probs of each line, [L]."""
        found: NDArray[np.float64] = np.add.reduceat(self.log_probs, self._begins, dtype=np.float64)
        return 0.0 - found

    @cached_property
    def unknown(self) -> Ids:
        """How many tokens of each line are the unknown piece, [L]."""
        found: Ids = np.add.reduceat(self.ids == self.unknown_id, self._begins, dtype=np.int64)
        return found

    @property
    def _begins(self) -> Ids:
        """Where each line begins; none is empty, which reduceat needs."""
        return self.ends - self.tokens


class LineEncoder:
    """Lines of text to ids, each with its stop symbol.

    encoder: reads plain text (`Pipeline.plain`) with kernels; without one, and for any other, each line goes
    through the pipeline.
    """

    def __init__(self, pipeline: Pipeline, vocabulary: Vocabulary, encoder: Encoder | None = None):
        self._pipeline, self._vocabulary = pipeline, vocabulary
        self._encoder = encoder if pipeline.plain else None

    def ids(self, lines: Text, threads: int = 1) -> tuple[NDArray[np.int32], Ids]:
        """The ids of lines, [T], and the place after each line's stop symbol, [L].

        Raises DataError, with the line, for bytes that are not UTF-8 text.
        """
        if self._encoder is not None:
            packed = lines if isinstance(lines, bytes) else joined(lines)
            if packed is not None:
                return self._encoder.ids(self._normal(packed), threads)
        return self._one_by_one(split(lines) if isinstance(lines, bytes) else lines)

    def _normal(self, text: bytes) -> bytes:
        """The text normalised as one; ASCII letters have but one composition."""
        names = self._pipeline.normaliser.names
        if not names or (text.isascii() and names in (("nfc",), ("nfkc",))):
            return text
        try:
            return self._pipeline.normaliser(text.decode()).encode()
        except UnicodeDecodeError:
            return text  # the encoder says where

    def _one_by_one(self, lines: Sequence[str]) -> tuple[NDArray[np.int32], Ids]:
        pieces, vocabulary = [self._pipeline.pieces(line) for line in lines], self._vocabulary
        ends = np.cumsum(np.array([len(line) + 1 for line in pieces], np.int64))
        ids = np.empty(int(ends[-1]) if len(ends) else 0, np.int32)
        stops = np.zeros(len(ids), np.bool_)
        stops[ends - 1] = True
        ids[stops] = vocabulary.stop
        ids[~stops] = vocabulary.ids(chain.from_iterable(pieces))
        return ids, ends


def joined(lines: Sequence[str]) -> bytes | None:
    """Lines as the bytes of a text; None if they hold what a text cannot: line feeds, NUL, lone surrogates."""
    text = "\n".join([*lines, ""])
    if text.count("\n") != len(lines) or NUL in text:
        return None
    try:
        return text.encode()
    except UnicodeEncodeError:
        return None


def split(text: bytes) -> list[str]:
    """The lines of the bytes of a text. Raises DataError, with the line, if they are none."""
    whole = text.removesuffix(b"\n")
    if NUL.encode() not in whole:
        with suppress(UnicodeDecodeError):
            return [line.removesuffix("\r") for line in whole.decode().split("\n")] if text else []
    return list(decoded("the text", whole, 0))  # which says what is wrong


class LineScorer:
    """Scores lines with an n-gram model, each on its own: the numbers of its `score` from the start symbol on.

    A line of no words is just the stop symbol. It may be used from several threads.
    """

    def __init__(self, model: NGramModel, pipeline: Pipeline, encoder: Encoder | None = None):
        self.model = model
        if encoder is None and pipeline.plain:
            encoder = Encoder(model.vocabulary)
        self._encode = LineEncoder(pipeline, model.vocabulary, encoder)

    def score(self, lines: Text, threads: int = 1) -> Lines:
        """The scores of lines, in their order. Raises DataError, with the line, for bytes that are not UTF-8 text."""
        ids, ends = self._encode.ids(lines, threads)
        return Lines(ids, ends, self.model.score_lines(ids, ends, threads), self.model.vocabulary.unknown)
