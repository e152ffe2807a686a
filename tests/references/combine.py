"""Back-off tables as dictionaries of tuples of words: slow, and written from the definition alone.

p(w | h) is in the table, or the back-off of h times p(w | h without its oldest word). Back-offs are what makes
each distribution sum to one. A weighted sum of tables: [Stolcke2002], -mix-lm. Nothing of src/ is imported.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

Gram = tuple[int, ...]


class SlowTable:
    """Probabilities of n-grams, words among them, and back-offs of contexts; `words` can be predicted."""

    def __init__(self, words: Sequence[int], probability: Mapping[Gram, float], backoff: Mapping[Gram, float] = {}):
        self.words, self.probability, self.backoff = words, dict(probability), dict(backoff)

    @classmethod
    def of(cls, table: Any) -> SlowTable:
        """The same numbers as a table of flat arrays; the start symbol is never predicted and left out."""
        trie, log_prob, log_backoff = table.contents()
        grams = [tuple(trie.words_of(node)) for node in range(trie.nodes)]
        probability = {gram: math.exp(value) for gram, value in zip(grams, log_prob.tolist(), strict=True) if gram}
        del probability[(table.outputs,)]
        backoff = {gram: math.exp(value) for gram, value in zip(grams, log_backoff.tolist(), strict=False)}
        return cls(range(table.outputs), probability, backoff)

    def p(self, word: int, context: Gram) -> float:
        """p(word | context)."""
        gram = (*context, word)
        if gram in self.probability or not context:
            return self.probability[gram]
        return self.backoff.get(context, 1.0) * self.p(word, context[1:])

    def seen(self, context: Gram) -> list[int]:
        """The words that have their own probability after a context."""
        return [word for word in self.words if (*context, word) in self.probability]

    def contexts(self) -> list[Gram]:
        """The contexts that were continued, the shorter first, without the empty one."""
        return sorted({gram[:-1] for gram in self.probability if len(gram) > 1}, key=len)

    def rebalance(self, context: Gram) -> None:
        """Give a context the back-off with which its distribution sums to one."""
        seen = self.seen(context)
        held = 1 - sum(self.probability[(*context, word)] for word in seen)
        free = 1 - sum(self.p(word, context[1:]) for word in seen)
        self.backoff[context] = held / free if free > 1e-6 else 1.0

    def rebalanced(self) -> SlowTable:
        """The same n-grams with every back-off found anew."""
        fresh = SlowTable(self.words, self.probability)
        for context in fresh.contexts():
            fresh.rebalance(context)
        return fresh


def interpolated(tables: Sequence[SlowTable], weights: Sequence[float]) -> SlowTable:
    """Every n-gram of any table with the weighted sum of what the tables say of it."""
    grams = {gram for table in tables for gram in table.probability}
    mixed = {
        gram: sum(weight * table.p(gram[-1], gram[:-1]) for table, weight in zip(tables, weights, strict=True))
        for gram in grams
    }
    return SlowTable(tables[0].words, mixed).rebalanced()
