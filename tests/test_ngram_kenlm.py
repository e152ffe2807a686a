"""Modified Kneser-Ney against KenLM's lmplz: every n-gram, its probability and its back-off.

Recorded for a small text (tests/make_lmplz_values.py), and live on a large one where lmplz is built: name the folder
that bench/kenlm_build.py made in OSTINATO_KENLM.
"""

from __future__ import annotations

import gzip
import math
import os
from pathlib import Path

import numpy as np
import pytest

from make_lmplz_values import CASES, DATA, Case, run_lmplz, text
from ostinato.core.vocabulary import Vocabulary
from ostinato.ngram.arpa import read_arpa
from ostinato.ngram.counts import count
from ostinato.ngram.smoothing.kneser_ney import ModifiedKneserNey
from ostinato.ngram.table import BackoffTable

CLOSE = 1e-4
"""In log10, as far as lmplz, which sums in float32, can be trusted."""


def fitted(lines: list[list[str]], case: Case, vocabulary: Vocabulary) -> BackoffTable:
    """Our model of the same text with the same options."""
    ids = np.concatenate([np.append(vocabulary.ids(line), vocabulary.stop) for line in lines])
    return ModifiedKneserNey().fit(count(ids, vocabulary, case.order), thresholds=case.prune)


def numbers(table: BackoffTable, vocabulary: Vocabulary) -> dict[str, tuple[float, float]]:
    """log10 probability and back-off of every n-gram by its words."""
    trie, log_prob, log_backoff = table.contents()
    weights = np.concatenate([log_backoff, np.zeros(trie.nodes - trie.inner)]) / math.log(10)
    grams = [" ".join(vocabulary.pieces[word] for word in trie.words_of(node)) for node in range(1, trie.nodes)]
    return dict(zip(grams, zip(log_prob[1:] / math.log(10), weights[1:], strict=True), strict=True))


def recorded(case: Case) -> dict[str, tuple[float, float]]:
    """The same of lmplz."""
    rows = [line.split("\t") for line in (DATA / f"{case.name}.tsv").read_text("utf8").splitlines()]
    return {gram: (float(prob), float(*backoff)) for gram, prob, *backoff in rows}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_ngram_has_the_numbers_that_lmplz_gave_it(case):
    lines = text(case.lines)
    vocabulary = Vocabulary(sorted({word for line in lines for word in line}))
    table = fitted(lines, case, vocabulary)
    mine, theirs = numbers(table, vocabulary), recorded(case)
    assert mine.keys() == theirs.keys()
    assert bool(table.notes) == case.fallback
    assert mine["<s>"][0] == -math.inf  # lmplz writes 0 for what is never predicted
    for gram, (prob, backoff) in theirs.items():
        assert mine[gram][1] == pytest.approx(backoff, abs=CLOSE), gram
        assert gram == "<s>" or mine[gram][0] == pytest.approx(prob, abs=CLOSE), gram


@pytest.mark.parametrize("case", [case for case in CASES if not case.fallback], ids=lambda case: case.name)
def test_every_ngram_has_the_numbers_that_lmplz_gives_on_the_state_of_the_union(case, shared, tmp_path):
    named = os.environ.get("OSTINATO_KENLM")
    if not named:
        pytest.skip("OSTINATO_KENLM names no folder with lmplz (bench/kenlm_build.py makes one)")
    with gzip.open(shared / "lm-sotu" / "train.txt.gz", "rt", encoding="utf8") as file:
        lines = [line.split() for line in file]
    run_lmplz(Path(named), lines, case.options, tmp_path / "arpa")
    theirs, vocabulary, _ = read_arpa(tmp_path / "arpa")
    mine = fitted(lines, case, vocabulary)
    (trie, log_prob, log_backoff), (their_trie, their_prob, their_backoff) = mine.contents(), theirs.contents()
    assert trie.ngrams == their_trie.ngrams
    np.testing.assert_array_equal(trie.word, their_trie.word)
    np.testing.assert_array_equal(trie.first_child, their_trie.first_child)
    predicted = np.arange(trie.nodes) != 1 + vocabulary.start
    tolerance = CLOSE * math.log(10)
    np.testing.assert_allclose(log_prob[predicted], their_prob[predicted], rtol=0, atol=tolerance)
    np.testing.assert_allclose(log_backoff, their_backoff, rtol=0, atol=tolerance)
