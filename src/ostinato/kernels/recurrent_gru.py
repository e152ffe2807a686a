"""The recurrence of the GRU, its reset after or before the product, over a whole sequence; see `recurrent`.

A token's blocks are reset, update, candidate and, for a reset after the product, what the candidate gets from the
hidden state. The rows of reset and update are one recurrent matrix here, those of the candidate another.
"""

from __future__ import annotations

import numba
import numpy as np

from ostinato.kernels.maths import ONE, tanh32
from ostinato.kernels.recurrent import added, blame, narrowed, open_gates, propose, recall, show


@numba.njit(nogil=True, error_model="numpy", fastmath={"contract"})
def _propose(reset, sums, bias, recalled, recalled_bias):
    """The candidate of a row from its two sums, in place; the second gets its bias."""
    for j in range(reset.size):
        recalled[j] += recalled_bias[j]
        sums[j] = tanh32(sums[j] + bias[j] + reset[j] * recalled[j])


@numba.njit(nogil=True)
def _reset(reset, before, out):
    """What a reset before the product leaves of a row's hidden state."""
    for j in range(reset.size):
        out[j] = reset[j] * before[j]


@numba.njit(nogil=True)
def _update(update, candidate, before, after):
    """The new hidden state of a row."""
    for j in range(update.size):
        after[j] = candidate[j] + update[j] * (before[j] - candidate[j])


@numba.njit(nogil=True)
def _update_errors(update, candidate, before, hidden_errors, earlier):
    """The errors of the sums of update gate and candidate of a row, in place; `earlier`, those of the state before,
    gets what passes the update gate."""
    for j in range(update.size):
        z, n, error = update[j], candidate[j], hidden_errors[j]
        update[j] = error * (before[j] - n) * z * (ONE - z)
        candidate[j] = error * (ONE - z) * (ONE - n * n)
        earlier[j] += error * z


@numba.njit(nogil=True)
def _reset_errors_after(reset, candidate_errors, recalled):
    """The errors of the reset gate's sum and of what the candidate got from the hidden state, in place."""
    for j in range(reset.size):
        r, error = reset[j], candidate_errors[j]
        reset[j] = error * recalled[j] * r * (ONE - r)
        recalled[j] = error * r


@numba.njit(nogil=True)
def _reset_errors_before(reset, before, errors, earlier):
    """The errors of the reset gate's sum, in place, from those of what it left; `earlier` gets what passes it."""
    for j in range(reset.size):
        r, error = reset[j], errors[j]
        reset[j] = error * before[j] * r * (ONE - r)
        earlier[j] += error * r


@numba.njit(cache=True, nogil=True)
def forward_after(gates, vectors, weights, states, above, steps, rows, mask):
    """Read `steps` steps of `rows` rows, the reset after the product.

    gates: [steps * rows, 4H] float32: the products with the inputs in the first three blocks; the activations
    afterwards. vectors: [4H], the biases of the blocks. weights: both recurrent matrices, packed with H inside.
    states: hidden states [(steps + 1) * rows, H] float32 and the same [.., >= H] uint16, the first rows given. above:
    [steps * rows, >= H] uint16, the hidden states after dropout.
    """
    hidden, narrow = states
    size = hidden.shape[1]
    room = np.empty(size, np.float32)
    gate, candidate, recalled = slice(0, 2 * size), slice(2 * size, 3 * size), slice(3 * size, 4 * size)
    for step in range(steps):
        first = step * rows
        recall(narrow, first, rows, weights[0], gates, 0, 2 * size, 1)
        recall(narrow, first, rows, weights[1], gates, 3 * size, size, 0)
        for row in range(rows):
            at, now = gates[first + row], first + rows + row
            open_gates(at[gate], vectors[gate])
            _propose(at[:size], at[candidate], vectors[candidate], at[recalled], vectors[recalled])
            _update(at[size : 2 * size], at[candidate], hidden[first + row], hidden[now])
            narrowed(hidden[now], narrow[now])
            show(hidden[now], above[first + row], room, mask, first + row)


