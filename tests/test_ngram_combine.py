"""Interpolated tables: against dictionaries, the mixture of the models, and hand arithmetic."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.core.errors import ConfigError, MismatchError
from ostinato.core.vocabulary import Vocabulary
from ostinato.mix import Mixture
from ostinato.ngram.combine import interpolate_models, interpolate_tables, widened
from ostinato.ngram.counts import Counts, count
from ostinato.ngram.model import NGramModel
from ostinato.ngram.prune import prune_to
from ostinato.ngram.smoothing import smoothings
from ostinato.ngram.table import BackoffTable
from ostinato.ngram.trie import Trie
from references.combine import SlowTable, interpolated

LETTERS = Vocabulary("abcd")
SMOOTH = ["modified-kneser-ney", "witten-bell", "mle", "additive"]
texts = st.lists(st.lists(st.sampled_from([0, 2, 3, 4, 5]), max_size=6), min_size=1, max_size=10)
readings = st.lists(st.integers(0, LETTERS.start), min_size=1, max_size=6)
TEXT = [[2, 3, 4], [5, 3, 2, 3], [3, 5, 4, 2], [2, 3, 4], [0, 2], [4, 4, 2, 3, 4]]
OTHER = [[4, 3, 2], [2, 2, 2], [3, 3, 5, 4, 3], [2, 3, 5]]


def counted(lines: list[list[int]], order: int = 3, vocabulary: Vocabulary = LETTERS) -> Counts:
    ids = [word for line in lines for word in [*line, vocabulary.stop]]
    return count(np.array(ids, np.int64), vocabulary, order)


def fitted(
    lines: list[list[int]], order: int = 3, vocabulary: Vocabulary = LETTERS, smoothing: str = "modified-kneser-ney"
) -> BackoffTable:
    return smoothings[smoothing]().fit(counted(lines, order, vocabulary))


def sums_to_one(model: NGramModel, reading: list[int]) -> None:
    model.table.check()
    state = model.init_state(1)
    for token in reading:
        log_probs, state = model.step(state, np.array([token]))
        assert np.exp(log_probs.astype(np.float64)).sum() == pytest.approx(1, abs=1e-5)


@given(
    texts,
    texts,
    st.integers(1, 4),
    st.integers(1, 4),
    st.sampled_from([0.2, 0.5, 0.9]),
    st.sampled_from(SMOOTH),
    readings,
)
@settings(deadline=None, max_examples=60)
def test_a_combined_table_equals_its_slow_twin(first, second, order, other, weight, smoothing, reading):
    tables = [fitted(first, order), fitted(second, other, smoothing=smoothing)]
    tables[0] = prune_to(tables[0], max(tables[0].ngrams[0], int(0.6 * tables[0].nodes)))
    combined = interpolate_tables(tables, (weight, 1 - weight))
    sums_to_one(NGramModel(combined, LETTERS), reading)
    fast, slow = SlowTable.of(combined), interpolated([SlowTable.of(table) for table in tables], (weight, 1 - weight))
    assert fast.probability.keys() == slow.probability.keys()
    for gram, probability in slow.probability.items():
        assert fast.probability[gram] == pytest.approx(probability, abs=1e-6)
    for context in slow.contexts():
        for word in slow.words:
            assert fast.p(word, context) == pytest.approx(slow.p(word, context), abs=1e-5)


def test_an_ngram_of_either_table_has_the_probability_of_the_mixture():
    tables = [prune_to(fitted(TEXT, 4), 30), fitted(OTHER), fitted(OTHER + TEXT, 2)]
    weights = (0.5, 0.3, 0.2)
    combined = interpolate_tables(tables, weights)
    mixture = Mixture([NGramModel(table, LETTERS) for table in tables], weights)
    trie, log_prob = combined.trie(), combined.log_prob()
    for node in range(trie.sentence_start + 1, trie.nodes):
        *context, word = trie.words_of(node)
        state = mixture.init_state(1)
        for token in context:
            log_probs, state = mixture.step(state, np.array([token]))
        assert log_prob[node] == pytest.approx(log_probs[0, word], abs=1e-6)
    assert combined.notes == (
        "interpolated: 0.5 modified-kneser-ney, 0.3 modified-kneser-ney, 0.2 modified-kneser-ney",
    )


def by_hand(words: tuple[float, ...], bigram: float, backoff: float) -> BackoffTable:
    """Order 2 over <unk>, </s>, a; p(a | a) is `bigram` unless 0."""
    pair = [np.array([2])] if bigram else [np.array([], int)]
    trie = Trie.from_levels([np.zeros(4, int), *pair], [np.arange(4), *pair])
    with np.errstate(divide="ignore"):
        log_prob = np.log(np.array([1, *words, 0, bigram][: trie.nodes])).astype(np.float32)
    return BackoffTable.build(trie, log_prob, np.log(np.array([1, 1, 1, backoff, 1], np.float32)), "by-hand")


def test_a_combination_worked_by_hand():
    """One table has "a a" with .8, the other backs off to a's .4; weights .75 and .25."""
    first, second = by_hand((0.1, 0.3, 0.6), 0.8, 0.5), by_hand((0.2, 0.4, 0.4), 0, 1)
    combined = interpolate_tables([first, second], (0.75, 0.25))
    words = [0.75 * 0.1 + 0.25 * 0.2, 0.75 * 0.3 + 0.25 * 0.4, 0.75 * 0.6 + 0.25 * 0.4]
    pair = 0.75 * 0.8 + 0.25 * 0.4
    np.testing.assert_allclose(np.exp(combined.log_prob()[1:]), [*words, 0, pair], rtol=1e-6)
    np.testing.assert_allclose(np.exp(combined.log_backoff()[3]), (1 - pair) / (1 - words[2]), rtol=1e-5)


