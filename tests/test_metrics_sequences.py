"""Edit distance and error rates, BLEU and chrF, errors of forecasts: slow twins, sacreBLEU, hand arithmetic."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.core.errors import ConfigError, DataError, ShapeError
from ostinato.tasks.metrics.edits import edit_distance, edit_score
from ostinato.tasks.metrics.forecasts import forecast_score, naive_scale
from ostinato.tasks.metrics.overlap import bleu, chrf, tokenised_bleu


def slow_distance(left: Sequence[str], right: Sequence[str]) -> int:
    """The table of [Levenshtein1966] as it stands in every textbook."""
    table = [[max(i, j) for j in range(len(right) + 1)] for i in range(len(left) + 1)]
    for i, a in enumerate(left, 1):
        for j, b in enumerate(right, 1):
            table[i][j] = min(table[i - 1][j] + 1, table[i][j - 1] + 1, table[i - 1][j - 1] + (a != b))
    return table[-1][-1]


@given(st.text("abc", max_size=80), st.text("abc", max_size=80))
def test_the_bits_give_the_distance_of_the_table(left, right):
    assert edit_distance(left, right) == slow_distance(left, right)


def test_distances_by_hand():
    assert edit_distance("kitten", "sitting") == 3
    assert edit_distance(["R", "EH", "D"], ["R", "IY", "D", "Z"]) == 2
    assert edit_distance("", "abc") == edit_distance("abc", "") == 3
    assert edit_distance("a" * 300, "a" * 299 + "b") == 1


# by hand: red is nearest to R EH D (0 of 3); tomato has 1 edit of 6 and 2 of 6
def test_the_nearest_reference_is_the_one_that_counts():
    references = [
        [["R", "IY", "D"], ["R", "EH", "D"]],
        [["T", "AH", "M", "EY", "T", "OW"], ["T", "AH", "M", "AA", "T", "OW"]],
    ]
    score = edit_score(references, [["R", "EH", "D"], ["T", "AH", "M", "AA", "T", "AH"]], "phone", data="cmu")
    assert (score.exact, score.edits, score.symbols) == (1, 0 + 1, 3 + 6)
    assert (score.exact_match, score.wrong_rate, score.error_rate) == (1 / 2, 1 / 2, 1 / 9)
    assert str(score) == "50.00% of 2 answers wrong, 11.11% of symbols [data:cmu|unit:phone|references:nearest]"
    assert json.loads(json.dumps(score.to_json()))["error_rate"] == 1 / 9


def test_error_rates_at_the_edges():
    assert edit_score([], []).error_rate == edit_score([], []).wrong_rate == 0.0
    assert edit_score([[""]], ["a"]).error_rate == math.inf
    assert edit_score([["a"]], ["abc"]).error_rate == 2 / 1
    with pytest.raises(DataError, match="answer 2 has no reference"):
        edit_score([["a"], []], ["a", "b"])
    with pytest.raises(ShapeError, match="1 lists of references, but 2 answers"):
        edit_score([["a"]], ["a", "b"])


REFERENCES = [["The cat sat on the mat."], ["A dog barks at night, loudly."]]
ANSWERS = ["The cat sat on a mat.", "A dog barks loudly at night."]


@pytest.fixture(scope="module")
def sacrebleu() -> Any:
    return pytest.importorskip("sacrebleu")


def test_bleu_is_sacrebleus_with_its_signature(sacrebleu):
    score = bleu(REFERENCES, ANSWERS, data="two")
    theirs = sacrebleu.corpus_bleu(ANSWERS, [[given[0] for given in REFERENCES]])
    assert score.value == theirs.score
    assert score.precisions == tuple(theirs.precisions)
    assert score.signature.startswith("data:two|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert (score.name, score.count) == ("BLEU", 2)
    lower = bleu(REFERENCES, [answer.upper() for answer in ANSWERS], lowercase=True)
    assert lower.value == pytest.approx(bleu(REFERENCES, ANSWERS, lowercase=True).value)
    assert "case:lc" in lower.signature


# by hand: a b c d against a b c e: precisions 3/4, 2/3, 1/2, and for 0 of 1 the smoothed 1/2
def test_tokenised_bleu_by_hand(sacrebleu):
    score = tokenised_bleu([["a b c e"]], ["A b c d"])
    assert score.value == pytest.approx(100 * (3 / 4 * 2 / 3 * 1 / 2 * 1 / 2) ** (1 / 4))
    assert "case:lc" in score.signature
    assert "tok:none" in score.signature
    short = tokenised_bleu([["a b c d e f"]], ["a b c d"])
    assert short.value == pytest.approx(100 * math.exp(1 - 6 / 4))
    assert (short.ratio, short.brevity) == (4 / 6, pytest.approx(math.exp(1 - 6 / 4)))


def test_text_already_cut_into_words_makes_no_warning(sacrebleu, caplog):
    tokenised_bleu([["a ."]] * 200, ["a ."] * 200)
    assert not caplog.records


def test_answers_may_have_different_numbers_of_references(sacrebleu):
    several = [[*REFERENCES[0], "The cat sat on a mat."], REFERENCES[1]]
    assert bleu(several, ANSWERS).value > bleu(REFERENCES, ANSWERS).value
    assert chrf(several, ANSWERS).value > chrf(REFERENCES, ANSWERS).value
    assert "nrefs:var" in bleu(several, ANSWERS).signature


def test_chrf_is_sacrebleus_and_chinese_is_cut_by_characters(sacrebleu):
    streams = [[given[0] for given in REFERENCES]]
    assert chrf(REFERENCES, ANSWERS).value == sacrebleu.corpus_chrf(ANSWERS, streams).score
    assert chrf(REFERENCES, ANSWERS, word_order=2).name == "chrF++"
    assert bleu([["我喜歡圖書館。"]], ["我喜歡圖書館。"], "zh").value == pytest.approx(100)
    assert "nc:6|nw:0" in chrf(REFERENCES, ANSWERS).signature


def test_answers_without_references_are_refused(sacrebleu):
    with pytest.raises(DataError, match="no answers to measure"):
        bleu([], [])
    with pytest.raises(DataError, match="answer 1 has no reference"):
        chrf([[]], ["a"])
    with pytest.raises(ShapeError, match="0 lists of references, but 1 answers"):
        bleu([], ["a"])


def test_without_sacrebleu_its_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sacrebleu", None)
    with pytest.raises(ConfigError, match=r"pip install 'ostinato\[tasks\]'"):
        bleu(REFERENCES, ANSWERS)


# by hand: errors 1, 2, 0 of forecasts; the naive forecast in training is off by 1, 2, 3
def test_forecasts_are_scored_by_hand():
    assert naive_scale([1, 2, 4, 7]) == (1 + 2 + 3) / 3
    assert naive_scale([1, 2, 4, 7], season=2) == (3 + 5) / 2
    score = forecast_score([10, 20, 30], [11, 18, 30], naive_scale([1, 2, 4, 7]), ([9, 19, 31], [12, 20, 33]), data="x")
    assert (score.mae, score.rmse) == (pytest.approx(3 / 3), pytest.approx(math.sqrt(5 / 3)))
    assert score.mase == pytest.approx(1 / 2)
    assert (score.coverage, score.width) == (pytest.approx(2 / 3), pytest.approx((3 + 1 + 2) / 3))
    assert str(score) == "RMSE 1.291, MAE 1, MASE 0.500, 66.7% in their interval (3 values) [data:x]"


def test_each_series_has_its_own_scale():
    score = forecast_score([[1.0, 2.0], [10.0, 20.0]], [[2.0, 3.0], [20.0, 30.0]], scale=[[1.0], [10.0]])
    assert score.mase == 1.0
    assert forecast_score([1.0], [2.0], scale=naive_scale([3, 3, 3])).mase is None


def test_values_that_never_came_are_left_out_and_counted():
    score = forecast_score([1.0, np.nan, 3.0], [2.0, 9.0, 3.0], interval=([0, 0, 0], [1, 1, 1]))
    assert (score.count, score.missing, score.mae, score.coverage) == (2, 1, 1 / 2, 1 / 2)
    assert naive_scale([1, np.nan, 3, 5]) == 2


@given(st.lists(st.tuples(st.integers(-1000, 1000), st.integers(-1000, 1000)), min_size=1, max_size=20))
def test_mae_is_never_above_rmse_and_both_are_those_of_exact_sums(pairs):
    true, predicted = np.array(pairs).T / 8
    score = forecast_score(true, predicted)
    assert score.mae <= score.rmse * (1 + 1e-12)
    np.testing.assert_allclose(score.mae, np.mean([abs(a - b) / 8 for a, b in pairs]), rtol=1e-12)
    np.testing.assert_allclose(
        score.rmse, math.sqrt(math.fsum(((a - b) / 8) ** 2 for a, b in pairs) / len(pairs)), rtol=1e-9
    )


def test_forecasts_that_cannot_be_judged_are_refused():
    with pytest.raises(DataError, match="1 of 2 forecasts or values are not finite"):
        forecast_score([1.0, 2.0], [np.nan, 2.0])
    with pytest.raises(DataError, match="no values to judge"):
        forecast_score([np.nan], [1.0])
    with pytest.raises(ShapeError, match=r"forecasts of shape \(1,\) for values of shape \(2,\)"):
        forecast_score([1.0, 2.0], [1.0])
    with pytest.raises(DataError, match="3 values in training, but a season is 12"):
        naive_scale([1, 2, 3], season=12)
