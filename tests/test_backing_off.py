"""Back-offs that make distributions of any log-probs, against dictionaries and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from letters import LETTERS, PREDICTABLE, counted, known_of, probabilities, stream
from ostinato.core.vocabulary import Vocabulary
from ostinato.ngram.backing_off import renormalised_backoffs
from ostinato.ngram.counts import count
from ostinato.ngram.table import BackoffTable
from references import smoothing as slow

texts = st.lists(st.lists(st.sampled_from([0, 2, 3]), max_size=8), min_size=1, max_size=25)


@given(lines=texts, order=st.integers(2, 4), seed=st.integers(0, 999), precise=st.booleans())
@settings(deadline=None, max_examples=100)
def test_renormalised_backoffs_walk_over_pruned_suffixes(lines, order, seed, precise):
    """Any n-grams may go if their continuations go; any probabilities may stay."""
    trie = count(stream(lines), LETTERS, order).trie
    chance = np.random.default_rng(seed)
    keep = chance.random(trie.nodes) < chance.random()
    keep[: trie.ngrams[0] + 1] = True
    for k in range(2, order + 1):
        keep[trie.level(k)] &= keep[trie.parents(k)]
    left, _ = trie.select(keep)
    log_prob = np.zeros(left.nodes)
    for node in range(left.inner):
        begin, end = left.first_child[node], left.first_child[node + 1]
        share = chance.dirichlet(np.ones(end - begin + (node > 0))) if end > begin else np.empty(0)
        log_prob[begin:end] = np.log(share[: end - begin])
    words_alone = np.exp(log_prob[1 : left.sentence_start])
    log_prob[1 : left.sentence_start] = np.log(words_alone / words_alone.sum())
    log_prob[left.sentence_start] = -np.inf
    log_prob = log_prob if precise else log_prob.astype(np.float32)
    backoffs = renormalised_backoffs(left, log_prob)
    table = BackoffTable.build(left, log_prob.astype(np.float32), backoffs, "random")
    grams = {tuple(slow.START if w == LETTERS.start else w for w in left.words_of(n)) for n in range(1, left.nodes)}
    known = known_of(left, log_prob.astype(np.float64), grams - {(slow.START,)})
    for context in ([-1], [-1, *max(lines, key=len)], [-1, 2, 3], [-1, 3, 3, 2]):
        history = tuple(slow.START if word < 0 else word for word in context)[-order + 1 :]
        expected = [slow.back_off_mass(known, PREDICTABLE, word, history) for word in PREDICTABLE]
        np.testing.assert_allclose(probabilities(table, context), expected, rtol=1e-4, atol=2e-6)


def test_a_context_that_spends_everything_makes_other_words_impossible():
    """After a: b 0.25, c 0.75; the rest is rounding. After b: a 0.4, and after nothing a has 0.2."""
    counts = counted("a b/a c/b a", 2)
    trie = counts.trie
    log_prob = np.log(np.array([1, *[0.2] * 5, 1, *[0.5] * (trie.nodes - 7)])).astype(np.float32)
    log_prob[trie.sentence_start] = -np.inf
    for gram, p in (((2, 3), 0.25), ((2, 4), 0.75), ((3, 2), 0.4)):
        log_prob[trie.find(gram)] = math.log(p)
    log_prob[trie.find((2, LETTERS.stop))] = -np.inf
    log_prob[trie.find((3, LETTERS.stop))] = math.log(0.3)
    backoffs = renormalised_backoffs(trie, log_prob)
    assert backoffs[trie.find((2,))] == -np.inf
    assert backoffs[trie.find((3,))] == pytest.approx(math.log((1 - 0.4 - 0.3) / (1 - 2 * 0.2)))
    assert backoffs[trie.find((LETTERS.stop,))] == 0  # never continued


def test_where_all_words_are_listed_there_is_nothing_to_back_off_to():
    """After a come all 5 words with 0.1 each: no back-off can make that sum to one."""
    vocabulary = Vocabulary(["a"])
    counts = count(stream([[2, 0], [2, 2], [2]], vocabulary), vocabulary, 2)
    log_prob = np.full(counts.trie.nodes, math.log(1 / 3))
    log_prob[counts.trie.sentence_start] = -np.inf
    log_prob[counts.trie.level(2)] = math.log(0.1)
    assert renormalised_backoffs(counts.trie, log_prob)[counts.trie.find((2,))] == 0
