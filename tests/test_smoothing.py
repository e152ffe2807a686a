"""Every smoothing: distributions that sum to one, the numbers of its slow twin, and hand arithmetic."""

from __future__ import annotations

import gzip
import itertools
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from letters import LETTERS, PREDICTABLE, TWO_LINES, counted, known_of, probabilities, stream
from ostinato.core.config import build
from ostinato.core.errors import ConfigError, DataError, MismatchError
from ostinato.core.vocabulary import Vocabulary
from ostinato.ngram.counts import count
from ostinato.ngram.model import NGramModel
from ostinato.ngram.smoothing import smoothings
from ostinato.ngram.smoothing.absolute import Absolute, AbsoluteBackoff
from ostinato.ngram.smoothing.additive import Additive
from ostinato.ngram.smoothing.kneser_ney import KneserNeyBackoff, ModifiedKneserNeyBackoff
from ostinato.ngram.smoothing.mle import MaximumLikelihood
from ostinato.ngram.smoothing.stupid_backoff import StupidBackoff
from ostinato.ngram.smoothing.witten_bell import WittenBell
from references import smoothing as slow
from references.kneser_ney import SlowKneserNey

SOTU = Path(__file__).parents[2] / "shared" / "data" / "lm-sotu"
texts = st.lists(st.lists(st.sampled_from([0, 2, 3]), max_size=8), min_size=1, max_size=25)
tails = st.lists(st.sampled_from([0, 2, 3, 4]), max_size=5)
NORMALISED = sorted(set(smoothings) - {"stupid-backoff"})
POSITIVE = sorted(set(NORMALISED) - {"mle"})
DISCOUNTED = ["absolute", "kneser-ney", "modified-kneser-ney"]
"""Where pruning moves counts, as lmplz does, and so changes what stays."""


def contexts_of(lines: list[list[int]], tail: list[int]) -> list[list[int]]:
    """Contexts that were seen, in part, and perhaps not at all."""
    seen = max(lines, key=len)
    return [[-1, *seen], [-1, *tail], [-1, *seen[: len(tail)], *tail]]


def within(lines: list[list[int]], vocabulary: Vocabulary) -> list[list[int]]:
    """The lines with words that a smaller vocabulary has."""
    return [[min(word, vocabulary.outputs - 1) for word in line] for line in lines]


def discounts_of(counts: slow.SlowCounts, adjusted: bool, modified: bool) -> slow.Off:
    """What the Kneser-Ney twin or n1 / (n1 + 2 n2) takes off."""
    if not adjusted:
        return lambda length, c: slow.one_discount(slow.having(counts, length))
    twin = SlowKneserNey([], counts.predictable, LETTERS.stop, counts.order, modified)
    twin.occurrences, twin.before = counts.occurrences, counts.before
    return lambda length, c: twin.discounts(length)[min(c, 3) - 1]


def twin(name: str, lines: list[list[int]], order: int, held: list[list[int]] | None, predictable: range):
    """p(word, context) of the slow twin of a smoothing."""
    counts = slow.SlowCounts(lines, predictable, LETTERS.stop, order)
    off = discounts_of(counts, "kneser" in name, "modified" in name)
    offs = {k: slow.good_turing_offs(slow.having(counts, k)) for k in range(1, order + 1)}
    if name == "jelinek-mercer":
        return slow.SlowJelinekMercer(counts, lines, held).probability
    return {
        "mle": lambda w, h: slow.mle(counts, w, h),
        "additive": lambda w, h: slow.additive(counts, 0.3, w, h),
        "witten-bell": lambda w, h: slow.witten_bell(counts, w, h),
        "stupid-backoff": lambda w, h: slow.stupid(counts, 0.4, w, h),
        "absolute": lambda w, h: slow.absolute(counts, off, w, h),
        "good-turing": lambda w, h: slow.backed_off(counts, lambda length, c: offs[length](c), False, w, h),
        "kneser-ney": SlowKneserNey(lines, predictable, LETTERS.stop, order, False).probability,
        "modified-kneser-ney": SlowKneserNey(lines, predictable, LETTERS.stop, order, True).probability,
    }.get(name, lambda w, h: slow.backed_off(counts, off, "kneser" in name, w, h))


