"""The back-off table: what every smoothing delivers, and all that a query needs.

A trie as flat arrays. Node 0 is the empty context, its children are the words, their children the bigrams,
and so on: nodes are numbered order by order, the children of a node lie together, sorted by word. An ARPA
file is this table written down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import DataError, FormatError
from ostinato.ngram.counts import LIMIT, Level

Nodes: TypeAlias = NDArray[np.int32]
Logs: TypeAlias = NDArray[np.float32]

DTYPES = {
    "first_child": np.dtype(np.int32),
    "word": np.dtype(np.int32),
    "suffix": np.dtype(np.int32),
    "log_prob": np.dtype(np.float32),
    "log_backoff": np.dtype(np.float32),
}
"""The arrays of a table and their types."""


@dataclass(frozen=True, eq=False)
class BackoffTable:
    """Log-probs and back-offs of N nodes; read-only arrays, valid by construction.

    first_child: [N+1] int32, the children of node i are first_child[i] to first_child[i+1] - 1.
    word: [N] int32, the last word of the n-gram (0 for node 0). suffix: [N] int32, the node of the n-gram
        without its first word (0 for node 0).
    log_prob: [N] float32, nats; minus infinity for the start symbol, which nothing predicts.
    log_backoff: [N] float32, nats; 0 for a context that was never continued.
    order: the longest n-grams that were asked for. ngrams: how many there are of each order.
    smoothing: its registered name. discounts: what it subtracted, a list an order. notes: said to the user.
    Raises FormatError if the arrays are not such a table, so that no kernel is ever given another.
    """

    first_child: Nodes
    word: Nodes
    suffix: Nodes
    log_prob: Logs
    log_backoff: Logs
    ngrams: tuple[int, ...]
    smoothing: str
    discounts: tuple[tuple[float, ...], ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, dtype in DTYPES.items():
            object.__setattr__(self, name, read_only(name, getattr(self, name), dtype))
        check_shape(self)
        check_links(self)
        check_numbers(self)

    @property
    def order(self) -> int:
        """The length of the longest n-grams that were asked for."""
        return len(self.ngrams)

    @property
    def outputs(self) -> int:
        """How many words can be predicted; each is a child of node 0."""
        return self.ngrams[0] - 1

    @property
    def sentence_start(self) -> int:
        """The node of the start symbol, the last child of node 0."""
        return self.ngrams[0]

    @property
    def parameters(self) -> int:
        """How many numbers the model consists of: a probability an n-gram and a back-off a context."""
        contexts = np.count_nonzero(np.diff(self.first_child)[1:])
        return len(self.word) - 2 + int(contexts)

    def columns(self) -> tuple[Nodes, Nodes, Nodes, Logs, Logs]:
        """The five arrays in the order in which every kernel of kernels/backoff.py takes them."""
        return self.first_child, self.word, self.suffix, self.log_prob, self.log_backoff

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays by name, to be stored."""
        return dict(zip(DTYPES, self.columns(), strict=True))

    def metadata(self) -> dict[str, Any]:
        """Everything else, as JSON can hold it."""
        return {
            "order": self.order,
            "ngrams": list(self.ngrams),
            "smoothing": self.smoothing,
            "discounts": [list(values) for values in self.discounts],
            "notes": list(self.notes),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, Any]) -> BackoffTable:
        """The table that `arrays` and `metadata` describe.

        Raises FormatError for anything missing or not valid: a damaged file never reaches a kernel.
        """
        try:
            columns = {name: arrays[name] for name in DTYPES}
            ngrams = tuple(int(number) for number in metadata["ngrams"])
            discounts = tuple(tuple(float(value) for value in values) for values in metadata["discounts"])
            smoothing, notes = str(metadata["smoothing"]), tuple(str(note) for note in metadata["notes"])
            stated = int(metadata["order"])
        except (KeyError, TypeError, ValueError) as fault:
            raise damaged(f"{type(fault).__name__} {fault}") from None
        if stated != len(ngrams):
            raise damaged(f"order {stated} with the n-gram numbers of {len(ngrams)} orders")
        return cls(**columns, ngrams=ngrams, smoothing=smoothing, discounts=discounts, notes=notes)

    @classmethod
    def from_levels(
        cls,
        levels: Sequence[Level],
        log_probs: Sequence[Logs],
        log_backoffs: Sequence[Logs],
        **described: Any,
    ) -> BackoffTable:
        """The table of counted n-grams: `log_probs[k]`, `log_backoffs[k]` belong to the rows of `levels[k]`.

        described: smoothing, discounts, notes. Raises DataError if there are more n-grams than 32 bits number.
        """
        sizes = [1, *(len(level.word) for level in levels)]
        begins = np.cumsum([0, *sizes])
        if begins[-1] > LIMIT:
            raise DataError(f"{begins[-1]:,} n-grams are too many for one table; lower the order")
        first_child = np.full(begins[-1] + 1, begins[-1], np.int32)
        suffix = np.zeros(begins[-1], np.int32)
        for order, level in enumerate(levels, 1):
            contexts = slice(begins[order - 1], begins[order])
            fans = np.bincount(level.parent, minlength=sizes[order - 1])
            first_child[contexts] = begins[order] + np.concatenate(([0], np.cumsum(fans)[:-1]))
            suffix[begins[order] : begins[order + 1]] = level.suffix + begins[order - 1]
        nothing = np.zeros(1, np.float32)
        return cls(
            first_child,
            np.concatenate([np.zeros(1, np.int32), *(level.word for level in levels)]),
            suffix,
            np.concatenate([nothing, *log_probs]),
            np.concatenate([nothing, *log_backoffs]),
            ngrams=tuple(sizes[1:]),
            **described,
        )


