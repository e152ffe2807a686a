"""Good-Turing estimates and Katz's ratios against Gale and Sampson's example and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from letters import LETTERS, counted, stream
from ostinato.ngram.counts import count
from ostinato.ngram.smoothing.good_turing import GoodTuring, expected_counts, fitted_slope, katz_ratios

# Gale and Sampson's example "Good-Turing frequency estimation without tears": prosody types, r and n_r.
PROSODY = {
    1: 120, 2: 40, 3: 24, 4: 13, 5: 15, 6: 5, 7: 11, 8: 2, 9: 2, 10: 1, 12: 3, 14: 2, 15: 1, 16: 1, 17: 3, 19: 1,
    20: 3, 21: 2, 23: 3, 24: 3, 25: 3, 26: 2, 27: 2, 28: 1, 31: 2, 32: 2, 33: 1, 34: 2, 36: 2, 41: 3, 43: 1, 45: 3,
    46: 1, 47: 1, 50: 1, 71: 1, 84: 1, 101: 1, 105: 1, 121: 1, 124: 1, 146: 1, 162: 1, 193: 1, 199: 1, 224: 1,
    226: 1, 254: 1, 257: 1, 339: 1, 421: 1, 456: 1, 481: 1, 483: 1, 1140: 1, 1256: 1, 1322: 1, 1530: 1, 2131: 1,
    2395: 1, 6925: 1, 7846: 1,
}  # fmt: skip


def test_the_prosody_example_of_gale_and_sampson():
    """Their 30,902 tokens: the line has the slope -1.389 and is used from r = 1 on; n_1 and n_2 differ too little.

    Turing: 2 * 40 / 120 = 0.667 for r = 1, 1.65 deviations are 1.65 * 2 / 120 * sqrt(40 * (1 + 40 / 120)) = 0.2.
    """
    assert sum(r * n for r, n in PROSODY.items()) == 30902
    assert fitted_slope(PROSODY) == pytest.approx(-1.389, abs=5e-4)
    star = expected_counts(PROSODY, 3)
    assert star == pytest.approx([r * (1 + 1 / r) ** (1 - 1.38937) for r in (1, 2, 3)], rel=1e-4)


def test_good_turing_by_hand():
    """n1 = 400, n2 = 60, n3 = 30, ..., with a line far from 2 n2 / n1: Turing's estimate stands for r = 1."""
    having = {1: 400, 2: 60, 3: 30, 4: 20, 5: 16, 6: 12, 7: 9}
    one = 2 * 60 / 400
    # Z = n_r but the last's, whose neighbours are 6 and 8: n as well. Least squares of log n on log r:
    x, y = np.log(list(having)), np.log(list(having.values()))
    slope = np.cov(x, y, bias=True)[0, 1] / np.var(x)
    assert fitted_slope(having) == pytest.approx(slope)
    assert abs(one - 2 ** (1 + slope)) > 1.65 * 2 / 400 * math.sqrt(60 * (1 + 60 / 400))
    star = expected_counts(having, 3)
    assert star is not None
    assert star[0] == pytest.approx(one)
    assert star[2] == pytest.approx(4 * (4 / 3) ** slope)
    m = (3 + 1) * 20 / 400
    assert katz_ratios(having, 3) == pytest.approx([(s / r - m) / (1 - m) for r, s in enumerate(star, 1)])


@pytest.mark.parametrize(
    "having", [{}, {2: 3}, {1: 5}, {1: 5, 2: 5, 3: 5, 4: 5}, {1: 2, 2: 2, 3: 9}, {1: 9, 2: 3, 6: 2}]
)
def test_impossible_good_turing_ratios_are_recognised(having):
    """No singletons, one count alone, a line that does not fall, (k + 1) n_(k+1) above n_1."""
    assert katz_ratios(having, 5 if 6 in having else 2) is None


def test_what_stands_in_for_good_turing_is_said():
    table = GoodTuring(fallback=0.6).fit(counted("a/b/c", 2))
    assert table.discounts[1] == (0.6,)  # six bigrams, once each
    assert "the absolute discount 0.6 stood in" in table.notes[0]
    low = [[2] * 3] * 4 + [[3, 2]] * 2 + [[4, 0, 3, 2]]
    assert all("order" in note for note in GoodTuring(cutoff=9).fit(count(stream(low), LETTERS, 3)).notes)
