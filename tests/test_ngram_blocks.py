"""The blocks of a table: laid out alike by NumPy and by kernels, and read back as what they were made of."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.core.vocabulary import Vocabulary
from ostinato.ngram import blocks
from ostinato.ngram.counts import count
from ostinato.ngram.table import BackoffTable
from ostinato.ngram.trie import Trie

WORDS = 40


def made(lines: list[list[int]], order: int, seed: int, bare: bool) -> tuple[Trie, np.ndarray, np.ndarray]:
    """The n-grams of a text with any numbers; some contexts without children have a back-off, unless bare."""
    vocabulary = Vocabulary(f"w{number}" for number in range(WORDS))
    ids = np.array([word for line in lines for word in [*line, vocabulary.stop]])
    trie = count(ids, vocabulary, order).trie
    generator = np.random.default_rng(seed)
    log_prob = -generator.exponential(2, trie.nodes).astype(np.float32)
    log_backoff = -generator.exponential(1, trie.inner).astype(np.float32)
    childless = np.diff(trie.first_child) == 0
    log_backoff[childless & (generator.random(trie.inner) < (1 if bare else 0.5))] = 0
    log_prob[0] = log_backoff[0] = 0
    return trie, log_prob, log_backoff


texts = st.lists(st.lists(st.integers(2, WORDS + 1), max_size=25), min_size=1, max_size=25)


@given(texts, st.integers(1, 4), st.integers(0, 9), st.booleans())
@settings(deadline=None, max_examples=150)
def test_kernels_and_numpy_lay_out_the_same_rows_and_they_read_back(lines, order, seed, bare):
    trie, log_prob, log_backoff = made(lines, order, seed, bare)
    tables = []
    with pytest.MonkeyPatch.context() as patch:
        for small, task in ((1 << 30, 1 << 16), (0, 1 << 16), (0, 3), (1 << 30, 3)):
            patch.setattr(blocks, "SMALL", small)
            patch.setattr(blocks, "TASK", task)
            tables.append(BackoffTable.build(trie, log_prob, log_backoff, "made"))
    for other in tables[1:]:
        np.testing.assert_array_equal(tables[0].rows, other.rows)
    again, log_prob_again, log_backoff_again = tables[0].contents()
    for name in ("word", "first_child", "suffix"):
        np.testing.assert_array_equal(getattr(again, name), getattr(trie, name))
    assert again.ngrams == trie.ngrams
    np.testing.assert_array_equal(log_prob_again[1:], log_prob[1:])
    np.testing.assert_array_equal(log_backoff_again, log_backoff)
    tables[0].check()


def test_a_context_with_many_children_finds_every_one_of_them_and_no_other():
    """40 words after "w0": they are hashed. A word that is not there is not found, wherever its home is."""
    from ostinato.kernels import backoff

    vocabulary = Vocabulary(f"w{number}" for number in range(1000))
    generator = np.random.default_rng(5)
    after = generator.choice(np.arange(3, 1002), 400, replace=False)
    ids = np.concatenate([[2, word, 1] for word in after])
    trie = count(ids, vocabulary, 2).trie
    log_prob = -np.arange(trie.nodes, dtype=np.float32)
    table = BackoffTable.build(trie, log_prob, np.zeros(trie.inner, np.float32), "made")
    state = int(table.rows[3 * (1 + 2) + 2])  # the context "w0"
    for word in range(1002):
        entry = backoff.find_entry(table.rows, state, word)
        node = trie.find([2, word])
        assert (entry >= 0) == (node >= 0)
        if entry >= 0:
            assert table.rows[3 * entry] == word
            assert table.rows[3 * entry + 1 : 3 * entry + 2].view(np.float32)[0] == log_prob[node]


def test_a_state_is_the_row_of_a_header():
    trie, log_prob, log_backoff = made([[2, 3, 4], [2, 3, 5]], 3, 0, bare=True)
    table = BackoffTable.build(trie, log_prob, log_backoff, "made")
    headers = np.flatnonzero(table.rows[2::3] < 0)
    assert table.is_state(headers)
    assert not any(table.is_state(np.array([row])) for row in range(len(table.rows) // 3) if row not in headers)
    assert not table.is_state(np.array([-1]))
    assert not table.is_state(np.array([len(table.rows)]))
