"""Optimisers, learning-rate schedules and gradient clipping."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from ostinato.train.options import TrainOptions


def make_optimiser(network: nn.Module, options: TrainOptions) -> torch.optim.Optimizer:
    """SGD, Adam (L2 added to the gradient) or AdamW (decoupled decay, not on biases and norms) [Loshchilov2019]."""
    decayed = [p for p in network.parameters() if p.requires_grad and p.ndim > 1]
    plain = [p for p in network.parameters() if p.requires_grad and p.ndim <= 1]
    groups: list[dict[str, Any]] = [
        {"params": decayed, "weight_decay": options.weight_decay},
        {"params": plain, "weight_decay": 0.0 if options.optimiser == "adamw" else options.weight_decay},
    ]
    groups = [group for group in groups if group["params"]]
    if options.optimiser == "sgd":
        return torch.optim.SGD(groups, lr=options.rate, momentum=options.momentum, fused=True)
    kind = torch.optim.Adam if options.optimiser == "adam" else torch.optim.AdamW
    return kind(groups, lr=options.rate, fused=True)


def learning_rate(options: TrainOptions, step: int, share: float, factor: float) -> float:
    """The rate of update number `step` (from 0).

    share: how much of the whole training is done, 0 to 1 (cosine: half a wave down to zero, as in
    [Loshchilov2017] without restarts). factor: what the plateau schedule has come down to.
    """
    rate = options.rate * factor
    if options.schedule == "cosine":
        rate *= 0.5 * (1 + math.cos(math.pi * min(1.0, share)))
    return rate * min(1.0, (step + 1) / options.warmup) if options.warmup else rate


def global_norm(gradients: Iterable[Tensor | None]) -> float:
    """The Euclidean norm of all gradients together."""
    norms = [torch.linalg.vector_norm(gradient) for gradient in gradients if gradient is not None]
    return float(torch.linalg.vector_norm(torch.stack(norms))) if norms else 0.0


def clip(network: nn.Module, options: TrainOptions, norm: float) -> float:
    """Clip the gradients in place; return their global norm afterwards, given the `norm` before.

    By norm: all are scaled by clip_at / norm if the norm is larger [Pascanu2013]. By value: each number is
    cut to +-clip_at.
    """
    gradients = [p.grad for p in network.parameters() if p.grad is not None]
    if options.clip == "norm" and norm > options.clip_at:
        for gradient in gradients:
            gradient.mul_(options.clip_at / norm)
        return options.clip_at
    if options.clip == "value":
        for gradient in gradients:
            gradient.clamp_(-options.clip_at, options.clip_at)
        return global_norm(gradients)
    return norm
