"""States that are a running average of values known beforehand, and the cells that keep one."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable

from ostinato.nn.cells.base import Cell


class AverageState(NamedTuple):
    hidden: Tensor  # [B, hidden_size]


class AveragingCell(Cell):
    """A cell whose gates read the input alone: h' = (1 - w) * h + w * n, with w and n of all steps at once.

    A cell defines `gates` and `weight_and_values`. blocks: how many products [hidden_size] it makes of an
    input; all of them are one. biases: 1, or 2 for the sum of two, as in the other cells.
    """

    def __init__(self, input_size: int, hidden_size: int, blocks: int, biases: Literal[1, 2]):
        super().__init__(input_size, hidden_size)
        self.blocks = blocks
        self.from_input = nn.Linear(input_size, blocks * hidden_size)
        self.second_bias = nn.Parameter(torch.zeros(blocks * hidden_size)) if biases == 2 else None

    def init_state(self, batch: int) -> AverageState:
        return AverageState(self.zeros(batch))

    def weight_and_values(self, read: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        """w in (0, 1) and n, both [..., hidden_size], of the products that `read` gave."""
        raise NotImplementedError

    def read(self, x: Tensor, dtype: torch.dtype) -> tuple[Tensor, ...]:
        """The products of `x` [..., input_size], each [..., hidden_size], in the dtype of the state."""
        bias = self.from_input.bias if self.second_bias is None else self.from_input.bias + self.second_bias
        return nn.functional.linear(x, self.from_input.weight, bias).to(dtype).chunk(self.blocks, dim=-1)

    def step(self, state: AverageState, x: Tensor) -> tuple[Tensor, AverageState]:
        weight, values = self.weight_and_values(self.read(x, state.hidden.dtype))
        hidden = torch.lerp(state.hidden, values, weight)
        return hidden, AverageState(hidden)

    def scan(self, state: AverageState, xs: Tensor) -> tuple[Tensor, AverageState]:
        weight, values = self.weight_and_values(self.read(xs, state.hidden.dtype))
        hidden = running_average(weight, values, state.hidden)
        return hidden, AverageState(hidden[:, -1])

    def recurrent_matrices(self) -> list[Tensor]:
        return []

    def input_matrices(self) -> list[Tensor]:
        return list(self.from_input.weight.chunk(self.blocks))


def running_average(weight: Tensor, values: Tensor, start: Tensor, rounds: bool | None = None) -> Tensor:
    """All h_t = (1 - w_t) * h_(t-1) + w_t * n_t, with h_0 = start.

    weight, values: [B, T, H]; start: [B, H], any numbers. Returns [B, T, H]. Nothing is divided and no logarithm
    taken, so weights of 0 and 1 are exact. There are two ways to the same numbers: a loop over the steps is the
    least work, and `rounds` is the parallel scan, each round doubling how far back a state reaches, so that T
    steps are log2(T) rounds. None: rounds on a GPU, where a step is too little work; the loop on a CPU.
    Source: [Feng2024] section 3; the rounds: [Hillis1986].
    """
    parallel = weight.is_cuda if rounds is None else rounds
    states: Tensor = _RunningAverage.apply(weight, values, start, parallel)  # type: ignore[no-untyped-call]
    return states


def positive(x: Tensor) -> Tensor:
    """A candidate above zero: x + 0.5 where x >= 0, else sigmoid(x), which is the larger of the two everywhere.

    Source: [Feng2024] appendix B.
    """
    value: Tensor = _Positive.apply(x)  # type: ignore[no-untyped-call]
    return value


def average_by_steps(weight: Tensor, values: Tensor, start: Tensor) -> Tensor:
    """The states of `running_average`, one after the other."""
    states = torch.empty_like(values)
    before = start
    for share, new, state in zip(weight.unbind(1), values.unbind(1), states.unbind(1), strict=True):
        before = torch.lerp(before, new, share, out=state)
    return states


def sum_back_by_steps(kept: Tensor, grad: Tensor) -> Tensor:
    """All s_t = grad_t + kept_(t+1) * s_(t+1), the last first, each after the one that follows it."""
    total = grad.clone()
    steps, shares = total.unbind(1), kept.unbind(1)
    for t in range(len(steps) - 1, 0, -1):
        steps[t - 1].addcmul_(shares[t], steps[t])
    return total


def sum_by_rounds(kept: Tensor, added: Tensor) -> Tensor:
    """All s_t = kept_t * s_(t-1) + added_t, with s_0 = 0: after k rounds each has taken in the last 2^k steps."""
    reach = 1
    while reach < added.shape[1]:
        later = torch.addcmul(added[:, reach:], kept[:, reach:], added[:, :-reach])
        added = torch.cat([added[:, :reach], later], dim=1)
        kept = torch.cat([kept[:, :reach], kept[:, reach:] * kept[:, :-reach]], dim=1)
        reach *= 2
    return added


def average_by_rounds(weight: Tensor, values: Tensor, start: Tensor) -> Tensor:
    """The states of `running_average`, in rounds."""
    first = torch.lerp(start, values[:, 0], weight[:, 0])
    return sum_by_rounds(1 - weight, torch.cat([first[:, None], (weight * values)[:, 1:]], dim=1))


def sum_back_by_rounds(kept: Tensor, grad: Tensor) -> Tensor:
    """The sums of `sum_back_by_steps`, in rounds."""
    return sum_by_rounds(kept.roll(-1, dims=1).flip(1), grad.flip(1)).flip(1)


class _RunningAverage(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, weight: Tensor, values: Tensor, start: Tensor, parallel: bool) -> Tensor:
        states = (average_by_rounds if parallel else average_by_steps)(weight, values, start)
        ctx.save_for_backward(weight, values, start, states)
        ctx.parallel = parallel  # type: ignore[attr-defined]
        return states

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator, unused-ignore]
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        weight, values, start, states = ctx.saved_tensors  # type: ignore[attr-defined]
        kept = 1 - weight
        total = (sum_back_by_rounds if ctx.parallel else sum_back_by_steps)(kept, grad)  # type: ignore[attr-defined]
        change = torch.empty_like(values)
        torch.sub(values[:, 1:], states[:, :-1], out=change[:, 1:])
        torch.sub(values[:, 0], start, out=change[:, 0])
        return change.mul_(total), total * weight, total[:, 0] * kept[:, 0], None


class _Positive(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor) -> Tensor:
        value = torch.maximum(torch.sigmoid(x), x + 0.5)
        ctx.save_for_backward(value)
        return value

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator, unused-ignore]
    def backward(ctx: FunctionCtx, grad: Tensor) -> Tensor:
        (value,) = ctx.saved_tensors  # type: ignore[attr-defined]
        # the slope is s (1 - s) with s = min(value, 0.5), and 0.75 more where x >= 0
        low = value.clamp(max=0.5)
        slope = low.addcmul_(low, low, value=-1)
        above: Tensor = torch.ops.aten.threshold_backward(grad, value, 0.5 - torch.finfo(value.dtype).eps)
        return above.mul_(0.75).addcmul_(grad, slope)
