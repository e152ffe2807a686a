"""A loss over a few candidate words instead of all: what sampled softmax and noise-contrastive estimation share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable

from ostinato.core.errors import ConfigError
from ostinato.nn.heads.options import HeadOptions, log_uniform

ROWS = 2048  # rows whose gradient [rows, candidates] is alive at once: bounds memory
CACHED = 128  # rows of scores worked on together: few enough to stay in the cache

Rule: TypeAlias = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
"""(scores [n, S], own scores [n], targets [n]) -> (the summed loss, its gradient [n] in the own scores).

The scores are overwritten by the gradient in them.
"""


class _CandidateLoss(torch.autograd.Function):
    """The loss of a rule on the scores x W' + b of S candidates shared by all rows, and of each row's own target.

    weight, bias: [S + N, D] and [S + N], the shared candidates first, then one a row. The gradient is made in the
    same pass, so that scores are never all kept.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, rule: Rule, bf16: bool) -> Tensor:
        shared = len(weight) - len(x)
        own, own_bias = weight[shared:], bias[shared:]
        drawn = weight[:shared].bfloat16() if bf16 else weight[:shared]
        total, grad_x = x.new_zeros(()), torch.empty_like(x)
        grad_weight, grad_bias = torch.zeros_like(weight), torch.zeros_like(bias)
        for begin in range(0, len(x), ROWS):
            rows = slice(begin, begin + ROWS)
            part = x[rows]
            own_scores = (part * own[rows]).sum(dim=1) + own_bias[rows]
            errors = drawn.new_empty(len(part), shared)
            loss, sums = _block(part.to(drawn.dtype), drawn, bias[:shared], own_scores, targets[rows], rule, errors)
            total += loss
            grad_x[rows] = torch.mm(errors, drawn)
            grad_x[rows].addcmul_(own_scores[:, None], own[rows])
            grad_weight[:shared] += torch.mm(errors.t(), part.to(drawn.dtype))
            grad_weight[shared:][rows] = own_scores[:, None] * part
            grad_bias[:shared] += sums
            grad_bias[shared:][rows] = own_scores
        ctx.gradients = (grad_x, grad_weight, grad_bias)
        return total

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator, unused-ignore]
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor | None, ...]:
        gradients = ctx.gradients  # type: ignore[attr-defined]
        return (*(part.mul_(grad) for part in gradients), None, None, None)


def _block(
    x: Tensor, drawn: Tensor, bias: Tensor, own_scores: Tensor, targets: Tensor, rule: Rule, errors: Tensor
) -> tuple[Tensor, Tensor]:
    """The summed loss of rows and the column sums of its gradient in their scores.

    The gradient is written to `errors` [N, S], that in the own scores [N] over these.
    """
    total, sums = bias.new_zeros(()), torch.zeros_like(bias)
    for begin in range(0, len(x), CACHED):
        rows = slice(begin, begin + CACHED)
        scores = torch.mm(x[rows], drawn.t()).to(bias.dtype).add_(bias)
        loss, own_scores[rows] = rule(scores, own_scores[rows], targets[rows])
        total += loss
        sums += scores.sum(dim=0)
        errors[rows] = scores
    return total, sums


def candidate_loss(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    targets: Tensor,
    words: Tensor,
    log_expected: Tensor,
    rule: Rule,
    bf16: bool,
) -> Tensor:
    """The loss of a rule on the corrected scores W_w x + b_w - log_expected_w of the drawn words and the targets.

    x: [N, D]; weight: [V or more, D]; bias, log_expected: [V]; targets: [N]; words: [S] drawn ids, rising.
    Scores [N, S] are never all alive at once.
    """
    ids = torch.cat([words, targets])
    rows = nn.functional.embedding(ids, weight)
    offsets = (bias - log_expected)[ids]
    loss: Tensor = _CandidateLoss.apply(x, rows, offsets, targets, rule, bf16)  # type: ignore[no-untyped-call]
    return loss


def proposal(options: HeadOptions, outputs: int, counts: Tensor | None) -> Tensor | None:
    """The probabilities [outputs] that words are drawn with, or None if the counts they need are not there.

    unigram: counts^power, a word that was never seen counted once.
    """
    if options.proposal == "log-uniform":
        return torch.from_numpy(log_uniform(outputs).astype(np.float32))
    if counts is None:
        return None
    assert options.power is not None
    mass = counts.double().clamp(min=1) ** options.power
    return (mass / mass.sum()).float()


def require(drawn_from: Tensor | None) -> Tensor:
    """That proposal. Raises ConfigError if there is none, since a loaded model knows no counts."""
    if drawn_from is None:
        raise ConfigError(
            "model.head.proposal unigram needs the word counts of the training text, which are not at hand here; "
            "train from the text again, or choose log-uniform"
        )
    return drawn_from
