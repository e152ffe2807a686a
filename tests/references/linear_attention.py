"""Minimal recurrences and the gated delta rule in NumPy float64: slow, and written from the papers alone.

One row of a batch; steps are the first axis. Nothing of src/ is used.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def sigmoid(a: Array) -> Array:
    return 1 / (1 + np.exp(-a))


def g(a: float) -> float:
    """Feng et al. (2024), appendix B: a + 0.5 for a >= 0, sigmoid(a) otherwise."""
    return a + 0.5 if a >= 0 else 1 / (1 + math.exp(-a))


def log_g(a: float) -> float:
    return math.log(a + 0.5) if a >= 0 else -math.log1p(math.exp(-a))


class Linear(NamedTuple):
    W: Array  # [H, in]
    b: Array  # [H]

    def __call__(self, x: Array) -> Array:
        return self.W.dot(x) + self.b


def min_gru(z: Linear, n: Linear, xs: Array, h: Array) -> list[Array]:
    """h_t = (1 - z_t) h_(t-1) + z_t n_t, one unit after the other."""
    states = []
    for x in xs:
        gate, candidate = sigmoid(z(x)), [g(a) for a in n(x)]
        h = np.array([(1 - gate[j]) * h[j] + gate[j] * candidate[j] for j in range(len(h))])
        states.append(h)
    return states


def min_lstm(i: Linear, f: Linear, n: Linear, xs: Array, h: Array) -> list[Array]:
    """h_t = f' h_(t-1) + i' n_t with f' = f / (f + i) and i' = i / (f + i)."""
    states = []
    for x in xs:
        taken, kept, candidate = sigmoid(i(x)), sigmoid(f(x)), [g(a) for a in n(x)]
        h = np.array(
            [(kept[j] * h[j] + taken[j] * candidate[j]) / (kept[j] + taken[j]) for j in range(len(h))],
        )
        states.append(h)
    return states


def scan_of_logarithms(log_kept: Array, log_added: Array, log_start: Array) -> Array:
    """The published parallel form: log h_t = A_t + log(h_0 + sum over i <= t of exp(log b_i - A_i)), A summed log a.

    Only for a start above zero. log_kept, log_added: [T, H].
    """
    summed = np.cumsum(log_kept, axis=0)
    terms = np.vstack([log_start[None], log_added - summed])
    return np.exp(summed + np.logaddexp.accumulate(terms, axis=0)[1:])


def log_min_gru(z: Linear, n: Linear, xs: Array, h: Array) -> Array:
    """minGRU by the scan of logarithms: a = 1 - z = sigmoid(-k), b = z g(v), with k and v what the layers give."""
    k, v = np.array([z(x) for x in xs]), np.array([n(x) for x in xs])
    log_candidate = np.vectorize(log_g)(v)
    return scan_of_logarithms(-np.logaddexp(0, k), -np.logaddexp(0, -k) + log_candidate, np.log(h))


class DeltaHead(NamedTuple):
    """One head: its rows of every matrix, and its own numbers."""

    query: Array  # these three [d, in]
    key: Array
    value: Array
    query_taps: Array  # these three [window, d], the newest last
    key_taps: Array
    value_taps: Array
    write: Array  # these two [in]
    rate: Array
    log_rate: float
    rate_shift: float


def silu(a: Array) -> Array:
    return a * sigmoid(a)


def convolved(matrix: Array, taps: Array, xs: Array, t: int) -> Array:
    """silu of the sum over the last steps of tap * (matrix x), nothing before the first step."""
    window = len(taps)
    total = np.zeros(taps.shape[1])
    for back in range(window):
        if t - back >= 0:
            total = total + taps[window - 1 - back] * matrix.dot(xs[t - back])
    return silu(total)


def delta_answers(head: DeltaHead, xs: Array, S: Array) -> tuple[list[Array], Array]:
    """Yang et al. (2025), eq. 10: S_t = S_(t-1) (a_t (I - b_t k_t k_t^T)) + b_t v_t k_t^T, o_t = S_t q_t.

    S: [values, keys]. Returns the o_t and the last S.
    """
    answers = []
    for t, x in enumerate(xs):
        q, k, v = (
            convolved(head.query, head.query_taps, xs, t),
            convolved(head.key, head.key_taps, xs, t),
            convolved(head.value, head.value_taps, xs, t),
        )
        q, k = (u / math.sqrt(float(u.dot(u)) + 1e-6) for u in (q, k))
        b = 1 / (1 + math.exp(-float(head.write.dot(x))))
        step = math.log1p(math.exp(float(head.rate.dot(x)) + head.rate_shift))
        a = math.exp(-math.exp(head.log_rate) * step)
        S = S @ (a * (np.eye(len(k)) - b * np.outer(k, k))) + b * np.outer(v, k)
        answers.append(S @ q)
    return answers, S


def gated_delta(
    heads: list[DeltaHead], gate: Array, gain: Array, output: Array, xs: Array, starts: list[Array]
) -> tuple[Array, list[Array]]:
    """All heads side by side, each divided by its root mean square, gated, and mixed: outputs [T, H], the last S."""
    read = [delta_answers(head, xs, S) for head, S in zip(heads, starts, strict=True)]
    outputs = []
    for t, x in enumerate(xs):
        normed = [o[t] / math.sqrt(float(np.mean(o[t] ** 2)) + 1e-6) * gain for o, _ in read]
        outputs.append(output.dot(np.concatenate(normed) * silu(gate.dot(x))))
    return np.array(outputs), [S for _, S in read]
