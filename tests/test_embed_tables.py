"""What training draws from: thresholds, alias tables, windows, Huffman trees, character n-grams."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.core.errors import ConfigError
from ostinato.embed.huffman import huffman
from ostinato.embed.sampling import alias_table, expected_share, keep_thresholds, window_table, without_certain
from ostinato.embed.subwords import Subwords
from ostinato.kernels.alias import draw
from references import subwords as slow

ZIPF = np.array([1_000_000 // rank for rank in range(1, 2001)], np.int64)
counts_of_words = st.lists(st.integers(1, 50) | st.integers(1, 10**9), min_size=1, max_size=60)
few = settings(deadline=None, max_examples=150)


def shares(thresholds, others) -> np.ndarray:
    """The chance of each word, summed over the slots of an alias table."""
    own = (thresholds.astype(np.float64) + 1) / 2**32
    total = own.copy()
    np.add.at(total, others, 1 - own)
    return total / len(own)


def test_subsampling_keeps_what_the_formulas_say():
    counts = np.array([800, 150, 49, 1], np.int64)  # f = 0.8, 0.15, 0.049, 0.001; t = 0.01
    found = (keep_thresholds(counts, 0.01).astype(np.float64) + 1) / 2**32
    wanted = [(sqrt(0.8 / 0.01) + 1) * 0.01 / 0.8, (sqrt(15) + 1) / 15, (sqrt(4.9) + 1) / 4.9, 1]
    np.testing.assert_allclose(found, wanted, atol=1e-9)
    published = (keep_thresholds(counts, 0.01, "published").astype(np.float64) + 1) / 2**32
    np.testing.assert_allclose(published, [sqrt(0.01 / 0.8), sqrt(1 / 15), sqrt(1 / 4.9), 1], atol=1e-9)
    share = 0.8 * sqrt(0.01 / 0.8) + 0.15 * sqrt(1 / 15) + 0.049 * sqrt(1 / 4.9) + 0.001
    assert expected_share(counts, keep_thresholds(counts, 0.01, "published")) == pytest.approx(share)


def test_subsampling_keeps_as_many_as_gensim():
    word2vec = pytest.importorskip("gensim.models.word2vec")
    model = word2vec.Word2Vec(min_count=1, sample=1e-3)
    model.build_vocab_from_freq({f"w{place}": int(count) for place, count in enumerate(ZIPF)})
    theirs = [model.wv.get_vecattr(f"w{place}", "sample_int") for place in range(len(ZIPF))]
    ours = keep_thresholds(ZIPF, 1e-3)
    np.testing.assert_allclose(ours.astype(np.float64), np.minimum(theirs, 2.0**32 - 1), atol=2)


def test_no_subsampling_keeps_all():
    assert keep_thresholds(ZIPF, 0).tolist() == [2**32 - 1] * len(ZIPF)
    assert expected_share(ZIPF, keep_thresholds(ZIPF, 0)) == 1


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=50), st.sampled_from([0, 1e-4, 1e-2, 1.0]))
def test_words_that_are_always_kept_need_no_threshold_of_their_own(counts, sample):
    thresholds = keep_thresholds(np.array(counts), sample)
    short = without_certain(thresholds)
    assert np.array_equal(short[np.minimum(np.arange(len(counts)), len(short) - 1)], thresholds)
    assert len(short) == 1 or (short[-2:] != 2**32 - 1).any()


def test_subsampling_says_what_it_cannot_do():
    with pytest.raises(ConfigError, match="negative"):
        keep_thresholds(ZIPF, -1)
    with pytest.raises(ConfigError, match=r"did you mean 'word2vec\.c'"):
        keep_thresholds(ZIPF, 1e-3, "word2vec")


@few
@given(counts_of_words, st.sampled_from([0.75, 1.0, 0.0, -0.5]))
def test_an_alias_table_gives_each_word_its_share(given_counts, exponent):
    counts = np.array(given_counts, np.int64)
    weights = counts.astype(np.float64) ** exponent
    np.testing.assert_allclose(shares(*alias_table(counts, exponent)), weights / weights.sum(), atol=1e-8)


@pytest.mark.parametrize("exponent", [0.75, 1.0, 0.0, -0.5])
def test_draws_follow_the_counts_to_the_power(exponent):
    """Chi-square: 1,999 degrees of freedom have a mean of 1,999 and a spread of 63."""
    import numba

    @numba.njit
    def drawn(thresholds, others, randoms, times):
        for random in randoms:
            times[draw(thresholds, others, random)] += 1

    randoms = np.random.default_rng(5).integers(0, 2**64, 2_000_000, np.uint64)
    times = np.zeros(len(ZIPF), np.int64)
    drawn(*alias_table(ZIPF, exponent), randoms, times)
    weights = ZIPF.astype(np.float64) ** exponent
    expected = weights / weights.sum() * len(randoms)
    chi = float(((times - expected) ** 2 / expected).sum())
    assert abs(chi - 1999) < 4 * sqrt(2 * 1999)


def test_words_never_seen_are_not_drawn():
    found = shares(*alias_table(np.array([0, 3, 0, 1], np.int64), 0.0))
    np.testing.assert_allclose(found, [0, 0.5, 0, 0.5], atol=1e-8)
    with pytest.raises(ConfigError, match="no word has one"):
        alias_table(np.zeros(3, np.int64))


def test_windows_have_their_published_shares():
    assert np.bincount(window_table(4)).tolist() == [0, 1024, 1024, 1024, 1024]
    assert np.bincount(window_table(5, "none")).tolist() == [0, 0, 0, 0, 0, 4096]
    at_least = np.bincount(window_table(4, "harmonic"))[::-1].cumsum()[::-1]
    np.testing.assert_allclose(at_least[1:] / 4096, [1, 1 / 2, 1 / 3, 1 / 4], atol=3 / 4096)


@few
@given(st.integers(1, 100), st.sampled_from(["uniform", "harmonic", "none"]), st.integers(100, 5000))
def test_windows_are_exact_to_one_entry(window, shrink, size):
    table = window_table(window, shrink, size)
    assert table.dtype == np.uint16
    assert len(table) == size
    times = np.bincount(table, minlength=window + 1)[1:]
    sizes = np.arange(1, window + 1)
    chance = {
        "uniform": np.full(window, 1 / window),
        "harmonic": np.where(sizes < window, 1 / (sizes * (sizes + 1)), 1 / window),
        "none": np.where(sizes == window, 1.0, 0.0),
    }[shrink]
    assert np.all(np.abs(times - chance * size) < 1 + 1e-6)


def test_a_window_that_cannot_be_is_an_error():
    with pytest.raises(ConfigError, match="got 0"):
        window_table(0)
    with pytest.raises(ConfigError, match="unknown way"):
        window_table(5, "gauss")


@few
@given(counts_of_words)
def test_a_huffman_tree_is_a_best_one(given_counts):
    counts = np.array(given_counts, np.int64)
    tree = huffman(counts)
    lengths = np.diff(tree.offsets)
    assert int(lengths @ counts) == slow.least_cost(given_counts)
    if len(counts) > 1:
        assert sum(2.0**-length for length in lengths.tolist()) == 1
    assert tree.longest == max(lengths)


@few
@given(counts_of_words)
def test_paths_lead_through_one_tree_from_its_root(given_counts):
    tree = huffman(np.array(given_counts, np.int64))
    below: dict[tuple[int, int], tuple[str, int]] = {}
    for word in range(len(given_counts)):
        nodes = tree.nodes[tree.offsets[word] : tree.offsets[word + 1]].tolist()
        codes = tree.codes[tree.offsets[word] : tree.offsets[word + 1]].tolist()
        assert not nodes or nodes[0] == len(given_counts) - 2
        ends = [("node", node) for node in nodes[1:]] + [("word", word)]
        for node, code, end in zip(nodes, codes, ends, strict=bool(nodes)) if nodes else ():
            assert below.setdefault((node, code), end) == end
    assert len(below) == 2 * (len(given_counts) - 1)


def test_ties_are_broken_as_in_word2vec_c():
    """By hand, on counts 2 1 1 1: the last two words make node A of 2. A word goes first only if it is rarer than A.

    So the 1 left over and then A, not the word of 2, make node B of 3, and the 2 is joined last.
    """
    assert np.diff(huffman(np.array([2, 1, 1, 1], np.int64)).offsets).tolist() == [1, 2, 3, 3]


def test_huffman_paths_cost_what_those_of_gensim_do():
    word2vec = pytest.importorskip("gensim.models.word2vec")
    model = word2vec.Word2Vec(hs=1, negative=0, min_count=1)
    model.build_vocab_from_freq({f"w{place}": int(count) for place, count in enumerate(ZIPF)})
    theirs = sum(len(model.wv.get_vecattr(f"w{place}", "code")) * int(count) for place, count in enumerate(ZIPF))
    assert int(np.diff(huffman(ZIPF).offsets) @ ZIPF) == theirs


def test_no_words_make_no_tree():
    with pytest.raises(ConfigError, match="needs words"):
        huffman(np.empty(0, np.int64))


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@few
@given(st.lists(words, max_size=8), st.integers(1, 4), st.integers(0, 5), st.integers(1, 2**31 - 1))
def test_ngrams_are_characters_hashed_as_the_slow_twin_does(given_words, least, more, buckets):
    subwords = Subwords(least, least + more, buckets)
    offsets, numbers = subwords.table(given_words)
    assert offsets.dtype == np.int64
    assert numbers.dtype == np.int32
    for place, word in enumerate(given_words):
        wanted = [slow.fnv(part) % buckets for part in slow.ngrams(word, least, least + more)]
        assert numbers[offsets[place] : offsets[place + 1]].tolist() == wanted
        assert subwords.ngrams(word).tolist() == wanted


@pytest.mark.parametrize("word", ["where", "日本語", "é", "a", "", "naïve𝄞", "Ὀδυσσεύς"])
@pytest.mark.parametrize(("least", "most"), [(3, 6), (1, 2), (2, 9)])
def test_ngrams_are_those_of_gensim(word, least, most):
    inner = pytest.importorskip("gensim.models.fasttext_inner")
    wanted = [inner.ft_hash_bytes(part) % 1000 for part in inner.compute_ngrams_bytes(word, least, most)]
    assert Subwords(least, most, 1000).ngrams(word).tolist() == wanted


def test_ngrams_that_cannot_be_are_an_error():
    with pytest.raises(ConfigError, match="4 to 3"):
        Subwords(4, 3)
    with pytest.raises(ConfigError, match="buckets"):
        Subwords(buckets=0)
