"""Rounding the numbers of a back-off table to few distinct ones, so that a short code says which.

Every order has a codebook of log-probs and one of log back-offs. Log-probs are rounded first; then each
back-off is worked out anew for the rounded log-probs, so that a distribution keeps its sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ostinato.ngram.table import BackoffTable, Logs
from ostinato.ngram.trie import Nodes, Trie

Codes: TypeAlias = NDArray[np.uint16]

SWEEPS = 8
"""Of Lloyd's iteration; more change the error by less than a hundredth."""

BINS = 64
"""Of the histogram from which Lloyd's iteration starts; in finer ones the empty bins of a tail get no codes."""

FINENESS = 0.05
"""How finely back-offs far below 1 are coded, relative to those of 1 and more."""


@dataclass(frozen=True, eq=False)
class Rounded:
    """The n-grams of a table and its numbers after rounding, and their codes.

    log_prob: [N], log_backoff: [M], as `BackoffTable.build` takes them. contexts: [M], the inner nodes that
    have children or a back-off. prob_codes: one each for the nodes above order 1. backoff_codes: one a
    context. prob_books, backoff_books: for each length of context, ascending; log-probs of order 1 have none,
    they are exact. scaled, scale: the contexts whose children's log-probs are shifted, and by how much.
    """

    trie: Trie
    log_prob: Logs
    log_backoff: Logs
    contexts: NDArray[np.bool_]
    prob_codes: Codes
    backoff_codes: Codes
    prob_books: list[Logs]
    backoff_books: list[Logs]
    scaled: Nodes
    scale: Logs


def round_table(table: BackoffTable, prob_codes: int, backoff_codes: int) -> Rounded:
    """The table with that many distinct log-probs and log back-offs in each order.

    Distributions keep their sums as far as the back-offs' codes allow (see `backoff_book`); those of a table
    that is not normalised are scores: they are rounded and nothing is balanced.
    """
    trie, log_prob, log_backoff = table.contents()
    exact = log_prob, log_backoff
    log_prob[0] = 0
    contexts = (np.diff(trie.first_child) > 0) | (log_backoff != 0)
    rounded = log_prob.copy(), log_backoff.copy()
    above = trie.outputs + 2
    codes = np.zeros(trie.nodes - above, np.uint16)
    prob_books: list[Logs] = [np.zeros(0, np.float32)]
    backoff_books = [round_backoffs(rounded[1], contexts, trie.level(0), backoff_codes)]
    scale = np.zeros(trie.inner, np.float32)
    totals = np.zeros((2, trie.inner))
    totals[:, 0] = np.exp(log_prob[1:above].astype(np.float64)).sum()
    for length in range(1, trie.order):
        level, here = trie.level(length + 1), trie.level(length)
        book = codebook(log_prob[level], prob_codes)
        chosen = codes[level.start - above : level.stop - above]
        chosen[:] = nearest(book, log_prob[level])
        rounded[0][level] = book[chosen]
        kept_sums = balance(trie, exact, rounded, totals, book, chosen, here, scale) if table.normalised else None
        backoff_books.append(round_backoffs(rounded[1], contexts, here, backoff_codes))
        prob_books.append(book)
        if kept_sums is not None:
            totals[1, here] = kept_sums[0] + np.exp(rounded[1][here].astype(np.float64)) * kept_sums[1]
    chosen = backoff_codes_of(trie, rounded[1], contexts, backoff_books)
    scaled = np.flatnonzero(scale).astype(np.int32)
    return Rounded(trie, *rounded, contexts, codes, chosen, prob_books, backoff_books, scaled, scale[scaled])


def backoff_codes_of(trie: Trie, log_backoff: Logs, contexts: NDArray[np.bool_], books: list[Logs]) -> Codes:
    """The codes of rounded log back-offs: one a context, in the book of its length."""
    levels = [trie.level(length) for length in range(len(books))]
    rounded = [log_backoff[level][contexts[level]] for level in levels]
    return np.concatenate([nearest(book, values) for book, values in zip(books, rounded, strict=True)])


