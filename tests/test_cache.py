"""The cache: against its definition, by hand, and under the laws of every language model."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.core import state as states
from ostinato.core.errors import ConfigError
from ostinato.core.model import LanguageModel, score_by_steps
from ostinato.core.state import State
from ostinato.core.vocabulary import Ids, LogProbs, Vocabulary
from ostinato.mix import Mixture
from ostinato.nn.lm import NeuralLM
from ostinato.nn.networks import networks
from ostinato.nn.options import NPLMOptions
from ostinato.tasks.language import cache as module
from ostinato.tasks.language.cache import CacheLM
from ostinato.tasks.language.reading import FreshLines, line_inputs, make_reader
from ostinato.tasks.options import KINDS
from references.cache import SlowCache
from toys import constant_chain, letters

VOCABULARY = letters(4)
START, STOP = VOCABULARY.start, VOCABULARY.stop
A, B = VOCABULARY.ids(["a", "b"]).tolist()


def lstm(seed: int = 0) -> NeuralLM:
    torch.manual_seed(seed)
    options: Any = KINDS["lstm"]
    network = networks["lstm"](VOCABULARY.outputs, options(hidden=5))
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return NeuralLM(network, VOCABULARY)


def nplm() -> NeuralLM:
    torch.manual_seed(3)
    return NeuralLM(networks["nplm"](VOCABULARY.outputs, NPLMOptions(order=3, hidden=4, embedding=3)), VOCABULARY)


def chain() -> LanguageModel:
    return constant_chain(0.05, 0.1, 0.3, 0.25, 0.2, 0.1)


MAKERS = {
    "unigram": lambda: CacheLM(chain(), 4, 0.3),
    "fading": lambda: CacheLM(chain(), 6, 0.3, decay=0.7),
    "neural": lambda: CacheLM(lstm(), 5, 0.4, theta=0.8),
    "fresh lines": lambda: CacheLM(lstm(), 5, 0.4, theta=0.8, decay=0.9, fresh_lines=True),
    "mixture": lambda: CacheLM(Mixture([lstm(), chain(), nplm()], [0.4, 0.3, 0.3]), 7, 0.4, theta=0.5),
    "inside a mixture": lambda: Mixture([CacheLM(lstm(), 5, 0.2, theta=0.3), chain()], [0.5, 0.5]),
}


@pytest.fixture(params=MAKERS, scope="module")
def model(request: pytest.FixtureRequest) -> LanguageModel:
    return MAKERS[request.param]()


# lines in one row: what is read is a start symbol and pieces, and what comes next is any of them but the start
texts = st.lists(st.integers(0, VOCABULARY.outputs), min_size=1, max_size=24)


def rows_of(ids: list[int]) -> tuple[Ids, Ids]:
    """Inputs and targets [1, T]: the start symbol is read for the stop symbol that came."""
    read = np.array([[START if one == VOCABULARY.outputs else one for one in ids]])
    return np.hstack([[[START]], read[:, :-1]]), np.where(read == START, STOP, read)


def quick(test: Any) -> Any:
    return settings(max_examples=25, deadline=None)(test)


@quick
@given(ids=texts, cut=st.integers(0, 24), queries=st.sampled_from([1, 3, 128]))
def test_score_equals_a_fold_of_step_wherever_it_is_cut(
    model: LanguageModel, ids: list[int], cut: int, queries: int
) -> None:
    inputs, targets = rows_of(ids)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "QUERIES", queries)
        first, middle = model.score(model.init_state(1), inputs[:, :cut], targets[:, :cut])
        second, end = model.score(middle, inputs[:, cut:], targets[:, cut:])
    slow, last = score_by_steps(model, model.init_state(1), inputs, targets)
    np.testing.assert_allclose(np.hstack([first, second]), slow, atol=2e-5)
    assert states.same(end, last, atol=1e-5)
    assert states.nbytes(end) == states.nbytes(model.init_state(1))


@quick
@given(rows=st.lists(texts, min_size=2, max_size=4))
def test_the_other_rows_of_a_batch_change_nothing(model: LanguageModel, rows: list[list[int]]) -> None:
    width = max(map(len, rows))
    inputs, targets = np.full((len(rows), width), VOCABULARY.pad), np.full((len(rows), width), STOP)
    for place, ids in enumerate(rows):
        inputs[place, : len(ids)], targets[place, : len(ids)] = (side[0] for side in rows_of(ids))
    together, _ = model.score(model.init_state(len(rows)), inputs, targets)
    for place, ids in enumerate(rows):
        alone, _ = model.score(model.init_state(1), *rows_of(ids))
        np.testing.assert_allclose(together[place, : len(ids)], alone[0], atol=2e-5)


@quick
@given(ids=texts)
def test_distributions_sum_to_one_and_a_state_is_a_value(model: LanguageModel, ids: list[int]) -> None:
    state = model.init_state(1)
    for token in rows_of(ids)[0][0]:
        before = states.to_bytes(state)
        log_probs, after = model.step(state, np.array([token]))
        assert log_probs.dtype == np.float32
        np.testing.assert_allclose(np.exp(log_probs.astype(np.float64)).sum(axis=1), 1, atol=1e-5)
        assert states.to_bytes(state) == before
        state = after
    assert states.same(states.from_bytes(states.to_bytes(state), model.init_state(2)), state)
    both = states.stack([state, model.init_state(1)])
    assert states.same(states.take(both, np.array([0])), state)


@quick
@given(ids=texts, place=st.integers(0, 23), other=st.integers(0, VOCABULARY.outputs))
def test_what_comes_later_changes_nothing_before(model: LanguageModel, ids: list[int], place: int, other: int) -> None:
    place %= len(ids)
    changed = [*ids[:place], other, *ids[place + 1 :]]
    one, _ = model.score(model.init_state(1), *rows_of(ids))
    two, _ = model.score(model.init_state(1), *rows_of(changed))
    np.testing.assert_allclose(one[:, :place], two[:, :place], rtol=0, atol=1e-6)


@quick
@given(
    ids=texts,
    size=st.integers(1, 6),
    weight=st.floats(0, 1),
    theta=st.floats(0, 2),
    decay=st.floats(0.1, 1),
)
def test_the_cache_is_the_sum_of_its_definition(
    ids: list[int], size: int, weight: float, theta: float, decay: float
) -> None:
    inner = lstm()
    model = CacheLM(inner, size, weight, theta, decay)
    slow = SlowCache(size, weight, theta, decay)
    inputs, targets = rows_of(ids)
    found, _ = model.score(model.init_state(1), inputs, targets)
    state: Any = inner.init_state(1)
    for place, (token, target) in enumerate(zip(inputs[0].tolist(), targets[0].tolist(), strict=True)):
        log_probs, features, state = inner.read_one(state, np.array([token]))
        slow.read(STOP if token == START else token, features[0].tolist())
        probs = slow.probs(np.exp(log_probs[0].astype(np.float64)).tolist())
        assert math.exp(found[0, place]) == pytest.approx(probs[target], rel=1e-4, abs=1e-9)


def read_all(model: LanguageModel, *ids: int) -> LogProbs:
    """The distribution after these ids."""
    state, log_probs = model.init_state(1), np.zeros((1, model.outputs), np.float32)
    for token in ids:
        log_probs, state = model.step(state, np.array([token]))
    return np.exp(log_probs[0])


def test_a_unigram_cache_by_hand() -> None:
    """After `<s> a b a` the cache holds a, b, a; `<s>` itself comes from nowhere."""
    probs = read_all(CacheLM(chain(), 10, 0.25), START, A, B, A)
    assert probs[A] == pytest.approx(0.75 * 0.3 + 0.25 * 2 / 3)
    assert probs[B] == pytest.approx(0.75 * 0.25 + 0.25 * 1 / 3)
    assert probs[STOP] == pytest.approx(0.75 * 0.1)
    assert read_all(CacheLM(chain(), 2, 0.25), START, A, B, A)[A] == pytest.approx(0.75 * 0.3 + 0.25 * 1 / 2)
    faded = read_all(CacheLM(chain(), 10, 0.25, decay=0.5), START, A, B, A)
    assert faded[A] == pytest.approx(0.75 * 0.3 + 0.25 * (0.25 + 1) / (0.25 + 0.5 + 1))
    assert read_all(CacheLM(chain(), 10, 0.25), START)[A] == pytest.approx(0.3), "nothing is cached yet"
    second = read_all(CacheLM(chain(), 10, 0.25), START, A, START)
    assert second[STOP] == pytest.approx(0.75 * 0.1 + 0.25 * 1 / 2), "the symbol before a line tells of </s>"


class Directions:
    """A constant model with features by hand: after `a` (1, 0), after `b` (0, 2), after all else (0, 0)."""

    width, vocabulary, outputs = 2, VOCABULARY, VOCABULARY.outputs

    def __init__(self) -> None:
        self.inner = chain()
        self.table = np.zeros((len(VOCABULARY), 2), np.float32)
        self.table[A], self.table[B] = (1, 0), (0, 2)

    def init_state(self, batch: int) -> State:
        return self.inner.init_state(batch)

    def step(self, state: State, tokens: Ids) -> tuple[LogProbs, State]:
        return self.inner.step(state, tokens)

    def score(self, state: State, inputs: Ids, targets: Ids) -> tuple[LogProbs, State]:
        return self.inner.score(state, inputs, targets)

    def read_one(self, state: State, tokens: Ids) -> tuple[LogProbs, Any, State]:
        log_probs, state = self.step(state, tokens)
        return log_probs, self.table[tokens], state

    def read(self, state: State, inputs: Ids, targets: Ids) -> tuple[LogProbs, Any, State]:
        log_probs, state = self.score(state, inputs, targets)
        return log_probs, self.table[inputs], state


def test_a_neural_cache_of_three_tokens_by_hand() -> None:
    """After `<s> b a b` the query is (0, 2); b followed (0, 0), a followed (0, 2), b followed (1, 0)."""
    probs = read_all(CacheLM(Directions(), 3, 0.5, theta=0.25), START, B, A, B)
    alike = math.exp(0.25 * (0 * 0 + 2 * 2))
    assert probs[A] == pytest.approx(0.5 * 0.3 + 0.5 * alike / (1 + alike + 1))
    assert probs[B] == pytest.approx(0.5 * 0.25 + 0.5 * 2 / (1 + alike + 1))


@quick
@given(ids=texts)
def test_with_theta_0_it_is_the_unigram_cache_and_with_weight_0_the_model(ids: list[int]) -> None:
    inner, pair = lstm(), rows_of(ids)
    model = CacheLM(inner, 5, 0.3)
    found, _ = model.score(model.init_state(1), *pair)
    plain, _ = inner.score(inner.init_state(1), *pair)
    came = [STOP if token == START else token for token in pair[0][0, 1:].tolist()]
    for place, target in enumerate(pair[1][0].tolist()):
        window = came[max(0, place - 5) : place]
        share = 0.3 * window.count(target) / len(window) + 0.7 * math.exp(plain[0, place]) if window else None
        assert math.exp(found[0, place]) == pytest.approx(share or math.exp(plain[0, place]), rel=1e-5)
    none = CacheLM(inner, 5, 0.0, theta=1.0)
    np.testing.assert_array_equal(none.score(none.init_state(1), *pair)[0], plain)


@quick
@given(rows=st.lists(texts, min_size=1, max_size=3))
def test_fresh_lines_are_read_as_if_each_were_alone(rows: list[list[int]]) -> None:
    inner = lstm()
    reader = FreshLines(make_reader(inner), VOCABULARY)
    width = min(map(len, rows))
    pairs = [rows_of(ids[:width]) for ids in rows]
    inputs, targets = (np.vstack(side) for side in zip(*pairs, strict=True))
    found, features, end = reader.read(reader.init_state(len(rows)), inputs, targets)
    state = reader.init_state(len(rows))
    for place in range(width):
        log_probs, expected, state = reader.read_one(state, inputs[:, place])
        np.testing.assert_allclose(features[:, place], expected, atol=1e-5)
        np.testing.assert_allclose(found[:, place], log_probs[np.arange(len(rows)), targets[:, place]], atol=1e-5)
    assert states.same(end, state, atol=1e-5)
    line = [START, *[one for one in rows[0] if one < VOCABULARY.outputs and one != STOP]]
    late = np.array([[START, A, B, *line]])
    alone, _ = inner.score(inner.init_state(1), np.array([line]), np.full((1, len(line)), A))
    behind, _, _ = reader.read(reader.init_state(1), late, np.full(late.shape, A))
    np.testing.assert_allclose(behind[:, 3:], alone, atol=1e-5)


def test_a_line_begins_with_the_symbol_the_model_was_trained_with() -> None:
    """Line by line: always the start symbol. A stream: the stop symbol before, and before a document the start."""
    text = np.array([START, A, STOP, B, STOP])
    for regime in ("sentence", "stream"):
        assert line_inputs(text, VOCABULARY, "sentence", regime).tolist() == [START, A, START, B, START]
    assert line_inputs(text, VOCABULARY, "stream", "stream").tolist() == text.tolist()
    assert line_inputs(text, VOCABULARY, "stream", "sentence").tolist() == [STOP, A, STOP, B, STOP]


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"size": 0, "weight": 0.1}, "at least 1"),
        ({"size": 5, "weight": 1.5}, "between 0 and 1"),
        ({"size": 5, "weight": 0.1, "theta": -1.0}, "theta"),
        ({"size": 5, "weight": 0.1, "theta": math.nan}, "theta"),
        ({"size": 5, "weight": 0.1, "decay": 0.0}, "decay"),
    ],
)
def test_numbers_out_of_range_are_refused(numbers: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        CacheLM(chain(), **numbers)


def test_a_vocabulary_and_outputs_are_the_models() -> None:
    model = CacheLM(chain(), 3, 0.1)
    assert isinstance(model, LanguageModel)
    assert isinstance(model.vocabulary, Vocabulary)
    assert model.outputs == VOCABULARY.outputs
