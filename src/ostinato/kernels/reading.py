"""Reading memory as fast as one core can: what other kernels' speed is held against."""

from __future__ import annotations

import numba


@numba.njit(cache=True, nogil=True)
def read_again(values, times):
    """The sum of int64 values [N], made `times` times; every time all of them are read."""
    total = 0
    for turn in range(times):
        part = 0
        for place in range(len(values)):
            part += values[place]
        total ^= part + turn
    return total
