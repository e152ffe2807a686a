"""Recurrent cells in NumPy, one row, one step, one gate at a time: slow, and written from the papers alone.

A gate is (W, U, b): its matrices on the input and on the hidden state, and its bias. Nothing of src/ is used.
Each function returns the next hidden state, and the next memory where there is one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


class Gate(NamedTuple):
    W: Vector  # [H, in]
    U: Vector  # [H, H]
    b: Vector  # [H]


Gates = dict[str, Gate]


def sigmoid(a: Vector) -> Vector:
    return 1 / (1 + np.exp(-a))


def net(gate: Gate, x: Vector, h: Vector) -> Vector:
    """What a unit sums up: its weighted inputs, its weighted recurrent inputs, its bias."""
    return gate.W.dot(x) + gate.U.dot(h) + gate.b


def elman(gates: Gates, x: Vector, h: Vector) -> Vector:
    """Elman (1990) with the logistic function."""
    return sigmoid(net(gates["hidden"], x, h))


def lstm_1997(gates: Gates, x: Vector, h: Vector, c: Vector) -> tuple[Vector, Vector]:
    """Hochreiter and Schmidhuber (1997), section 4: s(t) = s(t-1) + y_in g(net_c), y = y_out h(s); g = h = tanh."""
    y_in = sigmoid(net(gates["in"], x, h))
    y_out = sigmoid(net(gates["out"], x, h))
    s = c + y_in * np.tanh(net(gates["cell"], x, h))
    return y_out * np.tanh(s), s


def lstm_peephole(gates: Gates, peepholes: dict[str, Vector], x: Vector, h: Vector, c: Vector) -> tuple[Vector, Vector]:
    """Gers, Schraudolph and Schmidhuber (2002), forward pass in two phases: input and forget gates and the memory
    first, with the old memory in their peepholes, then the output gate with the new one."""
    y_in = sigmoid(net(gates["in"], x, h) + peepholes["in"] * c)
    y_forget = sigmoid(net(gates["forget"], x, h) + peepholes["forget"] * c)
    s = y_forget * c + y_in * np.tanh(net(gates["cell"], x, h))
    y_out = sigmoid(net(gates["out"], x, h) + peepholes["out"] * s)
    return y_out * np.tanh(s), s


def lstm_coupled(gates: Gates, x: Vector, h: Vector, c: Vector) -> tuple[Vector, Vector]:
    """Greff et al. (2017), variant CIFG, f = 1 - i, without peepholes."""
    i = sigmoid(net(gates["in"], x, h))
    f = 1 - i
    new = i * np.tanh(net(gates["cell"], x, h)) + f * c
    return sigmoid(net(gates["out"], x, h)) * np.tanh(new), new


def normalise(a: Vector, gain: Vector, bias: Vector) -> Vector:
    """Ba, Kiros and Hinton (2016) eq. 3-4; 1e-5 keeps the variance from zero."""
    mean = sum(a) / len(a)
    variance = sum((value - mean) ** 2 for value in a) / len(a)
    return np.array(
        [g * (value - mean) / np.sqrt(variance + 1e-5) + b for value, g, b in zip(a, gain, bias, strict=True)]
    )


def lstm_layer_norm(
    W: Vector, U: Vector, norms: dict[str, tuple[Vector, Vector]], x: Vector, h: Vector, c: Vector
) -> tuple[Vector, Vector]:
    """Ba, Kiros and Hinton (2016), supplement: W [4H, in], U [4H, H], a gain and a bias for x, h and c."""
    totals = normalise(W.dot(x), *norms["x"]) + normalise(U.dot(h), *norms["h"])
    size = len(h)
    i, f, g, o = (totals[place * size : (place + 1) * size] for place in range(4))
    new = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(normalise(new, *norms["c"])), new


def gru_reset_before(gates: Gates, x: Vector, h: Vector) -> Vector:
    """Cho et al. (2014) eq. 5-8, with biases; the reset falls on the hidden state that the candidate reads."""
    r = sigmoid(net(gates["reset"], x, h))
    z = sigmoid(net(gates["update"], x, h))
    candidate = np.tanh(net(gates["candidate"], x, r * h))
    return z * h + (1 - z) * candidate
