"""A softmax over a vocabulary and the gradient of its loss, block by block, so that nothing is read twice from far.

Words stand in rows and tokens in columns: a register holds one word's numbers for 16 tokens, and sums over the
vocabulary are plain additions. Forward keeps exp(z - m) in bfloat16, m the largest logit of a block of words for each
token; backward needs no exponential then. Products are bfloat16 with float32 sums, everything else is float32.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from ostinato.kernels.exponential import TOKENS, exponentials, paired_errors
from ostinato.kernels.maths import exp32, from_bf16, to_bf16
from ostinato.kernels.packing import narrow, pack_columns
from ostinato.kernels.product import product
from ostinato.kernels.simd import WIDTH
from ostinato.kernels.stepping import log_softmax

WORDS = 60
"""Words of a block in the forward pass, where there are many: ten tiles of six rows."""

BLOCK = 240
"""Words of a block in the backward pass, a multiple of WORDS."""

TOGETHER = 24
"""Tokens whose logits are alive at once where only log-probs are wanted: they stay near, and weights are read once."""


@numba.njit(cache=True, nogil=True)
def log_probs(features, weights, bias, out, begin, end):
    """Fill rows begin..end of out [N, V] with log-probs in nats of all words after features [N, >= D] uint16.

    weights: the matrix [V, D], packed with D inside. The numbers of a row do not depend on the others.
    """
    width, size = features.shape[1], bias.size
    logits = np.empty((TOGETHER, size), np.float32)
    for first in range(begin, end, TOGETHER):
        rows = min(TOGETHER, end - first)
        for row in range(rows):
            logits[row] = bias
        product(features, first * width, width, 2, rows, weights, 0, width // 2, size, logits, 0, size, 1)
        for row in range(rows):
            log_softmax(logits[row], out[first + row])


@numba.njit(cache=True, nogil=True)
def forward(matrix, bias, features, length, tokens, unit, begin, end, narrowed, z, kept, largest, total):
    """The exponentials of the logits of words begin..end (begin a multiple of `unit`), and what they add up to.

    matrix: [V, D] float32. features: packed, tokens in columns, `length` pairs. kept: [V, tokens] uint16.
    largest, total: [V / unit, tokens] float32. narrowed [unit, 2 * length] uint16 and z [unit, TOKENS] float32
    are this thread's room. tokens: a multiple of TOKENS. unit: words of a block, even.
    """
    narrowed[:, matrix.shape[1] :] = 0  # 0 times what another matrix left there might be nan
    for first in range(begin, end, unit):
        words, block = min(unit, end - first), first // unit
        narrow(matrix[first : first + words], narrowed, 0, words)
        for place in range(0, tokens, TOKENS):
            packed = place // WIDTH * length * WIDTH
            product(narrowed, 0, 2 * length, 2, words, features, packed, length, TOKENS, z, 0, TOKENS, 0)
            at = first * tokens + place
            exponentials(z, words, bias, first, kept, at, tokens, largest, total, block * tokens + place)


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
def _factors(largest, logs, scale, unit, first, words, counted, factors):
    """What the kept exponentials of each block of `unit` words must be multiplied by, for each token."""
    for block in range((words + unit - 1) // unit):
        top, row = largest[first // unit + block], factors[block]
        for token in range(counted):
            row[token] = exp32(top[token] - logs[token]) * scale
        row[counted:] = 0


@numba.njit(nogil=True)
def _softmax(kept, first, words, unit, factors, errors, pairs, sums):
    """The softmax of words first.. as bfloat16, in errors [words, tokens] and pairs [words / 2, tokens]; its sums."""
    tokens = kept.shape[1]
    for pair in range((words + 1) // 2):
        low = 2 * pair
        high = min(low + 1, words - 1)
        block = low // unit
        paired_errors(kept, (first + low) * tokens, (first + high) * tokens, factors, block * tokens, errors,
                      low * tokens, (low + 1) * tokens, pairs, pair * tokens, tokens, sums, low)  # fmt: skip
        if high == low:  # there is no second word
            errors[low + 1] = 0
            for token in range(tokens):
                pairs[pair, token] &= np.uint32(0xFFFF)
    pairs[(words + 1) // 2 :] = 0


@numba.njit(nogil=True)
def _correct(errors, pairs, sums, first, words, targets, tokens, scale):
    """Subtract `scale` from each token's error at its target, where that is one of these words."""
    for token in range(tokens):
        word = targets[token] - first
        if 0 <= word < words:
            error = to_bf16(from_bf16(errors[word, token]) - scale)
            errors[word, token] = np.uint16(error)
            other = pairs[word // 2, token]
            if word % 2:
                pairs[word // 2, token] = (other & np.uint32(0xFFFF)) | np.uint32(error << np.uint32(16))
            else:
                pairs[word // 2, token] = (other & np.uint32(0xFFFF0000)) | np.uint32(error)
            sums[word] -= scale


@numba.njit(cache=True, nogil=True)
def backward(
    matrix,
    bias_gradient,
    gradient,
    features,
    kept,
    largest,
    logs,
    targets,
    counted,
    scale,
    add,
    unit,
    begin,
    end,
    room,
    back,
):
    """The gradient of scale * loss for words begin..end: `gradient` [V, D], `bias_gradient` [V], and back [tokens, D].

    features: packed with tokens along the inner axis, [panels, tokens / 2, 16]. logs: `log_sum`. targets: [tokens];
    those from `counted` on take no part. add: 1 to add to the gradients, 0 to write. unit: as in `forward`.
    back is overwritten. room: this thread's (factors [BLOCK / unit, tokens] float32, errors [B, tokens] uint16, pairs
    [B / 2, tokens] uint32, packed [panels, B / 2, 16] uint32, sums [B] float32), B even: words worked on together, a
    multiple of `unit` unless it holds all of them.
    """
    factors, errors, pairs, packed, sums = room
    tokens, size, half = kept.shape[1], matrix.shape[1], packed.shape[1]
    words_of_pairs = pairs.view(np.uint16)
    if begin >= end:
        back[:] = 0
    for first in range(begin, end, 2 * half):
        words = min(2 * half, end - first)
        _factors(largest, logs, scale, unit, first, words, counted, factors)
        _softmax(kept, first, words, unit, factors, errors, pairs, sums)
        _correct(errors, pairs, sums, first, words, targets, counted, scale)
        for word in range(words):
            bias_gradient[first + word] = sums[word] + bias_gradient[first + word] if add else sums[word]
        pack_columns(matrix[first : first + words], packed, 0, (words + 1) // 2)
        packed[:, (words + 1) // 2 :] = 0
        place, more = first * size, 1 if first > begin else 0
        product(errors, 0, tokens, 2, words, features, 0, tokens // 2, size, gradient, place, size, add)
        product(words_of_pairs, 0, 2, 2 * tokens, counted, packed, 0, half, size, back, 0, size, more)


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
