"""Output layers from their definitions, a row and a word at a time; nothing of src/ is imported.

Grave et al. (2017), "Efficient softmax approximation for GPUs"; Jean et al. (2015), "On using very large target
vocabulary"; Gutmann and Hyvarinen (2010); Mnih and Teh (2012); Yang et al. (2018), "Breaking the softmax bottleneck".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def softmax(scores: Array) -> Array:
    """exp(s_w) / sum over v of exp(s_v)."""
    raised = np.exp(scores - scores.max())
    return raised / raised.sum()


def adaptive(x: Array, matrix: Array, bias: Array, clusters: Sequence[tuple[Array, Array, Array]]) -> Array:
    """p(w | x): the first words by themselves, the others as p(cluster) p(word | cluster).

    clusters: of each the projection, the matrix and the bias.
    """
    first = softmax(matrix @ x + bias)
    short = len(first) - len(clusters)
    found = list(first[:short])
    for i, (project, own, own_bias) in enumerate(clusters):
        found.extend(first[short + i] * softmax(own @ (project @ x) + own_bias))
    return np.array(found)


def mixture(x: Array, prior: Array, latent: Array, latent_bias: Array, matrix: Array, bias: Array) -> Array:
    """p(w | x) = sum over k of pi_k softmax(W h_k + b)[w]. latent: [K, D, D]; latent_bias: [K, D]."""
    weights = softmax(prior @ x)
    return sum(
        weights[k] * softmax(matrix @ np.tanh(latent[k] @ x + latent_bias[k]) + bias) for k in range(len(weights))
    )


def sampled(scores: Array, targets: Sequence[int], drawn: Sequence[int], expected: Array) -> float:
    """The summed loss over the target and the drawn words, each score less the log of its expected count."""
    total = 0.0
    for row, target in zip(scores, targets, strict=True):
        corrected = [row[w] - math.log(expected[w]) for w in drawn if w != target]
        own = row[target] - math.log(expected[target])
        total += math.log(sum(math.exp(s) for s in [own, *corrected])) - own
    return total


def nce(scores: Array, targets: Sequence[int], noise: Sequence[int], q: Array, log_z: float) -> float:
    """The summed loss of telling each target from the noise words, repeated ones counted as often as drawn."""
    total, k = 0.0, len(noise)
    for row, target in zip(scores, targets, strict=True):
        model = math.exp(row[target] - log_z)
        total -= math.log(model / (model + k * q[target]))
        for w in noise:
            model = math.exp(row[w] - log_z)
            total -= math.log(k * q[w] / (model + k * q[w]))
    return total
