"""A softmax over a vocabulary and the gradient of its loss, block by block, so that nothing is read twice from far.

Words stand in rows and tokens in columns: a register holds one word's numbers for 16 tokens, and sums over the
vocabulary are plain additions. Forward keeps exp(z - m) in bfloat16, m the largest logit of a block of words for each
token; backward needs no exponential then. Products are bfloat16 with float32 sums, everything else is float32.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from ostinato.kernels.maths import exp32, from_bf16, to_bf16
from ostinato.kernels.packing import narrow, pack_columns
from ostinato.kernels.product import product
from ostinato.kernels.simd import WIDTH

WORDS = 60
"""Words of a block in the forward pass: ten tiles of six rows."""

TOKENS = 64
"""Tokens worked on together in the forward pass: four registers."""

BLOCK = 240
"""Words of a block in the backward pass, a multiple of WORDS."""


@numba.njit(nogil=True)
def _exponentials(z, words, bias, first, kept, place, largest, total):
    """exp(z + bias - m) of a tile z [words, TOKENS], kept as bfloat16 from column `place`; m and the sums, by token."""
    for j in range(TOKENS):
        largest[j] = np.float32(-np.inf)
        total[j] = np.float32(0)
    for word in range(words):
        row, shift = z[word], bias[first + word]
        for j in range(TOKENS):
            value = row[j] + shift
            row[j] = value
            largest[j] = max(largest[j], value)
    for word in range(words):
        row, out = z[word], kept[word, place : place + TOKENS]
        for j in range(TOKENS):
            row[j] = exp32(row[j] - largest[j])
        for j in range(TOKENS):
            total[j] += row[j]
        for j in range(TOKENS):
            out[j] = np.uint16(to_bf16(row[j]))


@numba.njit(cache=True, nogil=True)
def forward(matrix, bias, features, length, tokens, begin, end, narrowed, z, kept, largest, total):
    """The exponentials of the logits of words begin..end (begin a multiple of WORDS), and what they add up to.

    matrix: [V, D] float32. features: packed, tokens in columns, `length` pairs. kept: [V, tokens] uint16.
    largest, total: [V / WORDS, tokens] float32. narrowed [WORDS, 2 * length] uint16 and z [WORDS, TOKENS] float32
    are this thread's room. tokens: a multiple of TOKENS.
    """
    narrowed[:, matrix.shape[1] :] = 0  # 0 times what another matrix left there might be nan
    for first in range(begin, end, WORDS):
        words, block = min(WORDS, end - first), first // WORDS
        narrow(matrix[first : first + words], narrowed, 0, words)
        for place in range(0, tokens, TOKENS):
            packed = place // WIDTH * length * WIDTH
            product(narrowed, 0, 2 * length, 2, words, features, packed, length, TOKENS, z, 0, TOKENS, 0)
            top, sums = largest[block, place : place + TOKENS], total[block, place : place + TOKENS]
            _exponentials(z, words, bias, first, kept[first : first + words], place, top, sums)


@numba.njit(cache=True, nogil=True, fastmath={"reassoc"})
def target_logits(matrix, bias, features, rows, targets, begin, end, out):
    """The logit of each token's target, for tokens begin..end; features: [N, >= D] uint16, token i's row is rows[i]."""
    for token in range(begin, end):
        word = targets[token]
        row, weights, total = features[rows[token]], matrix[word], np.float32(0)
        for k in range(weights.size):
            total += from_bf16(row[k]) * from_bf16(np.uint16(to_bf16(weights[k])))
        out[token] = total + bias[word]


@numba.njit(cache=True, nogil=True)
def log_sum(largest, total, begin, end, out):
    """ln of the sum of all exponentials for tokens begin..end, into out; largest, total: [blocks, tokens]."""
    top, whole = np.full(end - begin, -np.inf, np.float32), np.zeros(end - begin, np.float32)
    for block in range(largest.shape[0]):
        row = largest[block, begin:end]
        for token in range(row.size):
            top[token] = max(top[token], row[token])
    for block in range(largest.shape[0]):
        row, sums = largest[block, begin:end], total[block, begin:end]
        for token in range(row.size):
            whole[token] += sums[token] * exp32(row[token] - top[token])
    for token in range(top.size):
        out[begin + token] = top[token] + np.float32(math.log(whole[token]))


@numba.njit(nogil=True)
def _errors(kept, words, factors, errors, tokens):
    """softmax as bfloat16 in errors [words, tokens], from the kept exponentials and a factor for each token."""
    for word in range(words):
        source, factor, out = kept[word], factors[word // WORDS], errors[word]
        for token in range(tokens):
            out[token] = np.uint16(to_bf16(from_bf16(source[token]) * factor[token]))


@numba.njit(nogil=True)
def _pair_up(errors, words, out, tokens):
    """Words 2k and 2k + 1 of errors [words, tokens] as pairs in out [words / 2, tokens] uint32."""
    for pair in range((words + 1) // 2):
        low, high, target = errors[2 * pair], errors[2 * pair + 1], out[pair]
        for token in range(tokens):
            target[token] = np.uint32(low[token]) | (np.uint32(high[token]) << np.uint32(16))


@numba.njit(nogil=True, fastmath={"reassoc"})
def _row_sums(errors, words, tokens, out, first, add):
    """The sum of each row of errors, written or added to out[first:]."""
    for word in range(words):
        row, total = errors[word], np.float32(0)
        for token in range(tokens):
            total += from_bf16(row[token])
        out[first + word] = total + out[first + word] if add else total


@numba.njit(nogil=True)
def _correct(errors, first, words, targets, tokens, scale):
    """Subtract `scale` from each token's error at its target, where that is one of these words."""
    for token in range(tokens):
        word = targets[token] - first
        if 0 <= word < words:
            errors[word, token] = np.uint16(to_bf16(from_bf16(errors[word, token]) - scale))


