"""Entropy pruning from its definition: two distributions and a sum over all words, an n-gram at a time.

Stolcke (1998), "Entropy-based pruning of backoff language models"; nothing of src/ is imported.
"""

from __future__ import annotations

import math

from references.combine import Gram, SlowTable

STOP = 1


def history(table: SlowTable, context: Gram) -> float:
    """How likely the table finds a context, sentences beginning as often as they end."""
    start = len(table.words)
    first = STOP if context[0] == start else context[0]
    likely = table.p(first, ())
    for place in range(1, len(context)):
        likely *= table.p(context[place], context[:place])
    return likely


def loss(table: SlowTable, gram: Gram) -> float:
    """Relative entropy between a context's distribution and the one without this n-gram, before P(h)."""
    context = gram[:-1]
    without = SlowTable(table.words, table.probability, table.backoff)
    del without.probability[gram]
    without.rebalance(context)
    lost = 0.0
    for word in table.words:
        before, after = table.p(word, context), without.p(word, context)
        lost += before * math.log(before / after)
    return lost


def pruned(table: SlowTable, threshold: float) -> set[Gram]:
    """The n-grams that stay, the highest order first so that with an n-gram its contexts do."""
    kept = set(table.probability)
    for gram in sorted(table.probability, key=len, reverse=True):
        needed = any(other[:-1] == gram for other in kept)
        if len(gram) > 1 and not needed:
            change = math.exp(history(table, gram[:-1]) * loss(table, gram)) - 1
            if change < threshold:
                kept.discard(gram)
    return kept
