"""Noise-contrastive estimation: in training words of the text are told from words that were drawn as noise."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ostinato.nn.heads.base import LinearHead, heads
from ostinato.nn.heads.candidates import candidate_loss, proposal, require
from ostinato.nn.heads.options import HeadOptions


@heads.register("nce")
class NCE(LinearHead):
    """A softmax that is trained to tell the target from k words of noise, shared by all rows of a batch.

    D_w = W_w x + b_w - log Z - log(k q_w);  loss = -log sigmoid(D_t) - sum over the noise of log sigmoid(-D_w)

    q is the proposal; Z is 1, or one number learnt for all contexts. Scores begin at log q, so that they are
    nearly normalised from the start. The gradient nears that of the likelihood as k grows. When evaluating the
    scores are normalised and the loss is that of the full softmax.

    Source: [Gutmann2010]; for language models, with Z = 1, [Mnih2012].
    """

    noise: Tensor | None

    def __init__(self, options: HeadOptions, width: int, outputs: int, counts: Tensor | None, tied: Tensor | None):
        super().__init__(options, width, outputs, counts, tied)
        assert options.samples is not None
        self.samples = options.samples
        found = proposal(options, outputs, counts)
        self.register_buffer("noise", found, persistent=False)
        if found is not None:
            with torch.no_grad():
                self.bias.copy_(found.log())
        self.log_normaliser = nn.Parameter(torch.zeros(())) if options.normaliser == "learnt" else None

    def loss(self, features: Tensor, targets: Tensor, bf16: bool = False) -> Tensor:
        if not self.training:
            return super().loss(features, targets, bf16)
        noise = require(self.noise)
        drawn = torch.multinomial(noise, self.samples, replacement=True)
        words, times = torch.unique(drawn, return_counts=True)
        weights = times.to(features.dtype)

        def rule(scores: Tensor, own: Tensor, goals: Tensor) -> tuple[Tensor, Tensor]:
            log_noise = nn.functional.logsigmoid(-scores)
            loss = -(log_noise @ weights).sum() - nn.functional.logsigmoid(own).sum()
            scores.sigmoid_().mul_(weights)
            return loss, -torch.sigmoid(-own)

        log_expected = (noise * self.samples).log()
        if self.log_normaliser is not None:
            log_expected = log_expected + self.log_normaliser
        return candidate_loss(features, self.weight, self.bias, targets, words, log_expected, rule, bf16)
