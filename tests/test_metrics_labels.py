"""Accuracy, F1 of labels, spans and words: against scikit-learn, seqeval and hand arithmetic."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.core.errors import ConfigError, DataError, ShapeError
from ostinato.tasks.metrics.labels import label_score, say_unknown
from ostinato.tasks.metrics.spans import segmentation_score, span_score

LABELS = st.sampled_from(["a", "b", "c", "d"])
BIO = st.sampled_from(["O", "B-X", "I-X", "B-Y", "I-Y"])
MODES = {"bio": "IOB2", "bioes": "IOBES"}


@pytest.fixture(scope="module")
def sklearn() -> Any:
    return pytest.importorskip("sklearn.metrics")


@pytest.fixture(scope="module")
def seqeval() -> tuple[Any, Any]:
    return pytest.importorskip("seqeval.metrics"), pytest.importorskip("seqeval.scheme")


# by hand: a a b c answered a b b b: 2 of 4 right; F1 of a = 2/3, of b = 2*1/(1+3), of c = 0
def test_labels_are_scored_by_hand():
    score = label_score(list("aabc"), list("abbb"), data="x.tsv")
    assert score.accuracy == score.micro_f1 == 2 / 4
    assert score.macro_f1 == pytest.approx((2 / 3 + 2 / 4 + 0) / 3)
    assert score.confusion == (("a", "b", 1), ("c", "b", 1))
    assert score.matrix() == (("a", "b", "c"), ((1, 1, 0), (0, 1, 0), (0, 1, 0)))
    assert str(score) == "50.00 accuracy, 38.89 macro F1 (4 labels) [data:x.tsv|average:labels-in-either]"


@given(st.lists(st.tuples(LABELS, LABELS), min_size=1, max_size=30))
def test_labels_are_scored_as_by_scikit_learn(sklearn, pairs):
    reference, answers = (list(side) for side in zip(*pairs, strict=True))
    score = label_score(reference, answers)
    wanted = {"average": "macro", "zero_division": 0}
    assert score.accuracy == pytest.approx(sklearn.accuracy_score(reference, answers))
    assert score.macro_f1 == pytest.approx(sklearn.f1_score(reference, answers, **wanted))
    assert score.micro_f1 == pytest.approx(sklearn.f1_score(reference, answers, average="micro"))
    names, matrix = score.matrix()
    if len(names) > 1:  # it warns of a matrix of one
        assert [list(row) for row in matrix] == sklearn.confusion_matrix(reference, answers, labels=names).tolist()
    each = sklearn.precision_recall_fscore_support(reference, answers, labels=names, zero_division=0)
    for part, precision, recall, f1, support in zip(score.labels, *each, strict=True):
        assert (part.precision, part.recall, part.f1, part.support) == pytest.approx((precision, recall, f1, support))


def test_labels_the_model_does_not_have_are_counted_named_and_wrong():
    score = label_score(["a", "new", "new", "odd"], ["a", "a", "b", "a"], known=["a", "b"])
    assert score.unknown == (("new", 2), ("odd", 1))
    assert score.accuracy == 1 / 4
    assert say_unknown(score.unknown) == (
        "3 labels of the reference are unknown to the model, and so count as mistakes: 'new' (2), 'odd' (1)"
    )
    assert say_unknown(()) == ""


def test_a_score_is_plain_values_and_nothing_is_no_crash():
    content = json.loads(json.dumps(label_score(["a"], ["b"], known="a").to_json()))
    assert (content["accuracy"], content["count"]) == (0.0, 1)
    assert content["labels"][0] == {
        "label": "a", "right": 0, "predicted": 0, "support": 1, "precision": 0.0, "recall": 0.0, "f1": 0.0
    }  # fmt: skip
    assert label_score([], []).accuracy == label_score([], []).macro_f1 == 0.0
    assert span_score([], [], "bio").f1 == 0.0
    with pytest.raises(ShapeError, match="2 labels in the reference, but 1 answers"):
        label_score(["a", "b"], ["a"])


# by hand: I-Y after O is a span leniently and none strictly
def test_spans_are_scored_by_hand():
    reference = [["B-X", "I-X", "O", "B-Y"], ["O", "B-X"]]
    answers = [["B-X", "I-X", "O", "I-Y"], ["B-X", "B-X"]]
    lenient = span_score(reference, answers, "bio")
    # found X(0,2) Y(3,4) | X(0,1) X(1,2): 3 of 4 right, 3 of 3 there
    assert (lenient.precision, lenient.recall, lenient.f1) == (3 / 4, 3 / 3, 2 * 3 / (4 + 3))
    assert lenient.macro_f1 == pytest.approx((2 * 2 / (3 + 2) + 1) / 2)
    strict = span_score(reference, answers, "bio", strict=True)
    assert (strict.precision, strict.recall) == (2 / 3, 2 / 3)
    assert (lenient.count, lenient.tokens) == (3, 6)
    assert lenient.signature == "scheme:bio|illformed:conlleval"
    assert strict.signature == "scheme:bio|illformed:strict"


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("scheme", ["bio", "bioes"])
@given(data=st.data())
def test_spans_are_scored_as_by_seqeval(seqeval, scheme, strict, data):
    metrics, schemes = seqeval
    tags = BIO if scheme == "bio" else st.sampled_from(["O", "B-X", "I-X", "E-X", "S-X", "B-Y", "E-Y"])
    pairs = data.draw(st.lists(st.lists(st.tuples(tags, tags), min_size=1, max_size=6), min_size=1, max_size=4))
    reference = [[one for one, _ in sentence] for sentence in pairs]
    answers = [[other for _, other in sentence] for sentence in pairs]
    score = span_score(reference, answers, scheme, strict)
    mode = {"mode": "strict", "scheme": getattr(schemes, MODES[scheme])} if strict else {}
    for average, ours in (("micro", score.f1), ("macro", score.macro_f1)):
        if not score.labels:  # it cannot average nothing
            assert ours == 0
        else:
            theirs = metrics.f1_score(reference, answers, average=average, zero_division=0, **mode)
            assert ours == pytest.approx(theirs)


def test_tags_that_are_unknown_or_of_another_scheme_are_counted_and_named():
    score = span_score([["B-X", "B-Z", "PER"]], [["B-X", "O", "E-X"]], "bio", known=["O", "B-X", "I-X"])
    assert score.unknown == (("B-Z", 1), ("PER", 1))
    assert score.strange == (("E-X", 1), ("PER", 1))
    assert (score.precision, score.recall) == (1 / 1, 1 / 2)


def test_tags_that_do_not_fit_the_reference_are_named_by_sentence():
    with pytest.raises(ShapeError, match="sentence 2: 1 tags in the reference, but 2 in the answer"):
        span_score([["O"], ["O"]], [["O"], ["O", "O"]], "bio")
    with pytest.raises(ShapeError, match="2 sentences in the reference, but 1 answers"):
        span_score([["O"], ["O"]], [["O"]], "bio")
    with pytest.raises(ConfigError, match="mean no spans"):
        span_score([["NOUN"]], [["NOUN"]], "none")


# by hand: ab|c|de|f against a|b|c|de f: right c and de; 2 of 5 cut, 2 of 4 there
def test_words_are_scored_by_where_they_begin_and_end():
    score = segmentation_score([["ab", "c", "de", "f"]], [["a", "b", "c", "de", "f"]], known={"ab", "c", "f"}, data="t")
    assert (score.precision, score.recall, score.f1) == (3 / 5, 3 / 4, 2 * 3 / (5 + 4))
    assert score.unseen is not None
    assert score.seen is not None
    assert (score.unseen.recall, score.seen.recall) == (1 / 1, 2 / 3)
    assert str(score) == "66.67 F1, 100.00 recall of 1 unseen (4 words) [data:t|unit:word]"
    content = json.loads(json.dumps(score.to_json()))
    assert (content["f1"], content["unseen_recall"], content["labelled"]) == (score.f1, 1.0, None)


def test_a_word_with_the_wrong_label_is_wrong_only_together_with_it():
    words = [["ab", "c"]]
    score = segmentation_score(words, words, labels=([["N", "V"]], [["N", "N"]]))
    assert score.labelled is not None
    assert (score.f1, score.labelled.f1) == (1.0, 1 / 2)


@given(st.text("abc", min_size=1, max_size=12), st.data())
def test_segmentation_agrees_with_spans_of_bmes_tags(text, data):
    from ostinato.text.segmented import characters_of, words_of

    cuts = st.lists(st.sampled_from("BMES"), min_size=len(text), max_size=len(text))
    reference, answer = (words_of(text, data.draw(cuts)) for _ in range(2))
    ours = segmentation_score([reference], [answer])
    tags = span_score([characters_of(reference)[1]], [characters_of(answer)[1]], "bmes", strict=True)
    assert (ours.precision, ours.recall, ours.f1) == (tags.precision, tags.recall, tags.f1)


def test_words_of_another_text_are_refused():
    with pytest.raises(DataError, match="sentence 1: 'ax' was cut, but the reference is 'ab'"):
        segmentation_score([["ab"]], [["a", "x"]])
    with pytest.raises(ShapeError, match="1 words, but 2 labels"):
        segmentation_score([["ab"]], [["ab"]], labels=([["N", "N"]], [["N"]]))
