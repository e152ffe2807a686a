"""Output layers made of trained arrays: features in, the log-probs of all words out.

Sampled softmax and noise-contrastive estimation are ways to train; what they leave is a softmax.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from ostinato.core.errors import ConfigError
from ostinato.stream import ops
from ostinato.stream.matrix import Linear, Matrix, Weights


class Head(Protocol):
    """What every output layer does."""

    def log_probs(self, features: Any) -> Any:
        """Log-probs [..., outputs] (nats) of the next word after features [..., D]."""


class SoftmaxHead:
    """log softmax(W x + b); W may be the first rows of the embedding."""

    def __init__(self, weights: Weights, width: int, outputs: int, embedding: Matrix, options: Mapping[str, Any]):
        own = "weight" in weights
        matrix = weights.matrix("weight", outputs, width) if own else embedding.part(0, outputs)
        self.output = Linear(matrix, weights.vector("bias", outputs))

    def log_probs(self, features: Any) -> Any:
        return ops.log_softmax(self.output(features))


class MixtureHead(SoftmaxHead):
    """log of the sum over k of pi_k softmax(W h_k + b), pi = softmax(A x), h_k = tanh(C_k x + c_k)."""

    def __init__(self, weights: Weights, width: int, outputs: int, embedding: Matrix, options: Mapping[str, Any]):
        super().__init__(weights, width, outputs, embedding, options)
        self.components = int(options["components"])
        self.prior = weights.linear("prior", self.components, width)
        self.latent = weights.linear("latent", self.components * width, width)

    def log_probs(self, features: Any) -> Any:
        latent = ops.split(np.tanh(self.latent(features)), self.components)
        shares = ops.split(ops.log_softmax(self.prior(features)), self.components)
        total = super().log_probs(latent[0]) + shares[0]
        for hidden, share in zip(latent[1:], shares[1:], strict=True):
            total = ops.log_add(total, super().log_probs(hidden) + share)
        return total


class AdaptiveHead:
    """log softmax(H x + c) over the short list and the clusters, and inside each cluster log softmax(W P x + b)."""

    def __init__(self, weights: Weights, width: int, outputs: int, embedding: Matrix, options: Mapping[str, Any]):
        borders = [int(cut) for cut in options["cutoffs"]] + [outputs]
        self.short, clusters = borders[0], len(borders) - 1
        own = weights.length("weight") > clusters  # the short list's rows too, else they are the embedding's
        first, bias = self.short + clusters, weights.vector("bias", self.short + clusters)
        if own or not self.short:
            both = weights.matrix("weight", first, width)
            self.words = Linear(both.part(0, self.short), bias[: self.short])
            self.names = Linear(both.part(self.short, first), bias[self.short :])
        else:
            self.words = Linear(embedding.part(0, self.short), bias[: self.short])
            self.names = Linear(weights.matrix("weight", clusters, width), bias[self.short :])
        self.clusters = []
        for number, (begin, end) in enumerate(itertools.pairwise(borders)):
            inner = weights.under(f"clusters.{number}")
            narrow = inner.length("project")
            project = Linear(inner.matrix("project", narrow, width), None)
            scores = Linear(inner.matrix("weight", end - begin, narrow), inner.vector("bias", end - begin))
            self.clusters.append((project, scores))

    def log_probs(self, features: Any) -> Any:
        first = ops.log_softmax(ops.join(self.words(features), self.names(features)))
        words, *names = ops.divide(first, self.short, *[1] * len(self.clusters))
        parts = [words]
        for (project, scores), name in zip(self.clusters, names, strict=True):
            parts.append(ops.log_softmax(scores(project(features))) + name)
        return ops.join(*parts)


HEADS: dict[str, Any] = {
    "softmax": SoftmaxHead,
    "sampled": SoftmaxHead,
    "nce": SoftmaxHead,
    "mixture": MixtureHead,
    "adaptive": AdaptiveHead,
}
NOT_USED = ("log_normaliser",)
"""Arrays of output layers that only training reads."""


def make_head(weights: Weights, width: int, outputs: int, embedding: Matrix, options: Mapping[str, Any]) -> Head:
    """The output layer of that kind. Raises ConfigError for one that is not known, FormatError for other shapes."""
    kind = str(options.get("kind", "softmax"))
    if kind not in HEADS:
        raise ConfigError(f"no output layer of kind {kind!r} can be exported; those that can: {', '.join(HEADS)}")
    for name in NOT_USED:
        if name in weights:
            weights.pass_over(name)
    head: Head = HEADS[kind](weights, width, outputs, embedding, options)
    return head
