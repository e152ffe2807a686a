"""Skip-gram: every context of a window at once against its word and negatives [Mikolov2013b], shared in the window.

Hogwild [Niu2011]: threads write into the same matrices.
"""

# mypy: ignore-errors
# (Numba gives variables their types)

from __future__ import annotations

import numba
import numpy as np

from ostinato.kernels.drawing import (
    ONE,
    PAIR,
    SETS,
    ZERO,
    ask,
    following,
    gathered,
    judged,
    mixed,
    multiplied,
    placed,
    redraw,
    sampled,
)
from ostinato.kernels.rows import KEPT, ROW, scatter
from ostinato.kernels.window import GROUP, OUTPUTS, updates_6, updates_apart_6


@numba.njit(cache=KEPT, nogil=True)
def negative_sampling(
    ids, keep, reaches, threshold, other, negatives, reuse, hot, own_left, own_right, seed, alpha, left, right, stride,
    desk, totals,
):  # fmt: skip
    """Train on a chunk of text; adds to totals: loss (nats), pairs, words kept.

    keep: chances of keeping a word, as uint32, see `drawing.sampled`. reaches: window sizes to choose from, a power
    of two of them. threshold, other [V]: an alias table. reuse: how many words a set of negatives serves. hot,
    own_left, own_right: see `drawing.placed`, of either matrix. alpha: learning rate. left, right: [rows, stride].
    desk: scratch, see `Objective`.
    """
    sentence, places, lefts, rights, words, weights, signs, sureness, products, uses, errors, _ = desk
    blocks, tiles = stride // ROW, (negatives + OUTPUTS) // OUTPUTS
    span, farthest = np.uint64(reaches.size - 1), np.int64(reaches.max())
    room = (2 * farthest + 2) * GROUP
    state, worn, past = seed, 0, SETS
    at, turn, loss, pairs, kept = 0, 0, 0.0, 0, 0
    while at < ids.size:
        size, at, state = sampled(ids, at, keep, state, sentence)
        kept += size
        for middle in range(size):
            places[middle] = placed(sentence[middle], hot, own_left, stride)
        for middle in range(min(size, farthest)):
            ask(left, places[middle], stride)
        for middle in range(size):
            state = following(state)
            count = gathered(places, size, middle, np.int64(reaches[mixed(state) >> np.uint64(40) & span]), lefts)
            ask(left, places[min(size, middle + farthest + 1)], stride)
            ask(right, placed(sentence[min(size, middle + 2)], hot, own_right, stride), stride)
            if count == 0:
                continue
            for number in range(worn, past):
                state = redraw(
                    number, negatives, threshold, other, hot, own_right, state, right, stride, rights, words, weights
                )
                uses[number] = 0
            worn = number = turn % SETS
            turn += 1
            uses[number] += 1
            past = number + np.int64(uses[number] == reuse)
            begin, lanes, own = number * tiles * OUTPUTS, number * tiles * PAIR, sentence[middle]
            rights[begin] = placed(own, hot, own_right, stride)
            for tile in range(tiles):
                lane, sign = lanes + tile * PAIR, tile * PAIR
                multiplied(left, lefts, 0, count, right, rights, begin + tile * OUTPUTS, blocks, products, tile * room)
                loss += judged(products, tile * room, count, signs, sign, weights, words, lane, own, alpha, sureness)
            if tiles == 1:
                updates_6(left, lefts, 0, count, right, rights, begin, blocks, products, 0, errors)
            else:
                errors[: count * stride] = ZERO
                for tile in range(tiles):
                    at_tile = begin + tile * OUTPUTS
                    updates_apart_6(
                        left, lefts, 0, count, right, rights, at_tile, blocks, products, tile * room, errors
                    )
                scatter(left, lefts, 0, count, blocks, errors, 0, stride, ONE)
            pairs += count
    totals[0] += loss
    totals[1] += pairs
    totals[2] += kept