@pytest.mark.parametrize("name", smoothings)
@given(texts, st.integers(1, 4), tails, st.none() | texts, st.sampled_from([LETTERS, Vocabulary("a")]))
@example([[0, 0], [2, 2, 0, 2, 2, 2, 2], [2, 2, 0, 2, 2, 2, 2]], 3, [], None, LETTERS)  # a slope of -1 but for rounding
@settings(deadline=None, max_examples=50)
def test_every_smoothing_gives_the_numbers_of_its_definition(name, lines, order, tail, held, vocabulary):
    """In contexts seen and not seen, to 1e-6; all but the scores of stupid back-off sum to one."""
    lines, tail = within(lines, vocabulary), within([tail], vocabulary)[0]
    held = None if held is None else within(held, vocabulary)
    options = {"k": 0.3} if name == "additive" else {}
    counts = count(stream(lines), vocabulary, order)
    table = smoothings[name](**options).fit(counts, None if held is None else stream(held))
    assert (table.smoothing, table.normalised) == (name, name != "stupid-backoff")
    table.check()
    predictable = range(vocabulary.outputs)
    expected = twin(name, lines, order, held, predictable)
    for context in contexts_of(lines, tail):
        found = probabilities(table, context, vocabulary)
        history = tuple(slow.START if word < 0 else word for word in context)
        np.testing.assert_allclose(found, [expected(word, history) for word in predictable], rtol=0, atol=1e-6)
        if table.normalised:
            assert found.sum() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("name", NORMALISED)
@given(lines=texts, order=st.integers(2, 4), tail=tails, limits=st.lists(st.integers(0, 3), max_size=3))
@settings(deadline=None, max_examples=40)
def test_pruned_tables_still_sum_to_one(name, lines, order, tail, limits):
    """Whatever is left keeps its probability (unless counts were moved), the rest goes to back-off."""
    thresholds = (0, *sorted(limits))[:order]
    counts = count(stream(lines), LETTERS, order)
    whole, pruned = (smoothings[name]().fit(counts, None, limit) for limit in ((), thresholds))
    occurrences = slow.SlowCounts(lines, PREDICTABLE, LETTERS.stop, order).occurrences
    limit = dict(enumerate([*thresholds, *thresholds[-1:] * order], 1))
    kept = {gram for gram, c in occurrences.items() if len(gram) > 1 and c > limit[len(gram)]}
    assert sum(pruned.ngrams[1:]) == len(kept)
    pruned.check()
    known = known_of(whole.trie(), whole.log_prob().astype(np.float64), kept)
    for context in contexts_of(lines, tail):
        found = probabilities(pruned, context)
        assert found.sum() == pytest.approx(1, abs=1e-5)
        if name not in DISCOUNTED:
            history = tuple(slow.START if word < 0 else word for word in context)
            history = history[len(history) - min(len(history), order - 1) :]
            expected = [slow.back_off_mass(known, PREDICTABLE, word, history) for word in PREDICTABLE]
            np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6)


@pytest.mark.parametrize("name", smoothings)
def test_a_text_of_one_word_and_a_text_of_none_have_distributions(name):
    for vocabulary, lines in ((Vocabulary(["a"]), [[2], [2, 2]]), (Vocabulary([]), [[], []]), (LETTERS, [[]])):
        for order, thresholds in ((1, ()), (2, ()), (5, ()), (5, (0, 1))):
            ids = stream(lines, vocabulary)
            table = smoothings[name]().fit(count(ids, vocabulary, order), ids if order == 2 else None, thresholds)
            for context in ([-1], [0], [-1, 0]):
                found = probabilities(table, context, vocabulary)
                assert not table.normalised or found.sum() == pytest.approx(1, abs=1e-6)
                assert name == "mle" or found.min() > 0


@pytest.mark.parametrize("name", NORMALISED)
@pytest.mark.parametrize("text", ["a b a c a b b/c a b a c a/b/a a a a/c c b a", "a b/a b/a b", "a a a a a a a a a"])
def test_every_context_of_a_text_has_a_distribution(name, text):
    """All contexts of up to three ids, seen or not, sum to one; repeated lines and equal counts are no obstacle."""
    table = smoothings[name]().fit(counted(text, 4))
    for length in (1, 2, 3):
        for context in itertools.product([-1, 0, 2, 3, 4], repeat=length):
            assert probabilities(table, list(context)).sum() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("name", smoothings)
def test_an_order_longer_than_every_line_changes_nothing_but_additive_counts(name):
    """No line is longer than 2 words and the symbols around it, so order 4 holds all there is."""
    if name == "additive":
        pytest.skip("additive smoothing asks the whole order only, by definition")
    shorter, longer = (smoothings[name]().fit(counted("a b/a/b b", order)) for order in (4, 9))
    for context in ([-1], [-1, 2, 3], [3, 3, 3], [4]):
        np.testing.assert_allclose(probabilities(shorter, context), probabilities(longer, context), atol=1e-6)


