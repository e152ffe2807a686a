"""A position-wise feed-forward block."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": nn.functional.relu,
    "gelu": nn.functional.gelu,
    "swiglu": nn.functional.silu,
}
STRIDE = 8  # inner sizes are rounded up to a multiple


class FeedForward(nn.Module):
    """y = x + W2 f(W1 x), f = relu or gelu; or y = x + W2 (silu(W1 x) * V x), swiglu. No biases.

    The inner size is four times the width, for swiglu 8/3 of it, so that all have about as many weights.
    Source: [Shazeer2020] eq. 2, 3 and 6, with the block's usual residual connection [He2016].
    """

    def __init__(self, size: int, activation: str):
        super().__init__()
        self.activation = activation
        self.gated = activation == "swiglu"
        inner = inner_size(size, self.gated)
        self.inner = nn.Linear(size, inner * (2 if self.gated else 1), bias=False)  # rows: W1, then V
        self.outer = nn.Linear(inner, size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """`x` [..., size] and what the block adds to it."""
        read = self.inner(x)
        activate = ACTIVATIONS[self.activation]
        if self.gated:
            gate, value = read.chunk(2, dim=-1)
            hidden = activate(gate) * value
        else:
            hidden = activate(read)
        added: Tensor = self.outer(hidden)
        return x + added


def inner_size(size: int, gated: bool) -> int:
    """The width inside the block: 4 times `size`, or 8/3 of it if gated, in steps of 8."""
    wanted = 8 * size / 3 if gated else 4 * size
    return int(-(-wanted // STRIDE)) * STRIDE
