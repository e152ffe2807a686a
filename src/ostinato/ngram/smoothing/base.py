"""What a smoothing is: options that turn counts into a back-off table."""

from __future__ import annotations

from typing import Protocol

from ostinato.core.registry import Registry
from ostinato.ngram.counts import Counts
from ostinato.ngram.table import BackoffTable


class Smoothing(Protocol):
    """Frozen options with one method."""

    def fit(self, counts: Counts) -> BackoffTable:
        """The probabilities and back-offs of every counted n-gram; the distributions sum to one."""


smoothings: Registry[type[Smoothing]] = Registry("smoothing")
"""Every smoothing under its usual name; each file beside this one puts its own here."""
