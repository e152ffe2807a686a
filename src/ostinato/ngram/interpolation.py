"""Interpolated discounting over all orders: the arithmetic that absolute discounting and Kneser-Ney share."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import ConfigError
from ostinato.ngram.blocks import Bits, Layout, context_tasks, into
from ostinato.ngram.counts import BLOCK, Counts
from ostinato.ngram.table import BackoffTable
from ostinato.ngram.threads import in_threads, slices

Numbers: TypeAlias = NDArray[np.float64]

Write: TypeAlias = Callable[[int, int, Bits, Bits], None]
"""Takes contexts `begin` to `end` - 1, the log-probs of their children and their log back-offs."""


class Discounts(NamedTuple):
    """What is taken off the counts 1, 2, ... of each order, the last for all higher, and what to tell the user."""

    values: list[tuple[float, ...]]
    notes: list[str]


def interpolate(
    counts: Counts,
    discounts: Discounts,
    smoothing: str,
    *,
    continuation: bool = True,
    thresholds: tuple[int, ...] = (),
) -> BackoffTable:
    """The table in which every order is mixed with the one below it, the lowest with the uniform distribution.

    p(w | h) = (a(hw) - D(a(hw))) / T(h) + gamma(h) p(w | h without its oldest word)
    gamma(h) = sum of D(a(hw)) over the words seen after h, divided by T(h); this is the back-off of h
    T(h)     = sum of a(hw) over them; below order 1 stands `counts.base()`, as a rule 1 / outputs

    continuation: a are the adjusted counts of Kneser-Ney, else the occurrences. thresholds: n-grams of order k
    that occur no more than thresholds[k - 1] times are left out and their a goes to gamma, as `lmplz --prune`
    does; the last holds for all higher orders. float64 until the logarithms are taken.
    Raises ConfigError for thresholds that cannot be (see `thresholds_by_order`).
    Source: [Ney1994], [Kneser1995], [Chen1999]; interpolated.
    """
    limits = thresholds_by_order(thresholds, counts.order)
    layout = Layout(counts.trie, space=counts.space)
    rows = np.empty(3 * layout.rows, np.int32)
    interpolate_into(counts, discounts, partial(layout.write, sink=into(rows)), continuation, limits)
    described = (smoothing, True, tuple(discounts.values), tuple(discounts.notes))
    table = BackoffTable(rows, counts.trie.ngrams, *described)
    if not any(limits):
        return table
    limit = np.repeat(np.array([-1, -1, *limits[1:]]), (1, *counts.trie.ngrams))
    return table.select(counts.count > limit)


def interpolate_into(
    counts: Counts, discounts: Discounts, write: Write, continuation: bool = True, limits: Sequence[int] = ()
) -> None:
    """The same, but everything goes to `write` as soon as it is known, and n-grams below the limits too."""
    lower = np.zeros(1)  # what stands below order 1 is added there
    limits = limits or [0] * counts.order
    for order, discount in enumerate(discounts.values, 1):
        filled = np.array((0.0, *discount, *(discount[-1:] * 3))[:4])
        adjusted = adjusted_counts(counts, order, continuation)
        lower = smooth_order(counts, order, adjusted, limits[order - 1], filled, lower, write)
        counts.forget(order)


def smooth_order(
    counts: Counts,
    order: int,
    adjusted: NDArray[np.int32],
    limit: int,
    discount: Numbers,
    lower: Numbers,
    write: Write,
) -> Numbers:
    """Write the log-probs of that order and the log back-offs of the one below; return its probabilities.

    For the highest order nothing is returned, since nothing is interpolated with it.
    """
    trie, top = counts.trie, order == counts.order
    here, below = trie.level(order), trie.level(order - 1)
    found = counts.space.empty(0 if top else trie.ngrams[order - 1], np.float64)
    if order == 1:
        limit = -1  # words never seen have a place, too

    def work(tasks: Iterator[tuple[int, int]]) -> None:
        for begin, end in tasks:
            first, last = int(trie.first_child[begin]), int(trie.first_child[end])
            probability = np.empty(last - first) if top else found[first - here.start : last - here.start]
            gamma = np.ones(end - begin)
            probability[:] = 1.0  # of n-grams that are not kept
            contexts = (begin, end, here.start, below.start, limit)
            smooth(counts, adjusted, contexts, discount, lower, probability, gamma)
            if order == 1:
                probability += gamma[0] * counts.base()
                probability[-1], gamma[0] = 0.0, 1.0  # the start symbol; nothing comes below the words
            write(begin, end, logs(probability), logs(gamma))
            counts.space.relieve()

    in_threads(work, context_tasks(trie.first_child, below.start, below.stop), 1 if counts.small else None)
    return found


def thresholds_by_order(thresholds: tuple[int, ...], order: int) -> list[int]:
    """The threshold of each order, the last given one repeated; 0 keeps everything.

    Raises ConfigError if words are to be dropped, if they decrease, or if there are more than orders.
    """
    given = list(thresholds) or [0]
    if given[0] != 0:
        raise ConfigError(f"prune {given}: order 1 cannot be pruned, so begin with 0; limit the vocabulary instead")
    if any(later < earlier for earlier, later in itertools.pairwise(given)):
        raise ConfigError(f"prune {given}: a threshold must not be lower than that of the order below")
    if len(given) > order:
        raise ConfigError(f"prune {given}: {len(given)} thresholds for an order of {order}; leave the last out")
    return given + given[-1:] * (order - len(given))


def logs(values: Numbers) -> NDArray[np.int32]:
    """Natural logarithms rounded once to float32, minus infinity for 0, as the bits that a record holds."""
    with np.errstate(divide="ignore"):
        return np.log(values).astype(np.float32).view(np.int32)


def adjusted_counts(counts: Counts, order: int, continuation: bool) -> NDArray[np.int32]:
    """The counts that are discounted at that order (see `interpolate`): [N of that order]."""
    if continuation:
        return counts.continuations(order)
    count = counts.count[counts.trie.level(order)]
    return np.append(count[:-1], np.int32(0)) if order == 1 else count  # nothing predicts the start symbol


def counts_of_counts(counts: Counts, order: int, continuation: bool = True) -> list[int]:
    """How many n-grams of that order have the adjusted count 0, 1, 2, 3 and 4; the usual n1 is at place 1."""
    count = adjusted_counts(counts, order, continuation)
    if counts.small:
        return [int(number) for number in np.bincount(np.minimum(count, 5), minlength=6)[:5]]
    from ostinato.kernels import discount as kernel

    parts = slices(0, len(count), 1 + len(count) // BLOCK)
    numbers = np.zeros((len(parts), 6), np.int64)

    def work(tasks: Iterator[tuple[int, tuple[int, int]]]) -> None:
        for part, (begin, end) in tasks:
            kernel.tally(count, begin, end, numbers[part])
            counts.space.relieve()

    in_threads(work, enumerate(parts))
    return [int(number) for number in numbers.sum(0)[:5]]


def smooth(
    counts: Counts,
    adjusted: NDArray[np.int32],
    contexts: tuple[int, int, int, int, int],
    discount: Numbers,
    lower: Numbers,
    probability: Numbers,
    gamma: Numbers,
) -> None:
    """Fill `probability` and `gamma` of some contexts (see kernels/discount.py) by kernel, or if few by NumPy."""
    begin, end, level, below, limit = contexts
    trie = counts.trie
    if not counts.small:
        from ostinato.kernels import discount as kernel

        kernel.interpolate(
            trie.first_child, trie.suffix, adjusted, counts.count, *contexts, discount, lower, probability, gamma
        )
        return
    first, last = int(trie.first_child[begin]), int(trie.first_child[end])
    parent = np.repeat(np.arange(end - begin), np.diff(trie.first_child[begin : end + 1]))
    count, kept = adjusted[first - level : last - level], counts.count[first:last] > limit
    total, lost = (np.bincount(parent, values, end - begin) for values in (count, np.where(kept, 0, count)))
    capped = np.minimum(count, 3)
    ones, twos, more = (np.bincount(parent, kept & (capped == number), end - begin) for number in (1, 2, 3))
    held_back = discount[1] * ones + discount[2] * twos + discount[3] * more + lost
    gamma[:] = np.divide(held_back, total, out=np.ones(end - begin), where=total > 0)
    seen = (count - discount[capped])[kept] / total[parent[kept]]
    probability[kept] = seen + gamma[parent[kept]] * lower[trie.suffix[first:last][kept] - below]
