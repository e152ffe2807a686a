"""The mixture of softmaxes: a distribution that one softmax of that width cannot express."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable

from ostinato.nn.heads.base import LinearHead, heads
from ostinato.nn.heads.options import HeadOptions

ROWS = 1024  # rows of scores whose gradient [rows, V] is alive at once: bounds memory
CACHED = 128  # rows of scores worked on together: few enough to stay in the cache


@heads.register("mixture")
class Mixture(LinearHead):
    """A mixture of K softmaxes that share their matrix.

    p(w | x) = sum over k of pi_k(x) softmax(W h_k + b)[w],  pi = softmax(A x),  h_k = tanh(C_k x + c_k)

    The matrix of log-probs over contexts may have a rank above width + 1, that of one softmax.
    Source: [Yang2018]. The loss costs K times that of the softmax.
    """

    def __init__(self, options: HeadOptions, width: int, outputs: int, counts: Tensor | None, tied: Tensor | None):
        super().__init__(options, width, outputs, counts, tied)
        assert options.components is not None
        self.components = options.components
        self.prior = nn.Linear(width, self.components, bias=False)
        self.latent = nn.Linear(width, self.components * width)

    def parts(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """h [..., K, width] and log pi [..., K]."""
        latent = torch.tanh(self.latent(features)).reshape(*features.shape[:-1], self.components, self.width)
        return latent, torch.log_softmax(self.prior(features), dim=-1)

    def log_probs(self, features: Tensor) -> Tensor:
        latent, log_prior = self.parts(features)
        mixed: Tensor | None = None
        for k in range(self.components):
            part = torch.log_softmax(self.scores(latent[..., k, :]), dim=-1) + log_prior[..., k, None]
            mixed = part if mixed is None else torch.logaddexp(mixed, part)
        assert mixed is not None
        return mixed

    def loss(self, features: Tensor, targets: Tensor, bf16: bool = False) -> Tensor:
        latent, log_prior = self.parts(features)
        loss: Tensor = _MixtureLoss.apply(latent, log_prior, self.weight, self.bias, targets, bf16)  # type: ignore[no-untyped-call]
        return loss


class _MixtureLoss(torch.autograd.Function):
    """Sum of -log sum over k of pi_k softmax(W h_k + b)[target]; the gradient is made in the same pass.

    With r_k = pi_k p_k(target) / p(target), the share of component k, the gradient in the scores of component k is
    r_k (softmax - onehot) and in log pi_k it is -r_k.
    """

    @staticmethod
    def forward(
        ctx: Any, latent: Tensor, log_prior: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, bf16: bool
    ) -> Tensor:
        components, wanted = latent.shape[1], any(ctx.needs_input_grad)
        inputs, matrix = (part.bfloat16() if bf16 else part for part in (latent, weight[: len(bias)]))
        total, grad_bias = latent.new_zeros(()), torch.zeros_like(bias)
        grad_latent, grad_prior = torch.empty_like(latent), torch.empty_like(log_prior)
        grad_weight = torch.zeros_like(weight)
        size = max(1, ROWS // components)
        for begin in range(0, len(latent), size):
            rows = slice(begin, begin + size)
            part = inputs[rows].flatten(0, 1)
            errors = matrix.new_empty(len(part), len(bias)) if wanted else None
            loss, grad_prior[rows], sums = _block(part, log_prior[rows], matrix, bias, targets[rows], errors)
            total += loss
            if errors is not None:
                grad_bias += sums
                grad_latent[rows] = torch.mm(errors, matrix).view_as(inputs[rows])
                grad_weight[: len(bias)] += torch.mm(errors.t(), part)
        ctx.gradients = (grad_latent, grad_prior, grad_weight, grad_bias) if wanted else (None,) * 4
        return total

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator, unused-ignore]
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor | None, ...]:
        gradients = ctx.gradients  # type: ignore[attr-defined]
        return (*(None if part is None else part.mul_(grad) for part in gradients), None, None)


def _block(
    inputs: Tensor, log_prior: Tensor, matrix: Tensor, bias: Tensor, targets: Tensor, errors: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The summed loss of rows, its gradient [N, K] in their `log_prior`, and the column sums of `errors`.

    inputs: [N * K, D]. The gradient in the scores is written to `errors` [N * K, V] if it is wanted.
    """
    components = log_prior.shape[1]
    total, sums, shares = bias.new_zeros(()), torch.zeros_like(bias), torch.empty_like(log_prior)
    size = max(1, CACHED // components)
    for begin in range(0, len(log_prior), size):
        few = slice(begin, begin + size)
        wide = slice(begin * components, (begin + size) * components)
        goals = targets[few].repeat_interleave(components)[:, None]
        log_probs = torch.log_softmax(torch.mm(inputs[wide], matrix.t()).to(bias.dtype).add_(bias), dim=1)
        joint = log_probs.gather(1, goals).view_as(log_prior[few]) + log_prior[few]
        log_sum = torch.logsumexp(joint, dim=1)
        total -= log_sum.sum()
        shares[few] = (joint - log_sum[:, None]).exp()
        if errors is not None:
            share = shares[few].reshape(-1, 1)
            scaled = log_probs.exp_().mul_(share).scatter_add_(1, goals, -share)
            sums += scaled.sum(dim=0)
            errors[wide] = scaled
    return total, -shares, sums
