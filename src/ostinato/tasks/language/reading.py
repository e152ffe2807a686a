"""How a model reads a text whose lines follow one another: what it hands a cache, and when it forgets."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ostinato.core import state as states
from ostinato.core.model import LanguageModel
from ostinato.core.state import State
from ostinato.core.vocabulary import Ids, LogProbs, Vocabulary
from ostinato.mix import Mixture, MixtureState
from ostinato.text.stream import TokenStream

Features = NDArray[np.float32]

TOGETHER = 64  # lines read side by side; changes speed, never a number


@runtime_checkable
class Reader(Protocol):
    """A language model that shows the features its distribution is made of, `width` numbers a token; there may be 0."""

    @property
    def width(self) -> int:
        """How many features a token has."""

    def init_state(self, batch: int) -> State:
        """The state of `batch` rows that have read nothing."""

    def read_one(self, state: State, tokens: Ids) -> tuple[LogProbs, Features, State]:
        """As `step` of a language model, with the features [B, width]."""

    def read(self, state: State, inputs: Ids, targets: Ids) -> tuple[LogProbs, Features, State]:
        """As `score` of a language model, with the features [B, T, width]."""


def make_reader(model: LanguageModel) -> Reader:
    """The reader of a model: a neural one shows its features, a mixture those of all its members, others none."""
    if isinstance(model, Reader):
        return model
    return MixtureReader(model) if isinstance(model, Mixture) else PlainReader(model)


class PlainReader:
    """A model without features, such as an n-gram."""

    width = 0

    def __init__(self, model: LanguageModel):
        self.model = model

    def init_state(self, batch: int) -> State:
        """The state of `batch` rows that have read nothing."""
        return self.model.init_state(batch)

    def read_one(self, state: State, tokens: Ids) -> tuple[LogProbs, Features, State]:
        """As `step`, with features [B, 0]."""
        log_probs, state = self.model.step(state, tokens)
        return log_probs, np.zeros((len(tokens), 0), np.float32), state

    def read(self, state: State, inputs: Ids, targets: Ids) -> tuple[LogProbs, Features, State]:
        """As `score`, with features [B, T, 0]."""
        log_probs, state = self.model.score(state, inputs, targets)
        return log_probs, np.zeros((*inputs.shape, 0), np.float32), state


class MixtureReader:
    """A mixture, whose features are those of its members side by side."""

    def __init__(self, mixture: Mixture):
        self.mixture, self.members = mixture, [make_reader(member) for member in mixture.members]

    @property
    def width(self) -> int:
        """How many features all members have together."""
        return sum(member.width for member in self.members)

    def init_state(self, batch: int) -> State:
        """The state of `batch` rows that have read nothing."""
        return self.mixture.init_state(batch)

    def read_one(self, state: State, tokens: Ids) -> tuple[LogProbs, Features, State]:
        """As `step`, with the features [B, width]."""
        return self._join([reader.read_one(part, tokens) for reader, part in self._pairs(state)])

    def read(self, state: State, inputs: Ids, targets: Ids) -> tuple[LogProbs, Features, State]:
        """As `score`, with the features [B, T, width]."""
        return self._join([reader.read(part, inputs, targets) for reader, part in self._pairs(state)])

    def _pairs(self, state: State) -> Iterator[tuple[Reader, State]]:
        return zip(self.members, MixtureState(*state).members, strict=True)

    def _join(self, found: list[tuple[LogProbs, Features, State]]) -> tuple[LogProbs, Features, State]:
        log_probs, state = self.mixture.combine((log_probs, state) for log_probs, _, state in found)
        return log_probs, np.concatenate([features for _, features, _ in found], axis=-1), state


class FreshLines:
    """A reader that forgets at the end of every line: it begins anew whenever it reads the symbol before a line."""

    def __init__(self, reader: Reader, vocabulary: Vocabulary):
        self.reader, self.vocabulary = reader, vocabulary

    @property
    def width(self) -> int:
        """How many features a token has."""
        return self.reader.width

    def init_state(self, batch: int) -> State:
        """The state of `batch` rows that have read nothing."""
        return self.reader.init_state(batch)

    def read_one(self, state: State, tokens: Ids) -> tuple[LogProbs, Features, State]:
        """As `step`, with the features [B, width]."""
        begins = before_lines(tokens, self.vocabulary)
        return self.reader.read_one(states.where(begins, self.init_state(len(tokens)), state), tokens)

    def read(self, state: State, inputs: Ids, targets: Ids) -> tuple[LogProbs, Features, State]:
        """As `score`, with the features [B, T, width]; the lines are read side by side."""
        if not inputs.size:
            return self.reader.read(state, inputs, targets)
        begins = before_lines(inputs, self.vocabulary)
        cuts = begins.copy()
        cuts[:, 0] = True
        starts = np.flatnonzero(cuts)  # of pieces of rows, which follow one another
        sizes = np.diff(starts, append=inputs.size)
        rows = starts // inputs.shape[1]
        last = np.append(rows[1:] != rows[:-1], True)
        origin = states.where(begins.flat[starts], self.init_state(len(starts)), states.take(state, rows))
        log_probs = np.empty(inputs.size, np.float32)
        features = np.empty((inputs.size, self.width), np.float32)
        ends, ended = [], []
        for chosen in (*padded_groups(sizes, ~last), *equal_groups(sizes, last)):
            width = int(sizes[chosen].max())
            inside = np.arange(width) < sizes[chosen, None]
            places = np.where(inside, starts[chosen, None] + np.arange(width), starts[chosen, None])
            ids = np.where(inside, inputs.flat[places], self.vocabulary.pad)
            found, read, after = self.reader.read(states.take(origin, chosen), ids, targets.flat[places])
            log_probs[places[inside]], features[places[inside]] = found[inside], read[inside]
            if last[chosen[0]]:
                ends.append(after)
                ended.append(rows[chosen])
        order = np.argsort(np.concatenate(ended))
        return (
            log_probs.reshape(inputs.shape),
            features.reshape(*inputs.shape, self.width),
            states.take(states.stack(ends), order),
        )


def before_lines(ids: Ids, vocabulary: Vocabulary) -> NDArray[np.bool_]:
    """Where an input is the symbol before a line: the start symbol, or the stop symbol of the line before."""
    found: NDArray[np.bool_] = (ids == vocabulary.start) | (ids == vocabulary.stop)
    return found


def padded_groups(sizes: Ids, among: NDArray[np.bool_]) -> Iterator[Ids]:
    """Numbers of pieces of similar size in groups: their last states are spoilt by padding."""
    chosen = np.flatnonzero(among)
    order = chosen[np.argsort(sizes[chosen], kind="stable")]
    return (order[begin : begin + TOGETHER] for begin in range(0, len(order), TOGETHER))


def equal_groups(sizes: Ids, among: NDArray[np.bool_]) -> Iterator[Ids]:
    """Numbers of pieces of one size in groups."""
    return (np.flatnonzero(among & (sizes == size)) for size in np.unique(sizes[among]))


def line_inputs(inputs: Ids, vocabulary: Vocabulary, trained: str, regime: str) -> Ids:
    """Inputs of running text with the symbol before each line that the model read there in training.

    A model trained line by line ("sentence") read `<s>`, and goes on doing so where the state is carried over lines;
    one trained on a stream read the stop symbol of the line before, and does so, too, where each line is fresh.
    """
    if trained == "sentence":
        return np.where(inputs == vocabulary.stop, vocabulary.start, inputs)
    return np.where(inputs == vocabulary.start, vocabulary.stop, inputs) if regime == "sentence" else inputs


class Segment(NamedTuple):
    """Some tokens of a document. inputs, targets: [1, T]. fresh: it begins the document."""

    inputs: Ids
    targets: Ids
    fresh: bool


def segments(stream: TokenStream, vocabulary: Vocabulary, trained: str, regime: str, length: int) -> Iterator[Segment]:
    """A text from its beginning to its end, document by document, in segments of `length` tokens.

    regime "sentence": whole lines, as many as hold so many tokens.
    """
    borders = np.append(stream.starts, len(stream)).tolist()
    line_starts = np.append(stream.line_starts, len(stream))
    for start, end in itertools.pairwise(borders):
        begin = start
        while begin < end:
            stop = min(begin + length, end)
            if regime == "sentence":
                stop = int(line_starts[np.searchsorted(line_starts, stop)])
            ids = stream.ids[begin:stop].astype(np.int64)
            before = vocabulary.start if begin == start else int(stream.ids[begin - 1])
            inputs = line_inputs(np.append(before, ids[:-1]), vocabulary, trained, regime)
            yield Segment(inputs[None], ids[None], begin == start)
            begin = stop
