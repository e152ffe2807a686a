"""Back-off arithmetic that smoothing and pruning share: distributions that sum to one over a trie of n-grams.

A table says of the words seen after a context what they have, and of all others that they have what the
shorter context gives them, times the context's back-off. Everything here chooses such numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ostinato.ngram.counts import Counts
from ostinato.ngram.interpolation import Discounts, thresholds_by_order
from ostinato.ngram.table import BackoffTable, Logs
from ostinato.ngram.trie import Trie

Numbers: TypeAlias = NDArray[np.float64]
Weight: TypeAlias = Callable[[int, Numbers, Numbers], Numbers]
"""The share a context's own words get: of the order, c(h) and the number of different words after h."""

NOTHING = 1e-12
"""Probability that is only the rounding of a float64 sum."""


def renormalised_backoffs(trie: Trie, log_prob: NDArray[np.floating[Any]]) -> Logs:
    """The log back-offs [M], nats, float32, with which the log-probs [N] of a trie make distributions.

    backoff(h) = (1 - sum of p(w | h)) / (1 - sum of p(w | h')), both over the words w seen after h, where h'
    is the longest suffix of h in the trie, and p(w | h') is found as a query finds it.

    Where the words seen after h have all probability, the back-off is 0, its logarithm minus infinity: other
    words are impossible. Where h' leaves nothing to others, there is nothing to back off to and the logarithm
    is 0; the words seen after h must then sum to one by themselves. A context never continued has 0 too.
    log_prob: nats, float32 or float64; the words of order 1 must sum to one. Sums are float64.
    Source: [Katz1987] (the normalising factor alpha). Cost: a pass over the nodes.
    """
    from ostinato.kernels import renormalise as kernel

    log_backoff = np.zeros(trie.inner)
    kernel.renormalise(trie.first_child, trie.suffix, log_prob, float(np.finfo(log_prob.dtype).eps), log_backoff)
    return log_backoff.astype(np.float32)


def back_off(
    counts: Counts,
    discounts: Discounts,
    smoothing: str,
    *,
    continuation: bool,
    thresholds: tuple[int, ...] = (),
) -> BackoffTable:
    """The table in which words seen after a context share less than one, and the others the rest.

    p(w | h) = (a(hw) - D(a(hw))) / T(h) if hw was seen, else alpha(h) p(w | h without its oldest word)
    alpha(h) = (sum of D(a(hw)) / T(h)) / (1 - sum of p(w | h without its oldest word)), over the words seen
               after h; T(h) = sum of a(hw) over them; below order 1 stands 1 / outputs

    a: the adjusted counts (continuation) or the occurrences. Where every word was seen nothing is subtracted;
    where nothing would be, T(h) is one more, as if one unseen word had followed once.
    thresholds: see `kept`. Source: [Katz1987]; the second exception is ours, so that no word is impossible.
    """
    trie = counts.trie
    lower: Numbers = np.array([1 / counts.outputs])
    log_prob, log_backoff = np.zeros(trie.nodes, np.float32), np.zeros(trie.inner, np.float32)
    for order, discount in enumerate(discounts.values, 1):
        here, below = trie.level(order), trie.level(order - 1)
        parent, suffix = trie.parents(order) - below.start, trie.suffix[here] - below.start
        count = counts.adjusted(order) if continuation else counts.raw(order)
        shorter = counts.base() if order == 1 else lower[suffix]
        taken = np.array([0.0, *discount])[np.minimum(count, len(discount))]
        total, held, covered = (sums(parent, of, len(lower)) for of in (count, taken, np.where(count, shorter, 0)))
        free = 1 - covered
        complete = free < NOTHING
        pretended = (held <= NOTHING * total) & ~complete
        total, held = total + pretended, held + pretended
        alpha = np.divide(held, total * free, out=np.ones_like(held), where=~complete)
        own = (count - np.where(complete[parent], 0, taken)) / total[parent]
        lower = np.where(count, own, alpha[parent] * shorter)
        if order == 1:
            lower[-1] = 0.0  # the start symbol
        else:
            log_backoff[below] = logs(alpha)
        log_prob[here] = logs(lower)
    described = {"discounts": tuple(discounts.values), "notes": tuple(discounts.notes)}
    return finished(counts, log_prob, log_backoff, smoothing, thresholds, **described)


