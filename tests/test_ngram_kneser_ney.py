"""Kneser-Ney against hand arithmetic, the slow twin, and KenLM's perplexities."""

from __future__ import annotations

import gzip
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.core.config import build
from ostinato.core.errors import ConfigError
from ostinato.core.vocabulary import Vocabulary
from ostinato.ngram.counts import count
from ostinato.ngram.model import NGramModel
from ostinato.ngram.smoothing import smoothings
from ostinato.ngram.smoothing.discounts import three_discounts
from ostinato.ngram.smoothing.kneser_ney import KneserNey, ModifiedKneserNey
from references.kneser_ney import START, SlowKneserNey

SOTU = Path(__file__).parents[2] / "shared" / "data" / "lm-sotu"
LETTERS = Vocabulary("abc")
texts = st.lists(st.lists(st.sampled_from([0, 2, 3]), max_size=8), min_size=1, max_size=25)


def stream(lines: list[list[int]], vocabulary: Vocabulary = LETTERS) -> np.ndarray:
    return np.array([word for line in lines for word in [*line, vocabulary.stop]], np.int64)


def words(text: str) -> list[list[int]]:
    return [LETTERS.ids(line.split()).tolist() for line in text.split("/")]


def probabilities(model: NGramModel, context: list[int]) -> np.ndarray:
    """p(. | context) as the model says it, [outputs]; a context that begins with -1 begins a sentence."""
    state = model.init_state(1)
    distribution = None
    for word in context:
        token = model.vocabulary.start if word < 0 else word
        distribution, state = model.step(state, np.array([token]))
    assert distribution is not None
    return np.exp(distribution[0].astype(np.float64))


@given(texts, st.integers(1, 5), st.booleans(), st.lists(st.sampled_from([0, 2, 3, 4]), max_size=6))
@settings(deadline=None, max_examples=150)
def test_every_probability_is_that_of_the_papers(lines, order, modified, tail):
    """The same discounts, counts and back-offs as dictionaries give, in seen and in unseen contexts."""
    name = "modified-kneser-ney" if modified else "kneser-ney"
    table = smoothings[name]().fit(count(stream(lines), LETTERS, order))
    twin = SlowKneserNey(lines, range(LETTERS.outputs), LETTERS.stop, order, modified)
    seen = max(lines, key=len)
    for context in ([-1, *seen], [-1, *tail], [-1, *seen[: len(tail)], *tail]):
        found = probabilities(NGramModel(table, LETTERS), context)
        slow = tuple(START if word < 0 else word for word in context)
        expected = [twin.probability(word, slow) for word in range(LETTERS.outputs)]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
        assert found.sum() == pytest.approx(1, abs=1e-5)
    for k in range(order):
        discounts = table.discounts[k] if modified else table.discounts[k] * 3
        assert discounts == pytest.approx(twin.discounts(k + 1))


def test_one_discount_by_hand():
    """Two lines, "a b a" and "a c": order 2, D = n1 / (n1 + 2 n2) in both orders."""
    model = NGramModel(KneserNey().fit(count(stream(words("a b a/a c")), LETTERS, 2)), LETTERS)
    # bigrams: <s>a 2, ab 1, ba 1, a</s> 1, ac 1, c</s> 1 -> n1 = 5, n2 = 1
    d2 = 5 / (5 + 2 * 1)
    # words before: a {<s>, b} 2, b {a} 1, c {a} 1, </s> {a, c} 2 -> n1 = 2, n2 = 2; 6 bigram types
    d1 = 2 / (2 + 2 * 2)
    uniform = (4 * d1 / 6) / 5
    p_a, p_b, p_unknown = (2 - d1) / 6 + uniform, (1 - d1) / 6 + uniform, uniform
    after_a = probabilities(model, [2])
    assert after_a[3] == pytest.approx((1 - d2) / 3 + (3 * d2 / 3) * p_b)
    assert after_a[2] == pytest.approx((3 * d2 / 3) * p_a)
    assert after_a[0] == pytest.approx((3 * d2 / 3) * p_unknown)
    assert probabilities(model, [-1])[2] == pytest.approx((2 - d2) / 2 + (1 * d2 / 2) * p_a)
    assert model.table.discounts == ((d1,), (d2,))


def test_three_discounts_by_hand():
    """n1..n4 = 8, 3, 2, 1: Y = 8 / (8 + 2 * 3)."""
    y = 8 / (8 + 2 * 3)
    expected = (1 - 2 * y * 3 / 8, 2 - 3 * y * 2 / 3, 3 - 4 * y * 1 / 2)
    assert three_discounts(8, 3, 2, 1) == pytest.approx(expected)


