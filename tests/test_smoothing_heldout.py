"""What held-out text says of weights, and what is made of it."""

from __future__ import annotations

import numpy as np
import pytest

from letters import LETTERS, TWO_LINES, counted, probabilities, stream, words
from ostinato.ngram.smoothing import heldout as evidence
from ostinato.ngram.smoothing.jelinek_mercer import BUCKETS, JelinekMercer, estimate


def test_jelinek_mercer_by_hand():
    """One class an order and held-out text "a": what one round and what the end of EM must satisfy."""
    counts = counted(TWO_LINES, 1)
    found = evidence.gather(counts, stream(words("a")))
    np.testing.assert_array_equal(found.counted, [[3, 2]])
    np.testing.assert_array_equal(found.total, [[7, 7]])
    weight = float(estimate(found, LETTERS.outputs)[0, 2])  # 4 <= 7 < 8
    # the weight is a fixed point: of 2 + 1 observations, so many are expected to come from the counts
    from_counts = [weight * f / (weight * f + (1 - weight) / 5) for f in (3 / 7, 2 / 7)]
    assert weight == pytest.approx((sum(from_counts) + 0.5) / (2 + 1), abs=2e-3)
    table = JelinekMercer().fit(counts, stream(words("a")))
    assert probabilities(table, [2])[2] == pytest.approx(weight * 3 / 7 + (1 - weight) / 5)


def test_each_training_token_is_left_out_once():
    """ "a b a" and "a c", order 3: a row for each prediction, with its longest n-gram."""
    found = evidence.gather(counted(TWO_LINES, 3), None)
    assert int(found.times.sum()) == 7
    rows = zip(found.depth, found.times, found.counted.T.tolist(), found.total.T.tolist(), strict=True)
    # of <s>a, twice: a 3 - 1 of 7 - 1, <s>a 2 - 1 of 2 - 1. All trigrams once, so their contexts once at most
    (first,) = [row for row in rows if row[0] == 2]
    assert first == (2, 2, [2, 1, 0], [6, 1, 0])
    np.testing.assert_array_equal(found.counted[2], 0)
    # <s>ab and <s>ac: the context <s>a is left once
    np.testing.assert_array_equal(sorted(found.total[2]), [0, 0, 0, 0, 1, 1])


def test_a_held_out_text_has_a_row_for_each_token():
    """ "a c" and "b", order 3, against the two lines: what its n-grams and their contexts count there."""
    found = evidence.gather(counted(TWO_LINES, 3), stream(words("a c/b")))
    np.testing.assert_array_equal(found.depth, [2, 3, 3, 2, 3])  # a, c, </s>; b, </s>
    np.testing.assert_array_equal(found.counted[0], [3, 1, 2, 1, 2])
    np.testing.assert_array_equal(found.total[0], [7] * 5)
    # <s>a 2 of 2, ac 1 of 3, c</s> 1 of 1; <s>b 0 of 2, b</s> 0 of 1
    np.testing.assert_array_equal(found.counted[1], [2, 1, 1, 0, 0])
    np.testing.assert_array_equal(found.total[1], [2, 3, 1, 2, 1])
    # nothing, <s>ac 1 of 2, ac</s> 1 of 1; nothing, <s>b</s> after a context never seen
    np.testing.assert_array_equal(found.counted[2], [0, 1, 1, 0, 0])
    np.testing.assert_array_equal(found.total[2], [0, 2, 1, 0, 0])
    np.testing.assert_array_equal(found.longest(), [[2, 1, 1, 0, 0], [2, 2, 1, 2, 0]])


def test_many_predictions_are_thinned(monkeypatch):
    monkeypatch.setattr(evidence, "MOST", 3)
    lines = words("a b a/a c/b b b a c")
    for ids in (None, stream(lines)):
        found = evidence.gather(counted("a b a/a c/b b b a c", 2), ids)
        assert len(found.depth) == found.counted.shape[1] <= 3


def test_weights_of_classes_never_met_are_even():
    weights = estimate(evidence.gather(counted(TWO_LINES, 2), stream(words("a"))), LETTERS.outputs)
    assert weights.shape == (2, BUCKETS + 1)
    np.testing.assert_array_equal(weights[:, 10], 0.5)
    assert 0 < weights[:, :BUCKETS].min() < weights.max() < 1
