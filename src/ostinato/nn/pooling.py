"""Pooling: the outputs of a sequence of any length as one vector, all at once or as they come.

| name        | the vector is                                            | state that grows with nothing     |
|-------------|----------------------------------------------------------|-----------------------------------|
| `last`      | the last output                                          | -                                 |
| `mean`      | the mean of all                                          | the sum and how many              |
| `max`       | the largest of each number                               | the largest so far                |
| `attention` | a mean weighted by what a small network makes of each    | the weighted sum and the weights' |
"""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from ostinato.core.registry import Registry


class Pooling(nn.Module):
    """Turns outputs [B, T, size] into one vector [B, size] a row; what lies beyond a row's length takes no part.

    backwards: [size], which numbers come from a cell that reads from the end; None: none. Such outputs can only be
    pooled whole, others step by step too: `step` gives what `forward` gives for the outputs so far.
    """

    def __init__(self, size: int, backwards: Tensor | None = None):
        super().__init__()
        self.size = size

    def forward(self, xs: Tensor, lengths: Tensor) -> Tensor:
        """One vector [B, size] of outputs `xs` [B, T, size]; lengths: [B], at least 1 and at most T."""
        raise NotImplementedError

    def init_state(self, like: Tensor) -> NamedTuple:
        """The state of rows that have read nothing, for outputs such as `like` [B, size]."""
        raise NotImplementedError

    def step(self, state: NamedTuple, x: Tensor) -> tuple[Tensor, NamedTuple]:
        """Read an output [B, size]; return the vector [B, size] of all so far and the new state."""
        raise NotImplementedError


poolings: Registry[type[Pooling]] = Registry("pooling")


def inside(lengths: Tensor, steps: int) -> Tensor:
    """Which places [B, T] are inside the rows of these lengths [B]."""
    return torch.arange(steps, device=lengths.device) < lengths[:, None]


class LastState(NamedTuple):
    """Nothing is kept."""


@poolings.register("last")
class Last(Pooling):
    """The last output; of a cell that reads from the end, the first, where it has read all."""

    backwards: Tensor

    def __init__(self, size: int, backwards: Tensor | None = None):
        super().__init__(size)
        made = torch.zeros(size, dtype=torch.bool) if backwards is None else backwards
        self.register_buffer("backwards", made, persistent=False)

    def forward(self, xs: Tensor, lengths: Tensor) -> Tensor:
        places = torch.where(self.backwards, 0, lengths[:, None] - 1)  # [B, size]
        return xs.gather(1, places[:, None]).squeeze(1)

    def init_state(self, like: Tensor) -> LastState:
        return LastState()

    def step(self, state: NamedTuple, x: Tensor) -> tuple[Tensor, NamedTuple]:
        return x, state


class MeanState(NamedTuple):
    total: Tensor  # [B, size]
    seen: Tensor  # [B, 1], how many


@poolings.register("mean")
class Mean(Pooling):
    """The mean of all outputs."""

    def forward(self, xs: Tensor, lengths: Tensor) -> Tensor:
        kept = xs.masked_fill(~inside(lengths, xs.shape[1])[:, :, None], 0)
        return kept.sum(1) / lengths[:, None].to(xs.dtype)

    def init_state(self, like: Tensor) -> MeanState:
        return MeanState(torch.zeros_like(like), like.new_zeros(len(like), 1))

    def step(self, state: NamedTuple, x: Tensor) -> tuple[Tensor, NamedTuple]:
        before = cast(MeanState, state)
        after = MeanState(before.total + x, before.seen + 1)
        return after.total / after.seen, after


class MaxState(NamedTuple):
    largest: Tensor  # [B, size], minus infinity before the first step


@poolings.register("max")
class Max(Pooling):
    """The largest output of each number, wherever it stands [Collobert2011]."""

    def forward(self, xs: Tensor, lengths: Tensor) -> Tensor:
        return xs.masked_fill(~inside(lengths, xs.shape[1])[:, :, None], -torch.inf).amax(1)

    def init_state(self, like: Tensor) -> MaxState:
        return MaxState(torch.full_like(like, -torch.inf))

    def step(self, state: NamedTuple, x: Tensor) -> tuple[Tensor, NamedTuple]:
        largest = torch.maximum(cast(MaxState, state).largest, x)
        return largest, MaxState(largest)


class AttentionState(NamedTuple):
    top: Tensor  # [B, 1], the highest score so far
    total: Tensor  # [B, 1], sum of exp(score - top)
    weighted: Tensor  # [B, size], sum of exp(score - top) * output


@poolings.register("attention")
class Attention(Pooling):
    """The mean of the outputs h_t weighted by a_t.

    u_t = tanh(W h_t + b),  a_t = exp(u_t . v) / sum over t of exp(u_t . v)

    Source: [Yang2016] eq. 5-7. Step by step, the sums are kept relative to the highest score.
    """

    def __init__(self, size: int, backwards: Tensor | None = None):
        super().__init__(size)
        self.read = nn.Linear(size, size)
        self.query = nn.Parameter(torch.empty(size))
        bound = size**-0.5
        nn.init.uniform_(self.query, -bound, bound)

    def scores(self, xs: Tensor) -> Tensor:
        """How much each output [..., size] asks to be looked at, [...]."""
        return torch.tanh(self.read(xs)) @ self.query

    def weights(self, xs: Tensor, lengths: Tensor) -> Tensor:
        """The weights [B, T] of outputs [B, T, size]; they sum to one, and are zero beyond a row's length."""
        scores = self.scores(xs).masked_fill(~inside(lengths, xs.shape[1]), -torch.inf)
        return scores.softmax(1)

    def forward(self, xs: Tensor, lengths: Tensor) -> Tensor:
        kept = xs.masked_fill(~inside(lengths, xs.shape[1])[:, :, None], 0)
        return torch.einsum("bt,btd->bd", self.weights(xs, lengths), kept)

    def init_state(self, like: Tensor) -> AttentionState:
        none = like.new_zeros(len(like), 1)
        return AttentionState(torch.full_like(none, -torch.inf), none, torch.zeros_like(like))

    def step(self, state: NamedTuple, x: Tensor) -> tuple[Tensor, NamedTuple]:
        before = cast(AttentionState, state)
        score = self.scores(x)[:, None]
        top = torch.maximum(before.top, score)
        old, new = torch.exp(before.top - top), torch.exp(score - top)
        after = AttentionState(top, before.total * old + new, before.weighted * old + new * x)
        return after.weighted / after.total, after
