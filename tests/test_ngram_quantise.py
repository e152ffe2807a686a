"""Rounding to few numbers: packed bits against big integers, codebooks, and the sums of distributions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compact_toys import numbered, random_text
from ostinato.kernels import bits as kernel
from ostinato.ngram import packing
from ostinato.ngram.backing_off import renormalised_backoffs
from ostinato.ngram.compact import CompactTable
from ostinato.ngram.compact_model import CompactModel
from ostinato.ngram.counts import count
from ostinato.ngram.quantise import backoff_book, codebook, nearest
from ostinato.ngram.smoothing import smoothings
from ostinato.ngram.table import BackoffTable

# numbers of few bits


@given(st.integers(1, 47).flatmap(lambda width: st.tuples(st.just(width), st.lists(st.integers(0, 2**width - 1)))))
@settings(deadline=None)
def test_packed_numbers_are_one_big_integer(case):
    width, numbers = case
    packed = packing.packed_numbers(np.array(numbers, np.int64), width)
    whole = sum(number << (place * width) for place, number in enumerate(numbers))
    assert int.from_bytes(packed.astype("<u8").tobytes(), "little") == whole
    assert [kernel.take(packed, 0, width, place) for place in range(len(numbers))] == numbers


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 700)), min_size=1, max_size=12), st.data())
@settings(deadline=None)
def test_the_nth_one_and_the_nth_zero_are_found(runs, data):
    bits = [bit for bit, length in runs for _ in range(length)]
    packed = packing.packed_bits(np.array(bits, np.bool_))
    ranks = packing.ranks_of(packed)
    assert packing.unpacked_bits(packed, len(bits)).tolist() == bits
    for flip in (False, True):
        places = [place for place, bit in enumerate(bits) if bit != flip]
        for number in data.draw(st.lists(st.integers(0, max(len(places) - 1, 0)), max_size=8)) if places else ():
            assert kernel.find_bit(packed, 0, ranks, 0, number, 0, len(ranks) - 1, flip) == places[number]
            if not flip:
                near = number - number % 5
                assert kernel.next_one(packed, 0, places[near], number - near) == places[number]


# codebooks


@given(st.lists(st.sampled_from([-np.inf, *np.linspace(-9, 0, 30)]), min_size=1), st.integers(4, 40))
@settings(deadline=None)
def test_values_so_few_that_each_has_a_code_stay_exact(values, codes):
    values = np.array(values, np.float32)
    for book in (codebook(values, codes), backoff_book(values, codes)):
        assert len(book) <= codes
        if len(set(values.tolist())) <= codes:
            np.testing.assert_array_equal(book[nearest(book, values)], values)
        assert np.array_equal(book, np.unique(book))
        assert (book[0], book[-1]) == (values.min(), values.max())
        np.testing.assert_array_equal(np.isneginf(book[nearest(book, values)]), np.isneginf(values))


def test_the_nearest_number_of_a_codebook_is_chosen():
    book = np.array([-np.inf, -4, -2, -1], np.float32)
    values = np.array([-np.inf, -9, -3.1, -2.9, -1.6, -1.4, 3], np.float32)
    assert nearest(book, values).tolist() == [0, 1, 1, 2, 2, 3, 3]


def test_a_codebook_of_log_probs_is_nearer_than_even_steps():
    """256 codes for a mixture like a model's: a fifth of the squared error of evenly spaced codes, or less."""
    chance = np.random.default_rng(0)
    values = np.concatenate([chance.normal(-2, 0.3, 9000), -chance.exponential(2, 9000), [-25]]).astype(np.float32)
    errors = [
        np.square(values - book[nearest(book, values)]).sum()
        for book in (codebook(values, 256), np.linspace(values.min(), values.max(), 256).astype(np.float32))
    ]
    assert errors[0] < errors[1] / 5


