"""Penalties: the formula id by id, the ban and its lifting."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.core.errors import ConfigError
from ostinato.decode import Beam, Greedy, Penalty, repeated
from ostinato.decode.penalty import completions
from references.decoding import penalised
from test_decode import decode
from toys import constant_chain, log_of, random_chain

penalties = st.builds(
    Penalty,
    repetition=st.sampled_from([1.0, 0.5, 1.3, 4.0]),
    frequency=st.sampled_from([0.0, 0.7, -0.2]),
    presence=st.sampled_from([0.0, 1.1, -0.3]),
    no_repeat_ngram=st.integers(0, 4),
)
LOG_PROBS = np.log(np.float32([[0.1, 0.2, 0.3, 0.4]]))


@given(penalties, st.lists(st.integers(0, 5), max_size=12), st.integers(0, 999), st.sampled_from([None, 1]))
def test_scores_follow_the_formula_id_by_id(penalty: Penalty, said: list[int], seed: int, stop: int | None):
    """Ids 4 and 5 can be read but never come next: they count in n-grams and are never touched."""
    weights = np.random.default_rng(seed).exponential(size=4) * (np.random.default_rng(seed + 1).random(4) < 0.7)
    weights[0] += weights.sum() == 0
    log_probs = log_of(weights / weights.sum())[None]
    before = log_probs.copy()
    expected = penalised(
        log_probs[0].tolist(),
        said,
        stop,
        penalty.repetition,
        penalty.frequency,
        penalty.presence,
        penalty.no_repeat_ngram,
    )
    np.testing.assert_allclose(penalty.apply(log_probs, [said], stop)[0], expected, rtol=1e-12)
    np.testing.assert_array_equal(log_probs, before)


def test_each_penalty_by_hand():
    """0 was said twice, 3 once: p becomes p^2, or loses 0.5 a time, or 0.25 once."""
    said, log = [[0, 3, 0]], LOG_PROBS[0].astype(float)
    np.testing.assert_allclose(
        Penalty(repetition=2).apply(LOG_PROBS, said)[0], [2 * log[0], log[1], log[2], 2 * log[3]], rtol=1e-12
    )
    np.testing.assert_allclose(Penalty(frequency=0.5).apply(LOG_PROBS, said)[0], log - [1.0, 0, 0, 0.5], rtol=1e-12)
    np.testing.assert_allclose(Penalty(presence=0.25).apply(LOG_PROBS, said)[0], log - [0.25, 0, 0, 0.25], rtol=1e-12)


@given(st.lists(st.integers(0, 2), max_size=12), st.integers(1, 4))
def test_a_completion_is_what_would_repeat_an_n_gram(said: list[int], order: int):
    grams = [said[place : place + order] for place in range(len(said) - order + 1)]
    expected = {token for token in range(3) if len(said) >= order - 1 and [*said, token][-order:] in grams}
    assert set(completions(np.array(said, np.int64), order).tolist()) == expected


def test_no_n_gram_is_said_twice():
    model = constant_chain(0.05, 0.05, 0.5, 0.4)
    for strategy in (Greedy(Penalty(no_repeat_ngram=2)), Beam(penalty=Penalty(no_repeat_ngram=2))):
        [[found]] = decode(strategy, model, [[]], stop=None, max_tokens=8)
        assert repeated(found.tokens, 2) == 0
    [[plain]] = decode(Greedy(), model, [[]], stop=None, max_tokens=8)
    assert repeated(plain.tokens, 2) == pytest.approx(6 / 7)


def test_the_ban_is_lifted_where_it_would_leave_nothing():
    """Only a is possible, so a must be said again although it was banned."""
    [[found]] = decode(Greedy(Penalty(no_repeat_ngram=1)), constant_chain(0, 0, 1), [[]], max_tokens=3)
    assert found.tokens == (2, 2, 2)


def test_the_stop_symbol_is_exempt():
    """Banned words leave the stop as the only way out, even if a prompt held it."""
    hard = Penalty(repetition=50, frequency=50, no_repeat_ngram=1)
    [[found]] = decode(Greedy(hard), constant_chain(0, 0.1, 0.9), [[1, 1]], max_tokens=9)
    assert found.finished
    assert found.tokens == (2,)


def test_what_was_said_in_the_prompt_counts():
    penalty = Penalty(presence=5)
    [[after_a]] = decode(Greedy(penalty), constant_chain(0.1, 0.1, 0.5, 0.3), [[2]], max_tokens=1)
    [[after_b]] = decode(Greedy(penalty), constant_chain(0.1, 0.1, 0.5, 0.3), [[3]], max_tokens=1)
    assert (after_a.tokens, after_b.tokens) == ((3,), (2,))


def test_a_penalty_never_changes_the_reported_log_prob():
    [[found]] = decode(Greedy(Penalty(presence=5)), constant_chain(0.1, 0.1, 0.5, 0.3), [[]], stop=None, max_tokens=3)
    assert found.tokens == (2, 3, 0)  # each new id before any old one
    assert found.log_prob == pytest.approx(np.log(0.5) + np.log(0.3) + np.log(0.1), abs=1e-6)
    assert found.score == pytest.approx(found.log_prob)
    [[longer]] = decode(Greedy(Penalty(presence=5)), constant_chain(0.1, 0.1, 0.5, 0.3), [[2]], stop=0, max_tokens=3)
    assert longer.tokens == (3,)  # then the stop, 0: exempt, and the lower id of two equals
    assert longer.finished


def test_the_default_costs_nothing():
    model = random_chain(0)
    assert Penalty().apply(model.table[0], [[]] * 7) is not None
    assert np.shares_memory(Penalty().apply(model.table[0], [[]] * 7), model.table)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"repetition": 0}, r"penalty.repetition: must be above 0 .*got 0.0; 1 is off"),
        ({"repetition": float("nan")}, "penalty.repetition: .*got nan"),
        ({"frequency": float("inf")}, "penalty.frequency: must lie between -1000 and 1000, got inf"),
        ({"presence": -2000}, "penalty.presence: must lie between -1000 and 1000, got -2000"),
        ({"no_repeat_ngram": -1}, "penalty.no_repeat_ngram: cannot be negative, got -1; 0 is off"),
    ],
)
def test_a_bad_penalty_is_refused(options: dict[str, float], message: str):
    with pytest.raises(ConfigError, match=message):
        Penalty(**options)
