"""The adaptive softmax: frequent words are scored at once, rare ones in clusters that are opened when needed."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn

from ostinato.nn.heads.base import Head, heads
from ostinato.nn.heads.options import HeadOptions
from ostinato.nn.loss import STRIDE, linear_cross_entropy


class Cluster(nn.Module):
    """The words with ids `first` to `last` - 1, scored from narrower features: scores = W (P x) + b."""

    def __init__(self, first: int, last: int, width: int, narrow: int):
        super().__init__()
        self.first, self.last = first, last
        self.project = nn.Parameter(torch.empty(narrow, width).uniform_(-(width**-0.5), width**-0.5))
        self.weight = nn.Parameter(torch.empty(last - first, narrow).uniform_(-(narrow**-0.5), narrow**-0.5))
        self.bias = nn.Parameter(torch.zeros(last - first))

    def holds(self, targets: Tensor) -> Tensor:
        """Which of the targets are of this cluster."""
        return (targets >= self.first) & (targets < self.last)

    def log_probs(self, features: Tensor) -> Tensor:
        """Log-probs [..., last - first] of this cluster's words, given that it is one of them."""
        narrow = nn.functional.linear(features, self.project)
        return torch.log_softmax(nn.functional.linear(narrow, self.weight, self.bias), dim=-1)

    def loss(self, features: Tensor, targets: Tensor, bf16: bool) -> Tensor:
        """Summed -log p of the targets [N] that are of this cluster, given that they are. Zero if there are none."""
        rows = self.holds(targets).nonzero().squeeze(1)
        count = len(rows)
        if not count:
            return features.new_zeros(())
        filled = nn.functional.pad(rows, (0, -count % STRIDE))  # few shapes of products; the spare rows are cut off
        wide = torch.bfloat16 if bf16 else features.dtype
        chosen = nn.functional.embedding(filled, features).to(wide)
        narrow = nn.functional.linear(chosen, self.project.to(wide))[:count].to(features.dtype)
        return linear_cross_entropy(narrow, self.weight, self.bias, targets[rows] - self.first, bf16)


@heads.register("adaptive")
class Adaptive(Head):
    """The adaptive softmax.

    short list  p(w | x) = softmax(H x + c)[w] for the words before the first cut-off
    clusters    p(w | x) = softmax(H x + c)[short + i] * softmax(W_i P_i x + b_i)[w - first_i], P_i x of
                width / div_value^(i + 1) numbers, i = 0, 1, ...

    Ids must fall in frequency. A tied embedding gives the vectors of the short list; rare words have shorter ones
    of their own. Source: [Grave2017a]. Differs: every word has a bias.
    """

    tied: Tensor | None

    def __init__(self, options: HeadOptions, width: int, outputs: int, counts: Tensor | None, tied: Tensor | None):
        super().__init__(options, width, outputs, counts, tied)
        assert options.cutoffs is not None
        assert options.div_value is not None
        borders = [*options.cutoffs, outputs]
        self.short = borders[0]
        self.clusters = nn.ModuleList(
            Cluster(first, last, width, max(1, int(width / options.div_value ** (i + 1))))
            for i, (first, last) in enumerate(itertools.pairwise(borders))
        )
        own = len(self.clusters) + (self.short if tied is None else 0)
        self.weight = nn.Parameter(torch.empty(own, width).uniform_(-0.1, 0.1))  # the clusters' rows are the last
        self.bias = nn.Parameter(torch.zeros(self.short + len(self.clusters)))
        self.__dict__["tied"] = tied  # not a parameter of ours: it is saved and counted with the embedding

    def matrix(self) -> Tensor:
        """H: the vectors [short + clusters, width] of the short list's words and of the clusters."""
        return self.weight if self.tied is None else torch.cat([self.tied[: self.short], self.weight])

    def log_probs(self, features: Tensor) -> Tensor:
        first = torch.log_softmax(nn.functional.linear(features, self.matrix(), self.bias), dim=-1)
        parts = [first[..., : self.short]]
        for i, cluster in enumerate(self._clusters()):
            parts.append(cluster.log_probs(features) + first[..., self.short + i, None])
        return torch.cat(parts, dim=-1)

    def loss(self, features: Tensor, targets: Tensor, bf16: bool = False) -> Tensor:
        """The summed -log p in nats; a cluster costs only for the rows whose target is in it."""
        goals = targets
        for i, cluster in enumerate(self._clusters()):
            goals = goals.masked_fill(cluster.holds(targets), self.short + i)
        total = linear_cross_entropy(features, self.matrix(), self.bias, goals, bf16)
        for cluster in self._clusters():
            total = total + cluster.loss(features, targets, bf16)
        return total

    def _clusters(self) -> list[Cluster]:
        return [cluster for cluster in self.clusters if isinstance(cluster, Cluster)]
