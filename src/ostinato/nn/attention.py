"""Attention: a query looks at a memory and gets the weighted mean of its values."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from ostinato.core.errors import ConfigError, ShapeError
from ostinato.core.registry import Registry
from ostinato.nn.gathered import StepLinear
from ostinato.nn.looking import Looking, LookingByKernels, has_kernels, look_once
from ostinato.nn.memory import Grouped, Memory


class Attention(nn.Module):
    """Scores every place of a memory against a query; the weights are the softmax of the scores.

    An attention defines `key` and `score`. It keeps nothing between calls.
    """

    def __init__(self, query_size: int, value_size: int, size: int):
        """size: of what queries and keys are compared in; dot and general have no choice and leave it."""
        super().__init__()
        self.query_size, self.value_size, self.size = query_size, value_size, size

    def key(self, values: Tensor) -> Tensor:
        """The keys [B, S, key size] of values [B, S, value_size]."""
        raise NotImplementedError

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Scores [B, T, S] of queries [B, T, query_size] against keys [B, S, key size]."""
        raise NotImplementedError

    def prepare(self, values: Tensor, mask: Tensor) -> Memory:
        """A memory of values [B, S, value_size], of which only those where `mask` [B, S] is true can be seen.

        Values elsewhere may be anything but NaN and infinity.
        Raises ShapeError if the two do not fit, or if a row has nothing to be seen.
        """
        if values.shape[:2] != mask.shape or values.shape[2:] != (self.value_size,):
            raise ShapeError(
                f"values {tuple(values.shape)} and mask {tuple(mask.shape)} must be [batch, steps, {self.value_size}] "
                "and [batch, steps]"
            )
        seen = mask.any(dim=1)
        if not bool(seen.all()):
            raise ShapeError(
                f"row {int((~seen).int().argmax())} of the memory is padding only, so there is nothing to attend to; "
                "leave empty rows out"
            )
        return Memory(self.key(values), values, mask)

    def forward(self, query: Tensor, memory: Memory | Grouped) -> tuple[Tensor, Tensor]:
        """The context [B, value size] and the weights [B, S] of queries [B, query_size].

        For queries [B, T, query_size] both have T too: [B, T, value size] and [B, T, S]. Weights sum to 1 and are
        exactly 0 where the mask is false. A grouped memory takes queries [N, query_size] or [N, 1, query_size].
        """
        if isinstance(memory, Grouped):
            return self.look_together(query, memory)
        if query.dim() == 2:
            context, weights = self(query[:, None], memory)
            return context[:, 0], weights[:, 0]
        weights = self.weigh(query, memory)
        return weights.to(memory.values.dtype) @ memory.values, weights

    def over(self, memory: Memory | Grouped) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
        """`forward` for the steps of a loop: of queries [N, query_size], as `Looking` says."""
        return Looking(self, memory)

    def look_together(self, query: Tensor, group: Grouped) -> tuple[Tensor, Tensor]:
        """`forward` of queries that share rows of a memory: those of a row look at it side by side."""
        memory, places, width = group
        asked = query.new_zeros(len(memory.mask) * width, self.query_size)
        asked[places] = query.reshape(-1, self.query_size)
        found = self(asked.view(-1, width, self.query_size), memory)
        context, weights = (part.flatten(0, 1)[places].view(*query.shape[:-1], -1) for part in found)
        return context, weights

    def weigh(self, queries: Tensor, memory: Memory) -> Tensor:
        """The weights [B, T, S] of queries [B, T, query_size]."""
        scores = self.score(queries, memory.keys)
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))  # a softmax in bfloat16 does not sum to 1
        return scores.masked_fill(~memory.mask[:, None], -torch.inf).softmax(dim=-1)


attentions: Registry[type[Attention]] = Registry("attention")


@attentions.register("additive")
class Additive(Attention):
    """score(q, h) = v tanh(W q + U h + b).

    What is computed is 2 v sigmoid(2 W q + 2 (U h + b)), which is more by the sum of v: the softmax cannot tell, and
    a sigmoid takes a CPU an eighth of the time. The keys are 2 (U h + b).
    Source: [Bahdanau2015] section A.1.2. Differs: the bias.
    """

    def __init__(self, query_size: int, value_size: int, size: int):
        super().__init__(query_size, value_size, size)
        self.from_query = StepLinear(query_size, size, bias=False)
        self.from_value = nn.Linear(value_size, size)
        self.vector = nn.Parameter(torch.empty(size).uniform_(-(size**-0.5), size**-0.5))

    def key(self, values: Tensor) -> Tensor:
        keys: Tensor = 2 * self.from_value(values)
        return keys

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        asked = 2 * self.from_query(queries)
        return torch.sigmoid(asked[:, :, None] + keys[:, None]) @ (2 * self.vector)

    def over(self, memory: Memory | Grouped) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
        if torch.is_grad_enabled() and has_kernels(memory, self):
            return LookingByKernels(self, memory)
        return Looking(self, memory)

    def forward(self, query: Tensor, memory: Memory | Grouped) -> tuple[Tensor, Tensor]:
        if query.dim() == 3 and not torch.is_grad_enabled() and has_kernels(memory, self):
            return look_once(self, query, memory)
        return super().forward(query, memory)


@attentions.register("dot")
class Dot(Attention):
    """score(q, h) = q h. Source: [Luong2015] eq. 8. Raises ConfigError if the two differ in size."""

    def __init__(self, query_size: int, value_size: int, size: int):
        super().__init__(query_size, value_size, query_size)
        if query_size != value_size:
            raise ConfigError(
                f"attention dot compares queries of {query_size} numbers with values of {value_size}; make the sizes "
                "equal (a bidirectional encoder gives twice its hidden units), or take general or scaled-dot"
            )

    def key(self, values: Tensor) -> Tensor:
        return values

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        return queries.to(keys.dtype) @ keys.mT


@attentions.register("scaled-dot")
class ScaledDot(Attention):
    """score(q, h) = (W q) (U h) / sqrt(size). Source: [Vaswani2017] eq. 1, with one head."""

    def __init__(self, query_size: int, value_size: int, size: int):
        super().__init__(query_size, value_size, size)
        self.from_query = StepLinear(query_size, size, bias=False)
        self.from_value = nn.Linear(value_size, size, bias=False)

    def key(self, values: Tensor) -> Tensor:
        keys: Tensor = self.from_value(values)
        return keys

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        asked: Tensor = self.from_query(queries) / math.sqrt(self.size)
        return asked.to(keys.dtype) @ keys.mT


@attentions.register("general")
class General(Attention):
    """score(q, h) = q W h. Source: [Luong2015] eq. 8."""

    def __init__(self, query_size: int, value_size: int, size: int):
        super().__init__(query_size, value_size, query_size)
        self.from_value = nn.Linear(value_size, query_size, bias=False)

    def key(self, values: Tensor) -> Tensor:
        keys: Tensor = self.from_value(values)
        return keys

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        return queries.to(keys.dtype) @ keys.mT
