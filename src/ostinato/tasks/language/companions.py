"""What may go along with a model while it is measured: a cache, learning while reading; and the numbers of both."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ostinato.core.errors import ConfigError
from ostinato.core.model import LanguageModel
from ostinato.core.progress import Progress, Watch, unwatched
from ostinato.core.score import Score
from ostinato.core.state import State, where
from ostinato.core.vocabulary import Ids, LogProbs, Vocabulary
from ostinato.mix import fit_weights
from ostinato.tasks.language.cache import CacheLM, Looks, interpolate
from ostinato.tasks.language.evaluate import ROWS, own_stream, stream_score
from ostinato.tasks.language.load import Loaded
from ostinato.tasks.language.reading import FreshLines, line_inputs, make_reader, segments
from ostinato.text.batch import ContinuousBatches
from ostinato.text.stream import TokenStream

if TYPE_CHECKING:
    from torch import Tensor

    from ostinato.tasks.language.adapt import DynamicOptions

PIECE = 512  # tokens of each row that are read at once; changes speed, never a number
TUNED = 50_000
"""Tokens of a text on which numbers are chosen."""

THETAS = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5)
DECAYS = (1.0, 0.998, 0.995, 0.99, 0.98, 0.95)
RATES = {"sgd": (0.01, 0.03, 0.1, 0.3, 1.0), "rms": (3e-5, 1e-4, 3e-4, 1e-3, 3e-3)}


@dataclass(frozen=True)
class CacheOptions:
    """A cache of `size` places; see `CacheLM`. None: to be tuned, or what `settled` says."""

    size: int
    weight: float | None = None
    theta: float | None = None
    decay: float | None = None


@dataclass(frozen=True)
class Companions:
    """What goes along with a model. Both may: the cache then holds what the learning model saw in the text."""

    cache: CacheOptions | None = None
    dynamic: DynamicOptions | None = None

    def __bool__(self) -> bool:
        return self.cache is not None or self.dynamic is not None

    @property
    def facts(self) -> dict[str, object]:
        """What a score's signature says of them: the sizes and kinds, not the numbers that suit one model."""
        cache = {} if self.cache is None else {"cache": self.cache.size}
        dynamic = {} if self.dynamic is None else {"dynamic": f"{self.dynamic.method}-{self.dynamic.length}"}
        return {**cache, **dynamic}

    def to_json(self) -> dict[str, Any]:
        """Plain values under `cache` and `dynamic`, those that are there."""
        parts = {"cache": self.cache, "dynamic": self.dynamic}
        return {name: asdict(part) for name, part in parts.items() if part is not None}

    def __str__(self) -> str:
        shown = []
        for name, numbers in self.to_json().items():
            shown.append(f"{name}: " + ", ".join(f"{key} {_short(value)}" for key, value in numbers.items()))
        return "; ".join(shown)


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


class Scorer(NamedTuple):
    """A beginning, and what is found of some targets with the state after them."""

    init_state: Callable[[int], State]
    score: Callable[[State, Ids, Ids], tuple[Any, State]]


def make_scorer(model: LanguageModel, regime: str, cache: CacheOptions | None, looks: Sequence[Looks] = ()) -> Scorer:
    """What scores running text line after line: log-probs [1, B, T].

    With `looks`, instead, what a cache would mix [1 + looks + 1, B, T]: log-probs of the model, of the cache looking
    each of these ways, and whether it is empty.
    """
    if cache is None:
        reader = make_reader(model)
        reader = FreshLines(reader, model.vocabulary) if regime == "sentence" else reader

        def read(state: State, inputs: Ids, targets: Ids) -> tuple[Any, State]:
            log_probs, _, state = reader.read(state, inputs, targets)
            return log_probs[None], state

        return Scorer(reader.init_state, read)
    numbers = (cache.weight or 0.0, cache.theta or 0.0, 1.0 if cache.decay is None else cache.decay)
    cached = CacheLM(model, cache.size, *numbers, fresh_lines=regime == "sentence")

    def score(state: State, inputs: Ids, targets: Ids) -> tuple[Any, State]:
        if looks:
            log_probs, parts, empty, state = cached.parts(state, inputs, targets, looks)
            return np.concatenate([log_probs[None], parts, empty[None]]), state
        log_probs, state = cached.score(state, inputs, targets)
        return log_probs[None], state

    return Scorer(cached.init_state, score)


class Text(NamedTuple):
    """A text, how lines are read ("sentence" or "stream"), and how they were in training; sizes: see `Adapter`."""

    stream: TokenStream
    regime: str
    trained: str
    sizes: Sequence[Sequence[Tensor] | None] = ()


