"""The n-grams of all orders as one sorted trie in flat arrays: what counts and back-off tables are hung on.

Node 0 is the empty context, its children are the words, their children the bigrams, and so on. Nodes are
numbered order by order; the children of a node lie together, sorted by word. So a child's number says its
parent, and a shorter array than the nodes says where children begin: the highest order has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import DataError, FormatError
from ostinato.ngram.threads import in_threads, slices
from ostinato.ngram.workspace import IN_MEMORY, Workspace

Nodes: TypeAlias = NDArray[np.int32]

LIMIT = 2**31 - 2
"""Most nodes that 32-bit numbers can count."""

TASK = 1 << 16
"""Contexts whose children a thread links at a time."""


@dataclass(frozen=True, eq=False)
class Trie:
    """N nodes, the first M of them (`inner`) below the highest order; not checked, see `check`.

    word: [N] int32, the last word of each n-gram (0 for node 0); nodes 1, 2, ... are the words 0, 1, ...
        that can be predicted, then the start symbol.
    first_child: [M+1] int32, the children of node i < M are first_child[i] to first_child[i+1] - 1.
    suffix: [N] int32, the node of the longest proper suffix that is in the trie (0 for node 0 and the words):
        the n-gram without its first word, unless pruning took that away.
    ngrams: how many n-grams there are of each order.
    """

    word: Nodes
    first_child: Nodes
    suffix: Nodes
    ngrams: tuple[int, ...]

    @property
    def order(self) -> int:
        """The length of the longest n-grams that were asked for."""
        return len(self.ngrams)

    @property
    def outputs(self) -> int:
        """How many words can be predicted; each is a child of node 0."""
        return self.ngrams[0] - 1

    @property
    def nodes(self) -> int:
        """How many nodes there are, the empty context included."""
        return 1 + sum(self.ngrams)

    @property
    def inner(self) -> int:
        """How many nodes are below the highest order; only they can have children."""
        return self.nodes - self.ngrams[-1]

    @property
    def sentence_start(self) -> int:
        """The node of the start symbol, the last child of node 0."""
        return self.ngrams[0]

    def level(self, order: int) -> slice:
        """The nodes of one order; 0 for the empty context."""
        begins = (0, *np.cumsum((1, *self.ngrams)).tolist())
        return slice(begins[order], begins[order + 1])

    def parents(self, order: int) -> Nodes:
        """The parent of every node of an order above 0: [N of that order]."""
        below = self.level(order - 1)
        fans = np.diff(self.first_child[below.start : below.stop + 1])
        return np.repeat(np.arange(below.start, below.stop, dtype=np.int32), fans)

    def words_of(self, node: int) -> list[int]:
        """The words of a node's n-gram, the first first."""
        found: list[int] = []
        while node > 0:
            found.append(int(self.word[node]))
            node = int(np.searchsorted(self.first_child, node, "right")) - 1
        return found[::-1]

    def find(self, words: Sequence[int]) -> int:
        """The node of an n-gram, or -1. Cost: a search a word."""
        node = 0
        for word in words:
            if node >= self.inner:
                return -1
            begin, end = int(self.first_child[node]), int(self.first_child[node + 1])
            node = begin + int(np.searchsorted(self.word[begin:end], word))
            if node == end or self.word[node] != word:
                return -1
        return node

    @classmethod
    def from_levels(cls, parents: Sequence[NDArray[np.integer]], words: Sequence[NDArray[np.integer]]) -> Trie:
        """The trie of n-grams given order by order, each sorted by (parent, word), without repeats.

        parents[k]: the place of each n-gram's context in the order below (all 0 for the words).
        words[k]: its last word; words[0] must be 0, 1, ... without a gap. Suffixes are searched.
        Raises DataError if there are more n-grams than 32 bits number.
        """
        ngrams = tuple(len(level) for level in words)
        begins = np.cumsum([0, 1, *ngrams])
        if begins[-1] > LIMIT:
            raise DataError(f"{begins[-1]:,} n-grams are too many for one table; lower the order or prune")
        first_child = np.full(begins[-2] + 1, begins[-1], np.int32)
        for order, parent in enumerate(parents, 1):
            fans = np.bincount(parent, minlength=int(begins[order] - begins[order - 1]))
            first_child[begins[order - 1] : begins[order]] = begins[order] + np.cumsum(fans) - fans
        word = np.concatenate([np.zeros(1, np.int32), *words]).astype(np.int32, copy=False)
        trie = cls(word, first_child, np.zeros(len(word), np.int32), ngrams)
        return trie.linked()

    def linked(self, threads: int | None = None, space: Workspace = IN_MEMORY) -> Trie:
        """The same n-grams with their suffixes found anew. Cost: a search or two a node."""
        from ostinato.kernels import trie as kernel

        suffix = space.empty(self.nodes, np.int32)
        suffix[: self.ngrams[0] + 1] = 0

        def work(tasks: Iterator[tuple[int, int]]) -> None:
            for begin, end in tasks:
                kernel.link(self.word, self.first_child, suffix, begin, end)
                space.relieve()

        for order in range(2, self.order + 1):
            contexts = self.level(order - 1)
            parts = 1 + (contexts.stop - contexts.start) // TASK
            in_threads(work, slices(contexts.start, contexts.stop, parts), threads)
        return Trie(self.word, self.first_child, suffix, self.ngrams)

    def select(self, keep: NDArray[np.bool_]) -> tuple[Trie, Nodes]:
        """The trie of the nodes to keep, [N], and for each of its nodes the number it had here.

        Node 0 and the words always stay, and with an n-gram its contexts must; suffixes lead to the longest
        that is left.
        """
        kept = np.array(keep, np.bool_)
        kept[: self.ngrams[0] + 1] = True
        number = np.cumsum(kept) - 1
        ngrams = tuple(int(np.count_nonzero(kept[self.level(order)])) for order in range(1, self.order + 1))
        old = np.flatnonzero(kept).astype(np.int32)
        inner = 1 + sum(ngrams[:-1])
        before = np.concatenate((number, [len(old) - 1])) + 1 - np.concatenate((kept, [False]))
        first_child = np.empty(inner + 1, np.int32)
        first_child[:inner] = before[self.first_child[old[:inner]]]
        first_child[inner] = len(old)
        return Trie(self.word[old], first_child, np.zeros(len(old), np.int32), ngrams).linked(), old

    def check(self) -> None:
        """Raise FormatError unless the arrays are such a trie, so that no kernel is ever given another."""
        self.check_shape()
        check_suffixes(self)

    def check_shape(self) -> None:
        """The same, suffixes aside: then they can be linked."""
        check_numbers(self)
        check_words(self)


