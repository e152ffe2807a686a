"""Beam search against every sequence there is, and against a slow beam that never ends early."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.core.errors import ConfigError
from ostinato.decode import Beam, Greedy, Penalty
from ostinato.decode.beam import _at_least_rank
from references import decoding as slow
from test_decode import close, decode
from toys import Chain, constant_chain, random_chain

seeds = st.integers(0, 2**16)
alphas = st.sampled_from([0.0, 0.6, 1.0, 2.0])
stops = st.sampled_from([None, 0, 1, 2])


def after_start(model: Chain) -> tuple:
    return model, model.init_state(1), model.vocabulary.start


@settings(max_examples=40)
@given(seeds, st.integers(1, 2), alphas, stops, st.integers(0, 4), st.sampled_from([0.0, 0.4]))
def test_a_beam_as_wide_as_everything_finds_the_best_of_everything(seed, pieces, alpha, stop, max_tokens, zeros):
    """All sequences up to length 4 enumerated; the ten best agree with those of the beam."""
    model = random_chain(seed, pieces, zeros=zeros)
    every = slow.exhaustive(*after_start(model), stop=stop, max_tokens=max_tokens, alpha=alpha)
    [ours] = decode(Beam(width=1000, n_best=10, length_penalty=alpha), model, [[]], stop=stop, max_tokens=max_tokens)
    assert close(ours, every[:10])


@settings(max_examples=20)
@given(seeds, stops, st.integers(0, 4))
def test_outcomes_share_the_whole_probability(seed, stop, max_tokens):
    [every] = decode(Beam(width=1000, n_best=1000), random_chain(seed, 2), [[]], stop=stop, max_tokens=max_tokens)
    assert sum(math.exp(one.log_prob) for one in every) == pytest.approx(1, abs=1e-5)


@settings(max_examples=60)
@given(
    seed=seeds,
    pieces=st.integers(1, 4),
    width=st.integers(1, 7),
    data=st.data(),
    alpha=alphas,
    stop=stops,
    zeros=st.sampled_from([0.0, 0.5]),
    ties=st.booleans(),
)
def test_a_batched_beam_equals_a_slow_beam_a_row(seed, pieces, width, data, alpha, stop, zeros, ties):
    """Widths above the vocabulary, impossible ids and equal scores included; rows end at different times."""
    model = random_chain(seed, pieces, peaked=2, zeros=zeros, ties=ties)
    n_best = data.draw(st.integers(1, width))
    rows = data.draw(st.lists(st.lists(st.integers(0, 2), max_size=2), min_size=1, max_size=3))
    found = decode(Beam(width=width, n_best=n_best, length_penalty=alpha), model, rows, stop=stop, max_tokens=6)
    for prompt, ours in zip(rows, found, strict=True):
        state = model.init_state(1)
        for token in [model.vocabulary.start, *prompt][:-1]:
            _, state = model.step(state, np.array([token]))
        last = prompt[-1] if prompt else model.vocabulary.start
        options = {"width": width, "alpha": alpha, "n_best": n_best}
        assert close(ours, slow.beam(model, state, last, stop=stop, max_tokens=6, **options))


@settings(max_examples=40)
@given(
    seeds,
    st.sampled_from(
        [
            Penalty(repetition=1.7),
            Penalty(frequency=0.6, presence=0.3),
            Penalty(no_repeat_ngram=2),
            Penalty(frequency=-1.0),
            Penalty(presence=-2.0, repetition=0.5),
        ]
    ),
    alphas,
)
def test_penalties_are_ranked_and_rewards_do_not_end_it_early(seed, penalty, alpha):
    model = random_chain(seed, 2)

    def scores(log_probs, said):
        return slow.penalised(
            log_probs,
            said,
            1,
            penalty.repetition,
            penalty.frequency,
            penalty.presence,
            penalty.no_repeat_ngram,
        )

    [ours] = decode(Beam(width=3, n_best=2, length_penalty=alpha, penalty=penalty), model, [[]], max_tokens=5)
    theirs = slow.beam(*after_start(model), stop=1, max_tokens=5, width=3, alpha=alpha, n_best=2, penalised=scores)
    assert close(ours, theirs)


@given(seeds, st.sampled_from([0.0, 0.4]), st.booleans(), stops)
def test_a_beam_of_one_is_greedy(seed, zeros, ties, stop):
    model = random_chain(seed, 4, zeros=zeros, ties=ties)
    rows = [[], [2], [0, 3]]
    assert decode(Beam(width=1), model, rows, stop=stop) == decode(Greedy(), model, rows, stop=stop)


@given(seeds, alphas, st.integers(1, 5))
def test_asking_for_more_does_not_change_the_best(seed, alpha, n_best):
    model = random_chain(seed, 3)
    [few] = decode(Beam(width=5, length_penalty=alpha), model, [[]])
    [more] = decode(Beam(width=5, length_penalty=alpha, n_best=n_best), model, [[]])
    assert more[0] == few[0]
    assert [one.score for one in more] == sorted((one.score for one in more), reverse=True)


def test_a_length_penalty_waits_for_the_longer_hypothesis():
    """Stop now, p = .4: log .4 / (6/6)^2 = -.916. a then stop for sure, p = .3: log .3 / (7/6)^2 = -.885.

    A search that ends at the first finished hypothesis, or compares sums, returns the empty one.
    """
    model = constant_chain(0.3, 0.4, 0.3)
    model.table[:, 2] = np.log(np.float32([1e-30, 1, 1e-30]))
    [[plain]] = decode(Beam(width=3), model, [[]])
    [[long]] = decode(Beam(width=3, length_penalty=2.0), model, [[]])
    assert (plain.tokens, long.tokens) == ((), (2,))
    assert plain.score == pytest.approx(math.log(0.4))
    assert long.score == pytest.approx(math.log(0.3) / (7 / 6) ** 2)
    assert long.log_prob == pytest.approx(math.log(0.3))


def test_a_beam_finds_what_greedy_misses():
    """Greedy goes to b (.5) and ends with .5 * .4; over a it would have been .4 * 1."""
    model = constant_chain(0.05, 0.05, 0.4, 0.5)
    model.table[:, 2] = np.log(np.float32([1e-30, 1, 1e-30, 1e-30]))
    model.table[:, 3] = np.log(np.float32([0.2, 0.4, 0.2, 0.2]))
    assert decode(Greedy(), model, [[]])[0][0].tokens == (3,)
    assert decode(Beam(width=2), model, [[]])[0][0].tokens == (2,)


def test_finished_hypotheses_take_no_place_in_the_beam():
    """The stop ranks first at every step, and still two hypotheses go on: 1 + 2 + 2 + 2 rows are read."""
    model = constant_chain(0.2, 0.5, 0.3)
    decode(Beam(width=2, n_best=2, length_penalty=10.0), model, [[]], max_tokens=4)
    assert model.reads == 1 + 2 + 2 + 2


def test_a_row_ends_as_soon_as_nothing_can_win():
    """The stop (.9) is ahead of all that could follow; one step is read of a million."""
    model = constant_chain(0.05, 0.9, 0.05)
    [[found]] = decode(Beam(width=3), model, [[]], max_tokens=10**6)
    assert (found.tokens, found.finished, model.reads) == ((), True, 1)


def test_a_reward_for_repeating_may_still_win_after_a_better_stop():
    """The stop (.6) beats a (.4) at once, but each a again earns 3 a time it was said: 0 + 3 + 6."""
    [[found]] = decode(Beam(width=2, penalty=Penalty(frequency=-3)), constant_chain(0, 0.6, 0.4), [[]], max_tokens=3)
    assert found.tokens == (2, 2, 2)
    assert found.score == pytest.approx(3 * math.log(0.4) + 0 + 3 + 6)


def test_a_beam_may_hold_fewer_outcomes_than_asked_for():
    [found] = decode(Beam(width=8, n_best=8), constant_chain(0, 0.5, 0.5), [[]], max_tokens=2)
    assert [one.tokens for one in found] == [(), (2,), (2, 2)]  # .5, then .25 stopped and .25 cut off


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 0}, "width: a beam holds at least one hypothesis, got 0"),
        ({"width": 3, "n_best": 4}, "n_best: must lie between 1 and the width 3, got 4; widen the beam"),
        ({"n_best": 0}, "n_best: must lie between 1 and the width 4, got 0"),
        ({"length_penalty": -0.1}, "length_penalty: must lie between 0 and 10, got -0.1; 0 is off"),
        ({"length_penalty": float("nan")}, "length_penalty: .*got nan"),
    ],
)
def test_a_bad_option_is_refused(options: dict[str, float], message: str):
    with pytest.raises(ConfigError, match=message):
        Beam(**options)


def test_the_best_of_a_row_are_found_whatever_its_size() -> None:
    """Against sorting: ties at the last rank come too, what is impossible never does."""
    random = np.random.default_rng(0)
    for turn in range(200):
        rows, outputs, rank = (int(random.integers(1, most)) for most in (8, 1200, 9))
        scores = random.normal(size=(rows, outputs)).astype(np.float32)
        if turn % 3 == 0:
            scores = np.round(scores)
        if turn % 4 == 0:
            scores[random.random(scores.shape) < 0.95] = -np.inf
        limit = np.sort(scores, axis=1)[:, -rank, None] if rank <= outputs else np.full((rows, 1), -np.inf)
        wanted = np.flatnonzero((scores >= limit) & (scores > -np.inf))
        assert (np.sort(_at_least_rank(scores, rank)) == wanted).all(), (rows, outputs, rank)
