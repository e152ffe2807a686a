"""What training on windows of text has in common: random numbers, sentences, negatives, judging what was multiplied.

The rows of a matrix have `stride` float32 numbers, padded with zeros, and one row of zeros comes after the last word's.
A chunk of text is int32 ids, -1 after each sentence. Everything is inlined: a call would count references to arrays.
"""

# mypy: ignore-errors
# (Numba gives variables their types)

from __future__ import annotations

import numba
import numpy as np

from ostinato.kernels.alias import draw
from ostinato.kernels.prefetch import prefetch_to_write
from ostinato.kernels.rows import PLACES, ROW, move
from ostinato.kernels.window import (
    GROUP,
    OUTPUTS,
    judge,
    narrow_scores_1,
    narrow_scores_2,
    scores_1,
    scores_2,
    surprise,
)

SETS = 8
"""Sets of negatives, used by turns: two uses of one set are so many words apart."""

SENTENCE = 1000
"""Words after which a sentence is cut."""

FEW = 12
"""Contexts whose probabilities are multiplied before a logarithm is taken: (1e-6)^6 is a normal float32."""

CERTAIN = np.float32(40)
"""A product whose sigmoid is 1 in float32."""

NONE = np.int32(-2)
PAIR = 2 * GROUP
HIGH = np.uint64(32)
ONE, ZERO = np.float32(1), np.float32(0)


@numba.njit(inline="always")
def following(state):
    """The next state of a 64-bit xorshift generator [Marsaglia2003]."""
    state ^= state << np.uint64(13)
    state ^= state >> np.uint64(7)
    return state ^ (state << np.uint64(17))


@numba.njit(inline="always")
def mixed(state):
    """64 well-mixed bits of a state (xorshift*)."""
    return state * np.uint64(0x2545F4914F6CDD1D)


@numba.njit(nogil=True, inline="always")
def sampled(ids, at, keep, state, sentence):
    """Fill `sentence` with the words of ids[at:] that subsampling keeps, up to a sentence's end or its length.

    keep: thresholds of the words; the last one is that of all words after it, too.
    """
    size, last = 0, np.int64(keep.size) - 1
    while at < ids.size and size < SENTENCE:
        word = ids[at]
        at += 1
        if word < 0:
            break
        state = following(state)
        sentence[size] = word
        size += np.int64(np.uint32(mixed(state) >> HIGH) <= keep[min(np.int64(word), last)])
    return size, at, state


@numba.njit(nogil=True, inline="always")
def placed(word, hot, own, stride):
    """Where the row of a word begins, for a thread whose copies of the rows of words below `hot` begin at row `own`."""
    return (np.int64(word) + own if word < hot else np.int64(word)) * stride


@numba.njit(nogil=True, inline="always")
def ask(matrix, place, stride):
    """Begin to fetch a row that will be updated."""
    for line in range(0, stride, ROW):
        prefetch_to_write(matrix, place + line)


@numba.njit(nogil=True, inline="always")
def redraw(number, negatives, threshold, other, hot, own, state, output, stride, rights, words, weights):
    """Give set `number` new negatives: their rows, words and how often each counts, if one comes more than once."""
    tiles = (negatives + OUTPUTS) // OUTPUTS
    zeros = np.int64(threshold.size) * stride
    begin, lanes = number * tiles * OUTPUTS, number * tiles * PAIR
    for lane in range(lanes, lanes + tiles * PAIR):
        words[lane], weights[lane] = NONE, ZERO
    weights[lanes] = weights[lanes + GROUP] = ONE
    for place in range(negatives + 1, tiles * OUTPUTS):
        rights[begin + place] = zeros
    for place in range(1, negatives + 1):
        state = following(state)
        word = draw(threshold, other, mixed(state))
        rights[begin + place] = placed(word, hot, own, stride)
        before = 1
        while rights[begin + before] != rights[begin + place]:
            before += 1
        lane = lanes + before // OUTPUTS * PAIR + before % OUTPUTS
        weights[lane] += ONE
        weights[lane + GROUP] += ONE
        words[lane] = words[lane + GROUP] = word
        if before < place:
            rights[begin + place] = zeros
        ask(output, rights[begin + place], stride)
    return state


@numba.njit(nogil=True, inline="always")
def gathered(places, size, middle, reach, lefts):
    """Copy the places up to `reach` around `middle`; how many they are. Both arrays are longer than is used, by 8."""
    first, last = max(0, middle - reach), min(size, middle + reach + 1)
    for begin in range(first, middle, PLACES):
        move(places, begin, lefts, begin - first)
    for begin in range(middle + 1, last, PLACES):
        move(places, begin, lefts, begin - first - 1)
    return last - first - 1


def make_multiplied(two, one):
    """`multiplied(left, lefts, first, count, right, rights, begin, blocks, products, at)` by such scores.

    Products of the `count` rows of `left` at lefts[first:] with a tile's rows of `right`, 8 numbers each.
    """

    @numba.njit(nogil=True, inline="always")
    def multiplied(left, lefts, first, count, right, rights, begin, blocks, products, at):
        row = 0
        while row + 1 < count:
            two(left, lefts, first + row, right, rights, begin, blocks, products, at + row * GROUP)
            row += 2
        if row < count:
            one(left, lefts, first + row, right, rights, begin, blocks, products, at + row * GROUP)

    return multiplied


multiplied = make_multiplied(scores_2, scores_1)
multiplied_narrow = make_multiplied(narrow_scores_2, narrow_scores_1)


@numba.njit(nogil=True, inline="always")
def judged(products, at, count, signs, sign, weights, words, lane, own, alpha, sureness):
    """Replace products by gradients times alpha, see `window.judge`; the loss: the sum of -weight * ln p."""
    loss = ZERO
    for begin in range(0, count, FEW):
        last = min(count, begin + FEW)
        for number in range(PAIR):
            sureness[number] = ONE
        if last & 1:
            for number in range(GROUP, PAIR):
                products[at + (last - 1) * GROUP + number] = CERTAIN * signs[sign + number]  # no context there
        for first in range(begin, last, 2):
            judge(products, at + first * GROUP, signs, sign, weights, words, lane, own, alpha, sureness)
        loss += surprise(sureness, weights, words, lane, own)
    return loss
