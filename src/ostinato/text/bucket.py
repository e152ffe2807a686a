"""Batches of examples of similar length, by number of tokens, so that little is padding and memory is bounded."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int64]

POOL = 50
"""Batches whose examples are sorted together: enough to pad little, few enough that batches differ between epochs."""


def batches_by_length(
    lengths: NDArray[np.int64], rows: int, tokens: int, longest: int | None = None, order: Places | None = None
) -> list[Places]:
    """Examples in batches of at most `rows` of them and `tokens` tokens, padding included.

    lengths: [N], or [N, 2] for sources and targets, of which the longer counts. longest: examples beyond are left out.
    order: [N] the order to take them in before they are sorted within pools; None: sort all by length. An example
    longer than `tokens` is a batch of its own.
    """
    size = lengths if lengths.ndim == 1 else lengths.max(axis=1)
    given = np.arange(len(size)) if order is None else order
    kept = given if longest is None else given[size[given] <= longest]
    pool = (
        len(kept) if order is None else POOL * max(1, min(rows, tokens // max(1, int(size.mean()) if len(size) else 1)))
    )
    batches: list[Places] = []
    for begin in range(0, len(kept), max(1, pool)):
        part = kept[begin : begin + pool]
        keys = (size[part],) if lengths.ndim == 1 else (lengths[part, 1], lengths[part, 0], size[part])
        batches += cut(part[np.lexsort(keys)], size, rows, tokens)
    return batches


def cut(places: Places, size: NDArray[np.int64], rows: int, tokens: int) -> list[Places]:
    """Places cut, in their order, into batches of at most `rows` of them and `tokens` tokens with padding."""
    bounds, begin, longest = [0], 0, 0
    for number, length in enumerate(size[places].tolist()):
        longest = max(longest, length)
        if number > begin and (number - begin >= rows or (number - begin + 1) * longest > tokens):
            bounds.append(number)
            begin, longest = number, length
    bounds.append(len(places))
    return [places[first:last] for first, last in pairwise(bounds) if last > first]


def shuffled_batches(
    lengths: NDArray[np.int64], rows: int, tokens: int, longest: int | None, seed: int, epoch: int
) -> list[Places]:
    """The batches of an epoch of training, in random order; the same for the same seed."""
    random = np.random.default_rng([seed, epoch])
    batches = batches_by_length(lengths, rows, tokens, longest, random.permutation(len(lengths)))
    random.shuffle(batches)
    return batches


def padded(sequences: list[NDArray[np.int64]], pad: int, least: int = 1) -> tuple[Places, Places]:
    """Sequences as one array [B, T], `pad` behind the shorter ones, and their lengths [B]; T is at least `least`."""
    lengths = np.array([len(sequence) for sequence in sequences], np.int64)
    array = np.full((len(sequences), max(least, int(lengths.max(initial=0)))), pad, np.int64)
    for row, sequence in zip(array, sequences, strict=True):
        row[: len(sequence)] = sequence
    return array, lengths
