"""Hidden Markov chains of claims against enumeration, and what is measured on texts of theirs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.claims.chains import Chain, Probs, Symbols, chosen, walk

seeds = st.integers(0, 10_000)
STATES, SYMBOLS = 3, 4


def drawn(seed: int) -> Chain:
    return Chain.drawn(np.random.default_rng(seed), STATES, SYMBOLS, 0.3, 0.01)


def likelihood(chain: Chain, text: tuple[int, ...]) -> float:
    """By the sum over all ways through the states."""
    total = 0.0
    for path in itertools.product(range(STATES), repeat=len(text)):
        part = 1.0
        for place, (state, symbol) in enumerate(zip(path, text, strict=True)):
            part *= chain.start[state] if place == 0 else chain.moves[path[place - 1], state]
            part *= chain.says[state, symbol]
        total += part
    return total


@settings(deadline=None, max_examples=25)
@given(seeds, st.lists(st.integers(0, SYMBOLS - 1), min_size=0, max_size=4))
def test_the_next_symbol_has_the_share_that_enumeration_gives(seed: int, text: list[int]) -> None:
    chain = drawn(seed)
    belief = chain.begin(1)
    for symbol in text:
        belief = chain.read(belief, np.array([symbol]))
    whole = likelihood(chain, tuple(text)) if text else 1.0
    expected = [likelihood(chain, (*text, symbol)) / whole for symbol in range(SYMBOLS)]
    np.testing.assert_allclose(chain.next(belief)[0], expected, rtol=1e-9)


def test_texts_of_a_chain_are_as_frequent_as_it_says() -> None:
    chain = drawn(3)
    texts = chain.texts(np.random.default_rng(0), 20_000, 2)
    for pair in itertools.product(range(SYMBOLS), repeat=2):
        assert (texts == pair).all(axis=1).mean() == pytest.approx(likelihood(chain, pair), abs=0.012)


@given(seeds)
def test_no_symbol_without_a_chance_is_drawn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.ones(5), 30) * (rng.random((30, 5)) < 0.5)
    probs[:, 4] += 1e-3
    probs /= probs.sum(axis=1, keepdims=True)
    assert (probs[np.arange(30), chosen(probs, rng)] > 0).all()


def itself(chain: Chain, rows: int) -> object:
    """The chain as a model."""
    belief = chain.begin(rows)

    def believe(symbols: Symbols | None) -> Probs:
        nonlocal belief
        if symbols is not None:
            belief = chain.read(belief, symbols)
        return chain.next(belief)

    return believe


@pytest.mark.parametrize("own", [False, True])
def test_a_chain_is_its_own_best_model(own: bool) -> None:
    chain = drawn(5)
    found = walk(chain, itself(chain, 50), np.random.default_rng(1), 50, 6, own)  # type: ignore[arg-type]
    np.testing.assert_allclose(found.regret, 0, atol=1e-12)
    np.testing.assert_allclose(found.surprise, found.entropy, rtol=1e-12)


@pytest.mark.parametrize("own", [False, True])
def test_costs_of_a_model_that_knows_nothing_are_those_of_an_even_draw(own: bool) -> None:
    """KL(p || even) is ln V less the entropy of p; only its own texts are evenly drawn."""
    chain = drawn(7)
    found = walk(chain, lambda symbols: np.full((4000, SYMBOLS), 1 / SYMBOLS), np.random.default_rng(1), 4000, 5, own)
    np.testing.assert_allclose(found.regret, np.log(SYMBOLS) - found.entropy, rtol=1e-9)
    first = chain.next(chain.begin(1))[0]
    assert found.surprise[0] == pytest.approx(-np.log(first).mean())
    assert found.entropy[0] == pytest.approx(-(first * np.log(first)).sum())
    assert found.texts.shape == (4000, 5)
    shares = np.bincount(found.texts[:, 0], minlength=SYMBOLS) / 4000
    expected = np.full(SYMBOLS, 1 / SYMBOLS) if own else first
    np.testing.assert_allclose(shares, expected, atol=0.03)
