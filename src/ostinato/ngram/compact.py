"""The compact table: a back-off table with its numbers rounded to short codes and everything packed bit by bit.

It takes less than 5 bytes an n-gram where ngram/table.py takes 12 to 20, is read where it lies, and opens as
fast as a file is mapped. The trie and the numbers of its nodes are those of ngram/trie.py; links to suffixes
are not stored: whoever reads looks up the contexts of the suffixes it needs, and a state is still one node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import ConfigError
from ostinato.ngram.packing import (
    ARRAYS,
    BACKOFF_BITS,
    PROB_BITS,
    Packed,
    Shape,
    begins_of,
    hints_of,
    packed_bits,
    packed_numbers,
    ranks_of,
    unpacked_bits,
    unpacked_numbers,
)
from ostinato.ngram.quantise import Rounded, round_table
from ostinato.ngram.table import BackoffTable, Logs
from ostinato.ngram.trie import Nodes, Trie, damaged

if TYPE_CHECKING:
    from ostinato.kernels.compact import Layout

SIZES, LISTS = ("contexts", "prob_bits", "backoff_bits", "scales"), ("ngrams", "prob_sizes", "backoff_sizes")
"""The fields of a shape, as metadata has them."""

DESCRIPTION = ("smoothing", "normalised", "discounts", "notes")
"""What a table says of itself besides."""


@dataclass(frozen=True, eq=False)
class CompactTable:
    """N nodes, M of them below the highest order, C of those contexts: with children or a back-off.

    packed: uint64. Contexts: M bits, one for each context. Children: a zero for node 0 and a one, then for each
        context a zero a child and a one. Records: for each node above order 1 the code of its log-prob and,
        above that, its word. Back-offs: the codes of the contexts.
    counts: int32. How many ones come before each 256 bits of both rows, the place of every 32nd one of the
        children, where the codebooks of each length of context begin, and the scaled contexts by number.
    logs: float32, nats. Log-probs of node 0 and of order 1, exact; what the codes of log-probs and of back-offs
        stand for, book after book; what is added to the log-probs of each scaled context's children.
    shape: where all this lies. smoothing, normalised, discounts, notes: as in BackoffTable.
    The arrays are read-only; raises FormatError if they are not as long as the shape says.
    """

    packed: Packed
    counts: Nodes
    logs: Logs
    shape: Shape
    smoothing: str
    normalised: bool = True
    discounts: tuple[tuple[float, ...], ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, size in self.shape.size.items():
            array = getattr(self, name)
            if not isinstance(array, np.ndarray) or array.dtype != ARRAYS[name] or array.shape != (size,):
                raise damaged(f"{name} must be one row of {size} {np.dtype(ARRAYS[name])}")
            view = np.require(array, None, ["C", "A", "E"])[:]
            view.flags.writeable = False
            object.__setattr__(self, name, view)

    @property
    def ngrams(self) -> tuple[int, ...]:
        """How many n-grams there are of each order."""
        return self.shape.ngrams

    @property
    def order(self) -> int:
        """The length of the longest n-grams that were asked for."""
        return self.shape.order

    @property
    def outputs(self) -> int:
        """How many words can be predicted; each is a child of node 0."""
        return self.shape.outputs

    @property
    def nodes(self) -> int:
        """How many nodes there are, the empty context included."""
        return self.shape.nodes

    @property
    def inner(self) -> int:
        """How many nodes are below the highest order; only they can be states."""
        return self.shape.inner

    @property
    def sentence_start(self) -> int:
        """The state after the start symbol: its node, or 0 if that is no context."""
        node = self.shape.ngrams[0]
        return node if self.order > 1 and int(self.part("contexts")[node >> 6]) >> (node & 63) & 1 else 0

    def is_state(self, states: NDArray[np.int64]) -> bool:
        """Whether all of these are states of this table: nodes below the highest order."""
        return not states.size or (0 <= int(states.min()) and int(states.max()) < self.inner)

    @property
    def parameters(self) -> int:
        """How many numbers the model consists of: a probability an n-gram and a back-off a context."""
        return self.shape.nodes - 2 + self.shape.contexts - 1

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.packed.nbytes + self.counts.nbytes + self.logs.nbytes

    def columns(self) -> tuple[Packed, Nodes, Logs, Layout]:
        """What every kernel of kernels/compact.py takes first."""
        return self.packed, self.counts, self.logs, self.shape.layout

    @classmethod
    def from_table(cls, table: BackoffTable, prob_bits: int = 8, backoff_bits: int = 16) -> CompactTable:
        """The same n-grams with log-probs rounded to 2^prob_bits numbers an order, back-offs to 2^backoff_bits.

        Distributions still sum to one: back-offs are worked out anew for the rounded log-probs. With back-offs
        of 16 bits sums are off by less than 1e-4 (5e-5 on real text), with 8 by less than 0.03 (0.01). A context
        that left nothing to unseen words (smoothing "mle") may leave them a little after rounding.
        Raises ConfigError for codes of a length that is not offered.
        """
        for bits, offered, name in ((prob_bits, PROB_BITS, "prob_bits"), (backoff_bits, BACKOFF_BITS, "backoff_bits")):
            if bits not in offered:
                raise ConfigError(f"{name} must lie between {offered[0]} and {offered[-1]}, got {bits}")
        rounded = round_table(table, 1 << prob_bits, 1 << backoff_bits)
        shape = Shape(
            ngrams=table.ngrams,
            contexts=len(rounded.backoff_codes),
            prob_bits=prob_bits,
            backoff_bits=backoff_bits,
            prob_sizes=tuple(map(len, rounded.prob_books)),
            backoff_sizes=tuple(map(len, rounded.backoff_books)),
            scales=len(rounded.scale),
        )
        described = {name: getattr(table, name) for name in DESCRIPTION}
        return cls(**arrays_of(rounded, shape), shape=shape, **described)

    def part(self, name: str) -> NDArray[Any]:
        """One part of one array, as `Shape.parts` names them; a view."""
        array = next(array for array, parts in self.shape.parts.items() if name in parts)
        found: NDArray[Any] = getattr(self, array)[self.shape.parts[array][name]]
        return found

    def prob_codes(self) -> Nodes:
        """The code of every node above order 1."""
        number, bits = self.nodes - self.outputs - 2, self.shape.prob_bits
        return unpacked_numbers(self.part("records"), self.shape.record_bits, number, mask=(1 << bits) - 1)

    def backoff_codes(self) -> Nodes:
        """The code of every context."""
        return unpacked_numbers(self.part("backoffs"), self.shape.backoff_bits, self.shape.contexts)

    def contexts(self) -> NDArray[np.int64]:
        """The node of every context, ascending. FormatError if they are not as many as the shape says."""
        found = np.flatnonzero(unpacked_bits(self.part("contexts"), self.inner))
        if len(found) != self.shape.contexts or found[0] != 0:
            raise damaged(f"the contexts are not {self.shape.contexts} or do not begin with the empty one")
        return found

    def ends(self) -> NDArray[np.int64]:
        """The place of every one among the bits of the children."""
        return np.flatnonzero(unpacked_bits(self.part("children"), self.shape.bits["children"]))

    def contexts_by_length(self, contexts: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many contexts there are of each length: [order]."""
        return np.diff(np.searchsorted(contexts, np.cumsum((0, 1, *self.ngrams[:-1]))))

    def trie(self, contexts: NDArray[np.int64]) -> Trie:
        """The n-grams with suffixes all 0. FormatError if the children do not add up to the nodes."""
        above = self.outputs + 2
        word = np.zeros(self.nodes, np.int32)
        word[1:above] = np.arange(above - 1)
        shift, bits = self.shape.prob_bits, self.shape.record_bits
        word[above:] = unpacked_numbers(self.part("records"), bits, self.nodes - above, shift)
        ends = self.ends()
        if len(ends) != len(contexts) + 1 or ends[0] != 1 or ends[-1] != self.nodes + len(contexts):
            raise damaged("the children of the contexts do not add up")
        first_child = np.zeros(self.inner + 1, np.int64)
        first_child[0] = 1
        first_child[contexts + 1] = np.diff(ends) - 1
        return Trie(word, np.cumsum(first_child).astype(np.int32), np.zeros(self.nodes, np.int32), self.ngrams)

    def expand(self) -> BackoffTable:
        """The table of exactly these rounded numbers, for whatever a compact one cannot do."""
        contexts = self.contexts()
        trie = self.trie(contexts).linked()
        places = self.prob_codes() + np.repeat(self.part("prob_begin")[1:], self.ngrams[1:])
        log_prob = np.concatenate((self.part("unigrams"), self.part("prob_book")[places]))
        for node, scale in zip(contexts[self.part("scaled")], self.part("scale"), strict=True):
            log_prob[trie.first_child[node] : trie.first_child[node + 1]] += scale
        places = self.backoff_codes() + np.repeat(self.part("backoff_begin"), self.contexts_by_length(contexts))
        log_backoff = np.zeros(self.inner, np.float32)
        log_backoff[contexts] = self.part("backoff_book")[places]
        described = {name: getattr(self, name) for name in DESCRIPTION}
        return BackoffTable.build(trie, log_prob, log_backoff, **described)

    def check(self) -> None:
        """Raise FormatError unless this is a valid table: then no kernel can go astray in it."""
        contexts = self.contexts()
        trie = self.trie(contexts)
        trie.check_shape()
        by_length = self.contexts_by_length(contexts)
        ranks = {f"{name}_rank": ranks_of(self.part(name)) for name in self.shape.bits}
        hints = {"children_hint": hints_of(self.ends())}
        begins = {"prob_begin": begins_of(self.shape.prob_sizes), "backoff_begin": begins_of(self.shape.backoff_sizes)}
        for name, expected in {**ranks, **hints, **begins}.items():
            if not np.array_equal(self.part(name), expected):
                raise damaged(f"{name} is not what it should be")
        check_codes(self.prob_codes(), self.shape.prob_sizes[1:], self.ngrams[1:])
        check_codes(self.backoff_codes(), self.shape.backoff_sizes, by_length)
        scaled = self.part("scaled")
        if np.any(np.diff(scaled, prepend=0, append=self.shape.contexts) <= 0):
            raise damaged("the scaled contexts are not in order")
        if not np.all(self.logs < np.inf) or not np.all(np.isfinite(self.part("scale"))):
            raise damaged("a log-prob or log back-off is infinite or not a number")

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays by name, to be stored."""
        return {name: getattr(self, name) for name in ARRAYS}

    def metadata(self) -> dict[str, Any]:
        """Everything else, as JSON can hold it."""
        return {
            "layout": "compact",
            "order": self.order,
            **{name: getattr(self.shape, name) for name in SIZES},
            **{name: list(getattr(self.shape, name)) for name in LISTS},
            "smoothing": self.smoothing,
            "normalised": self.normalised,
            "discounts": [list(values) for values in self.discounts],
            "notes": list(self.notes),
        }

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, Any], check: bool = True
    ) -> CompactTable:
        """The table that `arrays` and `metadata` describe.

        check: read every number. Without it only the sizes are checked, which takes no time.
        Raises FormatError for anything missing or not valid.
        """
        try:
            sizes: dict[str, Any] = {name: int(metadata[name]) for name in SIZES}
            sizes |= {name: tuple(int(number) for number in metadata[name]) for name in LISTS}
            shape = Shape(**sizes)
            table = cls(
                **{name: arrays[name] for name in ARRAYS},
                shape=shape,
                smoothing=str(metadata["smoothing"]),
                normalised=bool(metadata["normalised"]),
                discounts=tuple(tuple(float(value) for value in values) for values in metadata["discounts"]),
                notes=tuple(str(note) for note in metadata["notes"]),
            )
            if int(metadata["order"]) != table.order:
                raise damaged(f"order {metadata['order']} with the n-gram numbers of {table.order} orders")
        except (KeyError, TypeError, ValueError, OverflowError) as fault:
            raise damaged(f"{type(fault).__name__} {fault}") from None
        if check:
            table.check()
        return table


def arrays_of(rounded: Rounded, shape: Shape) -> dict[str, Any]:
    """The arrays of a compact table."""
    trie, above = rounded.trie, shape.outputs + 2
    contexts = np.flatnonzero(rounded.contexts)
    ends = np.concatenate(([1], trie.first_child[contexts + 1] + np.arange(1, len(contexts) + 1)))
    is_end = np.zeros(shape.bits["children"], np.bool_)
    is_end[ends] = True
    bits = {"contexts": packed_bits(rounded.contexts), "children": packed_bits(is_end)}
    ranks = {f"{name}_rank": ranks_of(row) for name, row in bits.items()}
    parts: dict[str, NDArray[Any]] = {
        **bits,
        **ranks,
        "records": packed_numbers(
            trie.word[above:].astype(np.int64) << shape.prob_bits | rounded.prob_codes, shape.record_bits
        ),
        "backoffs": packed_numbers(rounded.backoff_codes, shape.backoff_bits),
        "children_hint": hints_of(ends),
        "prob_begin": begins_of(shape.prob_sizes),
        "backoff_begin": begins_of(shape.backoff_sizes),
        "scaled": np.searchsorted(contexts, rounded.scaled).astype(np.int32),
        "unigrams": rounded.log_prob[:above],
        "prob_book": np.concatenate(rounded.prob_books),
        "backoff_book": np.concatenate(rounded.backoff_books),
        "scale": rounded.scale,
    }
    return {array: np.concatenate([parts[name] for name in names]) for array, names in shape.parts.items()}


def check_codes(codes: Nodes, sizes: tuple[int, ...], ngrams: Any) -> None:
    """Raise FormatError for a code that its book does not have; ngrams: how many codes are of each length."""
    if np.any(codes >= np.repeat(np.array(sizes, np.int64), ngrams)):
        raise damaged("a code stands for no number of its book")
