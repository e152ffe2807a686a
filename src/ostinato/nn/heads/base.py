"""What an output layer is."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ostinato.core.registry import Registry
from ostinato.nn.heads.options import HeadOptions
from ostinato.nn.loss import linear_cross_entropy


class Head(nn.Module):
    """Turns features [..., width] into a distribution over `outputs` words.

    `log_probs` is the definition: normalised, whatever the layer is trained with. `loss` is faster than picking
    from it and differs from it only where an estimator is trained, never when evaluating.
    """

    def __init__(self, options: HeadOptions, width: int, outputs: int, counts: Tensor | None, tied: Tensor | None):
        """options: settled. counts: [outputs], if there are any. tied: an embedding to share vectors with, or None."""
        super().__init__()
        self.options, self.width, self.outputs = options, width, outputs

    def log_probs(self, features: Tensor) -> Tensor:
        """Log-probs [..., outputs] in nats of the next word after features [..., width]."""
        raise NotImplementedError

    def loss(self, features: Tensor, targets: Tensor, bf16: bool = False) -> Tensor:
        """The summed loss in nats of targets [N] after features [N, width]: -log p, or in training its estimate.

        bf16: the large matrix products in bfloat16; sums and softmax stay as wide as the features. The scores
        [N, outputs] are never all alive at once.
        """
        raise NotImplementedError


class LinearHead(Head):
    """A head whose words have one vector and one bias each: scores = W x + b.

    weight: [outputs, width], or `tied`, an embedding with more rows, which take no part [Press2017].
    """

    weight: Tensor

    def __init__(self, options: HeadOptions, width: int, outputs: int, counts: Tensor | None, tied: Tensor | None):
        super().__init__(options, width, outputs, counts, tied)
        if tied is None:
            self.weight = nn.Parameter(torch.empty(outputs, width).uniform_(-0.1, 0.1))
        else:
            self.__dict__["weight"] = tied  # not a parameter of ours: it is saved and counted with the embedding
        self.bias = nn.Parameter(torch.zeros(outputs))

    def scores(self, features: Tensor) -> Tensor:
        """Scores [..., outputs], not normalised."""
        return nn.functional.linear(features, self.weight[: self.outputs], self.bias)

    def log_probs(self, features: Tensor) -> Tensor:
        return torch.log_softmax(self.scores(features), dim=-1)

    def loss(self, features: Tensor, targets: Tensor, bf16: bool = False) -> Tensor:
        return linear_cross_entropy(features, self.weight, self.bias, targets, bf16)


heads: Registry[type[Head]] = Registry("output layer")
