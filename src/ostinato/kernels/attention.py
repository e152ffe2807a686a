"""Additive attention, forwards and backwards, without keeping what it compares.

A score is the sum over k of vector[k] * sigmoid(asked[k] + keys[k]); backwards the sigmoids are made again, which is
quicker than reading them. Gradients of the memory are added to, since every step of a loop looks at the same one.
"""

from __future__ import annotations

import numba
import numpy as np
from numba.core import types
from numba.extending import overload

from ostinato.kernels.maths import ONE, exp32, from_bf16, sigmoid32

FAST = {"contract", "reassoc", "nsz"}
"""Sums may be added up in the order of the registers; never where `exp32` rounds by adding and taking away."""


def _wide(number):
    """The float32 of a number of a memory: of bfloat16, whose bits are an uint16, or as it is."""


@overload(_wide, inline="always")
def _widened(number):
    return (lambda number: from_bf16(number)) if isinstance(number, types.Integer) else (lambda number: number)


@numba.njit(nogil=True, error_model="numpy", fastmath={"contract"})
def _open(asked, key, opened):
    """The sigmoids of a key."""
    for k in range(asked.size):
        opened[k] = sigmoid32(asked[k] + _wide(key[k]))


@numba.njit(nogil=True, fastmath=FAST)
def _product(one, other):
    total = np.float32(0)
    for k in range(one.size):
        total += one[k] * other[k]
    return total


@numba.njit(nogil=True, fastmath=FAST)
def _add(share, row, total):
    """Add a share of a row."""
    for k in range(row.size):
        total[k] += share * _wide(row[k])


@numba.njit(cache=True, nogil=True, error_model="numpy")
def look(asked, keys, values, vector, mask, contexts, weights, begin, end):
    """Contexts [B, T, V] and weights [B, T, S] of queries asked [B, T, K], rows begin..end.

    keys: [B or more, S, K] and values: [B or more, S, V], float32 or bfloat16 (as uint16). vector: [K]. mask:
    [B or more, S] bool, some of each row true. All others are float32.
    """
    opened = np.empty(vector.size, np.float32)
    for row in range(begin, end):
        for query in range(asked.shape[1]):
            memory, found = (keys[row], values[row], mask[row]), (contexts[row, query], weights[row, query])
            _look_once(asked[row, query], memory, vector, found, opened)


@numba.njit(nogil=True, error_model="numpy")
def _look_once(asked, memory, vector, found, opened):
    """`look` of one query; opened: room [K]."""
    keys, values, seen = memory
    context, weight = found
    most = np.float32(-np.inf)
    for step in range(seen.size):
        if seen[step]:
            _open(asked, keys[step], opened)
            weight[step] = _product(opened, vector)
            most = max(most, weight[step])
    total = np.float32(0)
    for step in range(seen.size):
        weight[step] = exp32(weight[step] - most) if seen[step] else np.float32(0)
        total += weight[step]
    context[:] = 0
    for step in range(seen.size):
        weight[step] /= total
        if seen[step]:
            _add(weight[step], values[step], context)


@numba.njit(nogil=True, error_model="numpy", fastmath={"contract"})
def _blame_key(error, asked, key, vector, asked_error, key_error, vector_error):
    """Add what a score's error says of the query, the key and the vector."""
    for k in range(asked.size):
        opened = sigmoid32(asked[k] + key[k])
        vector_error[k] += error * opened
        change = error * vector[k] * opened * (ONE - opened)
        asked_error[k] += change
        key_error[k] += change


@numba.njit(cache=True, nogil=True)
def blame(asked, memory, vector, weights, wanted, asked_errors, memory_errors, vector_error, begin, end):
    """Gradients for rows begin..end of what `look` was given, with one query a row [B, K].

    wanted: the gradients by contexts [B, V] and weights [B, S], the latter of size 0 if there are none.
    memory: keys, values and mask. asked_errors [B, K] is written; memory_errors, of keys and values, and vector_error
    [K] are added to.
    """
    keys, values, mask = memory
    context_errors, weight_errors = wanted
    key_errors, value_errors = memory_errors
    steps = keys.shape[1]
    errors = np.empty(steps, np.float32)
    for row in range(begin, end):
        weight, context_error, mean = weights[row], context_errors[row], np.float32(0)
        for step in range(steps):
            if mask[row, step]:
                errors[step] = _product(context_error, values[row, step])
                if weight_errors.size:
                    errors[step] += weight_errors[row, step]
                mean += weight[step] * errors[step]
                _add(weight[step], context_error, value_errors[row, step])
        asked_errors[row] = 0
        for step in range(steps):
            if mask[row, step]:
                error = weight[step] * (errors[step] - mean)
                key, key_error = keys[row, step], key_errors[row, step]
                _blame_key(error, asked[row], key, vector, asked_errors[row], key_error, vector_error)
