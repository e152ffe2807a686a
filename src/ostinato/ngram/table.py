"""The back-off table: what every smoothing delivers, and all that a query needs.

A trie (ngram/trie.py) whose nodes carry a log-prob and a log back-off, laid out so that a step of a query reads
one or two cache lines. An ARPA file is this table written down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ostinato.ngram import blocks
from ostinato.ngram.trie import Nodes, Trie, damaged

Logs: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class BackoffTable:
    """Log-probs and back-offs of N nodes, the first M of them inner; read-only.

    rows: [3 R] int32, a block for each context, in the order of the nodes: a header, then a row for each child.
        header: row of its suffix's header, log back-off, -1 - 2 places (- 1 if children are hashed).
        child: its word, log-prob, row of the header of the longest context that matters after it.
        Up to WIDE children, and all those of the empty context, stand sorted by word; more are hashed into 5/3 as
        many places, rows without a child having the word -1. Logs are float32, nats, bit for bit; minus infinity
        for the start symbol, which nothing predicts.
    ngrams: how many n-grams there are of each order. smoothing: its registered name.
    normalised: whether the distributions sum to one (stupid back-off gives scores).
    discounts: what was subtracted, a list an order. notes: said to the user.
    A state is the row of a header. A log back-off is 0 for a context that was never continued.
    """

    rows: Nodes
    ngrams: tuple[int, ...]
    smoothing: str
    normalised: bool = True
    discounts: tuple[tuple[float, ...], ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", read_only(self.rows))
        if not self.ngrams or min(self.ngrams) < 0 or self.ngrams[0] < 2:
            raise damaged(f"n-gram numbers {self.ngrams}")
        if len(self.rows) % 3 or len(self.rows) < 3 * self.nodes or self.rows[2] != -1 - 2 * self.ngrams[0]:
            raise damaged(f"{len(self.rows)} numbers do not hold {self.nodes} nodes")

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
    def sentence_start(self) -> int:
        """The state after the start symbol."""
        return int(self.rows[3 * self.ngrams[0] + 2])

    @property
    def parameters(self) -> int:
        """How many numbers the model consists of: a probability an n-gram and a back-off a context."""
        contexts = int(np.count_nonzero(self.rows[2::3] < 0)) - 1
        return self.nodes - 2 + contexts

    def is_state(self, states: NDArray[np.int64]) -> bool:
        """Whether all of these are states of this table."""
        if not states.size:
            return True
        inside = 0 <= int(states.min()) and 3 * int(states.max()) < len(self.rows)
        return inside and bool((self.rows[3 * states + 2] < 0).all())

    def contents(self) -> tuple[Trie, Logs, Logs]:
        """The n-grams, the log-prob of each node's last word after its context, [N], and the log back-offs, [M].

        Copies; nats. Raises FormatError if the rows are damaged.
        """
        trie, log_prob, log_backoff = blocks.read(self.rows, self.ngrams)
        return trie, log_prob.view(np.float32), log_backoff.view(np.float32)

    def trie(self) -> Trie:
        """The n-grams without their numbers; a copy, see `contents`."""
        return self.contents()[0]

    def log_prob(self) -> Logs:
        """The log-prob of every node's last word after its context, nats: [N], see `contents`."""
        return self.contents()[1]

    def log_backoff(self) -> Logs:
        """The log back-off of every inner node, nats: [M], see `contents`."""
        return self.contents()[2]

    @classmethod
    def build(cls, trie: Trie, log_prob: Logs, log_backoff: Logs, smoothing: str, **described: Any) -> BackoffTable:
        """The table of a trie with a log-prob for each node, [N], and a log back-off for each inner one, [M].

        described: normalised, discounts, notes.
        """
        layout = blocks.Layout(trie, log_backoff)
        rows = np.empty(3 * layout.rows, np.int32)
        layout.write_all(log_prob.view(np.int32), log_backoff.view(np.int32), blocks.into(rows))
        return cls(rows, trie.ngrams, smoothing, **described)

    def select(self, keep: NDArray[np.bool_], log_backoff: Logs | None = None, **changed: Any) -> BackoffTable:
        """The table of the nodes to keep, [N] (see `Trie.select`); log_backoff: [M] of all, None for the same."""
        whole, log_prob, backoffs = self.contents()
        trie, old = whole.select(keep)
        backoffs = backoffs if log_backoff is None else log_backoff
        table = BackoffTable.build(trie, log_prob[old], backoffs[old[: trie.inner]], self.smoothing)
        described = {"normalised": self.normalised, "discounts": self.discounts, "notes": self.notes}
        return table.described(**described | changed)

    def described(self, **changed: Any) -> BackoffTable:
        """The same numbers under another description."""
        return replace(self, **changed)

    def check(self) -> None:
        """Raise FormatError unless this is a valid table: then no kernel can go astray in it.

        It must be, row for row, what its n-grams and numbers are laid out as. Cost: a few passes over it.
        """
        trie, log_prob, log_backoff = self.contents()
        if np.any(np.isnan(log_prob)) or not np.all(log_backoff < np.inf) or not np.all(log_prob < np.inf):
            raise damaged("a log-prob or log back-off is infinite or not a number")
        if self.normalised and not np.all(log_prob <= 1e-5):
            raise damaged("a log-prob is above 0")
        again = BackoffTable.build(trie, log_prob, log_backoff, self.smoothing)
        if not np.array_equal(again.rows, self.rows):
            raise damaged("a link leads astray")

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays by name, to be stored."""
        return {"rows": self.rows}

    def metadata(self) -> dict[str, Any]:
        """Everything else, as JSON can hold it."""
        return described(self.ngrams, self.smoothing, self.normalised, self.discounts, self.notes)

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, Any], check: bool = True
    ) -> BackoffTable:
        """The table that `arrays` and `metadata` describe.

        check: read every number. Without it only sizes are checked, which takes no time.
        Raises FormatError for anything missing or not valid.
        """
        try:
            ngrams = tuple(int(number) for number in metadata["ngrams"])
            discounts = tuple(tuple(float(value) for value in values) for values in metadata["discounts"])
            smoothing, notes = str(metadata["smoothing"]), tuple(str(note) for note in metadata["notes"])
            stated, normalised = int(metadata["order"]), bool(metadata["normalised"])
            if stated != len(ngrams):
                raise damaged(f"order {stated} with the n-gram numbers of {len(ngrams)} orders")
            table = cls(arrays["rows"], ngrams, smoothing, normalised, discounts, notes)
        except (KeyError, TypeError, ValueError, OverflowError) as fault:
            raise damaged(f"{type(fault).__name__} {fault}") from None
        if check:
            table.check()
        return table


def described(
    ngrams: tuple[int, ...],
    smoothing: str,
    normalised: bool,
    discounts: tuple[tuple[float, ...], ...],
    notes: tuple[str, ...],
) -> dict[str, Any]:
    """What `BackoffTable.metadata` says."""
    return {
        "order": len(ngrams),
        "ngrams": list(ngrams),
        "smoothing": smoothing,
        "normalised": normalised,
        "discounts": [list(values) for values in discounts],
        "notes": list(notes),
    }


def read_only(array: NDArray[Any]) -> Nodes:
    """A read-only, aligned view that kernels can take (one kind of array, so one compiled kernel)."""
    if not isinstance(array, np.ndarray) or array.dtype != np.int32 or array.ndim != 1:
        raise damaged("rows must be one row of int32")
    view = np.require(array, np.int32, ["C", "A", "E"])[:]
    view.flags.writeable = False
    return view