def test_back_offs_of_one_or_more_are_rounded_finest():
    """A step is 1 / (0.05 + min(1, b)) of a unit; from e^-9 to e^1 there are 0.05 * 10 + 1 + 1 units, about."""
    values = np.linspace(-9, 1, 5000).astype(np.float32)
    book = backoff_book(values, 256)
    unit = (0.05 * 10 + 1 + 1 - math.exp(-9)) / 255
    off = np.abs(values - book[nearest(book, values)])
    assert off[values > 0].max() < unit / 1.05 / 2 * 1.01
    assert (np.exp(values) * off)[values < 0].max() < unit / 1.05 / 2 * 1.01
    assert off.max() < unit / 0.05 / 2 * 1.01


# sums


@pytest.mark.parametrize("name", [name for name in smoothings if name != "stupid-backoff"])
@pytest.mark.parametrize("words", [5, 200])
def test_shared_codes_leave_the_sums_at_one(name, words):
    """4 bits a log-prob, thousands of n-grams; with 5 words most contexts have seen nearly all of them."""
    vocabulary = numbered(words)
    ids = random_text(vocabulary)
    table = smoothings[name]().fit(count(ids, vocabulary, 3))
    small = CompactTable.from_table(table, prob_bits=4)
    assert max(small.shape.prob_sizes) == 16
    model = CompactModel(small, vocabulary)
    state, off = model.init_state(1), []
    for token in ids[:300]:
        log_probs, state = model.step(state, np.array([token]))
        off.append(abs(np.exp(log_probs.astype(np.float64)).sum() - 1))
    assert max(off) < 1e-4


def test_back_offs_of_eight_bits_leave_the_sums_near_one():
    vocabulary = numbered(200)
    ids = random_text(vocabulary)
    table = smoothings["modified-kneser-ney"]().fit(count(ids, vocabulary, 3))
    model = CompactModel(CompactTable.from_table(table, 4, 8), vocabulary)
    _, after = model.score(model.init_state(200), ids[:200, None], ids[:200, None] * 0)
    log_probs, _ = model.step(after, ids[1:201])
    assert 1e-4 < np.abs(np.exp(log_probs.astype(np.float64)).sum(axis=1) - 1).max() < 0.03


def test_shared_codes_leave_the_sums_of_a_pruned_table_at_one():
    """Half of the longer n-grams are gone, so that suffixes are more than one word shorter."""
    vocabulary = numbered(40)
    ids = random_text(vocabulary)
    whole = smoothings["witten-bell"]().fit(count(ids, vocabulary, 4))
    trie = whole.trie()
    keep = np.random.default_rng(2).random(trie.nodes) < 0.5
    for order in range(2, 5):
        keep[trie.level(order)] &= keep[trie.parents(order)] | (order == 2)
    pruned = whole.select(keep)
    links, log_prob = pruned.trie(), pruned.log_prob()
    assert np.count_nonzero(links.suffix[links.level(4)] < links.level(3).start) > 5
    table = BackoffTable.build(links, log_prob, renormalised_backoffs(links, log_prob), "witten-bell")
    model = CompactModel(CompactTable.from_table(table, 4), vocabulary)
    state, off = model.init_state(1), []
    for token in ids[:300]:
        log_probs, state = model.step(state, np.array([token]))
        off.append(abs(np.exp(log_probs.astype(np.float64)).sum() - 1))
    assert max(off) < 1e-4


def test_scores_that_are_not_distributions_are_only_rounded():
    """Stupid back-off has one back-off, 0.4, and keeps it."""
    vocabulary = numbered(200)
    ids = random_text(vocabulary)
    table = smoothings["stupid-backoff"]().fit(count(ids, vocabulary, 3))
    again = CompactTable.from_table(table, 4).expand()
    np.testing.assert_array_equal(again.log_backoff(), table.log_backoff())
    assert not again.normalised
    highest = table.trie().level(3)
    assert 0 < np.abs(again.log_prob()[highest] - table.log_prob()[highest]).max() < 0.5