@numba.njit(cache=True, nogil=True)
def backward(
    matrix, bias_gradient, gradient, features, kept, largest, logs, targets, counted, scale, add, begin, end, room, back
):
    """The gradient of scale * loss for words begin..end: `gradient` [V, D], `bias_gradient` [V], and back [tokens, D].

    features: packed with tokens along the inner axis, [panels, tokens / 2, 16]. logs: `log_sum`. targets: [tokens];
    those from `counted` on take no part. add: 1 to add to gradient and bias_gradient, 0 to write. back is overwritten.
    room: this thread's (factors [BLOCK / WORDS, tokens] float32, errors [BLOCK + 1, tokens] uint16,
    pairs [BLOCK / 2, tokens] uint32, packed [panels, BLOCK / 2, 16] uint32).
    """
    factors, errors, pairs, packed = room
    tokens, size = kept.shape[1], matrix.shape[1]
    back[:] = 0
    words_of_pairs = pairs.view(np.uint16)
    for first in range(begin, end, BLOCK):
        words = min(BLOCK, end - first)
        for block in range((words + WORDS - 1) // WORDS):
            top, row = largest[first // WORDS + block], factors[block]
            for token in range(counted):
                row[token] = exp32(top[token] - logs[token]) * scale
            row[counted:] = 0
        _errors(kept[first : first + words], words, factors, errors, tokens)
        _correct(errors, first, words, targets, counted, scale)
        errors[words] = 0
        _row_sums(errors, words, tokens, bias_gradient, first, add)
        _pair_up(errors, words, pairs, tokens)
        half = (words + 1) // 2
        pack_columns(matrix[first : first + words], packed, 0, half)
        packed[:, half:] = 0
        pairs[half:] = 0
        place = first * size
        product(errors, 0, tokens, 2, words, features, 0, tokens // 2, size, gradient, place, size, add)
        product(words_of_pairs, 0, 2, 2 * tokens, counted, packed, 0, BLOCK // 2, size, back, 0, size, 1)


@numba.njit(cache=True, nogil=True)
def add_up(backs, rows, errors, begin, end):
    """The sum over threads of backs [threads, tokens, D], tokens begin..end, into the rows of errors they belong to."""
    for token in range(begin, end):
        target = errors[rows[token]]
        for j in range(target.size):
            target[j] = backs[0, token, j]
        for thread in range(1, backs.shape[0]):
            source = backs[thread, token]
            for j in range(target.size):
                target[j] += source[j]
