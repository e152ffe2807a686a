"""Hierarchical softmax: a word's probability as a product of decisions on the way to its leaf [Morin2005].

The nodes of a word's path serve all contexts of its window at once, which is exact. Inner nodes are rows of `right`.
"""

# mypy: ignore-errors
# (Numba gives variables their types)

from __future__ import annotations

import numba
import numpy as np

from ostinato.kernels.bag import AVERAGED, EXACT, GRAMS, bagged
from ostinato.kernels.drawing import (
    ONE,
    PAIR,
    ZERO,
    ask,
    following,
    gathered,
    judged,
    mixed,
    multiplied,
    multiplied_narrow,
    placed,
    sampled,
)
from ostinato.kernels.rows import KEPT, ROW, gather, scatter
from ostinato.kernels.window import GROUP, NARROW, OUTPUTS, narrow_updates_apart, updates_apart_6

BAGS = 8
"""Added to `how` if there are bags; else it is skip-gram."""


@numba.njit(nogil=True, inline="always")
def above(node, upper, own):
    """The row of an inner node for a thread whose copies of the nodes from `upper` on begin at row `own`."""
    return np.int64(node) if node < upper else own + node - upper


@numba.njit(nogil=True, inline="always")
def laid_out(first, last, nodes, codes, right, stride, zeros, upper, own, rights, signs, weights):
    """Write the rows and signs of a path in tiles; how many, and how many of them have OUTPUTS places.

    The others, after them, have NARROW: a path of 7 takes two of these. So a path of two tiles or more is padded with
    nothing in one place at most. Nodes from `upper` on, the nearest to the root, have copies of this thread
    that begin at row `own`.
    """
    tiles = (last - first + OUTPUTS - 1) // OUTPUTS
    whole = max(0, tiles - (tiles * OUTPUTS - (last - first)) // (OUTPUTS - NARROW))
    begin = first
    for tile in range(tiles):
        wide = OUTPUTS if tile < whole else NARROW
        for place in range(OUTPUTS):
            at, lane = begin + place, tile * PAIR + place
            there = place < wide and at < last
            rights[tile * OUTPUTS + place] = above(nodes[at], upper, own) * stride if there else zeros
            sign = ONE - np.float32(2 * codes[at]) if there else ONE
            signs[lane] = signs[lane + GROUP] = sign
            weights[lane] = weights[lane + GROUP] = ONE if there else ZERO
            if there:
                ask(right, rights[tile * OUTPUTS + place], stride)
        begin += wide
    return tiles, whole


@numba.njit(cache=KEPT, nogil=True)
def hierarchical_softmax(
    ids, keep, reaches, offsets, nodes, codes, hot, own_left, own_right, upper, how, grams, numbers, hidden, seed,
    alpha, left, right, stride, desk, totals,
):  # fmt: skip
    """Train on a chunk of text; as `bag.negative_sampling`.

    offsets [V + 1], nodes, codes: the path of each word from the root, its inner nodes and whether it turns right.
    hot, own_left: see `drawing.placed`. upper, own_right: see `laid_out`.
    """
    sentence, places, lefts, rights, words, weights, signs, sureness, products, _, errors, targets = desk
    blocks, span, farthest = stride // ROW, np.uint64(reaches.size - 1), np.int64(reaches.max())
    vocabulary = np.int64(offsets.size - 1)
    state, zeros, room = seed, vocabulary * stride, (2 * farthest + 2) * GROUP
    at, loss, pairs, kept = 0, 0.0, 0, 0
    while at < ids.size:
        size, at, state = sampled(ids, at, keep, state, sentence)
        kept += size
        for middle in range(size):
            places[middle] = placed(sentence[middle], hot, own_left, stride)
        for middle in range(size):
            state = following(state)
            reach, first, many = np.int64(reaches[mixed(state) >> np.uint64(40) & span]), 0, 1
            share = ONE
            if how & GRAMS:
                count, many = bagged(
                    sentence,
                    size,
                    middle,
                    reach,
                    how,
                    grams,
                    numbers,
                    vocabulary + 1,
                    hot,
                    own_left,
                    stride,
                    lefts,
                    targets,
                )
            else:
                count = gathered(places, size, middle, reach, lefts)
                targets[0] = sentence[middle]
            ask(left, places[min(size - 1, middle + farthest + 1)], stride)
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
                begin, last = offsets[targets[target]], offsets[targets[target] + 1]
                tiles, whole = laid_out(
                    begin, last, nodes, codes, right, stride, zeros, upper, own_right, rights, signs, weights
                )
                for tile in range(tiles):
                    lane, at_tile = tile * PAIR, tile * OUTPUTS
                    if tile < whole:
                        multiplied(left, lefts, first, rows, right, rights, at_tile, blocks, products, tile * room)
                    else:
                        multiplied_narrow(
                            left, lefts, first, rows, right, rights, at_tile, blocks, products, tile * room
                        )
                    loss += judged(
                        products, tile * room, rows, signs, lane, weights, words, lane, np.int32(0), alpha, sureness
                    )
                for tile in range(tiles):
                    at_tile = tile * OUTPUTS
                    if tile < whole:
                        updates_apart_6(
                            left, lefts, first, rows, right, rights, at_tile, blocks, products, tile * room, errors
                        )
                    else:
                        narrow_updates_apart(
                            left, lefts, first, rows, right, rights, at_tile, blocks, products, tile * room, errors
                        )
            step = 0 if how & BAGS else stride
            scatter(left, lefts, 0, count, blocks, errors, 0, step, share if how & EXACT else ONE)
            pairs += many if how & BAGS else count
    totals[0] += loss
    totals[1] += pairs
    totals[2] += kept
