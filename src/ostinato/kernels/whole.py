"""Full softmax over the vocabulary: the objective that the others stand for, for small vocabularies."""

# mypy: ignore-errors
# (Numba gives variables their types)

from __future__ import annotations

import math

import numba
import numpy as np

from ostinato.kernels.bag import AVERAGED, EXACT, GRAMS, bagged
from ostinato.kernels.drawing import ONE, ZERO, following, gathered, mixed, multiplied, sampled
from ostinato.kernels.maths import exp32
from ostinato.kernels.path import BAGS
from ostinato.kernels.rows import KEPT, ROW, gather, scatter
from ostinato.kernels.window import GROUP, OUTPUTS, updates_apart_6

NOWHERE = np.float32(-1e30)
"""The product of a word that there is not, whose exponential beside the others' is as good as nothing."""


@numba.njit(nogil=True, inline="always", error_model="numpy")
def normalised(products, at, room, tiles, vocabulary, target, alpha):
    """Replace a context's products with all words by alpha times the gradient of ln p(target); returns -ln p."""
    for tile in range(tiles):
        for lane in range(GROUP):
            if lane >= OUTPUTS or tile * OUTPUTS + lane >= vocabulary:
                products[at + tile * room + lane] = NOWHERE
    most = NOWHERE
    for tile in range(tiles):
        for lane in range(GROUP):
            most = max(most, products[at + tile * room + lane])
    wanted = products[at + target // OUTPUTS * room + target % OUTPUTS] - most
    total = 0.0
    for tile in range(tiles):
        part = ZERO
        for lane in range(GROUP):
            value = exp32(products[at + tile * room + lane] - most)
            products[at + tile * room + lane] = value
            part += value
        total += part
    scale = np.float32(-alpha / total)
    for tile in range(tiles):
        for lane in range(GROUP):
            products[at + tile * room + lane] *= scale
    for word in range(vocabulary, tiles * OUTPUTS):
        products[at + word // OUTPUTS * room + word % OUTPUTS] = ZERO
    products[at + target // OUTPUTS * room + target % OUTPUTS] += alpha
    return math.log(total) - wanted


@numba.njit(cache=KEPT, nogil=True)
def full_softmax(
    ids, keep, reaches, everything, how, grams, numbers, hidden, seed, alpha, left, right, stride, desk, totals
):
    """Train on a chunk of text; as `bag.negative_sampling`. Cost: 6 V d operations a pair.

    everything: where the row of each word begins in `right`, padded to whole tiles with that of zeros.
    """
    sentence, places, lefts, _, _, _, _, _, products, _, errors, targets = desk
    blocks, span, farthest = stride // ROW, np.uint64(reaches.size - 1), np.int64(reaches.max())
    vocabulary, tiles, room = np.int64(grams.size) - 1, everything.size // OUTPUTS, (2 * farthest + 2) * GROUP
    state, at, loss, pairs, kept = seed, 0, 0.0, 0, 0
    while at < ids.size:
        size, at, state = sampled(ids, at, keep, state, sentence)
        kept += size
        for middle in range(size):
            places[middle] = np.int64(sentence[middle]) * stride
        for middle in range(size):
            state = following(state)
            reach, first, many = np.int64(reaches[mixed(state) >> np.uint64(40) & span]), 0, 1
            share = ONE
            if how & GRAMS:
                count, many = bagged(
                    sentence, size, middle, reach, how, grams, numbers, vocabulary + 1, 0, 0, stride, lefts, targets
                )
            else:
                count = gathered(places, size, middle, reach, lefts)
                targets[0] = sentence[middle]
            if count == 0 or many == 0:
                continue
            rows = count
            if how & BAGS:
                share = ONE / np.float32(count) if how & AVERAGED else ONE
                gather(left, lefts, 0, count, blocks, share, hidden)
                lefts[count] = hidden
                first, rows = count, 1
            errors[: rows * stride] = ZERO
            for target in range(many):
                for tile in range(tiles):
                    at_tile = tile * OUTPUTS
                    multiplied(left, lefts, first, rows, right, everything, at_tile, blocks, products, tile * room)
                for row in range(rows):
                    loss += normalised(products, row * GROUP, room, tiles, vocabulary, targets[target], alpha)
                for tile in range(tiles):
                    at_tile = tile * OUTPUTS
                    updates_apart_6(
                        left, lefts, first, rows, right, everything, at_tile, blocks, products, tile * room, errors
                    )
            step = 0 if how & BAGS else stride
            scatter(left, lefts, 0, count, blocks, errors, 0, step, share if how & EXACT else ONE)
            pairs += many if how & BAGS else count
    totals[0] += loss
    totals[1] += pairs
    totals[2] += kept
