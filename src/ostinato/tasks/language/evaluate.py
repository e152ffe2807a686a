"""How well a model predicts a text: one number for a text, one line for a line."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ostinato.core.errors import DataError
from ostinato.core.model import LanguageModel
from ostinato.core.progress import Progress, Watch, unwatched
from ostinato.core.score import Score, signature
from ostinato.core.state import State, where
from ostinato.core.vocabulary import Ids, LogProbs, Vocabulary
from ostinato.ngram.compact_model import CompactModel
from ostinato.ngram.lines import LineEncoder, Lines, LineScorer, Text
from ostinato.ngram.model import NGramModel
from ostinato.tasks.language.load import Loaded
from ostinato.tasks.language.reading import line_inputs
from ostinato.text.batch import Batch, Batches, ContinuousBatches, SentenceBatches
from ostinato.text.pipeline import Pipeline
from ostinato.text.stream import TokenStream, encode_files

if TYPE_CHECKING:
    from ostinato.tasks.language.companions import Companions

ROWS, STEPS = 32, 128  # how much is scored at once; changes speed and memory, never a number
PART = 1 << 19  # tokens of whole lines that an n-gram model scores at once


def batch_log_probs(model: LanguageModel, batches: Iterable[Batch]) -> Iterator[tuple[Batch, LogProbs]]:
    """Every batch with the log-prob of each of its targets, the state carried where the batch says so."""
    state: State | None = None
    for batch in batches:
        rows = len(batch.fresh)
        start = model.init_state(rows)
        state = start if state is None or batch.fresh.all() else where(batch.fresh, start, state)
        log_probs, state = model.score(state, batch.inputs, batch.targets)
        yield batch, log_probs


def evaluate_stream(
    model: LanguageModel,
    stream: TokenStream,
    pipeline: Pipeline,
    regime: str,
    watch: Watch = unwatched,
    split: bool = False,
    threads: int | None = None,
    trained: str | None = None,
) -> Score:
    """The score of a model on an encoded text.

    regime: "sentence" (each line on its own) or "stream" (the state carried over lines, not over documents).
    trained: the regime it was trained in, which tells the symbol it reads before a line (see `line_inputs`); None
    for the same.
    Every line's stop symbol is counted, and unknown words are ordinary ones. split: cut long documents of a
    stream so that they are read side by side; faster, but the state is fresh at every cut. threads: of an n-gram
    model; None for one a core.
    Raises DataError if the text holds nothing to predict.
    """
    nats, count = 0.0, 0
    stream.check(model.vocabulary)
    for log_probs in target_log_probs(model, stream, regime, split, threads, trained):
        nats -= float(log_probs.sum(dtype=np.float64))
        count += len(log_probs)
        watch(Progress("evaluate", count, count / len(stream)))
    return stream_score(model, stream, pipeline, regime, nats, count)


def stream_score(
    model: LanguageModel,
    stream: TokenStream,
    pipeline: Pipeline,
    regime: str,
    nats: float,
    count: int,
    facts: Mapping[str, object] | None = None,
) -> Score:
    """The score of an encoded text; facts: what its signature says further. Raises DataError if nothing counted."""
    if count == 0:
        raise DataError("the text holds nothing to predict; give one with at least one line")
    told = signature(**facts or {})
    return Score(
        nats=nats,
        count=count,
        per=pipeline.unit,
        signature=stream_signature(stream, model, pipeline, regime) + (f"|{told}" if told else ""),
        unknown=stream.unknown,
        characters=stream.characters,
        bytes=stream.bytes,
    )


def target_log_probs(
    model: LanguageModel,
    stream: TokenStream,
    regime: str,
    split: bool = False,
    threads: int | None = None,
    trained: str | None = None,
) -> Iterator[LogProbs]:
    """The log-probs (nats) of all that counts in a text, part by part, in whatever order is fastest.

    An n-gram model forgets all at a line's end, so both regimes are the same to it, unless documents are cut.
    """
    if isinstance(model, NGramModel) and (regime == "sentence" or not split):
        yield from line_log_probs(model, stream, threads)
        return
    batches = read_as_trained(evaluation_batches(regime, stream, model.vocabulary, split), model, regime, trained)
    for batch, log_probs in batch_log_probs(model, batches):
        yield log_probs[batch.weight > 0]


def read_as_trained(
    batches: Iterable[Batch], model: LanguageModel, regime: str, trained: str | None
) -> Iterable[Batch]:
    """The batches of a regime with the symbol before each line that a model trained in another one read there."""
    if trained in (None, regime):
        return batches
    assert trained is not None
    return (replace(batch, inputs=line_inputs(batch.inputs, model.vocabulary, trained, regime)) for batch in batches)


def line_log_probs(model: NGramModel, stream: TokenStream, threads: int | None) -> Iterator[LogProbs]:
    """The log-probs of a text's lines, each on its own, in their order."""
    ends = np.append(stream.line_starts[1:], len(stream)) if len(stream) else np.empty(0, np.int64)
    borders = np.searchsorted(ends, np.arange(PART, len(stream), PART))
    for first, last in itertools.pairwise(np.unique([0, *borders, len(ends)]).tolist()):
        begin = int(ends[first - 1]) if first else 0
        ids = stream.ids[begin : ends[last - 1]].astype(np.int32)
        yield model.score_lines(ids, ends[first:last] - begin, threads)


