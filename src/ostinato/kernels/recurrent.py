"""What the recurrences of all cells share: rows in bfloat16, dropout by a hash, the product with the hidden states.

Rows of the batch do not depend on each other, so every thread takes rows of its own through all the steps and nobody
waits. Products with the inputs are made for all steps before, those with the hidden states step by step
[Appleyard2016]. They are bfloat16 with float32 sums; gates, states and all errors are float32. Tokens stand step by
step: step t's rows are t * rows .. (t + 1) * rows of every array. A token has its gates side by side, each of H
numbers: a block. One file for each kind of cell: `recurrent_lstm`, `recurrent_gru`, `recurrent_elman`.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from ostinato.kernels.maths import ONE, sigmoid32, tanh32, to_bf16
from ostinato.kernels.product import product

ODD, EVEN = np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35)


class Mask(NamedTuple):
    """Dropout of rows of numbers: which ones is said by a hash of the seed and their place."""

    seed: int
    threshold: np.uint32  # 0: nothing is dropped
    scale: np.float32  # what the others are multiplied by
    period: int  # after so many tokens the same places are dropped again


@numba.njit(inline="always")
def scrambled(number):
    """A whole number mixed up into 32 bits that look random (the finaliser of MurmurHash3, public domain)."""
    word = np.uint32(number)
    word = np.uint32(np.uint32(word ^ np.uint32(word >> np.uint32(16))) * ODD)
    word = np.uint32(np.uint32(word ^ np.uint32(word >> np.uint32(13))) * EVEN)
    return np.uint32(word ^ np.uint32(word >> np.uint32(16)))


@numba.njit(nogil=True)
def masked(x, out, mask, token):
    """Dropout of a token's row: out = x * scale where a hash of (seed, place) reaches the threshold, else 0."""
    place, threshold, scale = token % mask.period * x.size, mask.threshold, mask.scale
    start = scrambled(np.uint32(np.uint32(mask.seed) + np.uint32(place)))
    for j in range(x.size):
        kept = scrambled(np.uint32(start + np.uint32(j))) >= threshold
        out[j] = x[j] * scale if kept else np.float32(0)


@numba.njit(cache=True, nogil=True)
def draw_mask(seed, threshold, scale, out):
    """Fill out [N] with `scale` where a hash of (seed, place) reaches the threshold, else with zeros."""
    start, nothing = scrambled(seed), out.dtype.type(0)
    for j in range(out.size):
        out[j] = scale if scrambled(np.uint32(start + np.uint32(j))) >= threshold else nothing


@numba.njit(nogil=True)
def narrowed(x, out):
    """A row as bfloat16, at the beginning of out."""
    for j in range(x.size):
        out[j] = np.uint16(to_bf16(x[j]))


@numba.njit(nogil=True)
def added(x, out):
    """out += x, a row."""
    for j in range(x.size):
        out[j] += x[j]


@numba.njit(nogil=True, error_model="numpy", fastmath={"contract"})
def open_gates(sums, bias):
    """Sigmoid gates of a row from their sums, in place."""
    for j in range(sums.size):
        sums[j] = sigmoid32(sums[j] + bias[j])


@numba.njit(nogil=True, error_model="numpy", fastmath={"contract"})
def propose(sums, bias):
    """The candidate of a row from its sum, in place."""
    for j in range(sums.size):
        sums[j] = tanh32(sums[j] + bias[j])


@numba.njit(nogil=True)
def show(hidden, above, room, mask, token):
    """A token's hidden state as the next layer reads it: bfloat16, after dropout."""
    if mask.threshold:
        masked(hidden, room, mask, token)
        narrowed(room, above)
    else:
        narrowed(hidden, above)


