"""A model with a cache from its definition: a list of what was read, and one sum over it for each word.

Grave, Joulin, Usunier (2017), "Improving neural language models with a continuous cache"; nothing of src/ is imported.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


class SlowCache:
    """One row's cache: pairs of features and the word that followed, the oldest first."""

    def __init__(self, size: int, weight: float, theta: float, decay: float):
        self.size, self.weight, self.theta, self.decay = size, weight, theta, decay
        self.pairs: list[tuple[Sequence[float], int]] = []
        self.last: Sequence[float] | None = None

    def read(self, word: int, features: Sequence[float]) -> None:
        """Read a word; features: the model's after it."""
        if self.last is not None:
            self.pairs.append((self.last, word))
            self.pairs = self.pairs[-self.size :]
        self.last = features

    def probs(self, model: Sequence[float]) -> list[float]:
        """The mixed probability of every word, from the model's."""
        if not self.pairs:
            return list(model)
        assert self.last is not None
        strength = [0.0] * len(model)
        for age, (features, word) in enumerate(reversed(self.pairs)):
            alike = sum(a * b for a, b in zip(self.last, features, strict=True))
            strength[word] += math.exp(self.theta * alike) * self.decay**age
        total = sum(strength)
        return [(1 - self.weight) * p + self.weight * s / total for p, s in zip(model, strength, strict=True)]
