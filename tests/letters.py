"""A vocabulary of three letters, and what a table over it says: for tests of the n-gram models."""

from __future__ import annotations

import math

import numpy as np

from ostinato.core.vocabulary import Vocabulary
from ostinato.ngram.counts import Counts, count
from ostinato.ngram.model import NGramModel
from ostinato.ngram.table import BackoffTable
from ostinato.ngram.trie import Trie
from references import smoothing as slow

LETTERS = Vocabulary("abc")
PREDICTABLE = range(LETTERS.outputs)
TWO_LINES = "a b a/a c"
"""Bigrams: <s>a 2, ab, ba, a</s>, ac, c</s> once each. Words: a 3, b 1, c 1, </s> 2, <unk> 0; together 7.

Ids: <unk> 0, </s> 1, a 2, b 3, c 4.
"""


def stream(lines: list[list[int]], vocabulary: Vocabulary = LETTERS) -> np.ndarray:
    return np.array([word for line in lines for word in [*line, vocabulary.stop]], np.int64)


def words(text: str) -> list[list[int]]:
    return [LETTERS.ids(line.split()).tolist() for line in text.split("/")]


def counted(text: str, order: int) -> Counts:
    return count(stream(words(text)), LETTERS, order)


def probabilities(table: BackoffTable, context: list[int], vocabulary: Vocabulary = LETTERS) -> np.ndarray:
    """p(. | context) as the model says it, [outputs]; a context that begins with -1 begins a sentence."""
    model = NGramModel(table, vocabulary)
    state, distribution = model.init_state(1), None
    for word in context:
        distribution, state = model.step(state, np.array([vocabulary.start if word < 0 else word]))
    assert distribution is not None
    return np.exp(distribution[0].astype(np.float64))


def known_of(trie: Trie, log_prob: np.ndarray, grams: set[slow.Gram]) -> dict[slow.Gram, float]:
    """p of the words alone and of some n-grams, from the log-probs of the nodes of a trie."""
    known: dict[slow.Gram, float] = {(word,): math.exp(log_prob[word + 1]) for word in PREDICTABLE}
    for gram in grams:
        ids = [LETTERS.start if word == slow.START else word for word in gram]
        known[gram] = math.exp(log_prob[trie.find(ids)])
    return known
