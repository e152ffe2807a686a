"""Putting n-grams together: tries laid over each other, counts added, kept, and carried to a larger vocabulary."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import DataError, FormatError, MismatchError
from ostinato.core.vocabulary import Ids, Vocabulary
from ostinato.ngram.counts import Counts
from ostinato.ngram.trie import LIMIT, Nodes, Trie

ABSENT = -1
"""Stands for a node or a word that the other side does not have."""

STOP_NODE = 2
"""The node of the stop symbol, whose id is 1 in every vocabulary: words are the children of node 0, from 1 on."""


class Union(NamedTuple):
    """The n-grams of two tries, and for each the node it has in the one and in the other, or ABSENT: [N] int32."""

    trie: Trie
    first: Nodes
    second: Nodes


def nodes_in(trie: Trie, other: Trie) -> Nodes:
    """For each node of a trie the node of another that is the same n-gram, or ABSENT: [N] int32.

    Raises MismatchError if they have different numbers of words. Cost: one pass over both.
    """
    from ostinato.kernels import combine as kernel

    check_words(trie, other)
    found = np.empty(trie.nodes, np.int32)
    kernel.locate(*still(trie), *still(other), found)
    return found


def unite(first: Trie, second: Trie) -> Union:
    """The trie of all n-grams of two tries over the same words; suffixes lead to the longest in either.

    Raises MismatchError if they have different numbers of words, DataError for too many n-grams.
    """
    from ostinato.kernels import combine as kernel

    check_words(first, second)
    root = np.zeros(1, np.int32)
    words, firsts, seconds = [root], [root], [root]
    fans: list[Nodes] = []
    for order in range(1, max(first.order, second.order) + 1):
        room = sum(trie.ngrams[order - 1] for trie in (first, second) if order <= trie.order)
        word, in_first, in_second = np.empty((3, room), np.int32)
        fans.append(np.empty(len(firsts[-1]), np.int32))
        parents = firsts[-1], seconds[-1], fans[-1]
        made = kernel.merge_children(*still(first), *still(second), *parents, word, in_first, in_second)
        for levels, level in ((words, word), (firsts, in_first), (seconds, in_second)):
            levels.append(level[:made].copy())
    nodes = sum(map(len, words))
    if nodes > LIMIT:
        raise DataError(f"{nodes:,} n-grams are too many for one table; lower the order or prune")
    first_child = np.cumsum(np.concatenate(([1], *fans)), dtype=np.int64).astype(np.int32)
    ngrams = tuple(len(level) for level in words[1:])
    trie = Trie(np.concatenate(words), first_child, np.zeros(nodes, np.int32), ngrams).linked()
    return Union(trie, np.concatenate(firsts), np.concatenate(seconds))


def still(trie: Trie) -> tuple[Nodes, Nodes]:
    """The words and first children as read-only views: one kind of array, so one compiled kernel."""
    views = trie.word.view(), trie.first_child.view()
    for view in views:
        view.flags.writeable = False
    return views


def check_words(first: Trie, second: Trie) -> None:
    """Raise MismatchError unless both have as many words."""
    if first.outputs != second.outputs:
        raise MismatchError(
            f"n-grams of {first.outputs} and of {second.outputs} words do not belong together; "
            "unite the vocabularies first"
        )


def renumbered(trie: Trie, ids: Ids, outputs: int) -> tuple[Trie, Nodes]:
    """The trie under other word ids, and for each of its nodes the number it had before, ABSENT for new words.

    ids: [outputs of the trie], the new id of each word, all different, or ABSENT: n-grams with that word are left
        out. outputs: the words of the new vocabulary; all become nodes. Cost: a sort an order.
    """
    ids = np.append(ids, outputs)  # the start symbol stays the last
    kept = np.flatnonzero(ids >= 0)
    old = [np.zeros(1, np.int32), np.full(outputs + 1, ABSENT, np.int32)]
    old[1][ids[kept]] = 1 + kept
    parents, words = [np.zeros(outputs + 1, np.int64)], [np.arange(outputs + 1)]
    place = ids  # of each n-gram of the order below, in the new order
    for order in range(2, trie.order + 1):
        here, below = trie.level(order), trie.level(order - 1)
        parent, word = place[trie.parents(order) - below.start], ids[trie.word[here]]
        kept = np.flatnonzero((parent >= 0) & (word >= 0))
        kept = kept[np.argsort(parent[kept] * (outputs + 1) + word[kept], kind="stable")]
        parents.append(parent[kept])
        words.append(word[kept])
        old.append((here.start + kept).astype(np.int32))
        place = np.full(trie.ngrams[order - 1], ABSENT, np.int64)
        place[kept] = np.arange(len(kept))
    return Trie.from_levels(parents, words), np.concatenate(old)


def ids_in(old: Vocabulary, new: Vocabulary) -> Ids:
    """The id that each predictable piece of one vocabulary has in another, ABSENT if it is not there: [outputs]."""
    ids = np.concatenate((np.array([new.unknown, new.stop]), new.ids(ordinary(old))))
    ids[2:][ids[2:] == new.unknown] = ABSENT
    return ids


def ordinary(vocabulary: Vocabulary) -> tuple[str, ...]:
    """The pieces without the specials, in id order."""
    return vocabulary.pieces[2:-2]


def unite_vocabularies(vocabularies: Iterable[Vocabulary]) -> Vocabulary:
    """The pieces of the first, then those that each of the others adds, in its order.

    So the ids of the first stay what they are, but for start and padding.
    """
    return Vocabulary(dict.fromkeys(piece for vocabulary in vocabularies for piece in ordinary(vocabulary)))


def merge_counts(first: Counts, second: Counts) -> Counts:
    """The counts of two texts together: those of one text put after the other.

    Raises MismatchError if orders or numbers of words differ, DataError for more tokens than 32 bits number.
    """
    if first.order != second.order:
        raise MismatchError(
            f"counts of order {first.order} and of order {second.order} cannot be added; count both with one"
        )
    if first.tokens + second.tokens + first.lines + second.lines > LIMIT:
        raise DataError(f"{first.tokens + second.tokens:,} tokens are more than one table can count; keep them apart")
    both = unite(first.trie, second.trie)
    count = np.zeros(both.trie.nodes, np.int32)
    for part, nodes in ((first, both.first), (second, both.second)):
        count += np.where(nodes >= 0, part.count[nodes], 0)
    return Counts(both.trie, count, first.tokens + second.tokens, first.lines + second.lines)


def grow(counts: Counts, old: Vocabulary, new: Vocabulary) -> Counts:
    """The same counts for a vocabulary with more pieces, in any order; the new ones have not occurred.

    A piece that was counted as unknown stays unknown: the counts do not say which it was.
    Raises MismatchError if the counts are not of `old`, or if `new` lacks one of its pieces.
    """
    if counts.outputs != old.outputs:
        raise MismatchError(f"counts of {counts.outputs} words were not made for {old!r}; restore its vocabulary")
    ids = ids_in(old, new)
    if np.any(ids < 0):
        lost = old.pieces[int(np.argmax(ids < 0))]
        raise MismatchError(f"{new!r} lacks {lost!r}, which was counted; add to the old vocabulary, take nothing away")
    trie, nodes = renumbered(counts.trie, ids, new.outputs)
    count = np.where(nodes >= 0, counts.count[nodes], 0).astype(np.int32, copy=False)
    return Counts(trie, count, counts.tokens, counts.lines)


def to_arrays(counts: Counts) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """The arrays of counts by name, and everything else as JSON can hold it; `from_arrays` takes them back."""
    trie = counts.trie
    arrays = {"word": trie.word, "first_child": trie.first_child, "suffix": trie.suffix, "count": counts.count}
    return arrays, {"ngrams": list(trie.ngrams), "tokens": counts.tokens, "lines": counts.lines}


def from_arrays(arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, Any]) -> Counts:
    """The counts that arrays and metadata describe. Raises FormatError for anything missing or not valid."""
    try:
        word, first_child, suffix, count = (row(arrays, name) for name in ("word", "first_child", "suffix", "count"))
        ngrams = tuple(int(number) for number in metadata["ngrams"])
        tokens, lines = int(metadata["tokens"]), int(metadata["lines"])
    except (KeyError, TypeError, ValueError) as fault:
        raise not_counts(f"{type(fault).__name__} {fault}") from None
    counts = Counts(Trie(word, first_child, suffix, ngrams), count, tokens, lines)
    check(counts)
    return counts


def row(arrays: Mapping[str, NDArray[Any]], name: str) -> Nodes:
    """One row of int32, as kernels take it. Raises FormatError for another kind of array."""
    array = arrays[name]
    if not isinstance(array, np.ndarray) or array.dtype != np.int32 or array.ndim != 1:
        raise not_counts(f"{name} must be one row of int32")
    return np.require(array, np.int32, ["C", "A"])


def check(counts: Counts) -> None:
    """Raise FormatError unless the counts could be those of a text: smoothings divide by them unasked."""
    counts.trie.check()
    trie, count = counts.trie, counts.count
    if len(count) != trie.nodes:
        raise not_counts(f"{len(count)} counts of {trie.nodes} n-grams")
    if count[0] != counts.tokens or count[trie.sentence_start] != counts.lines or count[STOP_NODE] != counts.lines:
        raise not_counts(
            f"{counts.tokens} tokens in {counts.lines} lines, but {count[0]} in {count[STOP_NODE]} are counted"
        )
    if counts.lines < 1 or int(count[1 : trie.sentence_start].sum(dtype=np.int64)) != counts.tokens:
        raise not_counts("the words do not add up to the tokens")
    for order in range(2, trie.order + 1):
        here, below = trie.level(order), trie.level(order - 1)
        if trie.ngrams[order - 1] == 0:
            continue
        if trie.suffix[here].min() < below.start or count[here].min() < 1:
            raise not_counts(f"an n-gram of order {order} has no suffix or no count")
        followed = np.bincount(trie.parents(order) - below.start, count[here], trie.ngrams[order - 2])
        if np.any(followed > count[below]):
            raise not_counts(f"an n-gram of order {order - 1} is counted less often than it is continued")


def not_counts(why: str) -> FormatError:
    """The error for arrays that are not counts."""
    return FormatError(f"not valid n-gram counts: {why}; the file is damaged, restore it or count again")