def evaluation_batches(regime: str, stream: TokenStream, vocabulary: Vocabulary, split: bool = False) -> Batches:
    """The batches of an evaluation, in an order that does not depend on chance."""
    if regime == "sentence":
        return SentenceBatches(stream, vocabulary, ROWS, STEPS, seed=None)
    return ContinuousBatches(stream, vocabulary, ROWS, STEPS, split=split, seed=None)


def stream_signature(stream: TokenStream, model: LanguageModel, pipeline: Pipeline, regime: str) -> str:
    """What must agree for two perplexities to be comparable; mere scores, as of stupid back-off, are apart."""
    table = model.table if isinstance(model, NGramModel | CompactModel) else None
    return signature(
        data=stream.data,
        vocab=model.vocabulary.fingerprint,
        pieces=pipeline.signature,
        stop="counted",
        unknown="counted",
        state="fresh-each-line" if regime == "sentence" else "carried-over-lines",
        **({} if table is None or table.normalised else {"scores": "not-normalised"}),
    )


def evaluate(
    loaded: Loaded,
    texts: Sequence[str],
    regime: str | None = None,
    watch: Watch = unwatched,
    companions: Companions | None = None,
) -> Score:
    """The score on text files (`-` is standard input), or on the run's own test text if none is given.

    A run without test text is scored on its validation text; the signature says so.

    regime: None for the one the run was trained in. companions: a cache, learning while reading.
    Raises DataError, FormatError, and with companions ConfigError and MismatchError.
    """
    return evaluate_encoded(loaded, scored_stream(loaded, texts, watch), regime, watch, companions)


def scored_stream(loaded: Loaded, texts: Sequence[str], watch: Watch = unwatched) -> TokenStream:
    """Text files as a stream, or what the run is measured on if none is given. Raises DataError."""
    return encode_texts(loaded, texts, watch) if texts else final_stream(loaded)


def evaluate_encoded(
    loaded: Loaded,
    stream: TokenStream,
    regime: str | None = None,
    watch: Watch = unwatched,
    companions: Companions | None = None,
) -> Score:
    """As `evaluate`, on an encoded text."""
    regime = regime or loaded.regime
    if companions:
        from ostinato.tasks.language.companions import evaluate_with

        return evaluate_with(loaded, stream, regime, companions, watch)
    return evaluate_stream(loaded.model, stream, loaded.pipeline, regime, watch, trained=loaded.regime)


def encode_texts(loaded: Loaded, texts: Sequence[str], watch: Watch) -> TokenStream:
    """Text files as a stream of this model's ids, one document a file."""
    empty = loaded.about.get("empty_lines", "skip")
    return encode_files(texts, loaded.pipeline, loaded.vocabulary, None, watch, empty)


def own_stream(loaded: Loaded, part: str) -> TokenStream:
    """A part of the data the run was made from. Raises DataError if the run has none."""
    folder = loaded.run.path / "data" / part
    if not folder.is_dir():
        raise DataError(f"{loaded.run} has no {part} text of its own; name a text file")
    return TokenStream.open(folder)


def final_stream(loaded: Loaded) -> TokenStream:
    """The text a finished run is measured on: its test text, or its validation text if it has no other."""
    part = final_part(loaded)
    if not (loaded.run.path / "data" / part).is_dir():
        raise DataError(f"{loaded.run} has no test or validation text of its own; name a text file")
    return own_stream(loaded, part)


def final_part(loaded: Loaded) -> str:
    """The part of a run's own data that it is measured on: test, or valid if it has no other."""
    return "test" if (loaded.run.path / "data" / "test").is_dir() else "valid"


