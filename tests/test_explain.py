"""Explanations add up: to what the model scores, and to arithmetic done by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from letters import LETTERS, counted, stream
from ostinato.core.errors import MismatchError
from ostinato.core.vocabulary import Vocabulary
from ostinato.ngram.counts import Counts, count
from ostinato.ngram.model import NGramModel
from ostinato.ngram.smoothing import smoothings
from ostinato.ngram.store import Stored
from ostinato.ngram.table import BackoffTable
from ostinato.tasks.language.explain import arithmetic, explain, remark_on
from ostinato.tasks.language.reshape import aligned, prune, quantise
from ostinato.text.normalise import Normaliser
from ostinato.text.pipeline import Pipeline
from ostinato.text.tokenise import Blank

TEXT = "a b a/a c/b a b a c/c c a b/a a a/b"

texts = st.lists(st.lists(st.sampled_from("abc"), max_size=5), min_size=1, max_size=6).map(
    lambda lines: "/".join(" ".join(line) for line in lines)
)
sentences = st.lists(st.sampled_from(["a", "b", "c", "never"]), max_size=6).map(" ".join)


def stored(model: object) -> Stored:
    return Stored(model, Pipeline(Normaliser(()), Blank()), {}, {})  # type: ignore[arg-type]


def fitted(text: str, order: int, smoothing: str = "modified-kneser-ney") -> tuple[Stored, Counts]:
    counts = counted(text, order)
    return stored(NGramModel(smoothings[smoothing]().fit(counts), LETTERS)), counts


def scored(model: NGramModel, sentence: str) -> np.ndarray:
    ids = [*LETTERS.ids(sentence.split()).tolist(), LETTERS.stop]
    return model.score_lines(np.array(ids, np.int32), np.array([len(ids)]))


@settings(max_examples=60, deadline=None)
@given(texts, sentences, st.integers(1, 4), st.sampled_from(sorted(smoothings)))
def test_every_word_is_explained_as_it_is_scored(text: str, sentence: str, order: int, smoothing: str) -> None:
    model, counts = fitted(text, order, smoothing)
    explanation = explain(model, sentence, (counts, LETTERS))
    found = [word.log_prob for word in explanation.words]
    np.testing.assert_allclose(found, scored(model.model, sentence), rtol=1e-5, atol=1e-5)  # type: ignore[arg-type]
    for word in explanation.words:
        parts = word.found + sum(step.log_backoff for step in word.backoffs)
        assert parts == word.log_prob
        assert len(word.ngram) <= order


@settings(max_examples=40, deadline=None)
@given(sentences, st.integers(6, 20))
def test_a_pruned_table_is_explained_as_it_is_scored(sentence: str, ngrams: int) -> None:
    """There contexts are missing whose longer ones are not."""
    model, _ = fitted(TEXT, 3)
    model = stored(prune(model, ngrams=ngrams))
    found = [word.log_prob for word in explain(model, sentence).words]
    np.testing.assert_allclose(found, scored(model.model, sentence), rtol=1e-5, atol=1e-5)  # type: ignore[arg-type]


def test_a_packed_model_is_explained_with_its_rounded_numbers() -> None:
    model, _ = fitted(TEXT, 3)
    packed = stored(quantise(model))
    expected = scored(NGramModel(packed.model.table.expand(), LETTERS), "a b never")  # type: ignore[union-attr]
    found = [word.log_prob for word in explain(packed, "a b never").words]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_absolute_discounting_by_hand() -> None:
    """On "a b a / a c" with D = 1/2: a follows <s> twice, b follows a once among b, </s>, c."""
    counts = counted("a b a/a c", 2)
    model = stored(NGramModel(smoothings["absolute"](discount=0.5).fit(counts), LETTERS))  # type: ignore[call-arg]
    a, b, unknown, stop = explain(model, "a b never", (counts, LETTERS)).words
    uniform = 1 / 5
    # order 1: 7 tokens, 4 different words seen
    p_a = (3 - 0.5) / 7 + 0.5 * 4 / 7 * uniform
    p_b = (1 - 0.5) / 7 + 0.5 * 4 / 7 * uniform
    p_unknown = 0.5 * 4 / 7 * uniform
    p_stop = (2 - 0.5) / 7 + 0.5 * 4 / 7 * uniform
    assert math.exp(a.log_prob) == pytest.approx((2 - 0.5) / 2 + 0.5 * 1 / 2 * p_a)
    assert math.exp(b.log_prob) == pytest.approx((1 - 0.5) / 3 + 0.5 * 3 / 3 * p_b)
    assert (a.ngram, b.ngram) == (("<s>", "a"), ("a", "b"))
    # after b only a was seen: c(b) = 1, one different word, so the back-off is 0.5 * 1 / 1
    assert math.exp(unknown.log_prob) == pytest.approx(0.5 * p_unknown)
    assert [(step.context, round(math.exp(step.log_backoff), 6)) for step in unknown.backoffs] == [(("b",), 0.5)]
    assert math.exp(stop.log_prob) == pytest.approx(p_stop)  # <unk> was never seen, so no context stands behind
    assert stop.backoffs == ()
    shown = a.behind
    assert shown is not None
    assert (shown.count, shown.context_count, shown.types, shown.discount) == (2, 2, 1, 0.5)
    assert b.behind is not None
    assert (b.behind.count, b.behind.context_count, b.behind.types) == (1, 3, 3)


def test_kneser_ney_counts_the_words_before_in_lower_orders() -> None:
    """On "a b a / a c": a follows <s> and b, so its count of order 1 is 2, though it occurs three times."""
    counts = counted("a b a/a c", 2)
    model = stored(NGramModel(smoothings["kneser-ney"](discount=0.5).fit(counts), LETTERS))  # type: ignore[call-arg]
    first = explain(model, "never a", (counts, LETTERS)).words[1]
    # pairs: <s>a, ab, ba, a</s>, ac, c</s>: before a 2, before b 1, before </s> 2, before c 1
    assert first.behind is not None
    assert (first.behind.occurrences, first.behind.count, first.behind.context_count) == (3, 2, 6)
    assert first.behind.types == 4
    assert math.exp(first.log_prob) == pytest.approx((2 - 0.5) / 6 + 0.5 * 4 / 6 / 5)


def test_the_arithmetic_reads_from_left_to_right() -> None:
    model, _ = fitted("a b a/a c", 2, "absolute")
    unknown = explain(model, "a b never").words[2]
    backoff, found = math.exp(unknown.backoffs[0].log_backoff), math.exp(unknown.found)
    assert arithmetic(unknown) == f"{backoff:.3g} [b] × {found:.3g} p(<unk>)"
    assert arithmetic(explain(model, "a").words[0]).endswith("p(a | <s>)")


def test_unknown_words_are_named_once() -> None:
    model, _ = fitted(TEXT, 2)
    words = explain(model, "x a y x").words
    assert [word.known for word in words] == [False, True, False, False, True]
    assert remark_on(words) is not None
    assert "x, y;" in str(remark_on(words))
    assert remark_on(words[1:2]) is None


def test_counts_of_another_numbering_are_found_by_their_words() -> None:
    """Counts made with c, b, a, d as words stand behind a model of a, b, c: n-grams with d are left out."""
    other = Vocabulary(["d", "c", "b", "a"])
    theirs = count(stream([other.ids(line.split()).tolist() for line in ("a b d a", "a c")], other), other, 2)
    ours = aligned(theirs, other, LETTERS)
    pairs = {
        " ".join(LETTERS.pieces_of(ours.trie.words_of(node)))
        for node in range(ours.trie.level(2).start, ours.trie.nodes)
    }
    assert pairs == {"<s> a", "a b", "a c", "a </s>", "c </s>"}
    assert ours.count[ours.trie.find([LETTERS.start, 2])] == 2


def test_counts_that_lack_a_word_are_refused() -> None:
    model, _ = fitted(TEXT, 2)
    theirs = counted("a b", 2)
    with pytest.raises(MismatchError, match="lack 'c'"):
        explain(model, "a", (Counts(theirs.trie, theirs.count, 0, 0), Vocabulary("abx")))


def test_scores_that_are_no_probabilities_are_marked() -> None:
    model, _ = fitted(TEXT, 2, "stupid-backoff")
    assert not explain(model, "a b").normalised
    table: BackoffTable = model.model.table  # type: ignore[assignment]
    assert not table.normalised