def mixed(
    counts: Counts, weight: Weight, smoothing: str, thresholds: tuple[int, ...] = (), **described: Any
) -> BackoffTable:
    """The table in which every context's relative frequencies are mixed with the next shorter context.

    p(w | h) = lambda(h) c(hw) / c(h) + (1 - lambda(h)) p(w | h without its oldest word)

    weight: lambda of all contexts of an order. c(h): occurrences that a word follows; below order 1 stands
    1 / outputs. thresholds: see `kept`. described: see `BackoffTable.build`.
    Source: [JelinekMercer1980].
    """
    trie = counts.trie
    lower: Numbers = np.array([1 / counts.outputs])
    log_prob, log_backoff = np.zeros(trie.nodes, np.float32), np.zeros(trie.inner, np.float32)
    for order in range(1, counts.order + 1):
        here, below = trie.level(order), trie.level(order - 1)
        parent, suffix = trie.parents(order) - below.start, trie.suffix[here] - below.start
        count = counts.raw(order)
        total, kinds = sums(parent, count, len(lower)), sums(parent, count > 0, len(lower))
        own = np.where(total > 0, weight(order, total, kinds), 0.0)
        shorter = counts.base() if order == 1 else lower[suffix]
        lower = own[parent] * count / total[parent] + (1 - own)[parent] * shorter
        if order == 1:
            lower[-1] = 0.0  # the start symbol
        else:
            log_backoff[below] = logs(1 - own)
        log_prob[here] = logs(lower)
    return finished(counts, log_prob, log_backoff, smoothing, thresholds, **described)


def finished(
    counts: Counts, log_prob: Logs, log_backoff: Logs, smoothing: str, thresholds: tuple[int, ...], **described: Any
) -> BackoffTable:
    """The table of all nodes, log_prob [N] and log_backoff [M], or of those that `kept` keeps.

    The n-grams kept have the same probability; back-offs are found anew, so that distributions sum to one.
    """
    keep = kept(counts, thresholds)
    if keep is None:
        return BackoffTable.build(counts.trie, log_prob, log_backoff, smoothing, **described)
    trie, old = counts.trie.select(keep)
    left = log_prob[old]
    return BackoffTable.build(trie, left, renormalised_backoffs(trie, left), smoothing, **described)


def kept(counts: Counts, thresholds: tuple[int, ...]) -> NDArray[np.bool_] | None:
    """Which nodes, [N], occur more often than the threshold of their order; None for all of them.

    thresholds: for orders 1, 2, ..., the last for all higher ones. So an n-gram's contexts stay with it.
    Raises ConfigError if the first is not 0 (words always stay), one is below that before it, or there are more
    than orders.
    """
    limits = thresholds_by_order(thresholds, counts.order)
    if not any(limits):
        return None
    keep = np.ones(counts.trie.nodes, np.bool_)
    for order in range(2, counts.order + 1):
        level = counts.trie.level(order)
        keep[level] = counts.count[level] > limits[order - 1]
    return keep


def sums(contexts: NDArray[np.int32], values: NDArray[Any], number: int) -> Numbers:
    """The sum of the values of each of `number` contexts; NumPy alone would give integers for no values."""
    return np.bincount(contexts, values, number).astype(np.float64, copy=False)


def logs(values: Numbers) -> Logs:
    """Natural logarithms, minus infinity for 0, rounded once to float32."""
    with np.errstate(divide="ignore"):
        return np.log(values).astype(np.float32)
