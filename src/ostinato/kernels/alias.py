"""Draws from a fixed distribution in constant time [Walker1974]."""

# mypy: ignore-errors
# (Numba gives variables their types)

from __future__ import annotations

import numba
import numpy as np


@numba.njit(inline="always")
def draw(threshold, other, random):
    """A number drawn from an alias table by 64 random bits: the upper half takes the slot, the lower one tosses."""
    slot = np.int64(((random >> np.uint64(32)) * np.uint64(threshold.size)) >> np.uint64(32))
    alias, own = other[slot], np.int32(slot)
    return own + (alias - own) * np.int32(np.uint32(random) > threshold[slot])  # a branch would be guessed wrongly