@numba.njit(nogil=True)
def recall(narrow, first, rows, weights, sums, column, columns, add):
    """Products of hidden states with a recurrent matrix, in columns of the sums of a step that begins with row `first`.

    narrow: [N, width] uint16; weights: packed as a right side with H inside. add: 1 to add, 0 to write.
    """
    width, stride = narrow.shape[1], sums.shape[1]
    place = first * stride + column
    product(narrow, first * width, width, 2, rows, weights, 0, width // 2, columns, sums, place, stride, add)


@numba.njit(nogil=True)
def blame(errors, first, column, rows, weights, out, begin, add):
    """Errors of sums, from `column` on of rows `first`.., as those of the hidden states, in rows `begin`.. of out.

    errors: [N, width] uint16; weights: the recurrent matrix packed with the sums inside; out: [N, H] float32.
    """
    width, size, length = errors.shape[1], out.shape[1], weights.shape[1]
    place = first * width + column
    product(errors, place, width, 2, rows, weights, 0, length, size, out, begin * size, size, add)


@numba.njit(cache=True, nogil=True)
def pair_up(x, out):
    """Rows 2k and 2k + 1 of x [N, M] uint16 as pairs in out [N / 2, >= M] uint32."""
    for pair in range(out.shape[0]):
        low, high, target = x[2 * pair], x[2 * pair + 1], out[pair]
        for j in range(low.size):
            target[j] = np.uint32(low[j]) | (np.uint32(high[j]) << np.uint32(16))


@numba.njit(cache=True, nogil=True)
def word_factors(ids, mask, out):
    """What the vectors of ids [N] are multiplied by in out [N]: 0 for a word that is dropped, wherever it stands."""
    for token in range(ids.size):
        drawn = scrambled(np.uint32(scrambled(np.uint32(mask.seed)) + np.uint32(ids[token])))
        out[token] = mask.scale if drawn >= mask.threshold else np.float32(0)


@numba.njit(cache=True, nogil=True)
def gather(matrix, ids, factors, plain, out, mask):
    """The rows of a matrix that ids [N] name, after dropout, as bfloat16 in out [N, >= D] uint16.

    factors: [N], what they are multiplied by, or [0]. plain: [N, D] float32, gets them before dropout, or [0, 0].
    """
    scaled, room = np.empty(matrix.shape[1], np.float32), np.empty(matrix.shape[1], np.float32)
    for token in range(ids.size):
        source = matrix[ids[token]]
        if factors.size:
            factor = factors[token]
            for j in range(source.size):
                scaled[j] = source[j] * factor
            source = scaled
        if plain.size:
            plain[token] = source
        show(source, out[token], room, mask, token)


@numba.njit(cache=True, nogil=True)
def drop_rows(x, out, mask, first):
    """Dropout of the rows of x [N, D] in out [N, D], which may not be x; they are tokens `first`.."""
    for token in range(x.shape[0]):
        masked(x[token], out[token], mask, first + token)


@numba.njit(cache=True, nogil=True)
def drop_errors(errors, mask):
    """Dropout of the rows of errors, in place: the same numbers as in the forward pass."""
    for token in range(errors.shape[0]):
        row, threshold, scale = errors[token], mask.threshold, mask.scale
        place = token % mask.period * row.size
        start = scrambled(np.uint32(np.uint32(mask.seed) + np.uint32(place)))
        for j in range(row.size):
            kept = scrambled(np.uint32(start + np.uint32(j))) >= threshold
            row[j] = row[j] * scale if kept else np.float32(0)


@numba.njit(cache=True, nogil=True)
def scatter(errors, ids, factors, gradient, begin, end):
    """Add columns begin..end of errors [N, D], times factors [N] if there are any, to the gradient's rows ids [N]."""
    for token in range(ids.size):
        source, target = errors[token, begin:end], gradient[ids[token], begin:end]
        factor = factors[token] if factors.size else ONE
        for j in range(source.size):
            target[j] += source[j] * factor


@numba.njit(cache=True, nogil=True)
def narrow_rows(x, out):
    """Rows of x [N, H] as bfloat16 in out [>= N, >= H] uint16."""
    for row in range(x.shape[0]):
        narrowed(x[row], out[row])
