"""Compact tables for the tests that share them."""

from __future__ import annotations

import numpy as np
import pytest

from ostinato.core.vocabulary import Vocabulary
from ostinato.ngram.compact import CompactTable
from ostinato.ngram.compact_model import CompactModel
from ostinato.ngram.counts import count
from ostinato.ngram.smoothing import smoothings
from ostinato.ngram.table import BackoffTable

LETTERS = Vocabulary("abc")
LINES = ["a b a c", "a b b", "", "c a b a c a", "b", "a a a a", "c c b a", "a b a c b"]


def stream(lines: list[str]) -> np.ndarray:
    return np.concatenate([[*LETTERS.ids(line.split()), LETTERS.stop] for line in lines])


def fitted(order: int = 4, name: str = "modified-kneser-ney") -> BackoffTable:
    return smoothings[name]().fit(count(stream(LINES), LETTERS, order))


def compact(order: int = 4) -> CompactModel:
    return CompactModel(CompactTable.from_table(fitted(order)), LETTERS)


def random_text(vocabulary: Vocabulary, tokens: int = 3000) -> np.ndarray:
    """Enough different numbers that codes must be shared."""
    ids = np.random.default_rng(1).zipf(1.4, tokens) % vocabulary.outputs
    ids[-1] = vocabulary.stop
    return ids


def numbered(words: int) -> Vocabulary:
    return Vocabulary(str(number) for number in range(words))


def rounded(name: str, prob_bits: int) -> CompactModel:
    """Order 4 of five words, most of which were seen after most contexts: some of those are scaled."""
    table = smoothings[name]().fit(count(random_text(LETTERS, 400), LETTERS, 4))
    return CompactModel(CompactTable.from_table(table, prob_bits), LETTERS)


MODELS = {
    **{f"exact {order}": compact(order) for order in (1, 2, 4)},
    "rounded": rounded("modified-kneser-ney", 4),
    "backed off": rounded("absolute-backoff", 5),
}
models = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