def damaged(why: str) -> FormatError:
    """The error for arrays that are not a table."""
    return FormatError(f"not a valid back-off table: {why}; the file is damaged, restore it or train again")


def read_only(name: str, array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """A read-only, aligned view that kernels can take (one kind of array, so one compiled kernel)."""
    if not isinstance(array, np.ndarray) or array.dtype != dtype or array.ndim != 1:
        raise damaged(f"{name} must be one row of {dtype}")
    view = np.require(array, dtype, ["C", "A", "E"])[:]
    view.flags.writeable = False
    return view


def check_shape(table: BackoffTable) -> None:
    """Raise FormatError unless sizes agree and the nodes are numbered order by order."""
    nodes, ngrams = len(table.word), table.ngrams
    sizes = {len(table.suffix), len(table.log_prob), len(table.log_backoff), len(table.first_child) - 1}
    if sizes != {nodes} or not ngrams or min(ngrams) < 0 or ngrams[0] < 2 or 1 + sum(ngrams) != nodes:
        raise damaged(f"{nodes} nodes, arrays of {sorted(sizes)} and n-gram numbers {ngrams} do not agree")
    first_child = table.first_child
    if np.any(first_child[1:] < first_child[:-1]):
        raise damaged("the children of the nodes are not in order")
    begins = np.cumsum([0, 1, *ngrams])
    if not np.array_equal(first_child[begins[:-1]], begins[1:]) or first_child[nodes] != nodes:
        raise damaged("the children of the nodes are not those of the next order")


def check_links(table: BackoffTable) -> None:
    """Raise FormatError unless every word is known, siblings are sorted, and suffixes lead to node 0."""
    word, suffix, outputs = table.word, table.suffix, table.outputs
    unigrams = slice(1, outputs + 2)
    if word[0] or not np.array_equal(word[unigrams], np.arange(outputs + 1)) or np.any(suffix[: outputs + 2]):
        raise damaged("the first nodes are not the words of the vocabulary")
    deeper = word[outputs + 2 :]
    if deeper.size and not (0 <= deeper.min() and deeper.max() < outputs):
        raise damaged(f"words reach from {deeper.min()} to {deeper.max()}, outside 0 to {outputs - 1}")
    eldest = np.zeros(len(word) + 1, np.bool_)
    eldest[table.first_child] = True
    if not np.all((word[1:] > word[:-1]) | eldest[1:-1]):
        raise damaged("the children of a node are not sorted by word")
    begins = np.cumsum([0, 1, *table.ngrams])
    for begin, end in pairwise(begins[2:]):
        links = suffix[begin:end]
        if links.size and not (0 < links.min() and links.max() < begin):
            raise damaged("a suffix is not shorter than its n-gram")
        if not np.array_equal(word[links], word[begin:end]):
            raise damaged("a suffix ends with another word than its n-gram")


def check_numbers(table: BackoffTable) -> None:
    """Raise FormatError for log-probs above 0 and for numbers that are not numbers."""
    if not np.all(table.log_prob <= 1e-5):
        raise damaged("a log-prob is above 0 or not a number")
    if not np.all(table.log_backoff < np.inf):
        raise damaged("a log back-off is infinite or not a number")
