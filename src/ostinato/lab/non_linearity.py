"""Non-linearity: exclusive or with and without a hidden layer, and the functions that bend."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Literal, NamedTuple

import numpy as np
from fastapi import Query, Response
from numpy.typing import NDArray

from ostinato.lab.answers import arrays
from ostinato.lab.page import Page

page = Page("non-linearity")

Array = NDArray[np.float64]
Bend = Callable[[Array], Array]
Name = Literal["sigmoid", "tanh", "relu", "gelu", "swiglu"]

INPUTS: Array = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
TARGETS: Array = np.array([0.0, 1.0, 1.0, 0.0])
GRID = 41  # points along each side of the square [-0.5, 1.5] that is coloured
SNAPSHOTS = 61
_erf = np.vectorize(math.erf, otypes=[np.float64])


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), without overflow."""
    return 0.5 * (1 + np.tanh(0.5 * x))


def normal(x: Array) -> Array:
    """The share of a normal distribution below x."""
    return np.asarray(0.5 * (1 + _erf(x / math.sqrt(2))))


FUNCTIONS: dict[str, tuple[Bend, Bend]] = {
    "sigmoid": (sigmoid, lambda x: sigmoid(x) * (1 - sigmoid(x))),
    "tanh": (np.tanh, lambda x: 1 - np.tanh(x) ** 2),
    "relu": (lambda x: np.maximum(x, 0), lambda x: (x > 0).astype(np.float64)),
    "gelu": (lambda x: x * normal(x), lambda x: normal(x) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)),
    "swiglu": (lambda x: x * sigmoid(x), lambda x: sigmoid(x) * (1 + x * (1 - sigmoid(x)))),
}
"""Each function and its derivative; of swiglu what bends, silu, which multiplies a second, linear reading.

Source: [Hendrycks2016] for gelu, exactly; [Shazeer2020] eq. 5 for swiglu.
"""


class Weights(NamedTuple):
    """score = w f(U x + a) + b, with swiglu w (f(U x + a) * (V x + c)) + b, without units w x + b; n units."""

    U: Array  # [n, 2]
    a: Array  # [n]
    V: Array  # [n, 2], read by swiglu alone, as c
    c: Array  # [n]
    w: Array  # [n], or [2] without units
    b: Array  # [1]


class Training(NamedTuple):
    """What happened; of `SNAPSHOTS` steps or fewer the weights too."""

    loss: Array  # [steps + 1], mean cross-entropy, nats
    dead: NDArray[np.int32]  # [steps + 1], units that are off for all four inputs
    steps: list[int]
    weights: list[Weights]


def begin(units: int, seed: int) -> Weights:
    """Weights drawn from a normal distribution, biases zero."""
    rng = np.random.default_rng(seed)
    draw = rng.standard_normal
    return Weights(draw((units, 2)), np.zeros(units), draw((units, 2)), np.zeros(units), draw(units or 2), np.zeros(1))


def hidden(at: Weights, name: Name, xs: Array) -> Array:
    """What the last layer reads of inputs [N, 2]: the hidden units [N, n], or the inputs if there are none."""
    if not len(at.U):
        return xs
    bent = FUNCTIONS[name][0](xs @ at.U.T + at.a)
    return bent * (xs @ at.V.T + at.c) if name == "swiglu" else bent


def gradient(at: Weights, name: Name) -> tuple[float, Weights]:
    """The mean cross-entropy on the four inputs in nats, and its gradient."""
    read = hidden(at, name, INPUTS)
    score = read @ at.w + at.b
    loss = float(np.mean(np.logaddexp(0, score) - TARGETS * score))
    error = (sigmoid(score) - TARGETS) / len(TARGETS)
    if not len(at.U):
        return loss, Weights(at.U, at.a, at.V, at.c, read.T @ error, error.sum(keepdims=True))
    bend, slope = FUNCTIONS[name]
    inner = INPUTS @ at.U.T + at.a
    back = error[:, None] * at.w
    other = INPUTS @ at.V.T + at.c
    to_inner = back * slope(inner) * (other if name == "swiglu" else 1)
    to_other = back * bend(inner) * (name == "swiglu")
    by_weights = (to_inner.T @ INPUTS, to_inner.sum(0), to_other.T @ INPUTS, to_other.sum(0))
    return loss, Weights(*by_weights, read.T @ error, error.sum(keepdims=True))


def train(units: int, name: Name, rate: float, steps: int, seed: int) -> Training:
    """Gradient descent on all four inputs at once."""
    at = begin(units, seed)
    kept = set(np.linspace(0, steps, min(SNAPSHOTS, steps + 1)).round().astype(int).tolist())
    losses, dead, snapshots = [], [], []
    for step in range(steps + 1):
        loss, slope = gradient(at, name)
        losses.append(loss)
        dead.append(count_dead(at) if name == "relu" else 0)
        if step in kept:
            snapshots.append(at)
        at = Weights(*(part - rate * down for part, down in zip(at, slope, strict=True)))
    return Training(np.array(losses), np.array(dead, np.int32), sorted(kept), snapshots)


def count_dead(at: Weights) -> int:
    """How many relu units are off for all four inputs: no gradient reaches them any more."""
    return int(((INPUTS @ at.U.T + at.a) <= 0).all(axis=0).sum())


def flat(points: Array, axes: Array, middle: Array) -> Array:
    """Points [N, n] in two coordinates: themselves if there are two, else along `axes` [2, n] from `middle`."""
    if points.shape[1] == 1:
        return np.hstack([points, np.zeros_like(points)])
    return points if points.shape[1] == 2 else (points - middle) @ axes.T


@page.router.get("/train")
def trained(
    units: Annotated[int, Query(ge=0, le=16)],
    name: Name,
    rate: Annotated[float, Query(gt=0, le=1000)],
    steps: Annotated[int, Query(ge=1, le=5000)],
    seed: Annotated[int, Query(ge=0, le=2**32 - 1)],
) -> Response:
    """Losses and dead units at every step; by snapshot the coloured square, the hidden space and the line in it."""
    done = train(units, name, rate, steps, seed)
    side = np.linspace(-0.5, 1.5, GRID)
    square = np.stack(np.meshgrid(side, side[::-1]), axis=-1).reshape(-1, 2)  # the first row is the top
    last = hidden(done.weights[-1], name, INPUTS)
    middle = last.mean(axis=0)
    axes = np.linalg.svd(last - middle, full_matrices=False)[2][:2]
    surface = [sigmoid(hidden(at, name, square) @ at.w + at.b) for at in done.weights]
    return arrays(
        {
            "loss": done.loss,
            "dead": done.dead,
            "steps": np.array(done.steps, np.int32),
            "surface": np.array(surface, np.float32),
            "answers": np.array([sigmoid(hidden(at, name, INPUTS) @ at.w + at.b) for at in done.weights]),
            "hidden": np.array([flat(hidden(at, name, INPUTS), axes, middle) for at in done.weights]),
            "line": np.array([[*at.w, *at.b] for at in done.weights]) if units in (0, 2) else np.zeros((0, 3)),
        },
        grid=GRID,
    )


@page.router.get("/functions")
def functions() -> Response:
    """Every function and its derivative on [-5, 5]."""
    x = np.linspace(-5, 5, 201)
    values, slopes = (np.array([pair[which](x) for pair in FUNCTIONS.values()]) for which in (0, 1))
    return arrays({"x": x, "values": values, "slopes": slopes}, names=list(FUNCTIONS))
