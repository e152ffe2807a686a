"""The recurrence of the layer-normalised LSTM over a whole sequence, for the rows of one thread; see `recurrent`.

A token has eight blocks: the products of input, forget, candidate and output with the input, and those with the hidden
state. Either four are normalised together. They are kept as they are; what comes after them is made again on the way
back, which is little beside the products [Ba2016].
"""

from __future__ import annotations

import numba
import numpy as np

from ostinato.kernels.joining import normalise, normalise_errors, stretch, stretch_errors
from ostinato.kernels.maths import ONE, tanh32
from ostinato.kernels.recurrent import added, blame, narrowed, open_gates, propose, recall, show
from ostinato.kernels.recurrent_lstm import FORGET, read, remember, remember_errors

EPSILON = np.float32(1e-5)
"""What torch adds to a variance."""


@numba.njit(nogil=True)
def _join(normal, gain, other, other_gain, out):
    """A row of sums, both parts with their gain."""
    for j in range(out.size):
        out[j] = normal[j] * gain[j] + other[j] * other_gain[j]


@numba.njit(nogil=True)
def _open(sums, bias, size):
    """The activations of a row from its sums, in place."""
    open_gates(sums[: 2 * size], bias[: 2 * size])
    propose(sums[2 * size : 3 * size], bias[2 * size : 3 * size])
    open_gates(sums[3 * size :], bias[3 * size :])


@numba.njit(cache=True, nogil=True)
def forward(gates, vectors, weights, states, above, steps, rows, mask):
    """Read `steps` steps of `rows` rows.

    gates: [steps * rows, 8H] float32: the products with the inputs in the first four blocks; those with the hidden
    states are filled in. vectors: the gains of both [4H], the bias [4H], gain and shift of the cell [H].
    weights, states, above: as the LSTM's, see `recurrent_lstm.forward`.
    """
    cells, narrow, hidden = states
    size = cells.shape[1]
    many = 4 * size
    gain, other_gain, bias = vectors[:many], vectors[many : 2 * many], vectors[2 * many : 3 * many]
    cell_gain, cell_shift = vectors[3 * many : 3 * many + size], vectors[3 * many + size :]
    normal, other, opened = np.empty(many, np.float32), np.empty(many, np.float32), np.empty(many, np.float32)
    seen, room = np.empty(size, np.float32), np.empty(size, np.float32)
    for step in range(steps):
        first = step * rows
        shown = min(first, hidden.shape[0] - rows)
        recall(narrow, first, rows, weights[0], gates, many, many, 0)
        for row in range(rows):
            at, now = gates[first + row], first + rows + row
            after, out = cells[now], hidden[shown + row]
            normalise(at[:many], normal, EPSILON)
            normalise(at[many:], other, EPSILON)
            _join(normal, gain, other, other_gain, opened)
            _open(opened, bias, size)
            remember(FORGET, opened, cells[first + row], after, size)
            normalise(after, seen, EPSILON)
            stretch(seen, cell_gain, cell_shift, seen)
            read(opened[3 * size :], seen, out)
            narrowed(out, narrow[now])
            show(out, above[first + row], room, mask, first + row)


@numba.njit(nogil=True, error_model="numpy", fastmath={"contract"})
def _read_errors(output, normal, gain, shift, hidden_errors, seen_errors):
    """The errors of the normalised, stretched cell; the output gate becomes the error of its sum."""
    for j in range(output.size):
        seen, o = tanh32(normal[j] * gain[j] + shift[j]), output[j]
        seen_errors[j] = hidden_errors[j] * o * (ONE - seen * seen)
        output[j] = hidden_errors[j] * seen * o * (ONE - o)


@numba.njit(cache=True, nogil=True)
def backward(gates, vectors, weights, states, narrow_errors, hidden_errors, vector_errors, carried, steps, rows):
    """The errors of all products, from the last step to the first.

    gates: the products that `forward` kept; overwritten. narrow_errors: [steps * rows, >= 8H] uint16, filled.
    weights, hidden_errors, carried: as the LSTM's, see `recurrent_lstm.backward`. vector_errors: as vectors, added to.
    """
    cells = states[0]
    size = cells.shape[1]
    many = 4 * size
    gain, other_gain, bias = vectors[:many], vectors[many : 2 * many], vectors[2 * many : 3 * many]
    cell_gain, cell_shift = vectors[3 * many : 3 * many + size], vectors[3 * many + size :]
    gain_errors, other_gain_errors = vector_errors[:many], vector_errors[many : 2 * many]
    bias_errors, ignored = vector_errors[2 * many : 3 * many], np.zeros(many, np.float32)
    cell_gain_errors, cell_shift_errors = (
        vector_errors[3 * many : 3 * many + size],
        vector_errors[3 * many + size :],
    )
    normal, other, opened = np.empty(many, np.float32), np.empty(many, np.float32), np.empty(many, np.float32)
    seen, seen_errors = np.empty(size, np.float32), np.empty(size, np.float32)
    for step in range(steps - 1, -1, -1):
        first = step * rows
        if step + 1 < steps:
            blame(narrow_errors, first + rows, many, rows, weights[0], hidden_errors, first, 1)
        for row in range(rows):
            at, cell_errors = gates[first + row], carried[row]
            scale = normalise(at[:many], normal, EPSILON)
            other_scale = normalise(at[many:], other, EPSILON)
            _join(normal, gain, other, other_gain, opened)
            _open(opened, bias, size)
            cell_scale = normalise(cells[first + rows + row], seen, EPSILON)
            _read_errors(opened[3 * size :], seen, cell_gain, cell_shift, hidden_errors[first + row], seen_errors)
            stretch_errors(seen_errors, seen, cell_gain, seen_errors, cell_gain_errors, cell_shift_errors)
            normalise_errors(seen_errors, seen, cell_scale)
            added(seen_errors, cell_errors)
            remember_errors(FORGET, opened, cells[first + row], cell_errors, size)
            stretch_errors(opened, normal, gain, at[:many], gain_errors, bias_errors)
            normalise_errors(at[:many], normal, scale)
            stretch_errors(opened, other, other_gain, at[many:], other_gain_errors, ignored)
            normalise_errors(at[many:], other, other_scale)
            narrowed(at, narrow_errors[first + row])
