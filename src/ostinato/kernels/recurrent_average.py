"""The recurrence of minGRU and minLSTM over a whole sequence, for the rows of one thread; see `recurrent`.

The gates read the input alone, so nothing is multiplied by a matrix between two steps. The state is a running average,
h' = h + w (n - h). A token's blocks are update and candidate, or input gate, forget gate and candidate.
"""

from __future__ import annotations

import numba
import numpy as np

from ostinato.kernels.maths import HALF, ONE, sigmoid32
from ostinato.kernels.recurrent import added, narrowed, open_gates, show

UPDATE, GATES = 0, 1
"""What weighs the candidate: an update gate, or the share of the input gate in the sum of input and forget gate."""


@numba.njit(nogil=True, error_model="numpy", fastmath={"contract"})
def _propose(sums, bias):
    """The candidate of a row from its sum, in place: x + 0.5 or sigmoid(x), whichever is larger [Feng2024]."""
    for j in range(sums.size):
        x = sums[j] + bias[j]
        sums[j] = max(x + HALF, sigmoid32(x))


@numba.njit(nogil=True)
def _average(update, candidate, before, after):
    """The new hidden state of a row."""
    for j in range(update.size):
        after[j] = before[j] + update[j] * (candidate[j] - before[j])


@numba.njit(nogil=True, error_model="numpy")
def _average_gates(opened, kept, candidate, before, after):
    """The new hidden state of a row with two gates."""
    for j in range(opened.size):
        after[j] = before[j] + opened[j] / (opened[j] + kept[j]) * (candidate[j] - before[j])


@numba.njit(inline="always")
def _slope(candidate):
    """Of the candidate by its sum."""
    return ONE if candidate >= HALF else candidate * (ONE - candidate)


@numba.njit(nogil=True)
def _errors(update, candidate, before, hidden_errors, earlier):
    """The errors of both sums of a row, in place; `earlier`, those of the state before, gets what is kept of it."""
    for j in range(update.size):
        z, n, error = update[j], candidate[j], hidden_errors[j]
        update[j] = error * (n - before[j]) * z * (ONE - z)
        candidate[j] = error * z * _slope(n)
        earlier[j] += error * (ONE - z)


@numba.njit(nogil=True, error_model="numpy")
def _gate_errors(opened, kept, candidate, before, hidden_errors, earlier):
    """The same with two gates: the weight's logit is ln sigmoid(input gate's sum) - ln sigmoid(forget gate's sum)."""
    for j in range(opened.size):
        i, f, n, error = opened[j], kept[j], candidate[j], hidden_errors[j]
        weight = i / (i + f)
        logit = error * (n - before[j]) * weight * (ONE - weight)
        opened[j] = logit * (ONE - i)
        kept[j] = -logit * (ONE - f)
        candidate[j] = error * weight * _slope(n)
        earlier[j] += error * (ONE - weight)


@numba.njit(cache=True, nogil=True)
def forward(form, gates, bias, weights, states, above, steps, rows, mask):
    """Read `steps` steps of `rows` rows.

    form: UPDATE or GATES. gates: [steps * rows, blocks * H] float32: the products with the inputs; the activations
    afterwards. bias: [blocks * H]. weights: no matrices. states: hidden states [(steps + 1) * rows, H] float32, the
    first rows given, and others that are left alone. above: [steps * rows, >= H] uint16, the hidden states after
    dropout.
    """
    hidden = states[0]
    size = hidden.shape[1]
    room, last = np.empty(size, np.float32), gates.shape[1] - size
    for token in range(steps * rows):
        at, before, after = gates[token], hidden[token], hidden[rows + token]
        open_gates(at[:last], bias[:last])
        _propose(at[last:], bias[last:])
        if form == UPDATE:
            _average(at[:size], at[last:], before, after)
        else:
            _average_gates(at[:size], at[size:last], at[last:], before, after)
        show(after, above[token], room, mask, token)


@numba.njit(cache=True, nogil=True)
def backward(form, gates, bias, weights, states, narrow_errors, hidden_errors, bias_errors, carried, steps, rows):
    """The errors of all sums, from the last step to the first.

    gates: the activations of `forward`; overwritten. narrow_errors: [steps * rows, >= blocks * H] uint16, filled.
    hidden_errors: [steps * rows, H] float32, the errors that come from above; overwritten. bias_errors: [blocks * H],
    added to. carried: [rows, H], the errors of the states before the first step are added to it.
    """
    hidden = states[0]
    size = hidden.shape[1]
    last = gates.shape[1] - size
    for token in range(steps * rows - 1, -1, -1):
        at, errors = gates[token], hidden_errors[token]
        earlier = hidden_errors[token - rows] if token >= rows else carried[token]
        if form == UPDATE:
            _errors(at[:size], at[last:], hidden[token], errors, earlier)
        else:
            _gate_errors(at[:size], at[size:last], at[last:], hidden[token], errors, earlier)
        narrowed(at, narrow_errors[token])
        added(at, bias_errors)
