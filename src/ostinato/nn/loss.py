"""The loss of a softmax over a vocabulary, from logits, in one pass."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

ROWS = 2048  # rows whose gradient [rows, V] is alive at once: bounds memory
CACHED = 128  # rows of logits worked on together: few enough to stay in the cache


class _LinearCrossEntropy(torch.autograd.Function):
    """Sum of -log softmax(x W' + b)[target]; the gradient is made in the same pass, without keeping logits."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, bf16: bool) -> Tensor:
        inputs, matrix = (x.bfloat16(), weight.bfloat16()) if bf16 else (x, weight)
        if not any(ctx.needs_input_grad):
            return sum(
                (_block(part, matrix, bias, goal, None)[0] for part, goal in _blocks(inputs, targets)), x.new_zeros(())
            )
        total, grad_bias = x.new_zeros(()), torch.zeros_like(bias)
        grad_x, grad_weight = torch.empty_like(x), torch.zeros_like(weight)
        for number, (part, goal) in enumerate(_blocks(inputs, targets)):
            errors = matrix.new_empty(len(part), len(weight))
            loss, sums = _block(part, matrix, bias, goal, errors)
            total += loss
            grad_bias += sums
            grad_x[number * ROWS : number * ROWS + len(part)] = torch.mm(errors, matrix)
            grad_weight += torch.mm(errors.t(), part)
        ctx.gradients = (grad_x, grad_weight, grad_bias)
        return total

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator, unused-ignore]
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor | None, ...]:
        gradients = ctx.gradients  # type: ignore[attr-defined]
        return (*(None if part is None else part.mul_(grad) for part in gradients), None, None)


def _blocks(inputs: Tensor, targets: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    return zip(torch.split(inputs, ROWS), torch.split(targets, ROWS), strict=True)


def _block(x: Tensor, matrix: Tensor, bias: Tensor, targets: Tensor, errors: Tensor | None) -> tuple[Tensor, Tensor]:
    """The summed loss of some rows and the column sums of softmax - onehot, which is written to `errors` [N, V]."""
    total, sums = bias.new_zeros(()), torch.zeros_like(bias)
    for begin in range(0, len(x), CACHED):
        rows = slice(begin, begin + CACHED)
        goal = targets[rows, None]
        log_probs = torch.log_softmax(torch.mm(x[rows], matrix.t()).to(bias.dtype).add_(bias), dim=1)
        total -= log_probs.gather(1, goal).sum()
        if errors is not None:
            share = log_probs.exp_().scatter_add_(1, goal, -torch.ones_like(goal, dtype=bias.dtype))
            sums += share.sum(dim=0)
            errors[rows] = share
    return total, sums


def linear_cross_entropy(x: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, bf16: bool = False) -> Tensor:
    """Sum over rows of -log softmax(x W^T + b) at the target, in nats.

    x: [N, D]; weight: [V, D]; bias: [V]; targets: [N] below V. `bf16` makes the three matrix products in
    bfloat16 (float32 sums and softmax). The logits [N, V] are never kept.
    Source: the gradient of the softmax loss, softmax(z) - onehot(target) [Bridle1990].
    """
    loss: Tensor = _LinearCrossEntropy.apply(x, weight, bias, targets, bf16)  # type: ignore[no-untyped-call]
    return loss
