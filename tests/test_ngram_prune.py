"""Pruned tables: against the definition of relative entropy, dictionaries of counts, and hand arithmetic."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.core.errors import ConfigError, MismatchError, ShapeError
from ostinato.core.vocabulary import Vocabulary
from ostinato.ngram.counts import Counts, count
from ostinato.ngram.model import NGramModel
from ostinato.ngram.prune import divergences, prune_by_count, prune_by_entropy, prune_to
from ostinato.ngram.smoothing import smoothings
from ostinato.ngram.table import BackoffTable
from ostinato.ngram.trie import Trie
from references.combine import SlowTable
from references.prune import history, loss, pruned

LETTERS = Vocabulary("abcd")
SMOOTH = ["modified-kneser-ney", "kneser-ney", "witten-bell", "absolute"]
texts = st.lists(st.lists(st.sampled_from([0, 2, 2, 3, 3, 4]), max_size=7), min_size=1, max_size=12)
readings = st.lists(st.integers(0, LETTERS.start), min_size=1, max_size=6)
TEXT = [[2, 3, 4], [2, 3, 2, 3], [3, 3, 4, 2], [2, 3, 4], [], [4, 4, 2, 3, 4], [3]]


def counted(lines: list[list[int]], order: int = 3) -> Counts:
    ids = [word for line in lines for word in [*line, LETTERS.stop]]
    return count(np.array(ids, np.int64), LETTERS, order)


def fitted(lines: list[list[int]], order: int = 3, smoothing: str = "modified-kneser-ney") -> BackoffTable:
    return smoothings[smoothing]().fit(counted(lines, order))


def grams_of(table: BackoffTable) -> set[tuple[int, ...]]:
    trie = table.trie()
    return {tuple(trie.words_of(node)) for node in range(1, trie.nodes)}


def sound(table: BackoffTable, before: BackoffTable, reading: list[int]) -> None:
    """A valid table of distributions in which every n-gram that is left has the probability it had."""
    table.check()
    model, old, new = NGramModel(table, LETTERS), before.trie(), table.trie()
    state = model.init_state(1)
    for token in reading:
        log_probs, state = model.step(state, np.array([token]))
        assert np.exp(log_probs.astype(np.float64)).sum() == pytest.approx(1, abs=1e-5)
    nodes = [old.find(new.words_of(node)) for node in range(new.nodes)]
    np.testing.assert_array_equal(table.log_prob(), before.log_prob()[nodes])


@given(
    texts,
    st.integers(1, 4),
    st.lists(st.integers(0, 3), max_size=3),
    st.sampled_from([*SMOOTH, "mle", "additive"]),
    readings,
)
@settings(deadline=None)
def test_rare_ngrams_go_and_distributions_sum_to_one(lines, order, rest, smoothing, reading):
    thresholds = [0, *sorted(rest)][:order]
    table = fitted(lines, order, smoothing)
    smaller = prune_by_count(table, counted(lines, order), thresholds)
    framed = [(LETTERS.start, *line, LETTERS.stop) for line in lines]
    often = Counter(
        line[at : at + size] for line in framed for size in range(2, order + 1) for at in range(len(line) - size + 1)
    )
    expected = {gram for gram, c in often.items() if c > thresholds[min(len(gram), len(thresholds)) - 1]}
    assert grams_of(smaller) == {(word,) for word in range(LETTERS.outputs + 1)} | expected
    sound(smaller, table, reading)


def test_counts_may_be_given_an_ngram_and_contexts_stay():
    table = fitted(TEXT)
    count = np.zeros(table.nodes, np.int64)
    count[table.trie().find([2, 3, 4])] = 2
    smaller = prune_by_count(table, count, (0, 1))
    assert grams_of(smaller) == {(word,) for word in range(LETTERS.outputs + 1)} | {(2, 3), (2, 3, 4)}
    sound(smaller, table, [2, 3, 4])


def test_a_pruned_table_may_be_pruned_again_with_the_same_counts():
    table, counts = fitted(TEXT), counted(TEXT)
    twice = prune_by_count(prune_by_count(table, counts, (0, 0, 1)), counts, (0, 1, 2))
    once = prune_by_count(table, counts, (0, 1, 2))
    assert grams_of(twice) == grams_of(once)
    np.testing.assert_array_equal(twice.rows, once.rows)
    assert twice.notes[-2:] == ("pruned by count: 0 0 1", "pruned by count: 0 1 2")


@given(texts, st.integers(1, 4), st.sampled_from(SMOOTH), st.sampled_from([1.0, 0.7, 0.4]))
@settings(deadline=None, max_examples=80)
def test_the_loss_is_the_relative_entropy_of_two_distributions(lines, order, smoothing, share):
    """Of tables that were pruned before, too: there a suffix may be missing."""
    table = fitted(lines, order, smoothing)
    table = prune_to(table, max(table.ngrams[0], int(share * table.nodes)))
    slow, trie, counts = SlowTable.of(table), table.trie(), counted(lines, order)
    found, by_counts = divergences(table), divergences(table, counts)
    assert np.all(np.isinf(found[: trie.ngrams[0] + 1]))
    for node in range(trie.ngrams[0] + 1, trie.nodes):
        gram = tuple(trie.words_of(node))
        alone, often = loss(slow, gram), counts.count[counts.trie.find(gram[:-1])]
        assert found[node] == pytest.approx(history(slow, gram[:-1]) * alone, abs=3e-6, rel=1e-4)
        assert by_counts[node] == pytest.approx(often / counts.tokens * alone, abs=3e-6, rel=1e-4)


@given(texts, st.integers(2, 4), st.sampled_from([1e-3, 1e-2, 3e-2, 0.2]), readings)
@settings(deadline=None, max_examples=50)
def test_pruning_by_entropy_is_stolckes_procedure(lines, order, threshold, reading):
    table = fitted(lines, order)
    smaller = prune_by_entropy(table, threshold)
    sound(smaller, table, reading)
    slow = SlowTable.of(table)
    start = {(LETTERS.start,)}
    assert pruned(slow, threshold * (1 + 1e-3)) <= grams_of(smaller) - start <= pruned(slow, threshold * (1 - 1e-3))
    rebalanced = SlowTable.of(smaller).rebalanced()
    for context in rebalanced.contexts():
        assert SlowTable.of(smaller).backoff[context] == pytest.approx(rebalanced.backoff[context], rel=1e-3)


def by_hand() -> BackoffTable:
    """Words <unk> .1, </s> .3, a .6; p(a | a) = .8, so a backs off with (1 - .8) / (1 - .6) = .5."""
    trie = Trie.from_levels([np.zeros(4, int), np.array([2])], [np.arange(4), np.array([2])])
    log_prob = np.log(np.array([1, 0.1, 0.3, 0.6, 1, 0.8])).astype(np.float32)
    log_prob[4] = -np.inf
    log_backoff = np.log(np.array([1, 1, 1, 0.5, 1])).astype(np.float32)
    return BackoffTable.build(trie, log_prob, log_backoff, "by-hand")


def test_a_loss_worked_by_hand():
    """Without "a a", a backs off with 1, so after a come .1, .3, .6, not .05, .15, .8; a comes .6 of the time."""
    lost = 0.6 * (0.05 * math.log(0.05 / 0.1) + 0.15 * math.log(0.15 / 0.3) + 0.8 * math.log(0.8 / 0.6))
    table = by_hand()
    assert divergences(table)[5] == pytest.approx(lost, rel=1e-6)
    change = math.exp(lost) - 1
    assert prune_by_entropy(table, change * 0.999) is table
    smaller = prune_by_entropy(table, change * 1.001)
    assert smaller.ngrams == (4, 0)
    assert smaller.log_backoff().tolist() == [0, 0, 0, 0, 0]
    assert smaller.notes == (f"pruned by relative entropy below {change * 1.001:g}",)


def test_a_sentence_begins_as_often_as_one_ends():
    """P(<s>) is p(</s>) = .3 of the table, though its own log-prob is minus infinity."""
    trie = Trie.from_levels([np.zeros(4, int), np.array([3])], [np.arange(4), np.array([2])])
    table = BackoffTable.build(trie, by_hand().log_prob(), np.log(np.array([1, 1, 1, 1, 0.5], np.float32)), "by-hand")
    assert divergences(table)[5] == pytest.approx(divergences(by_hand())[5] * 0.3 / 0.6, rel=1e-6)


def test_nothing_is_pruned_at_zero_and_only_words_stay_at_much():
    table = fitted(TEXT)
    assert prune_by_entropy(table, 0) is table
    words = prune_by_entropy(table, 100)
    assert words.ngrams == (7, 0, 0)
    sound(words, table, [2, 3, 4, LETTERS.start])
    assert prune_by_count(table, counted(TEXT), ()) is table


@given(texts, st.integers(2, 4), readings, st.data())
@settings(deadline=None, max_examples=40)
def test_a_table_can_be_pruned_to_any_size(lines, order, reading, data):
    table = fitted(lines, order)
    assert prune_to(table, table.nodes - 1) is table
    size = data.draw(st.integers(table.ngrams[0], table.nodes - 2))
    smaller = prune_to(table, size)
    assert sum(smaller.ngrams) == size
    assert grams_of(smaller) < grams_of(prune_to(table, size + 1))
    sound(smaller, table, reading)


def test_a_size_is_a_threshold():
    """Where nothing is tied, the table of a size is that of the threshold its notes name, or just above."""
    table = fitted(TEXT, 2)
    lost = np.sort(divergences(table)[table.ngrams[0] + 1 :])
    middle = len(lost) // 2
    assert lost[middle - 1] < lost[middle]
    between = math.expm1((lost[middle - 1] + lost[middle]) / 2)
    sized = prune_to(table, table.ngrams[0] + len(lost) - middle)
    assert grams_of(sized) == grams_of(prune_by_entropy(table, between))
    assert sized.notes[-1].startswith(f"pruned by relative entropy below {math.expm1(lost[middle]):g} to")


def test_an_ngram_with_no_chance_in_shorter_contexts_stays():
    """Words <unk> .4, </s> .6, a 0, but p(a | <unk>) = .8: nothing could take its place, so the loss is infinite."""
    trie = Trie.from_levels([np.zeros(4, int), np.array([0])], [np.arange(4), np.array([2])])
    with np.errstate(divide="ignore"):
        log_prob = np.log(np.array([1, 0.4, 0.6, 0, 0, 0.8])).astype(np.float32)
    table = BackoffTable.build(trie, log_prob, np.log(np.array([1, 0.2, 1, 1, 1], np.float32)), "by-hand")
    assert divergences(table)[5] == math.inf
    assert prune_by_entropy(table, 1e6) is table


def test_what_cannot_be_pruned_says_why():
    table, counts = fitted(TEXT), counted(TEXT)
    for thresholds in ((1,), (0, 2, 1), (0, 1, 1, 1)):
        with pytest.raises(ConfigError, match="prune"):
            prune_by_count(table, counts, thresholds)
    with pytest.raises(ShapeError, match="one a node"):
        prune_by_count(table, np.ones(3, np.int64), (0, 1))
    with pytest.raises(MismatchError, match="were not counted"):
        prune_by_count(table, counted(TEXT[2:]), (0, 1))
    with pytest.raises(MismatchError, match="were not counted"):
        prune_by_entropy(table, 0.1, counted(TEXT[2:]))
    for threshold in (-1e-9, math.nan, math.inf):
        with pytest.raises(ConfigError, match="threshold: must be 0 or more"):
            prune_by_entropy(table, threshold)
    with pytest.raises(ConfigError, match="7 words always stay, so 6 are too few"):
        prune_to(table, 6)
    scores = table.described(normalised=False)
    with pytest.raises(ConfigError, match="no distributions to compare"):
        prune_by_entropy(scores, 0.1)
    assert not prune_by_count(scores, counts, (0, 1)).normalised
