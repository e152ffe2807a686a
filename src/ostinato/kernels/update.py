"""Kernels that read gradients and change weights: one pass over flat arrays, in as many threads as there are slices.

All arrays are [N] float32 and of one length; a kernel works on its slice `begin..end` and is given numbers as float32,
so that nothing is computed in float64 by accident. What a number becomes depends on its own place alone, so the
result is the same however the arrays are sliced. Every gradient is first scaled by `factor`, then cut to +-`cut`
(infinity: not cut). The slow twin of each is torch.optim, or one line of NumPy (tests/test_optimise.py).
"""

from __future__ import annotations

import numba
import numpy as np

BLOCK = 1 << 14
"""Numbers whose squares are summed together: the order of summation, and so the sum, does not depend on threads."""

ONE = np.float32(1)


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "nsz", "contract"})
def squares(begin, end, gradient, cut, whole, kept):
    """Fill whole[i] and kept[i] for blocks begin..end with the sum of squares before and after cutting, in float64.

    Block i is gradient[i * BLOCK : (i + 1) * BLOCK]. NaN or infinity in a block makes its sum so. Cost: one pass.
    """
    for block in range(begin, end):
        g = gradient[block * BLOCK : (block + 1) * BLOCK]
        before, after = 0.0, 0.0
        for i in range(g.size):
            c = min(max(g[i], -cut), cut)
            before += np.float64(g[i]) * np.float64(g[i])
            after += np.float64(c) * np.float64(c)
        whole[block], kept[block] = before, after


@numba.njit(cache=True, nogil=True, error_model="numpy")
def descend(begin, end, values, gradient, factor, cut, decay, rate):
    """Plain gradient descent: w -= rate (g + decay w). Cost: one pass over two arrays."""
    w, d = values[begin:end], gradient[begin:end]
    for i in range(w.size):
        g = d[i] * factor
        g = g if g < cut else cut
        g = g if g > -cut else -cut
        w[i] -= rate * (g + decay * w[i])


@numba.njit(cache=True, nogil=True, error_model="numpy")
def descend_with_momentum(begin, end, values, gradient, velocity, factor, cut, decay, rate, momentum):
    """v = momentum v + (g + decay w); w -= rate v. Cost: one pass over three arrays."""
    w, d, v = values[begin:end], gradient[begin:end], velocity[begin:end]
    for i in range(w.size):
        g = d[i] * factor
        g = g if g < cut else cut
        g = g if g > -cut else -cut
        v[i] = momentum * v[i] + (g + decay * w[i])
        w[i] -= rate * v[i]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def adam(begin, end, values, gradient, mean, square, factor, cut, decay, shrink, beta1, beta2, rate, root, epsilon):
    """Adam with L2 (`decay`, added to the gradient) or decoupled decay (`shrink` = 1 - rate * decay of the weights).

    m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;  w = shrink w - rate m / (sqrt(v) / root + epsilon)
    where the caller has put the corrections of the start into rate = lr / (1 - beta1^t) and root = sqrt(1 - beta2^t).
    Source: [Kingma2015] algorithm 1, [Loshchilov2019] algorithm 2. Cost: one pass over four arrays.
    """
    w, d, m, v = values[begin:end], gradient[begin:end], mean[begin:end], square[begin:end]
    for i in range(w.size):
        g = d[i] * factor
        g = g if g < cut else cut
        g = g if g > -cut else -cut
        g = g + decay * w[i]
        m[i] = beta1 * m[i] + (ONE - beta1) * g
        v[i] = beta2 * v[i] + (ONE - beta2) * g * g
        w[i] = shrink * w[i] - rate * m[i] / (np.sqrt(v[i]) / root + epsilon)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def blend(begin, end, mean, values, share):
    """Move a running mean by `share` of the way to the values. Cost: one pass over two arrays."""
    m, w = mean[begin:end], values[begin:end]
    for i in range(m.size):
        m[i] += share * (w[i] - m[i])
