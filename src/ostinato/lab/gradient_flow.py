"""Gradient flow: how much of a gradient comes through many steps of a recurrence.

The scalar recurrence is computed in the browser too (static/scalar.js), where a slider moves; this is what it is
checked against. The matrix version is computed here alone.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Annotated, Literal, NamedTuple

import numpy as np
from fastapi import Query, Response
from numpy.typing import NDArray

from ostinato.lab.answers import answer, arrays
from ostinato.lab.page import Page

page = Page("gradient-flow")

Array = NDArray[np.float64]
InputKind = Literal["constant", "alternating", "pulse", "random"]
Weight = Annotated[float, Query(ge=-10, le=10)]
Steps = Annotated[int, Query(ge=1, le=1000)]
SEEDS = 20
KINDS = ("orthogonal", "gaussian")


def draws(seed: int, count: int) -> list[float]:
    """Numbers in [0, 1) that the browser draws too: the generator mulberry32, in 32-bit arithmetic."""
    found, state, mask = [], seed & 0xFFFFFFFF, 0xFFFFFFFF
    for _ in range(count):
        state = (state + 0x6D2B79F5) & mask
        mixed = ((state ^ (state >> 15)) * (state | 1)) & mask
        mixed = ((mixed + ((mixed ^ (mixed >> 7)) * (mixed | 61) & mask)) ^ mixed) & mask
        found.append((mixed ^ (mixed >> 14)) / 2**32)
    return found


def inputs(kind: InputKind, steps: int, seed: int) -> list[float]:
    """The inputs x_1..x_T."""
    if kind == "random":
        return [2 * draw - 1 for draw in draws(seed, steps)]
    if kind == "alternating":
        return [(-1.0) ** t for t in range(steps)]
    return [1.0 if kind == "constant" or t == 0 else 0.0 for t in range(steps)]


def states(w: float, u: float, xs: list[float]) -> list[float]:
    """The states h_0..h_T of h_t = tanh(w h_{t-1} + u x_t), h_0 = 0. Source: [Elman1990] with one unit."""
    hs = [0.0]
    for x in xs:
        hs.append(math.tanh(w * hs[-1] + u * x))
    return hs


def products(w: float, hs: list[float]) -> list[float]:
    """d h_T / d h_t for t = 0..T: the product of w (1 - h_s^2) over s > t, at most |w|^(T - t).

    Source: [Pascanu2013] eq. 5 with one unit.
    """
    found = [1.0]
    for h in reversed(hs[1:]):
        found.append(found[-1] * w * (1 - h * h))
    return found[::-1]


@page.router.get("/scalar")
def scalar(
    w: Weight, u: Weight, steps: Steps, kind: InputKind, seed: Annotated[int, Query(ge=0, le=2**32 - 1)] = 0
) -> Response:
    """The states and products that the browser should have found."""
    hs = states(w, u, inputs(kind, steps, seed))
    return answer({"bound": abs(w) ** steps, "states": hs, "products": products(w, hs)})


class Flow(NamedTuple):
    """What a matrix recurrence does to a gradient; K ways to begin, S seeds, T steps."""

    steps: Array  # [K, S, T + 1], the norm of d loss / d h_t
    weights: Array  # [K, S], the norm of d loss / d W
    gain: Array  # [K, S], the largest singular value of W


@lru_cache(maxsize=64)
def matrices(size: int) -> Array:
    """Recurrent matrices [2, SEEDS, size, size] of spectral radius 1: orthogonal ones, Gaussian ones.

    Source: [Saxe2014] for the orthogonal ones.
    """
    pairs = []
    for seed in range(SEEDS):
        drawn = np.random.default_rng(seed).standard_normal((size, size))
        q, r = np.linalg.qr(drawn)
        pairs.append((q * np.sign(np.diag(r)), drawn / np.abs(np.linalg.eigvals(drawn)).max()))
    return np.array(pairs).transpose(1, 0, 2, 3)


def flow(size: int, radius: float, steps: int, scale: float) -> Flow:
    """Gradients of loss = v h_T, |v| = 1, through h_t = tanh(W h_{t-1} + scale x_t), h_0 = 0, x_t and v drawn.

    Source: [Pascanu2013] eq. 3-5.
    """
    w = radius * matrices(size)
    rng = np.random.default_rng(SEEDS)
    xs = scale * rng.standard_normal((SEEDS, steps, size, 1))
    v = rng.standard_normal((SEEDS, size, 1))
    hs = [np.zeros((2, SEEDS, size, 1))]
    for t in range(steps):
        hs.append(np.tanh(w @ hs[-1] + xs[:, t]))
    gradient = np.broadcast_to(v / np.linalg.norm(v, axis=1, keepdims=True), hs[0].shape)
    norms, by_weights = [np.linalg.norm(gradient, axis=(2, 3))], np.zeros_like(w)
    for t in range(steps, 0, -1):
        inner = (1 - hs[t] ** 2) * gradient
        by_weights += inner @ hs[t - 1].swapaxes(2, 3)
        gradient = w.swapaxes(2, 3) @ inner
        norms.append(np.linalg.norm(gradient, axis=(2, 3)))
    return Flow(
        np.stack(norms[::-1], axis=-1), np.linalg.norm(by_weights, axis=(2, 3)), np.linalg.norm(w, ord=2, axis=(2, 3))
    )


@page.router.get("/matrix")
def matrix(
    size: Annotated[int, Query(ge=2, le=64)],
    radius: Annotated[float, Query(gt=0, le=4)],
    steps: Annotated[int, Query(ge=1, le=200)],
    scale: Annotated[float, Query(ge=0, le=10)],
) -> Response:
    """`flow` as arrays."""
    found = flow(size, radius, steps, scale)
    return arrays(found._asdict(), kinds=KINDS, seeds=SEEDS)
