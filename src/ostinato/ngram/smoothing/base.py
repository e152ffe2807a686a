"""What a smoothing is: options that turn counts into a back-off table."""

from __future__ import annotations

from typing import Any, Protocol

from numpy.typing import NDArray

from ostinato.core.registry import Registry
from ostinato.ngram.counts import Counts
from ostinato.ngram.table import BackoffTable


class Smoothing(Protocol):
    """Frozen options with one method."""

    def fit(
        self, counts: Counts, heldout: NDArray[Any] | None = None, thresholds: tuple[int, ...] = ()
    ) -> BackoffTable:
        """The probabilities and back-offs of every counted n-gram; they sum to one if `normalised`.

        heldout: [T] ids of another text, lines ended by the stop symbol, on which a smoothing that has numbers
            to choose chooses them; the others do not look at it.
        thresholds: of orders 1, 2, ..., the last for all higher: n-grams that occur so often or less are
            pruned. Words never are, so the first is 0.
        Never fails for counts: what stood in for numbers that a small text does not give is in the table's notes.
        Raises ConfigError for impossible thresholds, DataError or MismatchError for an impossible held-out text.
        """


smoothings: Registry[type[Smoothing]] = Registry("smoothing")
"""Every smoothing under its usual name; each file beside this one puts its own here."""
