"""What steps are made of besides arithmetic: each takes arrays and gives arrays, or symbols and records itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from ostinato.stream.symbol import Symbol

Floats = Any  # an array of float32, or a Symbol for one


def sigmoid(x: Floats) -> Floats:
    """1 / (1 + exp(-x)), without overflow."""
    if isinstance(x, Symbol):
        return x.record.run("Sigmoid", x)
    return 0.5 * np.tanh(0.5 * x) + 0.5


def relu(x: Floats) -> Floats:
    """max(x, 0)."""
    return x.record.run("Relu", x) if isinstance(x, Symbol) else np.maximum(x, 0)


def softplus(x: Floats) -> Floats:
    """log(1 + exp(x)), without overflow."""
    return x.record.run("Softplus", x) if isinstance(x, Symbol) else np.logaddexp(np.float32(0), x)


def gelu(x: Floats) -> Floats:
    """x times the probability that a standard normal number is below x. Source: [Hendrycks2016] section 2."""
    return 0.5 * x * (1 + erf(x * 0.5**0.5))


def silu(x: Floats) -> Floats:
    """x * sigmoid(x)."""
    return x * sigmoid(x)


def erf(x: Floats) -> Floats:
    """The error function, to 1.5e-7. Source: [Abramowitz1964] formula 7.1.26."""
    if isinstance(x, Symbol):
        return x.record.run("Erf", x)
    sure = np.abs(x)
    t = 1 / (1 + 0.3275911 * sure)
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return np.sign(x) * (1 - series * np.exp(-sure * sure))


def split(x: Floats, parts: int) -> tuple[Floats, ...]:
    """The last axis cut into so many equal parts."""
    if isinstance(x, Symbol):
        if parts == 1:
            return (x,)
        made: tuple[Floats, ...] = x.record.run("Split", x, outputs=parts, axis=-1, num_outputs=parts)
        return made
    return tuple(np.split(x, parts, axis=-1))


def divide(x: Floats, *sizes: int) -> tuple[Floats, ...]:
    """The last axis cut into parts of these sizes."""
    if isinstance(x, Symbol):
        if len(sizes) == 1:
            return (x,)
        made: tuple[Floats, ...] = x.record.run("Split", x, np.array(sizes, np.int64), outputs=len(sizes), axis=-1)
        return made
    return tuple(np.split(x, np.cumsum(sizes[:-1]), axis=-1))


def join(*parts: Floats) -> Floats:
    """Parts side by side along the last axis."""
    if isinstance(parts[0], Symbol):
        return parts[0].record.run("Concat", *parts, axis=-1)
    return np.concatenate(parts, axis=-1)


def shift(window: Any, newest: Any) -> Any:
    """What a window holds, [B, N, ...], with the oldest left out and the newest [B, ...] put behind."""
    if isinstance(window, Symbol):
        record = window.record
        last = record.run("Unsqueeze", newest, np.array([1], np.int64))
        rest = record.run("Slice", window, *(np.array([at], np.int64) for at in (1, 1 << 62, 1)))
        return record.run("Concat", rest, last, axis=1)
    return np.concatenate([window[:, 1:], newest[:, None]], axis=1)


def reshape(x: Floats, *shape: int) -> Floats:
    """Each row [...] of x in another shape; -1 once for what is left."""
    if isinstance(x, Symbol):
        return x.record.run("Reshape", x, np.array([0, *shape], np.int64))
    return x.reshape(len(x), *shape)


def total(x: Floats, axis: int, keep: bool) -> Floats:
    """The sum along an axis, which stays with length one if asked for."""
    if isinstance(x, Symbol):
        return x.record.run("ReduceSum", x, np.array([axis], np.int64), keepdims=int(keep))
    return x.sum(axis=axis, keepdims=keep)


def normalise(x: Floats, weight: Any, bias: Any, epsilon: float) -> Floats:
    """(x - mean) / sqrt(variance + epsilon) * weight + bias over the last axis. Source: [Ba2016] eq. 3."""
    if isinstance(x, Symbol):
        return x.record.run("LayerNormalization", x, weight, bias, axis=-1, epsilon=epsilon)
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = np.square(centred).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + epsilon) * weight + bias


def log_softmax(x: Floats) -> Floats:
    """x - log(sum(exp(x))) over the last axis."""
    if isinstance(x, Symbol):
        return x.record.run("LogSoftmax", x, axis=-1)
    shifted = x - x.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def log_add(x: Floats, y: Floats) -> Floats:
    """log(exp(x) + exp(y))."""
    return x + softplus(y - x) if isinstance(x, Symbol) else np.logaddexp(x, y)