@pytest.mark.skipif(not SOTU.exists(), reason="needs ../shared/data/lm-sotu")
@pytest.mark.parametrize("name", NORMALISED)
def test_the_distributions_of_real_text_sum_to_one(name, real):
    """Order 4 over 4,000 lines: contexts of thousands of words and of one, pruned and not."""
    vocabulary, ids = real
    starts = np.flatnonzero(ids == vocabulary.stop)[:400:40] + 1
    for thresholds in ((), (0, 0, 1)):
        table = smoothings[name]().fit(count(ids, vocabulary, 4), ids[: starts[-1]], thresholds)
        for start in starts:
            line = [-1, *itertools.takewhile(lambda word: word != vocabulary.stop, ids[start : start + 6].tolist()), 0]
            for end in range(1, len(line) + 1):
                assert probabilities(table, line[:end], vocabulary).sum() == pytest.approx(1, abs=1e-5)


@pytest.fixture(scope="module")
def real() -> tuple[Vocabulary, np.ndarray]:
    """The first lines of lm-sotu as ids, words seen once unknown."""
    with gzip.open(SOTU / "train.txt.gz", "rt", encoding="utf8") as text:
        lines = [line.split() for line in itertools.islice(text, 4000)]
    seen = Counter(word for line in lines for word in line)
    vocabulary = Vocabulary(sorted(word for word, times in seen.items() if times > 1))
    return vocabulary, np.concatenate([[*vocabulary.ids(line), vocabulary.stop] for line in lines])


def test_mle_by_hand():
    table = MaximumLikelihood().fit(counted(TWO_LINES, 2))
    np.testing.assert_allclose(probabilities(table, [2]), [0, 1 / 3, 0, 1 / 3, 1 / 3], atol=1e-7)
    np.testing.assert_allclose(probabilities(table, [0]), [0, 2 / 7, 3 / 7, 1 / 7, 1 / 7], atol=1e-7)
    assert probabilities(table, [-1])[2] == pytest.approx(2 / 2)


def test_an_impossible_text_has_log_prob_minus_infinity():
    """Zeros one after the other stay zeros: nothing becomes NaN, in score as in step."""
    model = NGramModel(MaximumLikelihood().fit(counted("a b a c/a b c", 4)), LETTERS)
    ids = np.array([[2, 3, 0, 0, 2, 1, 4, 4, 1]])
    inputs = np.concatenate(([[LETTERS.start]], ids[:, :-1]), axis=1)
    log_probs, _ = model.score(model.init_state(1), inputs, ids)
    assert not np.any(np.isnan(log_probs))
    assert np.isneginf(log_probs[0, 2])
    assert log_probs[0, :2].tolist() == [0.0, 0.0]


def test_additive_by_hand():
    table = Additive(k=0.5).fit(counted(TWO_LINES, 2))
    after_a = probabilities(table, [2])
    assert after_a[3] == pytest.approx((1 + 0.5) / (3 + 0.5 * 5))
    assert after_a[0] == pytest.approx((0 + 0.5) / (3 + 0.5 * 5))
    assert probabilities(table, [-1])[2] == pytest.approx((2 + 0.5) / (2 + 0.5 * 5))
    np.testing.assert_allclose(probabilities(table, [0]), [1 / 5] * 5)
    assert probabilities(Additive(k=1).fit(counted(TWO_LINES, 1)), [2])[2] == pytest.approx((3 + 1) / (7 + 5))


@given(texts, st.integers(1, 3), st.none() | texts)
@settings(deadline=None, max_examples=40)
def test_the_k_that_is_chosen_is_the_likeliest(lines, order, held):
    """No k of a fine grid, within the limits of the search, gives the text a better likelihood."""
    counts = slow.SlowCounts(lines, PREDICTABLE, LETTERS.stop, order)
    rows = counts.predictions(lines if held is None else held, whole=True)
    left = 1 if held is None else 0

    def likelihood(k: float) -> float:
        numerators = [counts.occurrences[gram] - left + k for gram in rows]
        return sum(
            math.log(n / (counts.total(g[:-1]) - left + k * LETTERS.outputs))
            for n, g in zip(numerators, rows, strict=True)
        )

    table = Additive().fit(count(stream(lines), LETTERS, order), None if held is None else stream(held))
    chosen = float(table.notes[0].split()[2].rstrip(","))
    best = max(likelihood(k) for k in np.geomspace(1e-6, 100, 300))
    assert likelihood(chosen) >= best - 1e-4 * len(rows)


def test_witten_bell_by_hand():
    table = WittenBell().fit(counted(TWO_LINES, 2))
    # 4 different words of 7; below them 1 / 5
    p_b, p_unknown = (1 + 4 / 5) / (7 + 4), (4 / 5) / (7 + 4)
    after_a = probabilities(table, [2])
    assert after_a[3] == pytest.approx((1 + 3 * p_b) / (3 + 3))
    assert after_a[0] == pytest.approx((3 * p_unknown) / (3 + 3))