def damaged(why: str) -> FormatError:
    """The error for arrays that are not a table."""
    return FormatError(f"not a valid back-off table: {why}; the file is damaged, restore it or train again")


def check_numbers(trie: Trie) -> None:
    """Raise FormatError unless sizes agree and the nodes are numbered order by order."""
    ngrams, nodes = trie.ngrams, len(trie.word)
    if not ngrams or min(ngrams) < 0 or ngrams[0] < 2 or trie.nodes != nodes or len(trie.suffix) != nodes:
        raise damaged(f"{nodes} words, {len(trie.suffix)} suffixes and n-gram numbers {ngrams} do not agree")
    first_child = trie.first_child
    if len(first_child) != trie.inner + 1:
        raise damaged(f"children of {len(first_child) - 1} nodes, not of {trie.inner}")
    if np.any(first_child[1:] < first_child[:-1]):
        raise damaged("the children of the nodes are not in order")
    begins = np.cumsum([0, 1, *ngrams])
    if not np.array_equal(first_child[begins[:-1]], begins[1:]):
        raise damaged("the children of the nodes are not those of the next order")


def check_words(trie: Trie) -> None:
    """Raise FormatError unless every word is known and siblings are sorted."""
    word, outputs = trie.word, trie.outputs
    if word[0] or not np.array_equal(word[1 : outputs + 2], np.arange(outputs + 1)):
        raise damaged("the first nodes are not the words of the vocabulary")
    deeper = word[outputs + 2 :]
    if deeper.size and not (0 <= deeper.min() and deeper.max() < outputs):
        raise damaged(f"words reach from {deeper.min()} to {deeper.max()}, outside 0 to {outputs - 1}")
    eldest = np.zeros(len(word) + 1, np.bool_)
    eldest[trie.first_child] = True
    if not np.all((word[1:] > word[:-1]) | eldest[1:-1]):
        raise damaged("the children of a node are not sorted by word")


def check_suffixes(trie: Trie) -> None:
    """Raise FormatError unless suffixes end with the same word and lead to node 0."""
    word, suffix = trie.word, trie.suffix
    if np.any(suffix[: trie.outputs + 2]):
        raise damaged("a word has a suffix")
    for begin, end in pairwise(np.cumsum([1, *trie.ngrams]).tolist()[1:]):
        links = suffix[begin:end]
        if links.size and not (0 < links.min() and links.max() < begin):
            raise damaged("a suffix is not shorter than its n-gram")
        if not np.array_equal(word[links], word[begin:end]):
            raise damaged("a suffix ends with another word than its n-gram")
