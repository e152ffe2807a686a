"""Dropout whose masks are hashes of numbers, so that forward and backward need not keep them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ostinato.kernels.recurrent import Mask


@dataclass(frozen=True)
class Dropout:
    """Which numbers are dropped: a share of all, by a seed. fixed: the same ones at every step."""

    share: float
    seed: int
    fixed: bool = False

    def part(self, number: int) -> Dropout:
        """Other numbers of the same share."""
        return replace(self, seed=(self.seed * 0x9E3779B1 + number * 0x7F4A7C15) % (1 << 31))

    def mask(self, rows: int, tokens: int) -> Mask:
        """As the kernels take it, for tokens that stand step by step, `rows` of them a step."""
        threshold = np.uint32(min(self.share * 2.0**32, 2.0**32 - 1))
        return Mask(self.seed, threshold, np.float32(1 / (1 - self.share)), max(1, rows if self.fixed else tokens))
