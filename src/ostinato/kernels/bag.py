"""Prediction from the mean or sum of rows: CBOW, and words as bags of their n-grams [Bojanowski2017].

A bag is either all the rows of a window's contexts, which predict its word (CBOW), or those of one word, which predict
each of its contexts (skip-gram with n-grams). Bags are summed up in one more row of `left`, which each thread has
for itself.
"""

# mypy: ignore-errors
# (Numba gives variables their types)

from __future__ import annotations

import numba
import numpy as np

from ostinato.kernels.bag_step import step
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
    placed,
    redraw,
    sampled,
)
from ostinato.kernels.rows import KEPT, ROW, gather, scatter
from ostinato.kernels.window import GROUP, OUTPUTS, scores_1, updates_apart_6

AVERAGED, EXACT, CONTEXTS, GRAMS = 1, 2, 4, 16
"""How bags are made, added up: the mean, not the sum; its gradient, too; each word's bag predicts its contexts; words
have n-grams."""


@numba.njit(nogil=True, inline="always")
def add_rows(word, grams, numbers, words, hot, own, stride, lefts, count):
    """Write where rows of a word and its n-grams, numbers[grams[word] : grams[word + 1]], begin; how many by now."""
    lefts[count] = placed(word, hot, own, stride)
    count += 1
    for gram in range(grams[word], grams[word + 1]):
        lefts[count] = (words + np.int64(numbers[gram])) * stride
        count += 1
    return count


@numba.njit(nogil=True, inline="always")
def bagged(sentence, size, middle, reach, how, grams, numbers, words, hot, own, stride, lefts, targets):
    """Fill `lefts` with the rows of the bag around `middle` and `targets` with what it predicts; how many of each."""
    first, last, many, count = max(0, middle - reach), min(size, middle + reach + 1), 0, 0
    if how & CONTEXTS:
        count = add_rows(sentence[middle], grams, numbers, words, hot, own, stride, lefts, count)
    for place in range(first, last):
        if place == middle:
            continue
        if how & CONTEXTS:
            targets[many] = sentence[place]
            many += 1
        else:
            count = add_rows(sentence[place], grams, numbers, words, hot, own, stride, lefts, count)
    if not how & CONTEXTS:
        targets[0] = sentence[middle]
        many = np.int64(count > 0)
    return count, many


@numba.njit(cache=KEPT, nogil=True)
def negative_sampling(
    ids, keep, reaches, threshold, other, negatives, reuse, hot, own_left, own_right, how, grams, numbers, hidden, seed,
    alpha, left, right, stride, desk, totals,
):  # fmt: skip
    """Train on a chunk of text; as `skipgram.negative_sampling`.

    how: see AVERAGED. grams [V + 1], numbers: the n-grams of each word, rows of `left` after those of V + 1 words.
    hidden: where this thread's own row begins in `left`.
    """
    sentence, places, lefts, rights, words, weights, signs, sureness, products, uses, errors, targets = desk
    blocks, tiles = stride // ROW, (negatives + OUTPUTS) // OUTPUTS
    span, farthest, room = np.uint64(reaches.size - 1), np.int64(reaches.max()), GROUP * 2
    alone = tiles == 1 and not how & CONTEXTS  # a bag meets one tile, and can go through registers at once
    state, worn, past = seed, 0, SETS
    at, turn, loss, pairs, kept, before = 0, 0, 0.0, 0, 0, np.int64(threshold.size) + 1
    while at < ids.size:
        size, at, state = sampled(ids, at, keep, state, sentence)
        kept += size
        for middle in range(size):
            places[middle] = placed(sentence[middle], hot, own_left, stride)
        for middle in range(min(size, farthest)):
            ask(left, places[middle], stride)
        for middle in range(size):
            state = following(state)
            reach, many = np.int64(reaches[mixed(state) >> np.uint64(40) & span]), 1
            if how & GRAMS:
                count, many = bagged(
                    sentence, size, middle, reach, how, grams, numbers, before, hot, own_left, stride, lefts, targets
                )
            else:
                count = gathered(places, size, middle, reach, lefts)
                targets[0] = sentence[middle]
            ask(left, places[min(size, middle + farthest + 1)], stride)
            ask(right, placed(sentence[min(size, middle + 2)], hot, own_right, stride), stride)
            if count == 0 or many == 0:
                continue
            share = ONE / np.float32(count) if how & AVERAGED else ONE
            back = share if how & EXACT else ONE
            if not alone:
                gather(left, lefts, 0, count, blocks, share, hidden)
                lefts[count] = hidden
                errors[:stride] = ZERO
            for target in range(many):
                for number in range(worn, past):
                    state = redraw(
                        number, negatives, threshold, other, hot, own_right, state, right, stride, rights, words,
                        weights,
                    )  # fmt: skip
                    uses[number] = 0
                worn = number = turn % SETS
                turn += 1
                uses[number] += 1
                past = number + np.int64(uses[number] == reuse)
                begin, lanes, own = number * tiles * OUTPUTS, number * tiles * PAIR, targets[target]
                rights[begin] = placed(own, hot, own_right, stride)
                if alone:
                    loss += step(
                        left, lefts, count, right, rights, begin, blocks, signs, 0, weights, words, lanes, own, alpha,
                        share, back, errors,
                    )  # fmt: skip
                    continue
                for tile in range(tiles):
                    lane, sign, at_tile = lanes + tile * PAIR, tile * PAIR, begin + tile * OUTPUTS
                    scores_1(left, lefts, count, right, rights, at_tile, blocks, products, tile * room)
                    loss += judged(products, tile * room, 1, signs, sign, weights, words, lane, own, alpha, sureness)
                for tile in range(tiles):
                    at_tile = begin + tile * OUTPUTS
                    updates_apart_6(
                        left, lefts, count, 1, right, rights, at_tile, blocks, products, tile * room, errors
                    )
            if not alone:
                scatter(left, lefts, 0, count, blocks, errors, 0, 0, back)
            pairs += many
    totals[0] += loss
    totals[1] += pairs
    totals[2] += kept
