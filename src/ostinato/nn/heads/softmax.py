"""The full softmax."""

from __future__ import annotations

from ostinato.nn.heads.base import LinearHead, heads


@heads.register("softmax")
class Softmax(LinearHead):
    """p(w | x) = exp(W_w x + b_w) / sum over v of exp(W_v x + b_v). Source: [Bridle1990]."""
