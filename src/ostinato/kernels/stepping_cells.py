"""What the cells of kernels/stepping.py do with the sums of their gates; the equations stand in nn/cells.

totals: what the gates get, one behind the other, [gates * H] or more; `before`, `after`: the states [leaves, B, H],
of which those of a layer begin at `leaf`. Two loops a cell, since the compiler makes vectors of a loop
only while it has few arrays to tell apart.
"""

from __future__ import annotations

import numba
import numpy as np

from ostinato.kernels.maths import sigmoid32, tanh32

LSTM, LSTM_1997, LSTM_COUPLED, GRU, TANH, RELU = range(6)
"""The cells that are stepped."""

ZERO, ONE = np.float32(0), np.float32(1)


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def remember(i, f, g, cell, after):
    """after = f * cell + i * g, from sums of gates."""
    for k in range(after.size):
        after[k] = sigmoid32(f[k]) * cell[k] + sigmoid32(i[k]) * tanh32(g[k])


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def add_up(i, g, cell, after):
    """after = cell + i * g, from sums of gates."""
    for k in range(after.size):
        after[k] = cell[k] + sigmoid32(i[k]) * tanh32(g[k])


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def exchange(i, g, cell, after):
    """after = (1 - i) * cell + i * g, from sums of gates."""
    for k in range(after.size):
        share = sigmoid32(i[k])
        after[k] = (ONE - share) * cell[k] + share * tanh32(g[k])


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def show(o, cell, after):
    """after = o * tanh(cell), from the sum of the gate."""
    for k in range(after.size):
        after[k] = sigmoid32(o[k]) * tanh32(cell[k])


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def propose(r, r_h, n, n_h, candidate):
    """candidate = tanh(n + r * n_h), from sums of gates."""
    for k in range(candidate.size):
        candidate[k] = tanh32(n[k] + sigmoid32(r[k] + r_h[k]) * n_h[k])


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def blend(z, z_h, candidate, hidden, after):
    """after = (1 - z) * candidate + z * hidden, from sums of gates."""
    for k in range(after.size):
        kept = sigmoid32(z[k] + z_h[k])
        after[k] = (ONE - kept) * candidate[k] + kept * hidden[k]


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def squash(sums, after, relu):
    """after = tanh or relu of the sums."""
    if relu:
        for k in range(after.size):
            after[k] = max(sums[k], ZERO)
    else:
        for k in range(after.size):
            after[k] = tanh32(sums[k])


@numba.njit(cache=True, nogil=True)
def advance_cell(cell, totals, recurrent, before, after, leaf, row, spare):
    """Fill the states of one row of a layer. spare: scratch, [H] or more."""
    hidden, size = after[leaf, row], after.shape[2]
    one, two, three = totals[:size], totals[size : 2 * size], totals[2 * size : 3 * size]
    if cell == GRU:
        candidate = spare[:size]
        propose(one, recurrent[:size], three, recurrent[2 * size : 3 * size], candidate)
        blend(two, recurrent[size : 2 * size], candidate, before[leaf, row], hidden)
    elif cell in (TANH, RELU):
        squash(one, hidden, cell == RELU)
    else:
        old, new = before[leaf + 1, row], after[leaf + 1, row]
        if cell == LSTM:
            remember(one, two, three, old, new)
            show(totals[3 * size : 4 * size], new, hidden)
        elif cell == LSTM_1997:
            add_up(one, two, old, new)
            show(three, new, hidden)
        else:
            exchange(one, two, old, new)
            show(three, new, hidden)
