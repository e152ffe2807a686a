"""The recurrence of the simple recurrent network over a whole sequence, for the rows of one thread; see `recurrent`."""

from __future__ import annotations

import numba
import numpy as np

from ostinato.kernels.maths import ONE, sigmoid32, tanh32
from ostinato.kernels.recurrent import added, blame, narrowed, recall, show

TANH, RELU, SIGMOID = 0, 1, 2


@numba.njit(nogil=True, error_model="numpy", fastmath={"contract"})
def _activate(activation, sums, bias, hidden):
    """The hidden state of a row."""
    if activation == TANH:
        for j in range(sums.size):
            hidden[j] = tanh32(sums[j] + bias[j])
    elif activation == RELU:
        for j in range(sums.size):
            hidden[j] = max(sums[j] + bias[j], np.float32(0))
    else:
        for j in range(sums.size):
            hidden[j] = sigmoid32(sums[j] + bias[j])


@numba.njit(cache=True, nogil=True)
def forward(activation, sums, bias, weights, states, above, steps, rows, mask):
    """Read `steps` steps of `rows` rows.

    sums: [steps * rows, H] float32, the products with the inputs; overwritten. bias: [H]. weights: the recurrent
    matrix, packed with H inside. states: hidden states [(steps + 1) * rows, H] float32 and the same [.., >= H]
    uint16, the first rows given. above: [steps * rows, >= H] uint16, the hidden states after dropout.
    """
    hidden, narrow = states
    size = hidden.shape[1]
    room = np.empty(size, np.float32)
    for step in range(steps):
        first = step * rows
        recall(narrow, first, rows, weights[0], sums, 0, size, 1)
        for row in range(rows):
            now = first + rows + row
            _activate(activation, sums[first + row], bias, hidden[now])
            narrowed(hidden[now], narrow[now])
            show(hidden[now], above[first + row], room, mask, first + row)


@numba.njit(nogil=True)
def _activate_errors(activation, hidden, hidden_errors, errors):
    """The errors of a row's sums."""
    if activation == TANH:
        for j in range(hidden.size):
            errors[j] = hidden_errors[j] * (ONE - hidden[j] * hidden[j])
    elif activation == RELU:
        for j in range(hidden.size):
            errors[j] = hidden_errors[j] if hidden[j] > 0 else np.float32(0)
    else:
        for j in range(hidden.size):
            errors[j] = hidden_errors[j] * hidden[j] * (ONE - hidden[j])


@numba.njit(cache=True, nogil=True)
def backward(activation, sums, bias, weights, states, narrow_errors, hidden_errors, bias_errors, carried, steps, rows):
    """The errors of all sums, from the last step to the first.

    sums: overwritten. weights: the recurrent matrix packed with its rows inside. narrow_errors: [steps * rows, >= H]
    uint16, filled. hidden_errors: [steps * rows, H] float32, the errors that come from above; overwritten.
    bias_errors: [H], added to. carried: left alone, since all errors of a state before come through the matrix.
    """
    hidden = states[0]
    for step in range(steps - 1, -1, -1):
        first = step * rows
        if step + 1 < steps:
            blame(narrow_errors, first + rows, 0, rows, weights[0], hidden_errors, first, 1)
        for row in range(rows):
            at = sums[first + row]
            _activate_errors(activation, hidden[first + rows + row], hidden_errors[first + row], at)
            narrowed(at, narrow_errors[first + row])
            added(at, bias_errors)
