"""What a network answers to sources: hypotheses found by a beam, in batches of similar length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ostinato.core.config import build
from ostinato.core.errors import ConfigError
from ostinato.core.vocabulary import Ids
from ostinato.decode import Beam, Greedy, Hypothesis, Strategy
from ostinato.nn.encoder_decoder import EncoderDecoder
from ostinato.nn.encoder_decoder_options import EncoderDecoderOptions
from ostinato.nn.translator import Translator
from ostinato.tasks.task import PredictOptions
from ostinato.tasks.translation.data import Corpus
from ostinato.text.bucket import batches_by_length

CLASSES = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""Source lengths up to which answers may have the same length; longer ones go by powers of two."""

LEAST = 20
"""Pieces that an answer may have at least."""

ROOM = 2.0
"""How many times longer than usual an answer may be."""


@dataclass(frozen=True)
class Asking:
    """How sources are answered. rows, tokens: of a batch, at most; they change no answer."""

    beam: int = 1
    length_penalty: float = 0.0
    nbest: int = 1
    rows: int = 64
    tokens: int = 8192

    @classmethod
    def of(cls, options: PredictOptions, beam: int, length_penalty: float, what: str) -> Asking:
        """As asked on the command line, and where nothing is, with the run's own beam and length penalty.

        what: the name of answers. Raises ConfigError for more of them than the beam holds, and for a wrong beam or
        penalty, so that it is found before anything is read.
        """
        beam = beam if options.beam is None else options.beam
        penalty = length_penalty if options.length_penalty is None else options.length_penalty
        if not 1 <= options.nbest <= beam:
            raise ConfigError(f"--nbest {options.nbest}: a beam of {beam} holds 1 to {beam} {what}; widen it (--beam)")
        asking = cls(beam, penalty, options.nbest, options.rows, options.tokens)
        assert asking.strategy
        return asking

    @property
    def strategy(self) -> Strategy:
        """What searches."""
        if self.beam == 1:
            return Greedy()
        return Beam(width=self.beam, length_penalty=self.length_penalty, n_best=self.nbest)


def answers_of(
    translator: Translator, sources: Sequence[Ids], corpus: Corpus, asking: Asking
) -> list[list[Hypothesis]]:
    """For each source its hypotheses, best first; none for one without pieces.

    How long an answer may be depends on its own source alone, so that no batch changes it.
    """
    found: list[list[Hypothesis]] = [[] for _ in sources]
    lengths = np.array([len(source) for source in sources], np.int64)
    bounds = np.array([bound_of(length) for length in lengths.tolist()], np.int64)
    strategy, stop = asking.strategy, corpus.target.vocabulary.stop
    for bound in np.unique(bounds[lengths > 0]).tolist():
        most = LEAST + math.ceil(ROOM * corpus.growth * bound)
        group = np.flatnonzero((bounds == bound) & (lengths > 0))
        for places in batches_by_length(lengths[group], asking.rows, asking.tokens):
            reading = translator.read([sources[place] for place in group[places]])
            state, tokens = reading.init_state()
            answers = strategy.decode(reading, state, tokens, stop=stop, max_tokens=most)
            for place, answer in zip(group[places].tolist(), answers, strict=True):
                found[place] = answer
    return found


def bound_of(length: int) -> int:
    """The class of a source length, by its longest."""
    return next((bound for bound in CLASSES if length <= bound), 1 << (length - 1).bit_length())


@dataclass(frozen=True)
class Looked:
    """An answer said again: log-probs [T] (nats) of its pieces and its stop symbol, and attention [T, S]."""

    log_probs: NDArray[np.float32]
    weights: NDArray[np.float32]

    def places(self, count: int) -> list[int]:
        """The place of the source that each of the first `count` pieces looked at most."""
        return [int(place) for place in self.weights[:count].argmax(axis=1)]


def looked_at(
    translator: Translator, sources: Sequence[Ids], answers: Sequence[Hypothesis], corpus: Corpus, asking: Asking
) -> list[Looked]:
    """Each answer said after its source; one that was cut off has no stop symbol."""
    stop = corpus.target.vocabulary.stop
    targets = [np.array([*answer.tokens, *([stop] if answer.finished else [])], np.int64) for answer in answers]
    lengths = np.array(
        [max(len(source), len(target)) for source, target in zip(sources, targets, strict=True)], np.int64
    )
    found: list[Looked | None] = [None] * len(answers)
    for places in batches_by_length(lengths, asking.rows, asking.tokens):
        scored = translator.score([sources[place] for place in places], [targets[place] for place in places])
        for place, (log_probs, weights) in zip(places.tolist(), scored, strict=True):
            found[place] = Looked(log_probs, weights)
    return [one for one in found if one is not None]


def make_network(corpus: Corpus, options: EncoderDecoderOptions, counts: NDArray[np.int64] | None) -> EncoderDecoder:
    """A new network for these vocabularies; counts: how often each piece stands in the training targets."""
    sizes = corpus.source.vocabulary.outputs, corpus.target.vocabulary.outputs
    return EncoderDecoder(*sizes, options, None if counts is None else torch.from_numpy(counts))


def description(network: EncoderDecoder) -> dict[str, Any]:
    """What a model file must say so that `described` makes the network again."""
    return {"options": asdict(network.options)}


def described(about: dict[str, Any], corpus: Corpus, where: str) -> EncoderDecoder:
    """The network of a `description`, its weights not yet set. Raises KeyError, ConfigError."""
    return make_network(corpus, build(EncoderDecoderOptions, about["options"], where), None)
