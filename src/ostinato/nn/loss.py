"""The loss of a softmax over a vocabulary, from logits, in one pass."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

ROWS = 2048  # rows of logits alive at once: bounds memory at ROWS * outputs numbers


class _LinearCrossEntropy(torch.autograd.Function):
    """Sum of -log softmax(x W' + b)[target]; the gradient is made while the logits are still in the cache."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, bf16: bool) -> Tensor:
        wanted = any(ctx.needs_input_grad)
        grad_x = torch.empty_like(x) if wanted else None
        grad_weight = torch.zeros_like(weight) if wanted else None
        grad_bias = torch.zeros_like(bias) if wanted else None
        matrix = weight.bfloat16() if bf16 else weight
        total = x.new_zeros(())
        for begin in range(0, len(x), ROWS):
            part, goal = x[begin : begin + ROWS], targets[begin : begin + ROWS, None]
            part = part.bfloat16() if bf16 else part
            logits = torch.mm(part, matrix.t()).to(x.dtype).add_(bias)
            total -= logits.gather(1, goal).sum()
            peak = logits.amax(dim=1, keepdim=True)
            share = logits.sub_(peak).exp_()
            mass = share.sum(dim=1, keepdim=True)
            total += (mass.log() + peak).sum()
            if grad_x is None or grad_weight is None or grad_bias is None:
                continue
            share.div_(mass).scatter_add_(1, goal, -torch.ones_like(goal, dtype=x.dtype))
            grad_bias += share.sum(dim=0)
            share = share.bfloat16() if bf16 else share
            grad_x[begin : begin + ROWS] = torch.mm(share, matrix)
            grad_weight += torch.mm(share.t(), part)
        ctx.gradients = (grad_x, grad_weight, grad_bias)
        return total

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator, unused-ignore]
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor | None, ...]:
        gradients = ctx.gradients  # type: ignore[attr-defined]
        return (*(None if part is None else part.mul_(grad) for part in gradients), None, None)


def linear_cross_entropy(x: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, bf16: bool = False) -> Tensor:
    """Sum over rows of -log softmax(x W^T + b) at the target, in nats.

    x: [N, D]; weight: [V, D]; bias: [V]; targets: [N] below V. `bf16` makes the three matrix products in
    bfloat16 (float32 sums and softmax). The logits [N, V] are never kept.
    Source: the gradient of the softmax loss, softmax(z) - onehot(target) [Bridle1990].
    """
    loss: Tensor = _LinearCrossEntropy.apply(x, weight, bias, targets, bf16)  # type: ignore[no-untyped-call]
    return loss
