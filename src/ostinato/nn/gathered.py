"""Products of a loop over steps, whose matrix gets its gradient from one product over all steps, not from one a step.

A step's share of a matrix's gradient is a thin product that writes and adds up the whole matrix; all of them together
are one thick product, rounded once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


class Steps:
    """A matrix [n, m] that the steps of one loop multiply by; made anew for each loop.

    Under autocast it is converted once, and products are in autocast's type.
    """

    def __init__(self, matrix: Tensor):
        kind = matrix.device.type
        self.dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else matrix.dtype
        self.matrix = matrix.detach().to(self.dtype)
        self.learns = matrix.requires_grad and torch.is_grad_enabled()
        self._node = _Matrix.apply(matrix, self) if self.learns else None  # type: ignore[no-untyped-call]
        self._read: list[Tensor] = []
        self._wanted: list[Tensor] = []

    def __call__(self, x: Tensor) -> Tensor:
        """x W^T, [..., n] of [..., m]."""
        if not self.learns:
            return nn.functional.linear(x.to(self.dtype), self.matrix)
        found: Tensor = _Step.apply(x, self._node, self)  # type: ignore[no-untyped-call]
        return found

    def keep(self, read: Tensor, wanted: Tensor) -> None:
        """Remember what a step read [N, m] and the gradient [N, n] of what it gave."""
        self._read.append(read)
        self._wanted.append(wanted)

    def gradient(self) -> Tensor | None:
        """The gradient [n, m] of all steps kept, which are forgotten; None without any."""
        if not self._read:
            return None
        wanted, read = torch.cat(self._wanted), torch.cat(self._read)
        self._read, self._wanted = [], []
        return wanted.T @ read


class _Matrix(torch.autograd.Function):
    """The matrix in the graph: its backward runs when those of all steps have."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, steps: Steps) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.steps, ctx.dtype = steps, matrix.dtype
        return matrix.view_as(matrix)

    @staticmethod
    def backward(ctx: Any, _: Tensor | None) -> tuple[Tensor | None, None]:
        found = ctx.steps.gradient()
        return None if found is None else found.to(ctx.dtype), None


class _Step(torch.autograd.Function):
    """A step's product; it keeps what the matrix's gradient needs."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: Tensor, steps: Steps) -> Tensor:
        read = x.to(steps.dtype)
        ctx.steps, ctx.dtype = steps, x.dtype
        ctx.save_for_backward(read)
        return nn.functional.linear(read, steps.matrix)

    @staticmethod
    def backward(ctx: Any, wanted: Tensor) -> tuple[Tensor | None, None, None]:
        (read,), steps = ctx.saved_tensors, ctx.steps
        wanted = wanted.to(steps.dtype)
        steps.keep(read.flatten(0, -2), wanted.flatten(0, -2))
        return (wanted @ steps.matrix).to(ctx.dtype) if ctx.needs_input_grad[0] else None, None, None


class StepLinear(nn.Linear):
    """A linear layer that steps apply; within `gathered`, the gradient of its matrix is one product."""

    steps: Steps | None = None

    def forward(self, x: Tensor) -> Tensor:
        return self.product(x, self.bias)

    def product(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """x W^T + bias, of [..., in_features]."""
        if self.steps is None:
            return nn.functional.linear(x, self.weight, bias)
        found = self.steps(x)
        return found if bias is None else found + bias


@contextmanager
def gathered(*modules: nn.Module) -> Iterator[None]:
    """While the steps of one loop are made: the step layers of these modules gather, if a gradient is wanted."""
    found = [layer for module in modules for layer in module.modules() if isinstance(layer, StepLinear)]
    layers = [layer for layer in found if torch.is_grad_enabled() and layer.steps is None]
    for layer in layers:
        layer.steps = Steps(layer.weight)
    try:
        yield
    finally:
        for layer in layers:
            layer.steps = None