def test_a_table_of_weight_one_is_itself_and_of_weight_zero_is_left_out():
    table = fitted(TEXT)
    combined = interpolate_tables([fitted(OTHER, 5), table], (0, 1))
    assert combined.ngrams == table.ngrams
    np.testing.assert_allclose(combined.log_prob(), table.log_prob(), atol=1e-6)
    np.testing.assert_allclose(combined.log_backoff(), table.log_backoff(), atol=2e-5)


@given(texts, texts, st.lists(st.integers(0, 7), min_size=1, max_size=6), st.sampled_from([0.0, 0.3, 1.0]))
@settings(deadline=None, max_examples=60)
def test_models_of_different_vocabularies_make_one_of_all_their_words(first, second, reading, weight):
    one, two = Vocabulary("abcd"), Vocabulary("xbyc")
    models = [NGramModel(fitted(first, 3, one), one), NGramModel(fitted(second, 2, two), two)]
    combined = interpolate_models(models, (weight, 1 - weight))
    assert combined.vocabulary == Vocabulary("abcdxy")
    sums_to_one(combined, [combined.vocabulary.start, *reading])


def test_new_words_share_equally_with_the_unknown_one():
    """One <unk> and two new words: a third each. No n-gram here ends with <unk>, so all others stay as they were."""
    table = fitted([[2, 3, 4], [5, 3, 2, 3], [3, 5, 4, 2]])
    larger = Vocabulary("xdcbay")
    wide = widened(table, LETTERS, larger)
    sums_to_one(NGramModel(wide, larger), [*range(larger.outputs), 5, 4, 3])
    old, new = NGramModel(table, LETTERS), NGramModel(wide, larger)
    before, after = old.init_state(1), new.init_state(1)
    moved = {piece: larger.ids(piece)[0] for piece in "abcd"}
    for piece in "abcadbbca":
        log_old, before = old.step(before, LETTERS.ids(piece))
        log_new, after = new.step(after, larger.ids(piece))
        np.testing.assert_allclose([log_new[0, moved[p]] for p in "abcd"], log_old[0, 2:], atol=1e-5)
        assert log_new[0, 1] == pytest.approx(log_old[0, 1], abs=1e-5)
        np.testing.assert_allclose(log_new[0, [0, *larger.ids("xy")]], log_old[0, 0] - math.log(3), atol=1e-5)


@given(texts, readings)
@settings(deadline=None, max_examples=40)
def test_ngrams_that_end_with_the_unknown_word_keep_their_share(lines, reading):
    lines = [*lines, [2, 0, 3, 0]]
    larger = Vocabulary("abcdx")
    table = fitted(lines)
    wide = widened(table, LETTERS, larger)
    sums_to_one(NGramModel(wide, larger), reading)
    before, after = table.trie(), wide.trie()
    for node in range(LETTERS.outputs + 2, before.nodes):
        words = before.words_of(node)
        if LETTERS.start not in words:
            share = math.log(2) if words[-1] == 0 else 0
            assert wide.log_prob()[after.find(words)] == pytest.approx(table.log_prob()[node] - share, abs=1e-6)


@pytest.mark.parametrize("weights", [(), (1,), (0.5, 0.6), (1.5, -0.5), (math.nan, 1), (0.2, 0.3, 0.5)])
def test_weights_that_do_not_suit_are_refused(weights):
    with pytest.raises(ConfigError, match="weights"):
        interpolate_tables([fitted(TEXT), fitted(OTHER)], weights)


def test_what_cannot_be_combined_says_why():
    table, letters = fitted(TEXT), Vocabulary("abc")
    with pytest.raises(ConfigError, match="at least one"):
        interpolate_tables([], ())
    with pytest.raises(MismatchError, match="tables 0 and 1 have 6 and 5 words"):
        interpolate_tables([table, fitted([[2]], 2, letters)], (0.5, 0.5))
    with pytest.raises(ConfigError, match=r"table 1 .* gives scores"):
        interpolate_tables([table, table.described(normalised=False)], (0.5, 0.5))
    with pytest.raises(MismatchError, match="lacks 'd'"):
        widened(table, LETTERS, letters)
    with pytest.raises(MismatchError, match="6 words was not made for"):
        widened(table, letters, LETTERS)
