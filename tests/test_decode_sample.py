"""Sampling: what may be drawn, how often, and that a seed says it all."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ostinato.core.config import build
from ostinato.core.errors import ConfigError
from ostinato.decode import Greedy, Sample, read_prompts
from ostinato.decode.sample import invert
from references.decoding import inverse_cdf, next_log_probs, nucleus
from test_decode import as_ids, decode
from toys import constant_chain, log_of, random_chain

distributions = st.lists(st.sampled_from([0, 1, 2, 3, 5, 8]), min_size=1, max_size=7).filter(any)


def log_probs_of(weights: list[int]) -> np.ndarray:
    return log_of(np.array(weights) / sum(weights))


@given(distributions, st.integers(1, 8))
def test_top_k_keeps_the_k_most_likely_the_lower_of_equals(weights: list[int], k: int):
    ids, probs = Sample(top_k=k).kept(log_probs_of(weights))
    ranked = sorted(range(len(weights)), key=lambda w: (-weights[w], w))
    expected = sorted(w for w in ranked[:k] if weights[w])
    assert ids.tolist() == expected
    np.testing.assert_allclose(probs, [weights[w] / sum(weights[v] for v in expected) for w in expected], rtol=1e-6)


@given(distributions, st.floats(0.01, 0.99))
def test_the_nucleus_is_the_smallest_set_that_holds_the_mass(weights: list[int], mass: float):
    """Equal weights may be exchanged, so sizes and probabilities are compared, and the lower ids are expected."""
    sums = np.cumsum(sorted(weights)[::-1]) / sum(weights)
    assume(np.abs(sums - mass).min() > 1e-6)
    ids, probs = Sample(top_p=mass).kept(log_probs_of(weights))
    expected = nucleus([weight / sum(weights) for weight in weights], mass)
    assert sorted(weights[w] for w in ids) == sorted(weights[w] for w in expected)
    ranked = sorted(range(len(weights)), key=lambda w: (-weights[w], w))
    assert ids.tolist() == sorted(ranked[: len(expected)])
    assert probs.sum() == pytest.approx(1)


def test_top_p_looks_at_what_top_k_left():
    """Of .4 .3 .2 .1, top-k 2 leaves 4/7 and 3/7: the first alone holds half."""
    log_probs = np.log(np.float32([0.1, 0.3, 0.2, 0.4]))
    assert Sample(top_p=0.5).kept(log_probs)[0].tolist() == [1, 3]
    assert Sample(top_k=2, top_p=0.5).kept(log_probs)[0].tolist() == [3]


@given(distributions, st.sampled_from([0.3, 0.7, 1.0, 2.0, 10.0]))
def test_a_temperature_is_a_power_of_the_probabilities(weights: list[int], temperature: float):
    ids, probs = Sample(temperature=temperature).kept(log_probs_of(weights))
    powers = np.array([weights[w] for w in ids]) ** (1 / temperature)
    np.testing.assert_allclose(probs, powers / powers.sum(), rtol=1e-5)


@pytest.mark.parametrize("narrow", [Sample(temperature=1e-310), Sample(top_k=1), Sample(top_p=1e-9)], ids=repr)
def test_the_narrowest_sampling_is_greedy(narrow: Sample):
    model = random_chain(3, 5)
    for ours, theirs in zip(
        decode(narrow, model, [[], [2], [3, 4]]), decode(Greedy(), model, [[], [2], [3, 4]]), strict=True
    ):
        assert ours[0].tokens == theirs[0].tokens


@given(distributions, st.floats(0, 1, exclude_max=True))
def test_a_draw_inverts_the_cumulative_distribution(weights: list[int], level: float):
    probs = [weight / sum(weights) for weight in weights]
    assume(np.abs(np.cumsum(probs) - level).min() > 1e-9)
    assert invert(np.array(probs), level) == inverse_cdf(probs, level)
    assert probs[invert(np.array(probs), level)] > 0


def test_a_level_on_the_edge_belongs_to_the_next_id_and_never_to_an_impossible_one():
    """p = .5 takes the levels [0, .5), the other [.5, 1); an id of probability 0 takes none."""
    assert [invert(np.array([0.5, 0.0, 0.5]), level) for level in (0.0, 0.5)] == [0, 2]
    assert invert(np.array([0.0, 1.0]), 0.0) == 1


def test_the_highest_level_stays_inside():
    assert invert(np.array([0.3, 0.7]), np.nextafter(1, 0)) == 1


def test_tokens_follow_from_the_seed_the_row_and_the_distributions():
    """Every token again from its own generator, distribution and inverse."""
    model, rows = random_chain(5, 4), [[], [2, 3], [4]]
    for row, [one] in enumerate(decode(Sample(), model, rows, stop=None, max_tokens=8, seed=11)):
        generator, said, gained = np.random.default_rng([11, row]), [], 0.0
        for _ in range(8):
            log_probs = next_log_probs(model, model.init_state(1), [model.vocabulary.start, *rows[row], *said])
            said.append(inverse_cdf(np.exp(log_probs).tolist(), generator.random()))
            gained += log_probs[said[-1]]
        assert list(one.tokens) == said
        assert one.score == pytest.approx(gained, abs=1e-6)  # untouched, q is p


def test_sampled_frequencies_are_the_probabilities():
    """Chi-square over 4 ids, 3 degrees of freedom: above 16.27 once in a thousand, and the seed is fixed."""
    probs, draws = np.array([0.05, 0.15, 0.3, 0.5]), 4000
    model = constant_chain(*probs)
    [[one]] = decode(Sample(), model, [[]], stop=None, max_tokens=draws, seed=1)
    counts = np.bincount(one.tokens, minlength=4)
    assert ((counts - draws * probs) ** 2 / (draws * probs)).sum() < 16.27


def test_the_score_is_the_log_prob_of_the_draw():
    """With top-k 2 of .1 .1 .2 .6, a token of 3/4 or 1/4 each time."""
    [[one]] = decode(Sample(top_k=2), constant_chain(0.1, 0.1, 0.2, 0.6), [[]], stop=None, max_tokens=40, seed=2)
    assert set(one.tokens) == {2, 3}
    first, second = one.tokens.count(3), one.tokens.count(2)
    assert one.score == pytest.approx(first * math.log(0.75) + second * math.log(0.25), rel=1e-6)
    assert one.log_prob == pytest.approx(first * math.log(0.6) + second * math.log(0.2), rel=1e-6)


def test_seeds_reproduce_and_differ():
    model = random_chain(2, 4)
    state, tokens = read_prompts(model, as_ids([[], []]))
    texts = [
        [one.tokens for [one] in Sample().decode(model, state, tokens, stop=None, max_tokens=20, seed=seed)]
        for seed in (7, 7, 8)
    ]
    assert texts[0] == texts[1] != texts[2]
    assert texts[0][0] != texts[0][1]  # two rows of one prompt are two samples


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 0}, "temperature: must be above 0 and finite, got 0.0; .* use greedy"),
        ({"temperature": float("nan")}, "temperature: .*got nan"),
        ({"temperature": float("inf")}, "temperature: .*got inf"),
        ({"top_k": -1}, "top_k: cannot be negative, got -1; 0 keeps every token"),
        ({"top_p": 0}, "top_p: must be above 0 and at most 1, got 0.0"),
        ({"top_p": 1.1}, "top_p: must be above 0 and at most 1, got 1.1; 1 keeps every token"),
    ],
)
def test_a_bad_option_is_refused(options: dict[str, float], message: str):
    with pytest.raises(ConfigError, match=message):
        Sample(**options)
    with pytest.raises(ConfigError, match=message):
        build(Sample, options, "sample.toml")
