"""Sampled softmax: in training the sum over all words is taken over a sample of them."""

from __future__ import annotations

import torch
from torch import Tensor

from ostinato.nn.heads.base import LinearHead, heads
from ostinato.nn.heads.candidates import candidate_loss, proposal, require
from ostinato.nn.heads.options import HeadOptions


@heads.register("sampled")
class Sampled(LinearHead):
    """A softmax that is trained on the target and a sample of words, shared by all rows of a batch.

    loss = -log of exp(s_t - log E_t) / (exp(s_t - log E_t) + sum over drawn w != t of exp(s_w - log E_w)), with
    s = W x + b and E_w the probability that w is in the sample: min(1, c q_w), each word on its own, c such that
    `samples` are expected. A drawn word that is the target is left out. So the loss is least where s is log p plus
    a constant, and where every word is drawn it is that of the full softmax. When evaluating it is the latter.

    Source: [Bengio2008], [Jean2015]. Differs: words are drawn independently without repetition,
    so that E is exact.
    """

    inclusion: Tensor | None

    def __init__(self, options: HeadOptions, width: int, outputs: int, counts: Tensor | None, tied: Tensor | None):
        super().__init__(options, width, outputs, counts, tied)
        assert options.samples is not None
        probabilities = proposal(options, outputs, counts)
        found = None if probabilities is None else inclusion(probabilities, options.samples)
        self.register_buffer("inclusion", found, persistent=False)

    def loss(self, features: Tensor, targets: Tensor, bf16: bool = False) -> Tensor:
        if not self.training:
            return super().loss(features, targets, bf16)
        expected = require(self.inclusion)
        words = (torch.rand_like(expected) < expected).nonzero().squeeze(1)

        def rule(scores: Tensor, own: Tensor, goals: Tensor) -> tuple[Tensor, Tensor]:
            hide(scores, words, goals)
            log_sum = torch.logaddexp(torch.logsumexp(scores, dim=1), own)
            scores.sub_(log_sum[:, None]).exp_()
            return (log_sum - own).sum(), (own - log_sum).exp_() - 1

        return candidate_loss(features, self.weight, self.bias, targets, words, expected.log(), rule, bf16)


def hide(scores: Tensor, words: Tensor, targets: Tensor) -> None:
    """Set scores [N, S] of the rising ids `words` to -inf in the rows whose target is that word."""
    if not len(words):
        return
    place = torch.searchsorted(words, targets).clamp_(max=len(words) - 1)
    row = (words[place] == targets).nonzero().squeeze(1)
    scores[row, place[row]] = -torch.inf


def inclusion(probabilities: Tensor, samples: int) -> Tensor:
    """min(1, c q_w) for the c at which these sum to `samples`, at most the number of words.

    Words that reach 1 are set aside and the rest is shared by the others, until none is above.
    Source: [Sarndal1992].
    """
    expected = probabilities.double() / probabilities.double().sum() * samples
    certain = torch.zeros_like(expected, dtype=torch.bool)
    while bool(((expected >= 1) & ~certain).any()):
        certain |= expected >= 1
        rest = expected.masked_fill(certain, 0)
        expected = rest * ((samples - certain.sum()) / rest.sum().clamp(min=1e-300))
        expected[certain] = 1
    return expected.clamp_(max=1).to(probabilities.dtype)
