"""Arrays that are kept from step to step, so that no page of memory is asked for twice."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ostinato.kernels.packing import aligned


class Memory:
    """Arrays by name. Contents are zeros at first, then whatever was last written."""

    def __init__(self) -> None:
        self._held: dict[str, NDArray[Any]] = {}

    def take(self, name: str, shape: tuple[int, ...], dtype: DTypeLike = np.float32) -> NDArray[Any]:
        """An array of that shape at the beginning of what `name` holds, which grows if need be."""
        size = math.prod(shape)
        held = self._held.get(name)
        if held is None or held.size < size:
            held = self._held[name] = aligned((size,), dtype)
        return held[:size].reshape(shape)
