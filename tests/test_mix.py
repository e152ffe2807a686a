"""A mixture keeps the laws of its members; its weights are the best there are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.core.errors import ConfigError, DataError, MismatchError, ShapeError
from ostinato.core.model import LanguageModel, score_by_steps
from ostinato.core.state import from_bytes, same, stack, take, to_bytes
from ostinato.decode import Beam
from ostinato.mix import Mixture, MixtureState, fit_weights
from references.decoding import em_round
from test_decode import decode
from toys import Chain, constant_chain, log_of, random_chain


@st.composite
def mixtures(draw: st.DrawFn) -> Mixture:
    count = draw(st.integers(1, 3))
    members = [random_chain(draw(st.integers(0, 2**16)), zeros=draw(st.sampled_from([0.0, 0.4]))) for _ in range(count)]
    shares = np.array(draw(st.lists(st.integers(0, 4), min_size=count, max_size=count).filter(any)), float)
    return Mixture(members, shares / shares.sum())


texts = st.lists(st.integers(0, 4), min_size=1, max_size=8)


def pairs(model: LanguageModel, ids: list[int]) -> tuple[np.ndarray, np.ndarray]:
    read = np.array([[model.vocabulary.start, *ids]])
    return read[:, :-1], read[:, 1:]


# --- laws


@given(mixtures(), texts)
def test_probabilities_are_the_weighted_sum(model: Mixture, ids: list[int]):
    """By hand in probabilities: sum over members of weight * p."""
    inputs, targets = pairs(model, ids)
    scores, _ = model.score(model.init_state(1), inputs, targets)
    expected = sum(
        weight * np.exp(member.score(member.init_state(1), inputs, targets)[0].astype(float))
        for weight, member in zip(model.weights, model.members, strict=True)
    )
    np.testing.assert_allclose(np.exp(scores), expected, rtol=1e-6)
    assert scores.dtype == np.float32


@given(mixtures(), texts)
def test_every_distribution_sums_to_one(model: Mixture, ids: list[int]):
    state = model.init_state(1)
    for token in ids:
        log_probs, state = model.step(state, np.array([token]))
        assert np.exp(log_probs.astype(float)).sum() == pytest.approx(1, abs=1e-6)


@given(mixtures(), texts)
def test_score_equals_a_fold_of_steps(model: Mixture, ids: list[int]):
    inputs, targets = pairs(model, ids)
    fast, end = model.score(model.init_state(1), inputs, targets)
    steps, last = score_by_steps(model, model.init_state(1), inputs, targets)
    np.testing.assert_array_equal(fast, steps)
    assert same(end, last)


@given(mixtures(), texts, st.data())
def test_a_stream_may_be_cut_anywhere(model: Mixture, ids: list[int], data: st.DataObject):
    inputs, targets = pairs(model, ids)
    cut = data.draw(st.integers(0, len(ids)))
    whole, end = model.score(model.init_state(1), inputs, targets)
    first, middle = model.score(model.init_state(1), inputs[:, :cut], targets[:, :cut])
    second, last = model.score(middle, inputs[:, cut:], targets[:, cut:])
    np.testing.assert_array_equal(np.hstack([first, second]), whole)
    assert same(last, end)


@given(mixtures())
def test_a_state_is_a_value_that_travels(model: Mixture):
    _, state = model.step(model.init_state(2), np.array([2, 3]))
    assert isinstance(state, MixtureState)
    assert same(from_bytes(to_bytes(state), model.init_state(1)), state)
    assert same(stack([take(state, np.array([0])), take(state, np.array([1]))]), state)


def test_a_mixture_is_a_language_model_and_may_be_a_member():
    a, b = random_chain(1), random_chain(2)
    inner = Mixture([a, b], [0.5, 0.5])
    assert isinstance(inner, LanguageModel)
    nested, flat = Mixture([inner, b], [0.4, 0.6]), Mixture([a, b], [0.2, 0.8])
    np.testing.assert_allclose(
        nested.step(nested.init_state(1), np.array([5]))[0], flat.step(flat.init_state(1), np.array([5]))[0], atol=1e-6
    )
    [[found]] = decode(Beam(), nested, [[2]])
    assert found.tokens == decode(Beam(), flat, [[2]])[0][0].tokens
    assert (flat.outputs, flat.parameters, nested.parameters) == (5, 2 * 7 * 7 * 5, 3 * 7 * 7 * 5)
    assert repr(flat).startswith("Mixture(0.2000 ")


def test_a_member_of_weight_zero_has_no_say_but_reads():
    sound, broken = random_chain(1), random_chain(2)
    broken.table[:] = np.nan
    model = Mixture([broken, sound], [0, 1])
    log_probs, state = model.step(model.init_state(1), np.array([5]))
    np.testing.assert_allclose(log_probs, sound.step(sound.init_state(1), np.array([5]))[0], rtol=1e-6)
    assert state.members[0].last.tolist() == [[model.vocabulary.pad, 5]]


def test_weights_sum_to_one_exactly():
    model = Mixture([random_chain(seed) for seed in range(3)], [0.3333333, 0.3333333, 0.3333333])
    assert model.weights.sum() == 1


def test_what_cannot_be_mixed_is_refused():
    a, b, other = random_chain(1), random_chain(2), random_chain(3, 4)
    names = f"{a.vocabulary.fingerprint} and {other.vocabulary.fingerprint}"
    with pytest.raises(MismatchError, match=f"members 0 and 2 cannot be mixed.*{names}"):
        Mixture([a, b, other], [0.2, 0.2, 0.6])
    with pytest.raises(ConfigError, match="at least one language model"):
        Mixture([], [])
    with pytest.raises(ConfigError, match=r"2 members need 2 weights, got 1 \(1\)"):
        Mixture([a, b], [1.0])
    with pytest.raises(ConfigError, match=r"must sum to 1, got 0.5, 0.4 \(sum 0.9\); divide each by the sum"):
        Mixture([a, b], [0.5, 0.4])
    for bad in ([1.5, -0.5], [np.nan, 1.0], [np.inf, 0.0]):
        with pytest.raises(ConfigError, match="must be finite and not negative"):
            Mixture([a, b], bad)


def test_a_mixture_checks_ids_and_shapes():
    model = Mixture([random_chain(1)], [1.0])
    with pytest.raises(ShapeError):
        model.score(model.init_state(1), np.zeros((1, 2), np.int64), np.zeros((1, 3), np.int64))
    with pytest.raises(MismatchError):
        model.score(model.init_state(1), np.full((1, 1), 99), np.zeros((1, 1), np.int64))


# --- weights


def per_token(weights: np.ndarray, log_probs: np.ndarray) -> float:
    """The mean log-likelihood of a text under weights, in nats a token."""
    return float(np.log(weights @ np.exp(log_probs)).mean())


def random_scores(seed: int, members: int, tokens: int, zeros: float = 0.0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    probs = generator.random((members, tokens)) ** 3
    probs[generator.random(probs.shape) < zeros] = 0
    probs[0, probs.sum(axis=0) == 0] = 0.1
    return log_of(probs)


@settings(max_examples=40)
@given(st.integers(0, 999), st.integers(1, 30), st.sampled_from([0.0, 0.3]))
def test_em_reaches_the_best_point_of_a_grid(seed: int, tokens: int, zeros: float):
    log_probs = random_scores(seed, 2, tokens, zeros)
    fitted = per_token(fit_weights(log_probs, max_rounds=100_000), log_probs)
    shares = np.linspace(1e-6, 1 - 1e-6, 2001)
    grid = max(per_token(np.array([share, 1 - share]), log_probs) for share in shares)
    assert fitted >= grid - 1.1e-6
    assert fitted <= grid + 1e-3


@settings(max_examples=30)
@given(st.integers(0, 999), st.integers(1, 4), st.integers(1, 20), st.sampled_from([0.0, 0.3]))
def test_a_round_is_the_mean_responsibility_and_never_loses(seed: int, members: int, tokens: int, zeros: float):
    log_probs = random_scores(seed, members, tokens, zeros)
    weights = [1 / members] * members
    for rounds in range(6):
        ours = fit_weights(log_probs, tolerance=1e-300, max_rounds=rounds)
        np.testing.assert_allclose(ours, weights, rtol=1e-9, atol=1e-15)
        assert ours.sum() == pytest.approx(1, abs=1e-15)
        better = em_round(weights, log_probs.tolist())
        assert per_token(np.array(better), log_probs) >= per_token(np.array(weights), log_probs) - 1e-12
        weights = better


def test_weights_by_hand():
    """Two tokens, each seen by one member only: 1/2 each. Three to one: 3/4 and 1/4, at once."""
    some, never = np.log(0.5), -np.inf
    assert fit_weights(np.array([[some, never], [never, some]])).tolist() == [0.5, 0.5]
    assert fit_weights(np.array([[some, some, some, never], [never, never, never, some]])).tolist() == [0.75, 0.25]


def test_a_member_that_knows_nothing_gets_nothing():
    assert fit_weights(np.array([[-1.0, -2.0], [-np.inf, -np.inf]])).tolist() == [1, 0]


def test_very_small_probabilities_do_not_underflow():
    log_probs = random_scores(1, 3, 50)
    np.testing.assert_allclose(fit_weights(log_probs - np.float32(5000)), fit_weights(log_probs), atol=1e-2)
    assert fit_weights(np.array([[-5000.0], [-5001.0]]))[0] > 0.99


def test_true_weights_are_found_again():
    """Tokens drawn from .7 p + .3 q: the fitted weights lie within 0.03, four standard errors of 20,000 tokens."""
    p, q = np.array([0.6, 0.3, 0.1]), np.array([0.05, 0.15, 0.8])
    tokens = np.random.default_rng(0).choice(3, 20_000, p=0.7 * p + 0.3 * q)
    np.testing.assert_allclose(fit_weights(np.log([p[tokens], q[tokens]])), [0.7, 0.3], atol=0.03)


def test_a_text_no_weights_fit_is_refused():
    with pytest.raises(DataError, match="token 1 has probability zero under every member"):
        fit_weights(np.array([[-1.0, -np.inf], [-1.0, -np.inf]]))
    with pytest.raises(DataError, match=r"\(2, 0\) are empty"):
        fit_weights(np.zeros((2, 0)))
    with pytest.raises(DataError, match="member 1 gives token 0 a log-prob of nan"):
        fit_weights(np.array([[-1.0], [np.nan]]))
    with pytest.raises(ShapeError, match=r"must have shape \[members, tokens\]"):
        fit_weights(np.zeros(3))
    with pytest.raises(ConfigError, match="tolerance: must be above 0"):
        fit_weights(np.zeros((1, 1)), tolerance=0)
    with pytest.raises(ConfigError, match="max_rounds: cannot be negative"):
        fit_weights(np.zeros((1, 1)), max_rounds=-1)


def test_a_mixture_of_fitted_weights_beats_its_members():
    members: list[Chain] = [constant_chain(0.1, 0.1, 0.7, 0.1), constant_chain(0.1, 0.1, 0.1, 0.7)]
    text = [2, 3, 2, 2, 3, 0, 1]
    inputs, targets = pairs(members[0], text)
    scores = np.array([member.score(member.init_state(1), inputs, targets)[0][0] for member in members])
    model = Mixture(members, fit_weights(scores))
    mixed, _ = model.score(model.init_state(1), inputs, targets)
    assert mixed.sum() > scores.sum(axis=1).max() + 0.5
