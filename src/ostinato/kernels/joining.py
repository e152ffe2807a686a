"""What stands between two layers: layer normalisation, the residual connection and dropout, row by row in float32."""

from __future__ import annotations

import math

import numba
import numpy as np

from ostinato.kernels.maths import ONE
from ostinato.kernels.recurrent import added, show


@numba.njit(nogil=True, fastmath={"reassoc"}, error_model="numpy")
def normalise(x, out, epsilon):
    """A row less its mean, over its standard deviation; returns one over the latter."""
    total, square, share = np.float32(0), np.float32(0), ONE / np.float32(x.size)
    for j in range(x.size):
        total += x[j]
    mean = total * share
    for j in range(x.size):
        difference = x[j] - mean
        out[j] = difference
        square += difference * difference
    scale = ONE / np.float32(math.sqrt(square * share + epsilon))
    for j in range(x.size):
        out[j] *= scale
    return scale


@numba.njit(nogil=True)
def stretch(normal, gain, shift, out):
    """A normalised row times the gain plus the shift."""
    for j in range(normal.size):
        out[j] = normal[j] * gain[j] + shift[j]


@numba.njit(cache=True, nogil=True)
def forward(outputs, norm, epsilon, lower, normal, scales, handed, above, mask):
    """What a layer hands on of its cell's outputs [N, H]: in `handed` [N, H] and, after dropout, in `above`.

    norm: gain and shift [2, H], or [0, H] for none. lower: [N, H], what the layer below handed on, or [0, H] for no
    residual connection. normal [N, H] and scales [N]: kept for `backward`. above: [N, >= H] uint16.
    """
    room = np.empty(outputs.shape[1], np.float32)
    for token in range(outputs.shape[0]):
        row = handed[token]
        if norm.size:
            scales[token] = normalise(outputs[token], normal[token], epsilon)
            stretch(normal[token], norm[0], norm[1], row)
        else:
            row[:] = outputs[token]
        if lower.size:
            added(lower[token], row)
        show(row, above[token], room, mask, token)


@numba.njit(nogil=True)
def stretch_errors(errors, normal, gain, out, gain_errors, shift_errors):
    """A row's errors before the gain; those of gain and shift are added to."""
    for j in range(errors.size):
        gain_errors[j] += errors[j] * normal[j]
        shift_errors[j] += errors[j]
        out[j] = errors[j] * gain[j]


@numba.njit(nogil=True, fastmath={"reassoc"})
def normalise_errors(errors, normal, scale):
    """A row's errors before the normalisation, in place: scale * (e - mean(e) - x * mean(e * x))."""
    total, product, share = np.float32(0), np.float32(0), ONE / np.float32(errors.size)
    for j in range(errors.size):
        total += errors[j]
        product += errors[j] * normal[j]
    mean, slope = total * share, product * share
    for j in range(errors.size):
        errors[j] = scale * (errors[j] - mean - normal[j] * slope)


@numba.njit(cache=True, nogil=True)
def backward(errors, norm, normal, scales, out, norm_errors):
    """The errors [N, H] of what a layer handed on as those of its cell's outputs, in `out` [N, H].

    norm, normal, scales: as `forward` was given and left them. norm_errors: [2, H], added to.
    """
    for token in range(errors.shape[0]):
        row = out[token]
        if norm.size:
            stretch_errors(errors[token], normal[token], norm[0], row, norm_errors[0], norm_errors[1])
            normalise_errors(row, normal[token], scales[token])
        else:
            row[:] = errors[token]
