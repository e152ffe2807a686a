"""One table made of several: linear interpolation, done once instead of at every step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import ConfigError, MismatchError
from ostinato.core.vocabulary import Vocabulary
from ostinato.ngram.backing_off import renormalised_backoffs
from ostinato.ngram.merge import ids_in, renumbered, still, unite, unite_vocabularies
from ostinato.ngram.model import NGramModel
from ostinato.ngram.table import BackoffTable
from ostinato.ngram.trie import Trie

Weights = NDArray[np.float64]


def interpolate_models(models: Sequence[NGramModel], weights: Sequence[float]) -> NGramModel:
    """One n-gram model that is the weighted sum of several, over the words that any of them knows.

    Vocabularies are united, that of the first first, and tables widened (see `widened`); then as
    `interpolate_tables`. Weights that suit a held-out text: `ostinato.mix.fit_weights`.
    """
    check_weights(weights, len(models))
    vocabulary = unite_vocabularies(model.vocabulary for model in models)
    tables = [widened(model.table, model.vocabulary, vocabulary) for model in models]
    return NGramModel(interpolate_tables(tables, weights), vocabulary)


def interpolate_tables(tables: Sequence[BackoffTable], weights: Sequence[float]) -> BackoffTable:
    """The table whose n-grams are those of all the tables, their probabilities the weighted sums.

    p(w | h) = sum of weight_i p_i(w | h) for every n-gram hw in any table, each table backing off where it lacks
    it. Other words after h have what the combined table gives them after a shorter context, times a back-off
    found so that distributions sum to one: there it differs from a mixture of the models at every step.
    A table of weight 0 is left out, with its n-grams. Within 1e-6 of 1, weights are scaled to sum 1.
    Raises ConfigError for weights that are not one a table, finite, 0 or more, and of sum 1, or for a table
    of mere scores; MismatchError for tables of different numbers of words.
    Source: [JelinekMercer1980]; static as SRILM's `ngram -mix-lm` [Stolcke2002].
    """
    shares = check_weights(weights, len(tables))
    check_tables(tables)
    parts = [(table, float(share)) for table, share in zip(tables, shares, strict=True) if share > 0]
    trie = parts[0][0].trie()
    for table, _ in parts[1:]:
        trie = unite(trie, table.trie()).trie
    log_prob = mixed_log_probs(trie, parts)
    said = ", ".join(f"{share:.4g} {table.smoothing}" for table, share in parts)
    return BackoffTable.build(
        trie, log_prob, renormalised_backoffs(trie, log_prob), "interpolated", notes=(f"interpolated: {said}",)
    )


def mixed_log_probs(trie: Trie, parts: Sequence[tuple[BackoffTable, float]]) -> NDArray[np.float32]:
    """The log of the weighted sum of what the tables give each n-gram of the trie: [N], nats."""
    from ostinato.kernels import combine as kernel

    probability = np.zeros(trie.nodes)
    contexts = np.empty(trie.inner, np.int32)
    for table, weight in parts:
        theirs, log_prob, log_backoff = table.contents()
        numbers = theirs.suffix, log_prob, log_backoff
        kernel.add_probabilities(*still(trie), weight, *still(theirs), *numbers, contexts, probability)
    probability[0] = 1.0
    with np.errstate(divide="ignore"):
        return np.log(probability).astype(np.float32)


def widened(table: BackoffTable, old: Vocabulary, new: Vocabulary) -> BackoffTable:
    """The table over a vocabulary with more pieces, in any order.

    `<unk>` stood for every word the table did not know. Now that some have ids, `<unk>` and the k new words share
    its probability equally, each a (k+1)th, in order 1 and in n-grams that end with `<unk>`; there new words back
    off. Back-offs are found anew, so distributions sum to one. Where no n-gram ends with `<unk>`, all other words
    keep their probability after every context. After a new word, only order 1 speaks.
    Raises MismatchError if the table is not of `old`, or if `new` lacks one of its pieces; ConfigError for a
    table of mere scores.
    """
    if table.outputs != old.outputs:
        raise MismatchError(f"a table of {table.outputs} words was not made for {old!r}; restore its vocabulary")
    if new == old:
        return table
    check_tables([table])
    ids = ids_in(old, new)
    if np.any(ids < 0):
        raise MismatchError(f"{new!r} lacks {old.pieces[int(np.argmax(ids < 0))]!r}, a word of the table; unite them")
    trie, log_prob, _ = table.contents()
    trie, nodes = renumbered(trie, ids, new.outputs)
    log_prob = log_prob[np.where(nodes < 0, 1 + old.unknown, nodes)]
    sharing = (nodes < 0) | (trie.word == new.unknown)
    sharing[0] = False
    log_prob[sharing] -= np.float32(np.log(1 + new.outputs - old.outputs))
    described = {"discounts": table.discounts, "notes": table.notes}
    return BackoffTable.build(trie, log_prob, renormalised_backoffs(trie, log_prob), table.smoothing, **described)


def check_weights(weights: Sequence[float], tables: int) -> Weights:
    """The weights, scaled to sum 1. Raises ConfigError."""
    given = np.array(list(weights), np.float64)
    shown = ", ".join(f"{weight:g}" for weight in given)
    if not tables or len(given) != tables:
        raise ConfigError(f"weights: {tables} tables need one weight each, at least one; got {len(given)} ({shown})")
    if not (np.all(np.isfinite(given)) and np.all(given >= 0) and abs(given.sum() - 1) <= 1e-6):
        raise ConfigError(f"weights: must be finite, 0 or more, and sum to 1; got {shown}")
    return np.asarray(given / given.sum())


def check_tables(tables: Sequence[BackoffTable]) -> None:
    """Raise ConfigError for a table of mere scores, MismatchError for different numbers of words."""
    for place, table in enumerate(tables):
        if not table.normalised:
            raise ConfigError(f"table {place} ({table.smoothing}) gives scores, not probabilities; it cannot be mixed")
        if table.outputs != tables[0].outputs:
            raise MismatchError(
                f"tables 0 and {place} have {tables[0].outputs} and {table.outputs} words; "
                "interpolate the models, which unites their vocabularies"
            )
