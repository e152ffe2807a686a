"""The step of a stack of recurrent layers, from ids to log-probs, as one call (stream/packed.py packs what it reads).

Activations are narrowed to the type of the weights' product (uint8 around 128, bfloat16 bits, float32) row by row;
sums, gates, states and the softmax are float32. A row's numbers never depend on the other rows. Everything lies in a
few flat arrays, and `plan` [1 + layers + products, COLUMNS] says where: row 0 the model, a row a layer, a
row a product. The slow twin is tests/references/stepping.py.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from ostinato.kernels.maths import exp32, to_bf16
from ostinato.kernels.simd import bits
from ostinato.kernels.stepping_cells import advance_cell
from ostinato.kernels.stepping_tile import BLOCK, make_step_tile

ROWS = 96
"""Rows that go through the whole step together: weights are read once for them, what they need stays near."""

COLUMNS = 11

KIND, LAYERS, HIDDEN, PROJECT, HEAD, TABLE_SCALE, READ_SCALE, WIDE, DEEP, LOGITS, READABLE = range(11)
"""Of the model: kind of numbers, layers, units; products; where scales of the table and of read rows lie; the most
columns of a layer's product, the longest inner axis, columns of logits; how many ids can be read."""

CELL, INPUT, RECURRENT, LEAF, NORM, RESIDUAL, EPSILON = range(7)
"""Of a layer: the cell, products (INPUT -1: the table has it), first leaf of its state, where the gain and bias of
its norm lie (or -1), whether it adds its input, its norm's epsilon times 10^12."""

PLACE, LENGTH, BLOCKS, SCALE, CORRECTION, BIAS, SIZE = range(7)
"""Of a product: where its weights lie, its inner axis, blocks, where its scales, corrections and biases lie, and how
many numbers each row of its left side has."""

INT8, BF16, FP32 = range(3)

TOP = np.float32(127)
NEAREST = np.float32(12582912.0 + 128.0)
"""1.5 * 2^23 + 128: the lowest byte of a number added to it is that number, rounded (ties to even), plus 128."""

UNSIGNED, LOWEST, SIGN = np.int32(0x7FFFFFFF), np.int32(-0x80000000), np.int32(31)
"""All bits but the sign, the least whole number, and how far the sign lies from the lowest bit."""

tile_1, tile_2, tile_3, tile_4, tile_5, tile_6 = (make_step_tile(rows) for rows in range(1, 7))


@numba.njit(cache=True, nogil=True)
def largest(row):
    """The largest size of a row's numbers. The bits of floats, without the sign, are ordered as the floats are."""
    words, most = row.view(np.int32), np.int32(0)
    for k in range(words.size):
        size = np.int32(words[k] & UNSIGNED)
        most = size if size > most else most
    return bits(most)


@numba.njit(cache=True, nogil=True)
def highest(row):
    """The largest number of a row; a maximum of integers, which the compiler makes vectors of."""
    words, most = row.view(np.int32), LOWEST
    for k in range(words.size):
        ordered = np.int32(words[k] ^ ((words[k] >> SIGN) & UNSIGNED))  # narrow again, or few fit into a vector
        most = ordered if ordered > most else most
    return bits(np.int32(most ^ ((most >> SIGN) & UNSIGNED)))


@numba.njit(cache=True, nogil=True, error_model="numpy")
def narrow(row, out, kind):
    """Fill `out` with a row in the type of products, zeros behind it; return what its numbers are to be multiplied by.

    int8: steps of its largest size / 127.
    """
    scale = np.float32(1)
    if kind == INT8:
        most = largest(row)
        scale = most / TOP
        factor = TOP / most if most > 0 else np.float32(0)
        for k in range(row.size):
            steps = min(max(row[k] * factor, -TOP), TOP)
            out[k] = np.uint8(bits(steps + NEAREST) & np.int32(255))
    elif kind == BF16:
        for k in range(row.size):
            out[k] = np.uint16(to_bf16(row[k]))
    else:
        for k in range(row.size):
            out[k] = row[k]
    for k in range(row.size, out.size):
        out[k] = 0
    return scale