def test_absolute_discounting_by_hand():
    counts = counted(TWO_LINES, 2)
    # words: n1 = 2, n2 = 1; bigrams: n1 = 5, n2 = 1
    d1, d2 = 2 / (2 + 2 * 1), 5 / (5 + 2 * 1)
    mixed, other = Absolute().fit(counts), AbsoluteBackoff().fit(counts)
    assert mixed.discounts == other.discounts == ((d1,), (d2,))
    p_a, p_b = (3 - d1 + 4 * d1 / 5) / 7, (1 - d1 + 4 * d1 / 5) / 7
    assert probabilities(mixed, [2])[3] == pytest.approx((1 - d2 + 3 * d2 * p_b) / 3)
    assert probabilities(mixed, [2])[2] == pytest.approx(3 * d2 * p_a / 3)
    # backing off, <unk> alone gets what order 1 frees; after a, only a and <unk> are not seen
    q_a, q_unknown = (3 - d1) / 7, 4 * d1 / 7
    after_a = probabilities(other, [2])
    assert after_a[3] == pytest.approx((1 - d2) / 3)
    assert after_a[2] == pytest.approx(3 * d2 / 3 * q_a / (q_a + q_unknown))


def test_kneser_ney_as_back_off_by_hand():
    """Words by how many words precede them: a {<s>, b} 2, b {a} 1, c {a} 1, </s> {a, c} 2; 6 in all."""
    table = KneserNeyBackoff().fit(counted(TWO_LINES, 2))
    d1, d2 = 2 / (2 + 2 * 2), 5 / (5 + 2 * 1)
    assert table.discounts == ((d1,), (d2,))
    q_a, q_unknown = (2 - d1) / 6, 4 * d1 / 6
    after_a = probabilities(table, [2])
    assert after_a[3] == pytest.approx((1 - d2) / 3)
    assert after_a[2] == pytest.approx(3 * d2 / 3 * q_a / (q_a + q_unknown))


def test_modified_kneser_ney_as_back_off_by_hand():
    """No discounts exist, so 0.5, 1, 1.5 stand in: a is preceded by two words, as </s>, and loses 1."""
    table = ModifiedKneserNeyBackoff().fit(counted(TWO_LINES, 2))
    q_a, q_unknown = (2 - 1) / 6, (2 * 1 + 2 * 0.5) / 6
    after_a = probabilities(table, [2])
    assert after_a[3] == pytest.approx((1 - 0.5) / 3)
    assert after_a[2] == pytest.approx(3 * 0.5 / 3 * q_a / (q_a + q_unknown))
    assert probabilities(table, [-1])[2] == pytest.approx((2 - 1) / 2)


def test_stupid_backoff_by_hand():
    table = StupidBackoff().fit(counted(TWO_LINES, 2))
    np.testing.assert_allclose(probabilities(table, [2]), [0.4 * 0.4 / 7, 1 / 3, 0.4 * 3 / 7, 1 / 3, 1 / 3], rtol=1e-6)
    assert probabilities(table, [0])[2] == pytest.approx(3 / 7)  # <unk> was never a context: no price
    pruned = StupidBackoff(alpha=0.5).fit(counted("a b a/a c/a c", 2), None, (0, 1))
    # left are <s>a 3, ac 2 of 4, c</s> 2 of 2; b has no continuation left
    np.testing.assert_allclose(probabilities(pruned, [2])[3:], [0.5 * 1 / 10, 2 / 4], rtol=1e-6)
    assert probabilities(pruned, [3])[2] == pytest.approx(4 / 10)


@pytest.mark.parametrize("name", smoothings)
def test_impossible_thresholds_are_refused(name):
    for thresholds in ((1,), (0, 2, 1), (0, 0, 0)):
        with pytest.raises(ConfigError, match="prune"):
            smoothings[name]().fit(counted(TWO_LINES, 2), None, thresholds)


@pytest.mark.parametrize("name", ["additive", "jelinek-mercer"])
def test_a_held_out_text_of_another_kind_is_refused(name):
    counts = counted(TWO_LINES, 2)
    with pytest.raises(DataError, match="ended by the stop symbol"):
        smoothings[name]().fit(counts, np.array([2, 3]))
    with pytest.raises(DataError, match="not empty"):
        smoothings[name]().fit(counts, np.array([], np.int64))
    with pytest.raises(MismatchError, match="reach from 1 to 5"):
        smoothings[name]().fit(counts, np.array([5, 1]))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("additive", {"k": 0}),
        ("stupid-backoff", {"alpha": 1.5}),
        ("absolute", {"discount": 1}),
        ("good-turing", {"cutoff": 1}),
        ("witten-bell", {"wit": 1}),
    ],
)
def test_an_option_out_of_range_is_refused(name, values):
    with pytest.raises(ConfigError, match=next(iter(values))):
        build(smoothings[name], values, "config.toml")
