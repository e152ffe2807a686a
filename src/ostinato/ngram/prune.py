"""Smaller tables: n-grams that are rare, or that the table hardly misses, are left to back-off.

What stays keeps its probability; back-offs are found anew, so that every distribution still sums to one. With an
n-gram its contexts stay, and words always do. Suffixes may go: links then lead to the longest that is left.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import ConfigError, MismatchError, ShapeError
from ostinato.ngram.backing_off import renormalised_backoffs
from ostinato.ngram.counts import Counts
from ostinato.ngram.interpolation import thresholds_by_order
from ostinato.ngram.merge import STOP_NODE, nodes_in
from ostinato.ngram.table import BackoffTable, Logs
from ostinato.ngram.trie import Trie

Numbers = NDArray[np.float64]
Contents = tuple[Trie, Logs, Logs]
"""The n-grams of a table, its log-probs [N] and log back-offs [M]."""


def prune_by_count(
    table: BackoffTable, counts: Counts | NDArray[np.integer[Any]], thresholds: Sequence[int]
) -> BackoffTable:
    """The table without the n-grams that occur no more often than the threshold of their order.

    counts: of the text the table was made from, whatever was pruned since, or occurrences [N], one a node.
    thresholds: for orders 1, 2, ..., the last for all higher ones; the first is 0, none is below that before it.
    An n-gram that has a continuation left stays, which only counts that were made up can ask for.
    Raises ConfigError for other thresholds, MismatchError if the counts lack an n-gram of the table,
    ShapeError if there is not one a node.
    """
    limits = thresholds_by_order(tuple(thresholds), table.order)
    contents = table.contents()
    trie, said = contents[0], " ".join(map(str, thresholds))
    count = occurrences(trie, counts) if isinstance(counts, Counts) else counts
    if count.shape != (trie.nodes,):
        raise ShapeError(f"counts of shape {count.shape} for {trie.nodes:,} nodes; give one a node of the table")
    if not any(limits):
        return table
    keep = np.ones(trie.nodes, np.bool_)
    for order in range(2, trie.order + 1):
        here = trie.level(order)
        keep[here] = count[here] > limits[order - 1]
    return kept(table, contents, closed(trie, keep), f"pruned by count: {said}")


def prune_by_entropy(table: BackoffTable, threshold: float, counts: Counts | None = None) -> BackoffTable:
    """The table without the n-grams whose loss, each alone, raises its perplexity by less than `threshold`.

    threshold: relative, exp(D) - 1 with the D of `divergences`, as SRILM's `ngram -prune`; 1e-8 to 1e-6 are usual,
    0 keeps everything. counts: see `divergences`.
    Raises ConfigError for a threshold that is negative or not a number, or for a table of mere scores.
    Source: [Stolcke1998].
    """
    if not 0 <= threshold < math.inf:
        raise ConfigError(f"threshold: must be 0 or more and finite, got {threshold:g}; 1e-7 is usual")
    contents = table.contents()
    loss = losses(table, contents, counts)
    return kept(table, contents, loss >= math.log1p(threshold), f"pruned by relative entropy below {threshold:g}")


def prune_to(table: BackoffTable, ngrams: int, counts: Counts | None = None) -> BackoffTable:
    """The table with exactly `ngrams` n-grams, words included: those it would miss most; the table if it has fewer.

    What `prune_by_entropy` does with the threshold that leaves so many, ties cut in the order of the nodes; its
    notes name that threshold. counts: see `divergences`.
    Raises ConfigError for fewer n-grams than words, or for a table of mere scores.
    """
    words = table.ngrams[0]
    if ngrams < words:
        raise ConfigError(f"ngrams: the {words:,} words always stay, so {ngrams:,} are too few; ask for more")
    if ngrams >= table.nodes - 1:
        return table
    contents = table.contents()
    loss = losses(table, contents, counts)
    place = table.nodes - 1 - ngrams  # of the least loss that stays, among the losses in order
    limit = np.partition(loss, place)[place]
    keep, ties = loss > limit, np.flatnonzero(loss == limit)
    keep[ties[: ngrams + 1 - np.count_nonzero(keep)]] = True
    note = f"pruned by relative entropy below {math.expm1(limit):g} to {ngrams:,} n-grams"
    return kept(table, contents, keep, note)


def divergences(table: BackoffTable, counts: Counts | None = None) -> Numbers:
    """What the table loses without each n-gram: [N] float64, nats a token, infinite for node 0 and the words.

    D = P(h) * the sum over all words v of p(v | h) (log p(v | h) - log p'(v | h)), where p' lacks only that
    n-gram and has the back-off of h found anew. Contexts that back off to h are left out of account.
    P(h), how likely the context is: by the chain rule from the table itself, a sentence beginning as often as
    one ends, p(</s>). In the lower orders of a Kneser-Ney table that is not how often a context occurs; with
    `counts` of the text it is c(h) / tokens.
    Raises ConfigError for a table of mere scores, MismatchError if the counts lack one of its n-grams.
    Source: [Stolcke1998]; [Chelba2010] for the Kneser-Ney tables.
    """
    return weighed(table, table.contents(), counts)


def weighed(table: BackoffTable, contents: Contents, counts: Counts | None) -> Numbers:
    """See `divergences`; contents: of the table, taken out once."""
    from ostinato.kernels import prune as kernel

    if not table.normalised:
        raise ConfigError(f"a table of {table.smoothing} has no distributions to compare; prune it by count")
    trie, log_prob, log_backoff = contents
    history = by_chain_rule(trie, log_prob) if counts is None else by_counts(trie, counts)
    lost = np.full(trie.nodes, np.inf)
    kernel.divergences(trie.first_child, trie.suffix, log_prob, log_backoff, history, lost)
    return lost


def losses(table: BackoffTable, contents: Contents, counts: Counts | None) -> Numbers:
    """The divergence of each n-gram or, if that is higher, of one that goes on from it: [N], closed when cut."""
    from ostinato.kernels import prune as kernel

    lost = weighed(table, contents, counts)
    kernel.raise_to_children(contents[0].first_child, lost)
    return lost


def by_chain_rule(trie: Trie, log_prob: NDArray[np.float32]) -> Numbers:
    """The log-probability of each context by the table itself, the start symbol taken for the stop symbol: [M]."""
    history = log_prob[: trie.inner].astype(np.float64)
    if trie.order > 1:
        history[trie.sentence_start] = history[STOP_NODE]
    for order in range(2, trie.order):
        history[trie.level(order)] += history[trie.parents(order)]
    return history


def by_counts(trie: Trie, counts: Counts) -> Numbers:
    """The log of how often each context occurs, divided by the tokens: [M]."""
    often = occurrences(trie, counts)[: trie.inner].astype(np.float64)
    return np.log(often / counts.tokens, out=np.full(len(often), -np.inf), where=often > 0)


def occurrences(trie: Trie, counts: Counts) -> NDArray[np.int32]:
    """How often each n-gram of a trie occurs: [N]. Raises MismatchError if one was not counted."""
    nodes = nodes_in(trie, counts.trie)
    if nodes.min() < 0:
        raise MismatchError("the table has n-grams that were not counted; give the counts it was made from")
    return counts.count[nodes]


def closed(trie: Trie, keep: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The nodes to keep, and the contexts of these: [N]."""
    keep = keep.copy()
    for order in range(trie.order, 1, -1):
        keep[trie.parents(order)[keep[trie.level(order)]]] = True
    return keep


def kept(table: BackoffTable, contents: Contents, keep: NDArray[np.bool_], note: str) -> BackoffTable:
    """The table of the nodes to keep, closed, their probabilities the same and their back-offs found anew."""
    if np.all(keep):
        return table
    trie, log_prob, log_backoff = contents
    left, old = trie.select(keep)
    log_prob = log_prob[old]
    if table.normalised:
        log_backoff = renormalised_backoffs(left, log_prob)
    else:
        log_backoff = log_backoff[old[: left.inner]]
    described = {"normalised": table.normalised, "discounts": table.discounts, "notes": (*table.notes, note)}
    return BackoffTable.build(left, log_prob, log_backoff, table.smoothing, **described)