@pytest.mark.parametrize(
    "numbers", [(0, 3, 2, 1), (8, 0, 2, 1), (8, 3, 0, 1), (8, 2, 9, 1), (8, 3, 1, 9), (4, 1, 1, 0)]
)
def test_impossible_discounts_are_recognised(numbers):
    """A missing count, a negative D, or D2 = 2 - 3 (4/6) 1/1 = 0."""
    assert three_discounts(*numbers) is None


def test_no_four_times_seen_ngram_is_no_obstacle():
    """n4 = 0 gives D3 = 3, as lmplz has it."""
    assert three_discounts(8, 3, 2, 0) == pytest.approx((1 - 2 * (8 / 14) * 3 / 8, 2 - 3 * (8 / 14) * 2 / 3, 3.0))


def test_the_fallback_is_used_order_by_order_and_said():
    """One word a line, seen once each: no n-gram has the count 2."""
    counts = count(stream(words("a/b/c")), LETTERS, 3)
    plain, modified = KneserNey(fallback=0.6).fit(counts), ModifiedKneserNey().fit(counts)
    assert plain.discounts == ((0.6,),) * 3
    assert modified.discounts == ((0.5, 1.0, 1.5),) * 3
    assert len(plain.notes) == len(modified.notes) == 3
    assert plain.notes[2] == (
        "order 3: the counts of counts (n1 = 3, n2 = 0) give no usable discount, so the discount 0.6 stood in"
    )


def test_an_order_longer_than_every_line_is_said_and_changes_nothing():
    counts, longer = (count(stream(words("a b/a/b b")), LETTERS, order) for order in (4, 9))
    table, same = ModifiedKneserNey().fit(counts), ModifiedKneserNey().fit(longer)
    assert "no line is long enough" in same.notes[-1]
    for context in ([-1], [-1, 2, 3], [3, 3, 3], [4]):
        np.testing.assert_allclose(
            probabilities(NGramModel(table, LETTERS), context), probabilities(NGramModel(same, LETTERS), context)
        )


def test_a_chosen_discount_is_used_everywhere():
    table = KneserNey(discount=0.3).fit(count(stream(words("a b a/a c")), LETTERS, 2))
    assert (table.discounts, table.notes) == (((0.3,), (0.3,)), ())


@pytest.mark.parametrize(
    ("kind", "values"),
    [(KneserNey, {"discount": 1.5}), (KneserNey, {"discount": 0}), (ModifiedKneserNey, {"fallback": [0.5, 1, 4]})],
)
def test_a_discount_out_of_range_is_refused(kind, values):
    with pytest.raises(ConfigError, match=next(iter(values))):
        build(kind, values, "config.toml")


def test_an_unknown_smoothing_names_the_nearest():
    with pytest.raises(ConfigError, match="did you mean 'kneser-ney'"):
        smoothings["kneser-nay"]


def lines_of(path: Path) -> list[list[str]]:
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf8")
    return [line.split() for line in text.split("\n") if line.strip()]


@pytest.mark.skipif(not SOTU.exists(), reason="needs ../shared/data/lm-sotu")
def test_the_perplexities_of_kenlm_on_the_state_of_the_union():
    """lmplz -o 3 and -o 5 on the LM protocol of ../shared/data/SOURCES.md, as printed there (two decimals)."""
    train = lines_of(SOTU / "train.txt.gz")
    seen = Counter(word for line in train for word in line)
    vocabulary = Vocabulary(sorted(word for word, times in seen.items() if times >= 3))
    train_ids, *held_out = (
        np.concatenate([[*vocabulary.ids(line), vocabulary.stop] for line in lines])
        for lines in (train, lines_of(SOTU / "valid.txt"), lines_of(SOTU / "test.txt"))
    )
    for order, expected in ((3, (104.58, 94.28)), (5, (98.03, 87.60))):
        model = NGramModel(ModifiedKneserNey().fit(count(train_ids, vocabulary, order)), vocabulary)
        for ids, perplexity in zip(held_out, expected, strict=True):
            inputs = np.concatenate(([vocabulary.start], ids[:-1]))
            log_probs, _ = model.score(model.init_state(1), inputs[None], ids[None])
            assert math.exp(-log_probs.mean(dtype=np.float64)) == pytest.approx(perplexity, abs=0.006)
