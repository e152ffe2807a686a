"""Prompts, requests, greedy decoding and what every strategy has in common."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.core.config import build
from ostinato.core.errors import ConfigError, DivergedError, MismatchError, ShapeError
from ostinato.core.model import LanguageModel, score_by_steps
from ostinato.core.state import same, take
from ostinato.decode import (
    Beam,
    Greedy,
    Hypothesis,
    Penalty,
    Sample,
    Strategy,
    distinct,
    read_prompts,
    repeated,
    strategies,
)
from references.decoding import next_log_probs
from toys import Chain, constant_chain, random_chain

EVERY = [
    Greedy(),
    Greedy(Penalty(repetition=1.5, no_repeat_ngram=2)),
    Sample(),
    Sample(temperature=0.7, top_k=3, top_p=0.9, penalty=Penalty(frequency=0.5)),
    Beam(width=3, n_best=2),
    Beam(width=3, length_penalty=0.8, penalty=Penalty(presence=0.4)),
]
STEPWISE = EVERY[:4]
chains = st.builds(random_chain, st.integers(0, 2**16), st.integers(1, 4), zeros=st.sampled_from([0.0, 0.4]))
prompts = st.lists(st.lists(st.integers(0, 2), max_size=5), min_size=1, max_size=4)


def as_ids(rows: list[list[int]]) -> list[np.ndarray]:
    return [np.array(row, np.int64) for row in rows]


def decode(strategy: Strategy, model: Chain, rows: list[list[int]], *, stop: int | None = 1, max_tokens=6, seed=0):
    state, tokens = read_prompts(model, as_ids(rows))
    return strategy.decode(model, state, tokens, stop=stop, max_tokens=max_tokens, seed=seed, history=as_ids(rows))


def log_prob_of(model: Chain, prompt: list[int], one: Hypothesis) -> float:
    """What `model.score` says of the hypothesis after the prompt."""
    said = [*one.tokens, model.vocabulary.stop] if one.finished else list(one.tokens)
    read = np.array([[model.vocabulary.start, *prompt, *said]])
    scores, _ = model.score(model.init_state(1), read[:, :-1], read[:, 1:])
    return float(scores[0, len(prompt) :].sum(dtype=np.float64))


def close(ours: list[Hypothesis], theirs: list[Hypothesis]) -> bool:
    return [(one.tokens, one.finished) for one in ours] == [(one.tokens, one.finished) for one in theirs] and all(
        math.isclose(a.log_prob, b.log_prob, abs_tol=1e-9) and math.isclose(a.score, b.score, abs_tol=1e-9)
        for a, b in zip(ours, theirs, strict=True)
    )


def test_a_toy_keeps_the_contract():
    model = random_chain(0)
    assert isinstance(model, LanguageModel)
    ids = np.array([[model.vocabulary.start, 2, 3, 0], [model.vocabulary.start, 4, 1, model.vocabulary.start]])
    targets = np.array([[2, 3, 0, 1], [4, 1, 0, 3]])
    fast, slow = (
        score(model.init_state(2), ids, targets) for score in (model.score, lambda *a: score_by_steps(model, *a))
    )
    np.testing.assert_array_equal(fast[0], slow[0])
    assert same(fast[1], slow[1])


def test_the_strategies_are_known_by_name():
    assert list(strategies) == ["beam", "greedy", "sample"]
    assert build(strategies["beam"], {"width": 2, "penalty": {"repetition": 1.1}}, "here") == Beam(
        width=2, penalty=Penalty(repetition=1.1)
    )


# --- prompts


@given(chains, prompts)
def test_prompts_of_any_lengths_are_read_as_if_alone(model: Chain, rows: list[list[int]]):
    state, tokens = read_prompts(model, as_ids(rows))
    for row, prompt in enumerate(rows):
        *read, last = [model.vocabulary.start, *prompt]
        alone = model.init_state(1)
        for token in read:
            _, alone = model.step(alone, np.array([token]))
        assert tokens[row] == last
        assert same(take(state, np.array([row])), alone)


def test_a_long_prompt_is_read_in_pieces_without_a_seam():
    model, prompt = random_chain(1), np.random.default_rng(0).integers(0, 5, 300)
    state, tokens = read_prompts(model, [prompt, prompt[:3]])
    np.testing.assert_array_equal(state.last[0], prompt[-3:-1])
    assert tokens.tolist() == [prompt[-1], prompt[2]]


def test_bad_prompts_are_refused():
    model = random_chain(0)
    with pytest.raises(ConfigError, match="prompts: give at least one"):
        read_prompts(model, [])
    with pytest.raises(ShapeError, match="must be one row of ids"):
        read_prompts(model, [np.zeros((1, 2), np.int64)])
    with pytest.raises(MismatchError, match="prompt ids reach from 7 to 99"):
        read_prompts(model, as_ids([[7, 99]]))


# --- laws of every strategy


@pytest.mark.parametrize("strategy", EVERY, ids=repr)
@settings(max_examples=25)
@given(model=chains, rows=prompts, seed=st.integers(0, 99))
def test_a_hypothesis_says_what_the_model_would_score_it(strategy, model, rows, seed):
    for prompt, found in zip(rows, decode(strategy, model, rows, seed=seed), strict=True):
        assert found
        for one in found:
            assert one.log_prob == pytest.approx(log_prob_of(model, prompt, one), abs=1e-9)
            assert one.log_prob > -math.inf
            assert model.vocabulary.stop not in one.tokens
            assert one.finished or len(one.tokens) == 6


@pytest.mark.parametrize("strategy", EVERY, ids=repr)
@settings(max_examples=25)
@given(model=chains, rows=prompts, seed=st.integers(0, 99))
def test_other_rows_change_nothing(strategy, model, rows, seed):
    """Row 0 alone, first of many, and (where nothing is random) each row by itself."""
    whole = decode(strategy, model, rows, seed=seed)
    assert decode(strategy, model, rows[:1], seed=seed)[0] == whole[0]
    if not isinstance(strategy, Sample):
        assert [decode(strategy, model, [row])[0] for row in rows] == whole
    else:
        assert decode(strategy, model, [[] for _ in rows[:-1]] + rows[-1:], seed=seed)[-1] == whole[-1]


@pytest.mark.parametrize("strategy", EVERY, ids=repr)
def test_without_a_stop_every_row_runs_to_the_end(strategy):
    model = constant_chain(0.1, 0.6, 0.3)
    for found in decode(strategy, model, [[], [2]], stop=None, max_tokens=5):
        assert all(len(one.tokens) == 5 and not one.finished for one in found)


@pytest.mark.parametrize("strategy", EVERY, ids=repr)
def test_no_steps_leave_the_empty_hypothesis(strategy):
    assert decode(strategy, random_chain(0), [[2]], max_tokens=0) == [[Hypothesis((), 0.0, 0.0, False)]]


@pytest.mark.parametrize("strategy", EVERY, ids=repr)
def test_no_rows_give_no_hypotheses(strategy):
    model = random_chain(0)
    assert strategy.decode(model, model.init_state(0), np.zeros(0, np.int64), stop=1, max_tokens=3) == []


@pytest.mark.parametrize("strategy", EVERY, ids=repr)
@settings(max_examples=10)
@given(model=chains)
def test_the_state_it_was_given_is_left_alone(strategy, model):
    state, tokens = read_prompts(model, as_ids([[2, 0], [0]]))
    before, read = state.last.copy(), tokens.copy()
    first = strategy.decode(model, state, tokens, stop=1, max_tokens=4, seed=3)
    np.testing.assert_array_equal(state.last, before)
    np.testing.assert_array_equal(tokens, read)
    assert strategy.decode(model, state, tokens, stop=1, max_tokens=4, seed=3) == first


@pytest.mark.parametrize("strategy", EVERY, ids=repr)
def test_a_bad_request_is_refused(strategy):
    model = random_chain(0)
    state, tokens = read_prompts(model, as_ids([[2], [3]]))

    def ask(tokens=tokens, stop=1, max_tokens=3, **more):
        return strategy.decode(model, state, tokens, stop=stop, max_tokens=max_tokens, **more)

    with pytest.raises(ConfigError, match="stop: 5 can never come next; give an id below 5"):
        ask(stop=model.vocabulary.start)
    with pytest.raises(ConfigError, match="max_tokens: cannot be negative, got -1"):
        ask(max_tokens=-1)
    with pytest.raises(ConfigError, match="seed: cannot be negative, got -2"):
        ask(seed=-2)
    with pytest.raises(ShapeError, match="one a row of the state, which has 2 rows"):
        ask(tokens=tokens[:1])
    with pytest.raises(ShapeError, match="history has 1 rows, tokens 2"):
        ask(history=as_ids([[2]]))


@pytest.mark.parametrize("strategy", EVERY, ids=repr)
@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_a_broken_model_is_named_and_not_decoded(strategy, value):
    """A bare argmax would quietly give token 0."""
    model = random_chain(0)
    model.table[:, 2] = value
    with pytest.raises(DivergedError, match="row 1 no possible next token"):
        decode(strategy, model, [[3], [2]])


# --- streams


@pytest.mark.parametrize("strategy", STEPWISE, ids=repr)
@settings(max_examples=25)
@given(model=chains, rows=prompts)
def test_a_stream_shows_the_columns_of_what_decode_returns(strategy, model, rows):
    state, tokens = read_prompts(model, as_ids(rows))
    columns = list(strategy.stream(model, state, tokens, stop=1, max_tokens=6, seed=4, history=as_ids(rows)))
    for row, [one] in enumerate(decode(strategy, model, rows, seed=4)):
        said = [column[row] for column in columns]
        assert tuple(token for token in said if token is not None) == one.tokens
        assert (None in said) == one.finished
        assert all(token is None for token in said[len(one.tokens) :])


def test_a_stream_reads_no_further_than_it_is_followed():
    model = constant_chain(0.1, 0.2, 0.7)
    stream = Greedy().stream(model, model.init_state(1), np.array([3]), stop=1, max_tokens=10**9)
    assert [next(stream), next(stream)] == [[2], [2]]
    assert model.reads == 2


def test_a_stream_checks_its_request_at_once():
    model = random_chain(0)
    with pytest.raises(ConfigError, match="max_tokens"):
        Greedy().stream(model, model.init_state(1), np.array([5]), stop=1, max_tokens=-1)


def test_a_beam_refuses_to_stream():
    model = random_chain(0)
    with pytest.raises(ConfigError, match=r"beam cannot stream.*use greedy or sample"):
        Beam().stream(model, model.init_state(1), np.array([5]), stop=1, max_tokens=1)


def test_rows_that_have_stopped_cost_nothing():
    """After a, stop is certain; after b, b is: two rows read at the first step, one from then on."""
    model = constant_chain(0, 0, 0.5, 0.5)
    model.table[:, 2] = np.log(np.float32([1e-9, 1, 1e-9, 1e-9]))
    model.table[:, 3] = np.log(np.float32([1e-9, 1e-9, 1e-9, 1]))
    assert [one.tokens for [one] in decode(Greedy(), model, [[2], [3]], max_tokens=4)] == [(), (3, 3, 3, 3)]
    assert model.reads == 2 + 1 + 1 + 1


# --- greedy


@given(chains, st.lists(st.integers(0, 2), max_size=4))
def test_greedy_takes_the_best_token_each_time(model: Chain, prompt: list[int]):
    [[found]] = decode(Greedy(), model, [prompt], max_tokens=5)
    said: list[int] = []
    while len(said) < 5 and 1 not in said:
        scores = next_log_probs(model, model.init_state(1), [model.vocabulary.start, *prompt, *said])
        said.append(scores.index(max(scores)))
    assert list(found.tokens) == [token for token in said if token != 1]
    assert found.finished == (1 in said)
    assert found.score == found.log_prob


# --- diversity


def test_repetition_is_counted_by_hand():
    """a b a b a has bigrams ab ba ab ba: two of four are new; trigrams aba bab aba: two of three."""
    assert distinct("ababa", 2) == 2 / 4
    assert repeated("ababa", 2) == 2 / 4
    assert distinct("ababa", 3) == 2 / 3
    assert repeated([5, 5, 5, 5], 1) == 3 / 4
    assert distinct([5, 6, 7], 1) == 1


def test_a_text_too_short_for_an_n_gram_repeats_nothing():
    assert (distinct([], 1), repeated([1, 1], 3)) == (1.0, 0.0)
    with pytest.raises(ConfigError, match="n: an n-gram has at least one token, got 0"):
        distinct([1], 0)
