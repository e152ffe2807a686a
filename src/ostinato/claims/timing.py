"""How long work takes, and how that grows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence


def least(work: Callable[[], object], repeats: int) -> float:
    """The least seconds of processor that the work takes, after a first time that does not count."""
    work()
    taken = []
    for _ in range(repeats):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return max(min(taken), 1e-9)


def slope(xs: Sequence[float], ys: Sequence[float]) -> float:
    """The power p of y = a x^p that fits best, on logarithms; all numbers above zero."""
    x, y = [math.log(value) for value in xs], [math.log(value) for value in ys]
    mid_x, mid_y = sum(x) / len(x), sum(y) / len(y)
    across = sum((a - mid_x) ** 2 for a in x)
    return sum((a - mid_x) * (b - mid_y) for a, b in zip(x, y, strict=True)) / across
