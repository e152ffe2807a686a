"""Tables and counts for fewer words: what a list of words leaves out, and where its probability goes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import ConfigError, DataError, MismatchError, ShapeError
from ostinato.core.vocabulary import Vocabulary
from ostinato.ngram.backing_off import renormalised_backoffs
from ostinato.ngram.counts import Counts
from ostinato.ngram.merge import ids_in, ordinary, renumbered
from ostinato.ngram.table import BackoffTable, Logs
from ostinato.ngram.trie import Trie

Mask = NDArray[np.bool_]
UNKNOWN = 0
"""The id of `<unk>` in every vocabulary."""

Lost = Literal["keep", "renormalise"]
"""What becomes of the probability of words left out."""


def filter_vocabulary(
    table: BackoffTable, vocabulary: Vocabulary, words: Iterable[str], unknown: Lost = "keep"
) -> tuple[BackoffTable, Vocabulary]:
    """The table of the n-grams all of whose words are listed, and its vocabulary: ids keep their order.

    Specials stay; listed words that the vocabulary lacks are passed over.
    unknown: "keep" leaves every probability and back-off as it was, as KenLM's `filter` does: listed words
        score the same as before, and distributions sum to less than one. "renormalise" lets `<unk>` stand for
        them: it gets their probability as well, in order 1 and wherever an n-gram ends with it; elsewhere
        theirs goes to back-off, found anew. So distributions sum to one again.
    Raises ConfigError for another `unknown`, or to renormalise a table of mere scores; DataError if no listed
    word is in the vocabulary; MismatchError if the table is not of that vocabulary.
    """
    check_filter(table, vocabulary, unknown)
    listed = mask_of(vocabulary, words)
    if np.all(listed):
        return table, vocabulary
    smaller = Vocabulary(piece for piece, kept in zip(ordinary(vocabulary), listed[2:], strict=True) if kept)
    whole, all_log_prob, all_log_backoff = table.contents()
    trie, old = renumbered(whole, ids_in(vocabulary, smaller), smaller.outputs)
    log_prob, log_backoff = all_log_prob[old], all_log_backoff[old[: trie.inner]]
    if unknown == "renormalise":
        lost = lost_mass(whole, all_log_prob, all_log_backoff, listed)
        give_to_unknown(trie, log_prob, lost[old[: trie.inner]])
        log_backoff = renormalised_backoffs(trie, log_prob)
    note = f"filtered to {smaller.outputs:,} of {vocabulary.outputs:,} words ({unknown})"
    described: dict[str, Any] = {"discounts": table.discounts, "notes": (*table.notes, note)}
    described["normalised"] = unknown == "renormalise"
    return BackoffTable.build(trie, log_prob, log_backoff, table.smoothing, **described), smaller


def check_filter(table: BackoffTable, vocabulary: Vocabulary, unknown: str) -> None:
    """Raise ConfigError for another `unknown` or for scores to renormalise, MismatchError for another vocabulary."""
    if unknown not in get_args(Lost):
        raise ConfigError(f"unknown: {unknown!r} is not known; known: {', '.join(get_args(Lost))}")
    if unknown == "renormalise" and not table.normalised:
        raise ConfigError(f"a table of {table.smoothing} gives scores, which do not sum to one; filter it with 'keep'")
    if table.outputs != vocabulary.outputs:
        raise MismatchError(f"a table of {table.outputs} words was not made for {vocabulary!r}; restore its vocabulary")


def lost_mass(trie: Trie, log_prob: Logs, log_backoff: Logs, listed: Mask) -> NDArray[np.float64]:
    """The probability that words not listed have after each context of a table: [M]."""
    from ostinato.kernels import prune as kernel

    lost = np.empty(trie.inner)
    kernel.lost_mass(trie.first_child, trie.suffix, trie.word, log_prob, log_backoff, listed, lost)
    return lost


def give_to_unknown(trie: Trie, log_prob: Logs, lost: NDArray[np.float64]) -> None:
    """Add what was lost after each context, [M], to the log-probs, [N], of the n-grams that end with `<unk>`."""
    for order in range(1, trie.order + 1):
        places = np.flatnonzero(trie.word[trie.level(order)] == UNKNOWN)
        share = lost[trie.parents(order)[places]]
        taker = log_prob[trie.level(order)]
        with np.errstate(divide="ignore"):
            taker[places] = np.logaddexp(taker[places], np.log(share))


def mask_of(vocabulary: Vocabulary, words: Iterable[str]) -> Mask:
    """Which words are listed, by id: [outputs], the specials always.

    Raises DataError if none is in the vocabulary.
    """
    listed = np.zeros(vocabulary.outputs, np.bool_)
    listed[vocabulary.ids(words)] = True
    if not np.any(listed[2:]):
        raise DataError(f"none of the listed words is in {vocabulary!r}; is the list of another language or spelling?")
    listed[[vocabulary.unknown, vocabulary.stop]] = True
    return listed


def limit_vocab(counts: Counts, listed: Mask) -> Mask:
    """The nodes all of whose words are listed: [N], for an estimation that prunes the others.

    listed: [outputs], by id, see `mask_of`; the start symbol always is. Words left out are marked like longer
    n-grams, though a trie keeps their nodes.
    So `lmplz --limit_vocab_file` does it: the text is counted with all its words, discounts come from all
    counts, and what pruned n-grams had flows through the back-off. To make words unknown before counting, as
    SRILM's `-vocab` with `-unk`, encode the text with the smaller vocabulary.
    Raises ShapeError if there is not one mark a word.
    """
    trie = counts.trie
    if listed.shape != (trie.outputs,):
        raise ShapeError(f"marks of shape {listed.shape} for {trie.outputs} words; give one a word")
    marked = np.append(listed, True)[trie.word]
    marked[0] = True
    for order in range(2, trie.order + 1):
        marked[trie.level(order)] &= marked[trie.parents(order)]
    return marked
