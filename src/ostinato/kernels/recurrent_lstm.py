"""The recurrence of the LSTM and its forms over a whole sequence, for the rows of one thread; see `recurrent`.

A token's blocks are input, forget (only where there is such a gate), candidate and output.
"""

from __future__ import annotations

import numba
import numpy as np

from ostinato.kernels.maths import ONE, tanh32
from ostinato.kernels.recurrent import added, blame, narrowed, open_gates, propose, recall, show

FORGET, ADD, COUPLED, PEEPHOLE = 0, 1, 2, 3
"""Forms: c' = f * c + i * g; c' = c + i * g; c' = (1 - i) * c + i * g; as the first, with gates that see the cell."""


@numba.njit(nogil=True)
def _see(sums, cell, peephole):
    """Add to a gate's sum what it sees of the cell."""
    for j in range(sums.size):
        sums[j] += cell[j] * peephole[j]


@numba.njit(nogil=True)
def remember(form, gates, before, after, size):
    """The new cell state of a row."""
    write, candidate = gates[:size], gates[gates.size - 2 * size : gates.size - size]
    if form == ADD:
        for j in range(size):
            after[j] = before[j] + write[j] * candidate[j]
    elif form == COUPLED:
        for j in range(size):
            after[j] = before[j] + write[j] * (candidate[j] - before[j])
    else:
        forget = gates[size : 2 * size]
        for j in range(size):
            after[j] = forget[j] * before[j] + write[j] * candidate[j]


@numba.njit(nogil=True, error_model="numpy", fastmath={"contract"})
def read(output, cell, hidden):
    """The hidden state of a row."""
    for j in range(output.size):
        hidden[j] = output[j] * tanh32(cell[j])


@numba.njit(cache=True, nogil=True)
def forward(form, gates, vectors, weights, states, above, steps, rows, mask):
    """Read `steps` steps of `rows` rows.

    gates: [steps * rows, blocks * H] float32: the products with the inputs; the activations afterwards. vectors: the
    bias [blocks * H], after it the peepholes of input, forget and output gate if there are any. weights: the recurrent
    matrix, packed with H inside. states: cells [(steps + 1) * rows, H] float32, hidden states [(steps + 1) * rows,
    >= H] uint16, the first rows of both given; hidden states [rows or steps * rows, H] float32, the last ones or all.
    above: [steps * rows, >= H] uint16, what the next layer reads: the hidden states after dropout.
    """
    cells, narrow, hidden = states
    size, many = cells.shape[1], gates.shape[1]
    room = np.empty(size, np.float32)
    opened, last = many - 2 * size, many - size
    gate_bias, candidate_bias, output_bias = vectors[:opened], vectors[opened:last], vectors[last:many]
    peepholes = vectors[many:]
    for step in range(steps):
        first = step * rows
        shown = min(first, hidden.shape[0] - rows)
        recall(narrow, first, rows, weights[0], gates, 0, many, 1)
        for row in range(rows):
            at, now = gates[first + row], first + rows + row
            before, after, out = cells[first + row], cells[now], hidden[shown + row]
            if form == PEEPHOLE:
                _see(at[:size], before, peepholes[:size])
                _see(at[size : 2 * size], before, peepholes[size : 2 * size])
            open_gates(at[:opened], gate_bias)
            propose(at[opened:last], candidate_bias)
            remember(form, at, before, after, size)
            if form == PEEPHOLE:
                _see(at[last:], after, peepholes[2 * size :])
            open_gates(at[last:], output_bias)
            read(at[last:], after, out)
            narrowed(out, narrow[now])
            show(out, above[first + row], room, mask, first + row)


@numba.njit(nogil=True, error_model="numpy", fastmath={"contract"})
def _read_errors(output, cell, hidden_errors, cell_errors):
    """Add to a row's cell errors what comes through the hidden state; the output gate becomes the error of its sum."""
    for j in range(output.size):
        shown = tanh32(cell[j])
        o = output[j]
        cell_errors[j] += hidden_errors[j] * o * (ONE - shown * shown)
        output[j] = hidden_errors[j] * shown * o * (ONE - o)


@numba.njit(nogil=True)
def remember_errors(form, gates, before, cell_errors, size):
    """The errors of the other gates' sums of a row, in place; the cell errors of the step before."""
    write, candidate = gates[:size], gates[gates.size - 2 * size : gates.size - size]
    if form == ADD:
        for j in range(size):
            i, g, error = write[j], candidate[j], cell_errors[j]
            write[j] = error * g * i * (ONE - i)
            candidate[j] = error * i * (ONE - g * g)
    elif form == COUPLED:
        for j in range(size):
            i, g, error = write[j], candidate[j], cell_errors[j]
            write[j] = error * (g - before[j]) * i * (ONE - i)
            candidate[j] = error * i * (ONE - g * g)
            cell_errors[j] = error * (ONE - i)
    else:
        forget = gates[size : 2 * size]
        for j in range(size):
            i, f, g, error = write[j], forget[j], candidate[j], cell_errors[j]
            write[j] = error * g * i * (ONE - i)
            candidate[j] = error * i * (ONE - g * g)
            forget[j] = error * before[j] * f * (ONE - f)
            cell_errors[j] = error * f


@numba.njit(nogil=True)
def _see_errors(sum_errors, cell, peephole, cell_errors, peephole_errors):
    """The errors of a cell and its peephole from those of the gate's sum, a row; both are added to."""
    for j in range(sum_errors.size):
        cell_errors[j] += sum_errors[j] * peephole[j]
        peephole_errors[j] += sum_errors[j] * cell[j]


@numba.njit(cache=True, nogil=True)
def backward(form, gates, vectors, weights, states, narrow_errors, hidden_errors, vector_errors, carried, steps, rows):
    """The errors of all gate sums, from the last step to the first.

    gates: the activations of `forward`; overwritten. weights: the recurrent matrix packed with its rows inside.
    narrow_errors: [steps * rows, >= blocks * H] uint16, filled. hidden_errors: [steps * rows, H] float32, the errors
    that come from above; overwritten. vector_errors: as vectors, added to. carried: [rows, H], the errors of the cells
    after the last step that come from later ones; those of the cells before the first step afterwards.
    """
    cells = states[0]
    size, many = cells.shape[1], gates.shape[1]
    bias_errors, peepholes, peephole_errors = vector_errors[:many], vectors[many:], vector_errors[many:]
    for step in range(steps - 1, -1, -1):
        first = step * rows
        if step + 1 < steps:
            blame(narrow_errors, first + rows, 0, rows, weights[0], hidden_errors, first, 1)
        for row in range(rows):
            at, cell_errors = gates[first + row], carried[row]
            before, after = cells[first + row], cells[first + rows + row]
            _read_errors(at[many - size :], after, hidden_errors[first + row], cell_errors)
            if form == PEEPHOLE:
                _see_errors(at[many - size :], after, peepholes[2 * size :], cell_errors, peephole_errors[2 * size :])
            remember_errors(form, at, before, cell_errors, size)
            if form == PEEPHOLE:
                for gate in range(2):
                    part = slice(gate * size, (gate + 1) * size)
                    _see_errors(at[part], before, peepholes[part], cell_errors, peephole_errors[part])
            narrowed(at, narrow_errors[first + row])
            added(at, bias_errors)
