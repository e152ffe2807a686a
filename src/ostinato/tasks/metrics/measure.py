"""What all measures share: plain values for JSON, and precision, recall and F1 from three counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, ClassVar


@dataclass(frozen=True)
class Measure:
    """A measure of so many things (`count`), comparable with those of the same `signature`."""

    count: int
    signature: str

    shown: ClassVar[tuple[str, ...]] = ()
    """Computed values that `to_json` adds."""

    def to_json(self) -> dict[str, Any]:
        """The measure as plain values."""
        return {name: getattr(self, name) for name in self.shown} | asdict(self)


@dataclass(frozen=True)
class Agreement:
    """How often one label was right: `right` of `predicted` answers and of `support` in the reference."""

    label: str
    right: int
    predicted: int
    support: int

    @property
    def precision(self) -> float:
        """The share of the answers that is right; 0 if there are none."""
        return self.right / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """The share of the reference that was found; 0 if it is empty."""
        return self.right / self.support if self.support else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of the two: 2 right / (predicted + support); 0 if both are empty."""
        return 2 * self.right / (self.predicted + self.support) if self.predicted + self.support else 0.0

    def to_json(self) -> dict[str, Any]:
        """The counts and what follows from them."""
        return asdict(self) | {"precision": self.precision, "recall": self.recall, "f1": self.f1}


def agreements(right: Counter[str], predicted: Counter[str], support: Counter[str]) -> tuple[Agreement, ...]:
    """One for each label that is in the answers or in the reference, by label."""
    labels = sorted(support | predicted)
    return tuple(Agreement(label, right[label], predicted[label], support[label]) for label in labels)


def together(parts: Iterable[Agreement], label: str = "all") -> Agreement:
    """The counts of all labels as one: its f1 is the micro average."""
    found = list(parts)
    return Agreement(
        label,
        sum(part.right for part in found),
        sum(part.predicted for part in found),
        sum(part.support for part in found),
    )


def mean_f1(parts: Iterable[Agreement]) -> float:
    """The mean F1 over labels, each counted alike: the macro average; 0 if there are none."""
    found = [part.f1 for part in parts]
    return sum(found) / len(found) if found else 0.0


def most_common(found: Counter[str]) -> tuple[tuple[str, int], ...]:
    """Names and how often they came, most often first, then by name."""
    return tuple(sorted(found.items(), key=lambda item: (-item[1], item[0])))
