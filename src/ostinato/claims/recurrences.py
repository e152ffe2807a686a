"""Gradients through many steps of the product's own Elman cell, by automatic differentiation, in double precision."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from ostinato.nn.cells import Cell, cells
from ostinato.nn.cells.elman import ElmanState
from ostinato.nn.unroll import unroll

Array = NDArray[np.float64]


def products(w: Array, u: Array, xs: Array) -> Array:
    """d h_T / d h_t [T + 1, B, N] for t = 0..T, of N units h' = tanh(w h + u x) from h_0 = 0.

    w, u: [N]. xs: [B, T, N], a row for each sequence of inputs. By automatic differentiation
    through a cell whose matrices are diagonal.
    """
    cell = elman(np.diag(w), np.diag(u))
    state = ElmanState(cell.zeros(len(xs)).requires_grad_())
    outputs, _, _ = unroll(cell, state, torch.from_numpy(xs))
    found = torch.autograd.grad(outputs[-1].sum(), [state.hidden, *outputs])
    array: Array = torch.stack(found).numpy()
    return array


def gradient_norms(recurrent: Array, xs: Array, direction: Array) -> Array:
    """The norm [T + 1, B] of d (v h_T) / d h_t for t = 0..T, h' = tanh(W h + x) from h_0 = 0.

    recurrent: W [H, H]. xs: [B, T, H]. direction: v [H].
    """
    cell = elman(recurrent, np.eye(len(recurrent)))
    state = ElmanState(cell.zeros(len(xs)).requires_grad_())
    outputs, _, _ = unroll(cell, state, torch.from_numpy(xs))
    found = torch.autograd.grad((outputs[-1] @ torch.from_numpy(direction)).sum(), [state.hidden, *outputs])
    array: Array = torch.stack(found).norm(dim=-1).numpy()
    return array


def elman(recurrent: Array, inputs: Array) -> Cell:
    """h' = tanh(W h + U x) in double precision, W and U as given."""
    cell = cells["rnn"](inputs.shape[1], len(recurrent)).double()
    with torch.no_grad():
        cell.recurrent_matrices()[0].copy_(torch.from_numpy(recurrent))
        cell.input_matrices()[0].copy_(torch.from_numpy(inputs))
        cell.get_parameter("from_input.bias").zero_()
    return cell


def orthogonal(rng: np.random.Generator, size: int) -> Array:
    """A matrix drawn evenly from all orthogonal ones [size, size] [Saxe2014]."""
    q, r = np.linalg.qr(rng.standard_normal((size, size)))
    return np.asarray(q * np.sign(np.diag(r)))