@numba.njit(cache=True, nogil=True)
def multiply(a, deep, rows, panels, numbers, product, row_scale, start, start_place, start_stride, c, c_stride):
    """Fill `rows` rows of c (c_stride apart) with start plus the rows of a (`deep` apart) times a product's weights."""
    block, length = BLOCK * product[LENGTH], product[LENGTH] * panels.itemsize // 4
    for number in range(product[BLOCKS]):
        place, column = product[PLACE] + number * block, number * BLOCK
        scale, correction = product[SCALE] + column, product[CORRECTION] + column
        row = 0
        while row < rows:
            left, own = row * deep, row_scale[row:]
            base, right = start_place + row * start_stride + column, row * c_stride + column
            if rows - row >= 6:
                tile_6(a, left, deep, panels, place, length, numbers, scale, correction, own, start, base,
                       start_stride, c, right, c_stride)  # fmt: skip
            elif rows - row == 1:
                tile_1(a, left, deep, panels, place, length, numbers, scale, correction, own, start, base,
                       start_stride, c, right, c_stride)  # fmt: skip
            elif rows - row == 2:
                tile_2(a, left, deep, panels, place, length, numbers, scale, correction, own, start, base,
                       start_stride, c, right, c_stride)  # fmt: skip
            elif rows - row == 3:
                tile_3(a, left, deep, panels, place, length, numbers, scale, correction, own, start, base,
                       start_stride, c, right, c_stride)  # fmt: skip
            elif rows - row == 4:
                tile_4(a, left, deep, panels, place, length, numbers, scale, correction, own, start, base,
                       start_stride, c, right, c_stride)  # fmt: skip
            else:
                tile_5(a, left, deep, panels, place, length, numbers, scale, correction, own, start, base,
                       start_stride, c, right, c_stride)  # fmt: skip
            row += 6


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "nsz"})
def total(row):
    """The sum of a row, in no set order (the same one for every row as long)."""
    value = np.float32(0)
    for k in range(row.size):
        value += row[k]
    return value


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def log_softmax(logits, out):
    """Fill `out` with logits less the logarithm of the sum of their exponentials."""
    most = highest(logits)
    for k in range(out.size):
        out[k] = exp32(logits[k] - most)
    shift = most + np.float32(math.log(total(out)))
    for k in range(out.size):
        out[k] = logits[k] - shift


@numba.njit(cache=True, nogil=True, error_model="numpy")
def normalise(x, gain, bias, epsilon, spare):
    """Bring x to mean 0 and variance 1, times a gain, plus a bias. Source: [Ba2016] eq. 3."""
    mean = total(x) / np.float32(x.size)
    for k in range(x.size):
        x[k] -= mean
    for k in range(x.size):
        spare[k] = x[k] * x[k]
    factor = np.float32(1) / np.float32(math.sqrt(total(spare) / np.float32(x.size) + epsilon))
    for k in range(x.size):
        x[k] = x[k] * factor * gain[k] + bias[k]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def look_up(table, scales, token, out):
    """Fill `out` with a row of a table of int16, times its scale."""
    row, scale = table[token], scales[token]
    for k in range(row.size):
        out[k] = np.float32(row[k]) * scale


@numba.njit(cache=True, nogil=True, error_model="numpy")
def embed(embedding, scale, token, x, kind):
    """Fill x with the embedding of an id, as it was packed."""
    row = embedding[token]
    if kind == INT8:
        for k in range(x.size):
            x[k] = np.float32(np.int32(row[k]) - np.int32(128)) * scale
    elif kind == BF16:
        for k in range(x.size):
            x[k] = bits(np.int32(np.uint32(row[k]) << np.uint32(16)))
    else:
        for k in range(x.size):
            x[k] = row[k]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def hand_on(layer, hidden, x, numbers, spare):
    """Turn x from what a layer read into what the next one reads: its output, normalised, plus what it read."""
    if layer[RESIDUAL]:
        for k in range(hidden.size):
            spare[k] = x[k]
    for k in range(hidden.size):
        x[k] = hidden[k]
    place = layer[NORM]
    if place >= 0:
        gain, bias = numbers[place : place + x.size], numbers[place + x.size : place + 2 * x.size]
        further = spare[x.size : 2 * x.size]
        normalise(x, gain, bias, np.float32(layer[EPSILON] * 1e-12), further)
    if layer[RESIDUAL]:
        for k in range(x.size):
            x[k] += spare[k]