def balance(
    trie: Trie,
    exact: tuple[Logs, Logs],
    rounded: tuple[Logs, Logs],
    totals: NDArray[np.float64],
    book: Logs,
    codes: Codes,
    contexts: slice,
    scale: Logs,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What the seen words of each of these contexts have after rounding, and what the others may share.

    The kernel of the same name says what is filled.
    """
    from ostinato.kernels import quantise as kernel

    kept, rest = np.zeros((2, contexts.stop - contexts.start))
    kernel.balance(
        trie.first_child,
        trie.suffix,
        exact,
        rounded,
        totals,
        book,
        codes,
        contexts.start,
        contexts.stop,
        kept,
        rest,
        scale[contexts],
    )
    return kept, rest


def round_backoffs(log_backoff: Logs, contexts: NDArray[np.bool_], level: slice, codes: int) -> Logs:
    """The codebook for the contexts among the nodes of `level`, whose log back-offs are rounded in place."""
    chosen = np.flatnonzero(contexts[level]) + level.start
    book = backoff_book(log_backoff[chosen], codes)
    log_backoff[chosen] = book[nearest(book, log_backoff[chosen])]
    return book


def nearest(book: Logs, values: Logs) -> Codes:
    """The place of the nearest number in a codebook for each value; minus infinity only for itself."""
    middles = (book[1:].astype(np.float64) + book[:-1]) / 2
    return np.searchsorted(middles, values).astype(np.uint16)


def codebook(values: Logs, codes: int) -> Logs:
    """Up to `codes` numbers, ascending, that are together near to all values; their least and greatest are exact.

    All values themselves if they are so few, minus infinity always. Else the squared error is made small:
    codes lie as densely as the cube root of the density of the values, and are then moved, again and again,
    to the mean of the values nearest to them. Source: [Panter1951], [Lloyd1982].
    """
    values = np.sort(values)
    distinct = values[np.concatenate(([True], values[1:] != values[:-1]))[: len(values)]]
    if len(distinct) <= codes:
        return distinct
    infinite = int(np.isneginf(distinct[0]))
    finite = values[np.searchsorted(values, -np.inf, "right") :].astype(np.float64)
    found = spread(finite, codes - infinite)
    sums = np.concatenate(([0.0], np.cumsum(finite)))
    for _ in range(SWEEPS):
        ends = np.concatenate(([0], np.searchsorted(finite, (found[1:] + found[:-1]) / 2), [len(finite)]))
        number = np.diff(ends)
        found = np.divide(np.diff(sums[ends]), number, out=found, where=number > 0)
    found[0], found[-1] = finite[0], finite[-1]
    return np.concatenate((distinct[:infinite], np.unique(found.astype(np.float32))))


def spread(values: NDArray[np.float64], codes: int) -> NDArray[np.float64]:
    """As many numbers between the first and last of ascending values, as dense as the cube root of their density."""
    number, edges = np.histogram(values, BINS)
    mass = np.concatenate(([0.0], np.cumsum(np.cbrt(number))))
    places = (np.arange(codes) + 0.5) / codes * mass[-1]
    found: NDArray[np.float64] = np.interp(places, mass, edges)
    return found


def backoff_book(values: Logs, codes: int) -> Logs:
    """Up to `codes` log back-offs, ascending, such that rounding to the nearest changes no sum by much.

    All values themselves if they are so few, minus infinity always. Else from the least to the greatest in
    steps as long as 1 / (FINENESS + min(1, b)) in the logarithm of b: the share of a distribution that unseen
    words have is at most b, and at most 1. The share is off by half a step, relatively; as b never exceeds
    10^4 where it was worked out anew, a sum is off by less than 1e-4 with 2^16 codes, 0.03 with 2^8.
    """
    distinct = np.unique(values)
    if len(distinct) <= codes:
        return distinct
    finite = distinct[np.isfinite(distinct)].astype(np.float64)
    grid = np.linspace(finite[0], finite[-1], 1 << 16)
    steps = FINENESS * grid + np.where(grid < 0, np.exp(np.minimum(grid, 0.0)), 1 + grid)
    infinite = distinct[: len(distinct) - len(finite)]
    evenly = np.linspace(steps[0], steps[-1], codes - len(infinite))
    return np.concatenate((infinite, np.unique(np.interp(evenly, steps, grid).astype(np.float32))))
