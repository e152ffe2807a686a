"""Products of derivatives through units that do not see each other, by the product's own Elman cell."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from ostinato.nn.cells import cells
from ostinato.nn.cells.elman import ElmanState
from ostinato.nn.unroll import unroll

Array = NDArray[np.float64]


def products(w: Array, u: Array, xs: Array) -> Array:
    """d h_T / d h_t, [T + 1, B, N] for t = 0..T, of N units h' = tanh(w h + u x) from h_0 = 0.

    w, u: [N]. xs: [B, T, N], a row for each sequence of inputs. By automatic differentiation
    through a cell whose matrices are diagonal.
    """
    count = len(w)
    cell = cells["rnn"](count, count).double()
    with torch.no_grad():
        for matrix, diagonal in ((cell.recurrent_matrices()[0], w), (cell.input_matrices()[0], u)):
            matrix.copy_(torch.diag(torch.from_numpy(diagonal)))
        cell.get_parameter("from_input.bias").zero_()
    state = ElmanState(cell.zeros(len(xs)).requires_grad_())
    outputs, _, _ = unroll(cell, state, torch.from_numpy(xs))
    found = torch.autograd.grad(outputs[-1].sum(), [state.hidden, *outputs])
    array: Array = torch.stack(found).numpy()
    return array