@numba.njit(cache=True, nogil=True)
def read_layer(plan, number, before, begin, rows, panels, numbers, act, row_scale, totals, recurrent, x, xs):
    """Fill `totals` and `recurrent` with what the cells of a layer get from its input x and its hidden state."""
    model, layer = plan[0], plan[1 + number]
    kind, deep, wide = model[KIND], model[DEEP], model[WIDE]
    products = plan[1 + model[LAYERS] :]
    if layer[INPUT] >= 0:
        product = products[layer[INPUT]]
        if number > 0:
            for row in range(rows):
                source = x[row * xs : row * xs + product[SIZE]]
                room = act[row * deep : row * deep + product[LENGTH]]
                row_scale[row] = narrow(source, room, kind)
        multiply(act, deep, rows, panels, numbers, product, row_scale, numbers, product[BIAS], 0, totals, wide)
    product = products[layer[RECURRENT]]
    for row in range(rows):
        room = act[row * deep : row * deep + product[LENGTH]]
        row_scale[row] = narrow(before[layer[LEAF], begin + row], room, kind)
    if product[BIAS] >= 0:
        multiply(act, deep, rows, panels, numbers, product, row_scale, numbers, product[BIAS], 0, recurrent, wide)
    else:
        multiply(act, deep, rows, panels, numbers, product, row_scale, totals, 0, wide, totals, wide)


@numba.njit(cache=True, nogil=True)
def step(plan, panels, numbers, embedding, table, tokens, before, after, out, begin, end, act, work):
    """Read tokens begin..end of `tokens` [B]: fill `after` and `out` [B, V] (nats) from `before` [leaves, B, H].

    `before` and `after` must not overlap. act, work: scratch, ROWS rows of the widest of everything.
    Returns -1, or the first row whose token is none; then nothing is filled.
    """
    model = plan[0]
    for row in range(begin, end):
        if not 0 <= tokens[row] < model[READABLE]:
            return row
    kind, layers, hidden, wide, deep = model[KIND], model[LAYERS], model[HIDDEN], model[WIDE], model[DEEP]
    products = plan[1 + layers :]
    totals, recurrent = work[: ROWS * wide], work[ROWS * wide : 2 * ROWS * wide]
    x, spare = work[2 * ROWS * wide : 3 * ROWS * wide], work[3 * ROWS * wide : 3 * ROWS * wide + 2 * wide]
    row_scale = work[(3 * ROWS + 2) * wide : (3 * ROWS + 2) * wide + ROWS]
    logits = work[(3 * ROWS + 2) * wide + ROWS :]
    head, width = products[model[HEAD]], out.shape[1]
    for first in range(begin, end, ROWS):
        rows = min(ROWS, end - first)
        for row in range(rows):
            token = tokens[first + row]
            if plan[1, INPUT] < 0:
                look_up(table, numbers[model[TABLE_SCALE] :], token, totals[row * wide : (row + 1) * wide])
            else:
                act[row * deep : row * deep + embedding.shape[1]] = embedding[token]
                row_scale[row] = numbers[model[READ_SCALE] + token]
            if plan[1, RESIDUAL]:
                embed(embedding, numbers[model[READ_SCALE] + token], token, x[row * wide : row * wide + hidden], kind)
        for number in range(layers):
            layer = plan[1 + number]
            read_layer(plan, number, before, first, rows, panels, numbers, act, row_scale, totals, recurrent, x, wide)
            for row in range(rows):
                place = slice(row * wide, (row + 1) * wide)
                advance_cell(
                    layer[CELL], totals[place], recurrent[place], before, after, layer[LEAF], first + row, spare
                )
                hand_on(layer, after[layer[LEAF], first + row], x[row * wide : row * wide + hidden], numbers, spare)
        if model[PROJECT] >= 0:
            product = products[model[PROJECT]]
            for row in range(rows):
                room = act[row * deep : row * deep + product[LENGTH]]
                row_scale[row] = narrow(x[row * wide : row * wide + hidden], room, kind)
            multiply(act, deep, rows, panels, numbers, product, row_scale, numbers, product[BIAS], 0, x, wide)
        for row in range(rows):
            room = act[row * deep : row * deep + head[LENGTH]]
            row_scale[row] = narrow(x[row * wide : row * wide + head[SIZE]], room, kind)
        multiply(act, deep, rows, panels, numbers, head, row_scale, numbers, head[BIAS], 0, logits, model[LOGITS])
        for row in range(rows):
            log_softmax(logits[row * model[LOGITS] : row * model[LOGITS] + width], out[first + row])
    return -1
