"""The loss of a softmax over a vocabulary, from logits, in one pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable

ROWS = 1024  # rows whose gradient [rows, V] is alive at once: bounds memory, and small ones are kept for reuse
STRIDE = 32  # rows are filled up to a multiple: a library that prepares every shape of a product meets few of them
LEAST = -60.0  # nats: float32 has all its digits at e^-60
CACHED = 128  # rows of logits worked on together: few enough to stay in the cache


class _LinearCrossEntropy(torch.autograd.Function):
    """Sum of -log softmax(x W' + b)[target]; the gradient is made in the same pass, without keeping logits."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, bf16: bool) -> Tensor:
        wanted = any(ctx.needs_input_grad)
        if bf16 and has_kernels(x):
            total, gradients = _by_kernels(x, weight, bias, targets, wanted)
        else:
            total, gradients = _by_blocks(x, weight, bias, targets, bf16, wanted)
        ctx.gradients = gradients
        return total

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator, unused-ignore]
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor | None, ...]:
        gradients = ctx.gradients  # type: ignore[attr-defined]
        return (*(None if part is None else part.mul_(grad) for part in gradients), None, None)


Gradients = tuple[Tensor | None, Tensor | None, Tensor | None]


def has_kernels(x: Tensor) -> bool:
    """Whether our own kernels can read these features: float32 on a processor with bfloat16 products."""
    from ostinato.kernels import simd

    return bool(x.device.type == "cpu" and x.dtype == torch.float32 and simd.HAS_BF16 and len(x))


def _by_kernels(x: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, wanted: bool) -> tuple[Tensor, Gradients]:
    """Loss and gradients by the kernels of the fused training step, in as many threads as torch uses."""
    from ostinato.kernels.packing import aligned, narrow
    from ostinato.kernels.team import team_of
    from ostinato.nn.fused.head import SoftmaxWeights, softmax_of
    from ostinato.nn.fused.layers import width_of

    features = aligned((len(x), width_of(x.shape[1])), np.uint16)
    narrow(x.detach().contiguous().numpy(), features, 0, len(x))
    matrix, shift = weight.detach()[: len(bias)].contiguous().numpy(), bias.detach().numpy()
    gradients = (torch.empty_like(x), torch.empty_like(weight), torch.empty_like(bias)) if wanted else (None,) * 3
    grad_x, grad_weight, grad_bias = gradients
    if grad_weight is not None:
        grad_weight[len(bias) :] = 0
    written = (None if part is None else part.numpy() for part in (grad_weight, grad_bias))
    weights = SoftmaxWeights(matrix, shift, *written)
    rows, goals, errors = np.arange(len(x)), targets.numpy(), None if grad_x is None else grad_x.numpy()
    team = team_of(torch.get_num_threads())
    softmax, nats = softmax_of(team), [0.0] * team.threads

    def work(member: int) -> None:
        nats[member] = softmax.run(member, weights, features, rows, goals, 1.0, errors, add=False)

    team.run(work)
    return x.new_tensor(sum(nats)), gradients


def _by_blocks(
    x: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, bf16: bool, wanted: bool
) -> tuple[Tensor, Gradients]:
    """Loss and gradients by torch, on any device."""
    count, spare = len(x), -len(x) % STRIDE
    inputs = nn.functional.pad(x, (0, 0, 0, spare))
    goals = nn.functional.pad(targets, (0, spare))
    matrix = weight[: len(bias)]
    inputs, matrix = (inputs.bfloat16(), matrix.bfloat16()) if bf16 else (inputs, matrix)
    total, grad_bias = x.new_zeros(()), torch.zeros_like(bias)
    grad_x, grad_weight = torch.empty_like(inputs, dtype=x.dtype), torch.zeros_like(weight)
    for begin in range(0, len(inputs), ROWS):
        rows = slice(begin, begin + ROWS)
        part = inputs[rows]
        errors = matrix.new_empty(len(part), len(bias)) if wanted else None
        loss, sums = _block(part, matrix, bias, goals[rows], count - begin, errors)
        total += loss
        if errors is not None:
            grad_bias += sums
            grad_x[rows] = torch.mm(errors, matrix)
            grad_weight[: len(bias)] += torch.mm(errors.t(), part)
    return total, (grad_x[:count], grad_weight, grad_bias) if wanted else (None, None, None)


def _block(
    x: Tensor, matrix: Tensor, bias: Tensor, targets: Tensor, count: int, errors: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The summed loss of the first `count` rows and the column sums of softmax - onehot.

    The latter is written to `errors` [N, V], with zeros in the rows beyond `count`.
    """
    total, sums = bias.new_zeros(()), torch.zeros_like(bias)
    made_in = errors if errors is not None and errors.dtype == bias.dtype and x.device.type == "cpu" else None
    for begin in range(0, len(x), CACHED):
        rows = slice(begin, begin + CACHED)
        goal = targets[rows, None]
        logits = torch.mm(x[rows], matrix.t()).to(bias.dtype).add_(bias)
        if made_in is not None:
            share = torch.softmax(logits, dim=1, out=made_in[rows])
            logs = _logs(share, logits, goal)
        else:
            share = torch.log_softmax(logits, dim=1)
            logs = share.gather(1, goal)
        total -= logs[: count - begin].sum()
        if errors is not None:
            share = share.exp_() if made_in is None else share
            share.scatter_add_(1, goal, -torch.ones_like(goal, dtype=bias.dtype))
            share[max(0, count - begin) :] = 0
            sums += share.sum(dim=0)
            if made_in is None:
                errors[rows] = share
    return total, sums


def _logs(share: Tensor, logits: Tensor, goal: Tensor) -> Tensor:
    """The log-probs [N, 1] of goals, of their softmax [N, V]; of the logits, where that is too small to be exact."""
    logs = share.gather(1, goal).log()
    small = logs[:, 0] < LEAST
    if bool(small.any()):
        logs[small] = torch.log_softmax(logits[small], dim=1).gather(1, goal[small])
    return logs


def linear_cross_entropy(x: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, bf16: bool = False) -> Tensor:
    """Sum over rows of -log softmax(x W^T + b) at the target, in nats.

    x: [N, D]; weight: [V, D] or with more rows, which take no part (a tied embedding has two for ids that are
    only read); bias: [V]; targets: [N] below V. `bf16` makes the three matrix products in
    bfloat16 (float32 sums and softmax), by our own kernels where the processor has the instructions. The logits
    [N, V] are never kept.
    Source: the gradient of the softmax loss, softmax(z) - onehot(target) [Bridle1990].
    """
    loss: Tensor = _LinearCrossEntropy.apply(x, weight, bias, targets, bf16)  # type: ignore[no-untyped-call]
    return loss