@dataclass(frozen=True)
class LineScore:
    """The score of one line: nats, predicted tokens (the stop symbol included), unknown ones."""

    nats: float
    count: int
    unknown: int
    text: str

    @property
    def perplexity(self) -> float:
        """exp(nats / count)."""
        ratio = self.nats / self.count
        return math.exp(ratio) if ratio < 700 else math.inf

    def to_json(self) -> dict[str, Any]:
        """Plain values under `nats`, `count`, `words`, `perplexity`, `unknown`, `text`."""
        return {
            "nats": self.nats,
            "count": self.count,
            "words": self.count - 1,
            "perplexity": self.perplexity,
            "unknown": self.unknown,
            "text": self.text,
        }


def score_group(loaded: Loaded, lines: Sequence[str]) -> list[LineScore]:
    """The scores of lines, each on its own, by the plainest way; an empty line is just `</s>`."""
    vocabulary = loaded.vocabulary
    ids = [vocabulary.ids(loaded.pipeline.pieces(line)) for line in lines]
    scores = []
    for text, own, log_probs in zip(lines, ids, padded(loaded.model, ids), strict=True):
        unknown = int((own == vocabulary.unknown).sum())
        scores.append(LineScore(-float(log_probs.sum(dtype=np.float64)), len(log_probs), unknown, text))
    return scores


def padded(model: LanguageModel, ids: Sequence[Ids]) -> list[LogProbs]:
    """The log-probs of lines and of the stop symbol after each, read side by side by length. ids: without stops."""
    vocabulary, found = model.vocabulary, [np.empty(0, np.float32)] * len(ids)
    order = sorted(range(len(ids)), key=lambda row: len(ids[row]))
    for begin in range(0, len(order), ROWS):
        rows = order[begin : begin + ROWS]
        width = max(len(ids[row]) for row in rows) + 1
        inputs = np.full((len(rows), width), vocabulary.pad, np.int64)
        targets = np.full((len(rows), width), vocabulary.stop, np.int64)
        inputs[:, 0] = vocabulary.start
        for place, row in enumerate(rows):
            inputs[place, 1 : len(ids[row]) + 1] = targets[place, : len(ids[row])] = ids[row]
        log_probs = score_wide(model, inputs, targets)
        for place, row in enumerate(rows):
            found[row] = log_probs[place, : len(ids[row]) + 1]
    return found


class Scorer(Protocol):
    """Scores lines, each on its own: what `line_scorer` gives."""

    def score(self, lines: Text, threads: int = 1) -> Lines:
        """The scores of lines, in their order. Raises DataError, with the line, for bytes that are not UTF-8 text."""


class PaddedScorer:
    """Scores lines with a model of any kind, side by side by length."""

    def __init__(self, loaded: Loaded):
        self.model = loaded.model
        quick = isinstance(loaded.model, CompactModel) and loaded.pipeline.plain
        self._encode = LineEncoder(loaded.pipeline, loaded.vocabulary, loaded.encoder() if quick else None)

    def score(self, lines: Text, threads: int = 1) -> Lines:
        """The scores of lines, in their order. Raises DataError, with the line, for bytes that are not UTF-8 text."""
        ids, ends = self._encode.ids(lines, threads)
        own = [line[:-1].astype(np.int64) for line in np.split(ids, ends[:-1])] if len(ends) else []
        log_probs = np.concatenate([np.empty(0, np.float32), *padded(self.model, own)])
        return Lines(ids, ends, log_probs, self.model.vocabulary.unknown)


def line_scorer(loaded: Loaded) -> Scorer:
    """The fastest scorer of lines for a model."""
    if isinstance(loaded.model, NGramModel):
        plain = loaded.pipeline.plain
        return LineScorer(loaded.model, loaded.pipeline, loaded.encoder() if plain else None)
    return PaddedScorer(loaded)


def score_wide(model: LanguageModel, inputs: Any, targets: Any) -> LogProbs:
    """Log-probs [B, T] from a fresh state, a piece of the width at a time so that memory stays bounded."""
    state, parts = model.init_state(len(inputs)), []
    for begin in range(0, inputs.shape[1], STEPS):
        log_probs, state = model.score(state, inputs[:, begin : begin + STEPS], targets[:, begin : begin + STEPS])
        parts.append(log_probs)
    return np.concatenate(parts, axis=1)


def speed(model: LanguageModel, stream: TokenStream, regime: str, seconds: float = 1.0) -> float:
    """Tokens scored a second on the beginning of a text, measured for about that long; threads as in evaluating."""
    for _ in target_log_probs(model, stream, regime):
        break  # the first part warms up
    count, began = 0, time.perf_counter()
    for log_probs in target_log_probs(model, stream, regime):
        count += len(log_probs)
        if time.perf_counter() - began > seconds:
            break
    return count / max(1e-9, time.perf_counter() - began) if count else math.nan