def found_in(model: LanguageModel, text: Text, companions: Companions, looks: Sequence[Looks] = ()) -> Iterator[Any]:
    """What a scorer finds of every target of a text, [*, N] a part; in its order if the model learns as it reads."""
    text.stream.check(model.vocabulary)
    if companions.dynamic is None:
        yield from found_in_rows(make_scorer(model, text.regime, companions.cache, looks), model.vocabulary, text)
        return
    from ostinato.tasks.language.adapt import Adapter, thawed

    learning, networks = thawed(model)
    scorer = make_scorer(learning, text.regime, companions.cache, looks)
    sizes = text.sizes or [None] * len(networks)
    fresh_lines = text.regime == "sentence"
    adapters = [
        Adapter(network, model.vocabulary, companions.dynamic, fresh_lines, size)
        for network, size in zip(networks, sizes, strict=True)
    ]
    state = scorer.init_state(1)
    for segment in segments(text.stream, model.vocabulary, text.trained, text.regime, companions.dynamic.length):
        if segment.fresh:
            state = scorer.init_state(1)
            for adapter in adapters:
                adapter.restart()
        found, state = scorer.score(state, segment.inputs, segment.targets)
        yield found[:, 0]
        for adapter in adapters:
            adapter.learn(segment)


def found_in_rows(scorer: Scorer, vocabulary: Vocabulary, text: Text) -> Iterator[Any]:
    """The same without learning, several documents side by side."""
    state: State | None = None
    for batch in ContinuousBatches(text.stream, vocabulary, ROWS, PIECE, split=False, seed=None):
        start = scorer.init_state(len(batch.fresh))
        state = start if state is None or batch.fresh.all() else where(batch.fresh, start, state)
        inputs = line_inputs(batch.inputs, vocabulary, text.trained, text.regime)
        found, state = scorer.score(state, inputs, batch.targets)
        yield found[:, batch.weight > 0]


def evaluate_with(
    loaded: Loaded, stream: TokenStream, regime: str, companions: Companions, watch: Watch = unwatched
) -> Score:
    """The score of a model on an encoded text with a cache, learning while it reads, or both.

    Nothing is scored after it was learnt from or put into the cache; both begin anew with each document. The model
    itself is never changed. Raises ConfigError, MismatchError, DataError.
    """
    companions = settled(loaded, companions)
    text = text_for(loaded, stream, regime, companions)
    nats, count = 0.0, 0
    for log_probs in log_prob_parts(loaded, text, companions):
        nats -= float(log_probs.sum(dtype=np.float64))
        count += len(log_probs)
        watch(Progress("evaluate", count, count / len(stream)))
    return stream_score(loaded.model, stream, loaded.pipeline, regime, nats, count, companions.facts)


def log_prob_parts(loaded: Loaded, text: Text, companions: Companions) -> Iterator[LogProbs]:
    """The log-probs (nats) of every target of a text, part by part. Raises ConfigError, MismatchError."""
    companions = settled(loaded, companions)
    return (found[0] for found in found_in(loaded.model, text, companions))


def settled(loaded: Loaded, companions: Companions) -> Companions:
    """The companions with every number: a decay that is not given is 1, theta is 0 for a model without features.

    Raises ConfigError for a weight, theta or rate that is lacking, and as `check` does.
    """
    check(loaded, companions)
    cache, advice = companions.cache, "give it, or tune it with --tune-on valid"
    if companions.dynamic is not None and companions.dynamic.rate is None:
        raise ConfigError(f"--dynamic lacks a rate; {advice}")
    if cache is None:
        return companions
    if cache.weight is None:
        raise ConfigError(f"--cache lacks --cache-weight; {advice}")
    if cache.theta is None and make_reader(loaded.model).width:
        raise ConfigError(f"--cache of a model with features lacks --cache-theta; {advice}")
    decay = 1.0 if cache.decay is None else cache.decay
    return replace(companions, cache=replace(cache, theta=cache.theta or 0.0, decay=decay))


def text_for(loaded: Loaded, stream: TokenStream, regime: str, companions: Companions) -> Text:
    """A text and all that is needed to read it.

    Sizes of gradients come from the training text, or from the validation text of a run that keeps no other, as a
    mixture does. Raises DataError if it has neither.
    """
    dynamic = companions.dynamic
    if dynamic is None or dynamic.method == "sgd":
        return Text(stream, regime, loaded.regime)
    from ostinato.tasks.language.adapt import gradient_sizes, spread, thawed

    kept = "train" if (loaded.run.path / "data" / "train").is_dir() else "valid"
    chosen = spread(segments(own_stream(loaded, kept), loaded.vocabulary, loaded.regime, regime, dynamic.length))
    fresh_lines = regime == "sentence"
    networks = thawed(loaded.model)[1]
    sizes = [gradient_sizes(network, loaded.vocabulary, chosen, fresh_lines) for network in networks]
    return Text(stream, regime, loaded.regime, sizes)


