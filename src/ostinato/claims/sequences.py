"""Generated sequence tasks with long lags, drawn anew for every update; nothing is stored."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor


class Task(NamedTuple):
    """A batch: vectors [B, T, D] or symbols [B, T], and what should be said of them, numbers or classes."""

    inputs: Tensor
    targets: Tensor


def adding(rng: np.random.Generator, rows: int, steps: int) -> Task:
    """The adding problem: numbers in [-1, 1] with two of them marked; the target [B] is 0.5 + their sum / 4.

    One mark falls in the first tenth of the sequence (at least 2 steps), the other in its first half, as in
    [Hochreiter1997] experiment 4. Differs: all have the same length; the marks at both ends (-1 there) are left out.
    Who always answers 0.5 has a squared error of 1/24.
    """
    numbers, marks = rng.uniform(-1, 1, (rows, steps)), np.zeros((rows, steps))
    first = rng.integers(0, max(2, steps // 10), rows)
    second = rng.integers(0, max(3, steps // 2) - 1, rows)
    second += second >= first  # another place than the first
    every = np.arange(rows)
    marks[every, first] = marks[every, second] = 1
    targets = 0.5 + (numbers[every, first] + numbers[every, second]) / 4
    return Task(vectors(np.stack([numbers, marks], axis=-1)), vectors(targets))


def temporal_order(rng: np.random.Generator, rows: int, steps: int) -> Task:
    """Two symbols X or Y among four that mean nothing; the target [B], 0 to 3, is which two came in which order.

    The first falls between 0.1 T and 0.2 T, the second between 0.5 T and 0.6 T, as in [Hochreiter1997] experiment 6a.
    Differs: all have the same length T; no symbols for begin and end. Symbols 0-3 distract, 4 is X, 5 is Y.
    """
    symbols = rng.integers(0, 4, (rows, steps))
    which, every = rng.integers(0, 2, (rows, 2)), np.arange(rows)
    for place, (low, high) in enumerate(((0.1, 0.2), (0.5, 0.6))):
        at = rng.integers(int(low * steps), max(int(low * steps) + 1, int(high * steps)), rows)
        symbols[every, at] = 4 + which[:, place]
    return Task(classes(symbols), classes(2 * which[:, 0] + which[:, 1]))


def noise_free(rng: np.random.Generator, rows: int, lag: int) -> Task:
    """x or y, then always the same `lag` - 1 symbols; the target [B] is the first symbol, 0 or 1.

    [Hochreiter1997] experiment 2a. Differs: only the last prediction, of the symbol that is as the first, is asked for.
    Symbols 0 and 1 are x and y, the others 2 to `lag`.
    """
    first = rng.integers(0, 2, rows)
    others = np.broadcast_to(np.arange(2, lag + 1), (rows, lag - 1))
    return Task(classes(np.concatenate([first[:, None], others], axis=1)), classes(first))


def bits(rng: np.random.Generator, rows: int, steps: int) -> Tensor:
    """Coin tosses [B, T], 0 or 1."""
    return classes(rng.integers(0, 2, (rows, steps)))


REBER = "BTSXPVE"
"""The symbols of the Reber grammar, by number."""

_ARCS = ("B1", "T2 P3", "S2 X4", "T3 V5", "X3 S6", "P4 V6")


def embedded_reber(rng: np.random.Generator) -> str:
    """A string of the embedded Reber grammar: B, T or P, a string of the Reber grammar, the same T or P, E.

    Source: [Gers2000] figure 2. Each of two arcs is taken with chance 1/2.
    """
    node, inner = 0, ""
    while node < 6:
        arcs = _ARCS[node].split()
        arc = arcs[rng.integers(len(arcs))]
        inner += arc[0]
        node = int(arc[1])
    frame = "TP"[rng.integers(2)]
    return f"B{frame}{inner}E{frame}E"


def reber_streams(rng: np.random.Generator, rows: int, steps: int) -> tuple[Tensor, Tensor]:
    """Strings one after the other without a mark between, symbols [B, T]; where the second T or P of a frame stands."""
    symbols, seconds = np.zeros((rows, steps), np.int64), np.zeros((rows, steps), bool)
    for row in range(rows):
        at = 0
        while at < steps:
            string = embedded_reber(rng)
            end = min(at + len(string), steps)
            symbols[row, at:end] = [REBER.index(symbol) for symbol in string[: end - at]]
            if at + len(string) - 2 < steps:
                seconds[row, at + len(string) - 2] = True
            at = end
    return classes(symbols), torch.from_numpy(seconds)


def vectors(array: np.ndarray) -> Tensor:
    """As float32."""
    return torch.from_numpy(np.asarray(array, np.float32))


def classes(array: np.ndarray) -> Tensor:
    """As int64."""
    return torch.from_numpy(np.asarray(array, np.int64))
