"""Character n-grams of words, so that words never seen have vectors too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import ConfigError


@dataclass(frozen=True)
class Subwords:
    """The n-grams of `least` to `most` characters of "<word>", hashed into `buckets`, as fastText does.

    Raises ConfigError for lengths or a number of buckets that make no sense.
    Source: [Bojanowski2017].
    """

    least: int = 3
    most: int = 6
    buckets: int = 2_000_000

    def __post_init__(self) -> None:
        if not 1 <= self.least <= self.most:
            raise ConfigError(f"n-grams of {self.least} to {self.most} characters cannot be; 3 to 6 are usual")
        if not 1 <= self.buckets < 1 << 31:
            raise ConfigError(f"there must be 1 to 2**31 - 1 buckets, got {self.buckets:,}; 2,000,000 are usual")

    def ngrams(self, word: str) -> NDArray[np.int32]:
        """The bucket of every n-gram of a word, [N], in the order they stand, repeats included."""
        return self.table([word])[1]

    def table(self, words: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Those of many words: offsets [V + 1] into the buckets, and the buckets [N]."""
        from ostinato.kernels import ngrams as kernels

        spelled = [f"<{word}>".encode("utf8", "surrogatepass") for word in words]
        bounds = np.zeros(len(spelled) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, spelled), np.int64, len(spelled)), out=bounds[1:])
        blob = np.frombuffer(b"".join(spelled), np.uint8)
        offsets = np.empty_like(bounds)
        settings = blob, bounds, self.least, self.most, self.buckets, offsets
        kernels.all_ngrams(*settings, np.empty(0, np.int32))
        numbers = np.empty(offsets[-1], np.int32)
        kernels.all_ngrams(*settings, numbers)
        return offsets, numbers