def check(loaded: Loaded, companions: Companions) -> None:
    """Raise ConfigError or MismatchError for companions that this model cannot have."""
    if companions.dynamic is not None:
        from ostinato.tasks.language.adapt import thawed

        companions.dynamic.check()
        thawed(loaded.model)
    cache = companions.cache
    if cache is not None:
        make_scorer(loaded.model, "stream", cache)
        if cache.theta and not make_reader(loaded.model).width:
            raise ConfigError(f"a model of kind {loaded.kind} has no features to compare; leave theta out")


def tune(
    loaded: Loaded, stream: TokenStream, regime: str, companions: Companions, watch: Watch = unwatched
) -> Companions:
    """The companions with the open numbers that suit a text best, its first TUNED tokens.

    The rate is the best of RATES, without the cache; then theta (of a model with features) and decay the best pair of
    THETAS and DECAYS, each with the weight that EM finds. A number that is given stays.
    """
    check(loaded, companions)
    text = text_for(loaded, beginning(stream, TUNED), regime, companions)
    if companions.dynamic is not None and companions.dynamic.rate is None:
        companions = replace(companions, dynamic=tune_rate(loaded, text, companions.dynamic, watch))
    if companions.cache is not None:
        companions = replace(companions, cache=tune_cache(loaded, text, companions, watch))
    return companions


def tune_rate(loaded: Loaded, text: Text, dynamic: DynamicOptions, watch: Watch) -> DynamicOptions:
    """The rate under which a text is likeliest; one that diverges is never chosen."""
    rates, costs = RATES[dynamic.method], []
    for place, rate in enumerate(rates):
        companions = Companions(dynamic=replace(dynamic, rate=rate))
        found = [part[0].sum(dtype=np.float64) for part in found_in(loaded.model, text, companions)]
        costs.append(np.nan_to_num(-float(np.sum(found)), nan=np.inf))
        watch(Progress("tune the rate", (place + 1) * len(text.stream), (place + 1) / len(rates), f"{rate:g}"))
    return replace(dynamic, rate=rates[int(np.argmin(costs))])


def tune_cache(loaded: Loaded, text: Text, companions: Companions, watch: Watch) -> CacheOptions:
    """The weight and the way to look into the cache under which a text is likeliest."""
    cache = companions.cache
    assert cache is not None
    featured = make_reader(loaded.model).width > 0
    thetas = (cache.theta,) if cache.theta is not None else THETAS if featured else (0.0,)
    decays = DECAYS if cache.decay is None else (cache.decay,)
    looks = [Looks(theta, decay) for theta in thetas for decay in decays]
    found = np.concatenate(list(found_in(loaded.model, text, companions, looks)), axis=1).astype(np.float64)
    watch(Progress("tune the cache", found.shape[1], 1.0))
    log_probs, cached = found[0], found[1:-1][:, found[-1] == 0]
    used = log_probs[found[-1] == 0]
    best = (np.inf, cache)
    for look, values in zip(looks, cached, strict=True):
        weight = cache.weight
        if weight is None:
            weight = float(fit_weights(np.stack([used, values]))[1])
        mixed = interpolate(used.astype(np.float32), values, np.zeros(used.shape, np.bool_), weight)
        cost = -float(mixed.sum(dtype=np.float64))
        if cost < best[0]:
            best = cost, replace(cache, weight=weight, theta=look.theta, decay=look.decay)
    return best[1]


def holds(stream: TokenStream, other: TokenStream) -> bool:
    """Whether a text is another one, or one of its documents is, whatever their names; by their ids."""
    ends = np.append(stream.starts[1:], len(stream)).tolist()
    spans = [(0, len(stream)), *zip(stream.starts.tolist(), ends, strict=True)]
    return any(end - begin == len(other) and np.array_equal(stream.ids[begin:end], other.ids) for begin, end in spans)


def beginning(stream: TokenStream, tokens: int) -> TokenStream:
    """The whole lines at the beginning of a text that hold at most that many tokens, or its first line."""
    starts = np.append(stream.line_starts, len(stream))
    lines = max(1, int(np.searchsorted(starts, tokens, "right")) - 1)
    end = int(starts[lines])
    return replace(stream, ids=stream.ids[:end], starts=stream.starts[stream.starts < end], lines=lines)