@numba.njit(cache=True, nogil=True)
def backward_after(gates, vectors, weights, states, narrow_errors, hidden_errors, vector_errors, carried, steps, rows):
    """The errors of all gate sums, from the last step to the first, the reset after the product.

    gates: the activations of `forward_after`; overwritten. weights: both matrices packed with their rows inside.
    narrow_errors: [steps * rows, >= 4H] uint16, filled. hidden_errors: [steps * rows, H] float32, the errors that
    come from above; overwritten. vector_errors: [4H], added to. carried: [rows, H], those of the states before the
    first step are added to it, but for what comes through the recurrent matrices' first products.
    """
    hidden = states[0]
    size = hidden.shape[1]
    for step in range(steps - 1, -1, -1):
        first = step * rows
        if step + 1 < steps:
            blame(narrow_errors, first + rows, 0, rows, weights[0], hidden_errors, first, 1)
            blame(narrow_errors, first + rows, 3 * size, rows, weights[1], hidden_errors, first, 1)
        for row in range(rows):
            at = gates[first + row]
            earlier = hidden_errors[first - rows + row] if step else carried[row]
            candidate = at[2 * size : 3 * size]
            _update_errors(at[size : 2 * size], candidate, hidden[first + row], hidden_errors[first + row], earlier)
            _reset_errors_after(at[:size], candidate, at[3 * size :])
            narrowed(at, narrow_errors[first + row])
            added(at, vector_errors)


@numba.njit(cache=True, nogil=True)
def forward_before(gates, vectors, weights, states, above, steps, rows, mask):
    """Read `steps` steps of `rows` rows, the reset before the product.

    As `forward_after`, with three blocks; states has a third array [steps * rows, >= H] uint16, filled with what the
    reset leaves of the hidden states.
    """
    hidden, narrow, left = states
    size = hidden.shape[1]
    room = np.empty(size, np.float32)
    gate, candidate = slice(0, 2 * size), slice(2 * size, 3 * size)
    for step in range(steps):
        first = step * rows
        recall(narrow, first, rows, weights[0], gates, 0, 2 * size, 1)
        for row in range(rows):
            at = gates[first + row]
            open_gates(at[gate], vectors[gate])
            _reset(at[:size], hidden[first + row], room)
            narrowed(room, left[first + row])
        recall(left, first, rows, weights[1], gates, 2 * size, size, 1)
        for row in range(rows):
            at, now = gates[first + row], first + rows + row
            propose(at[candidate], vectors[candidate])
            _update(at[size : 2 * size], at[candidate], hidden[first + row], hidden[now])
            narrowed(hidden[now], narrow[now])
            show(hidden[now], above[first + row], room, mask, first + row)


@numba.njit(cache=True, nogil=True)
def backward_before(gates, vectors, weights, states, narrow_errors, hidden_errors, vector_errors, carried, steps, rows):
    """The errors of all gate sums, the reset before the product; as `backward_after`, with three blocks."""
    hidden = states[0]
    size = hidden.shape[1]
    errors = np.empty((rows, size), np.float32)
    for step in range(steps - 1, -1, -1):
        first = step * rows
        if step + 1 < steps:
            blame(narrow_errors, first + rows, 0, rows, weights[0], hidden_errors, first, 1)
        for row in range(rows):
            at = gates[first + row]
            earlier = hidden_errors[first - rows + row] if step else carried[row]
            candidate = at[2 * size :]
            _update_errors(at[size : 2 * size], candidate, hidden[first + row], hidden_errors[first + row], earlier)
            narrowed(candidate, narrow_errors[first + row, 2 * size : 3 * size])
        blame(narrow_errors, first, 2 * size, rows, weights[1], errors, 0, 0)
        for row in range(rows):
            at = gates[first + row]
            earlier = hidden_errors[first - rows + row] if step else carried[row]
            _reset_errors_before(at[:size], hidden[first + row], errors[row], earlier)
            narrowed(at[: 2 * size], narrow_errors[first + row])
            added(at, vector_errors)
