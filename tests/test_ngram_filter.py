"""Fewer words: tables filtered in two ways, and counts marked as lmplz limits them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.core.errors import ConfigError, DataError, MismatchError, ShapeError
from ostinato.core.vocabulary import Vocabulary
from ostinato.ngram.counts import Counts, count
from ostinato.ngram.filter import filter_vocabulary, limit_vocab, mask_of
from ostinato.ngram.model import NGramModel
from ostinato.ngram.prune import prune_to
from ostinato.ngram.smoothing import smoothings
from ostinato.ngram.table import BackoffTable
from references.combine import SlowTable

LETTERS = Vocabulary("abcd")
SMOOTH = ["modified-kneser-ney", "witten-bell", "mle", "additive"]
texts = st.lists(st.lists(st.sampled_from([0, 2, 3, 4, 5]), max_size=6), min_size=1, max_size=10)
lists = st.sets(st.sampled_from("abcdz"), min_size=1, max_size=4).filter(lambda words: words != {"z"})
TEXT = [[2, 3, 4], [5, 3, 2, 3], [3, 5, 4, 2], [2, 3, 4], [0, 2], [4, 4, 2, 3, 4]]


def counted(lines: list[list[int]], order: int = 3) -> Counts:
    ids = [word for line in lines for word in [*line, LETTERS.stop]]
    return count(np.array(ids, np.int64), LETTERS, order)


def fitted(lines: list[list[int]], order: int = 3, smoothing: str = "modified-kneser-ney") -> BackoffTable:
    return smoothings[smoothing]().fit(counted(lines, order))


@given(texts, st.integers(1, 4), lists, st.data())
@settings(deadline=None, max_examples=60)
def test_listed_words_score_as_before(lines, order, words, data):
    table = fitted(lines, order)
    smaller, vocabulary = filter_vocabulary(table, LETTERS, words)
    smaller.check()
    assert vocabulary.pieces[2:-2] == tuple(sorted(words - {"z"}))
    pieces = data.draw(st.lists(st.sampled_from(["<unk>", *vocabulary.pieces[2:-2]]), min_size=1, max_size=8))
    scores = []
    for model in (NGramModel(table, LETTERS), NGramModel(smaller, vocabulary)):
        ids = model.vocabulary.ids(pieces)
        inputs = np.concatenate(([model.vocabulary.start], ids[:-1]))
        scores.append(model.score(model.init_state(1), inputs[None], ids[None])[0])
    np.testing.assert_allclose(scores[1], scores[0], atol=1e-6)
    assert smaller.normalised == (set("abcd") <= words)


@given(texts, st.integers(1, 4), lists, st.sampled_from(SMOOTH), st.lists(st.integers(0, 3), min_size=1, max_size=6))
@settings(deadline=None)
def test_renormalised_distributions_sum_to_one(lines, order, words, smoothing, reading):
    table = fitted(lines, order, smoothing)
    table = prune_to(table, max(table.ngrams[0], int(0.7 * table.nodes)))
    smaller, vocabulary = filter_vocabulary(table, LETTERS, words, "renormalise")
    smaller.check()
    assert smaller.normalised
    model = NGramModel(smaller, vocabulary)
    state = model.init_state(1)
    for token in [vocabulary.start, *(word % vocabulary.outputs for word in reading)]:
        log_probs, state = model.step(state, np.array([token]))
        assert np.exp(log_probs.astype(np.float64)).sum() == pytest.approx(1, abs=1e-5)


def test_what_the_lost_words_had_goes_to_the_unknown_word():
    table = fitted(TEXT)
    smaller, vocabulary = filter_vocabulary(table, LETTERS, "ac", "renormalise")
    before, after = SlowTable.of(table), SlowTable.of(smaller)
    place = {0: 0, 1: 1, 2: 2, 3: 4, vocabulary.start: LETTERS.start}
    assert after.p(0, ()) == pytest.approx(before.p(0, ()) + before.p(3, ()) + before.p(5, ()), rel=1e-6)
    expected = {gram for gram in before.probability if not {3, 5} & set(gram)}
    assert {tuple(place[word] for word in gram) for gram in after.probability} == expected
    slow = SlowTable(after.words, {gram: before.probability[tuple(map(place.get, gram))] for gram in after.probability})
    for gram in slow.probability:
        if gram[-1] == 0:
            context = tuple(map(place.get, gram[:-1]))
            slow.probability[gram] += before.p(3, context) + before.p(5, context)
            assert after.probability[gram] == pytest.approx(slow.probability[gram], rel=1e-5)
    for context, backoff in slow.rebalanced().backoff.items():
        assert after.backoff[context] == pytest.approx(backoff, rel=1e-5)
    assert smaller.notes[-1] == "filtered to 4 of 6 words (renormalise)"


def test_a_list_of_all_words_changes_nothing():
    table = fitted(TEXT)
    assert filter_vocabulary(table, LETTERS, ["d", "c", "x", "b", "a"]) == (table, LETTERS)


@given(texts, st.integers(1, 4), lists)
@settings(deadline=None, max_examples=60)
def test_limited_counts_mark_the_ngrams_of_listed_words(lines, order, words):
    counts = counted(lines, order)
    marked = limit_vocab(counts, mask_of(LETTERS, words))
    gone = set(LETTERS.ids(sorted(set("abcd") - words)).tolist())
    assert marked.tolist() == [not gone & set(counts.trie.words_of(node)) for node in range(counts.trie.nodes)]


def test_what_cannot_be_filtered_says_why():
    table = fitted(TEXT)
    with pytest.raises(ConfigError, match="'drop' is not known; known: keep, renormalise"):
        filter_vocabulary(table, LETTERS, "ab", "drop")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="none of the listed words"):
        filter_vocabulary(table, LETTERS, ["A", "B", "<unk>", "</s>"])
    with pytest.raises(MismatchError, match="6 words was not made for"):
        filter_vocabulary(table, Vocabulary("abc"), "ab")
    with pytest.raises(ConfigError, match="filter it with 'keep'"):
        filter_vocabulary(table.described(normalised=False), LETTERS, "ab", "renormalise")
    with pytest.raises(ShapeError, match="one a word"):
        limit_vocab(counted(TEXT), np.ones(7, np.bool_))
