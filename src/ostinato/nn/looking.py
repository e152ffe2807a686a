"""An attention and the memory that all steps of a loop look at; additive attention by our own kernels in training."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ostinato.nn.memory import Grouped, Memory

if TYPE_CHECKING:
    from ostinato.nn.attention import Additive, Attention

Array = NDArray[np.float32]

NUMBERS = torch.float32, torch.bfloat16
"""What a memory may be made of for our kernels."""


class Looking:
    """`attention(query, memory)` of queries [N, query_size], step by step; those of the last rows may come to an end.

    Gives contexts [N, value size] and weights [N, S].
    """

    def __init__(self, attention: Attention, memory: Memory | Grouped):
        self.attention, self.memory = attention, memory

    def __call__(self, query: Tensor) -> tuple[Tensor, Tensor]:
        memory = self.memory
        if isinstance(memory, Memory) and len(query) < len(memory.mask):
            memory = self.memory = Memory(*(part[: len(query)] for part in memory))
        found: tuple[Tensor, Tensor] = self.attention(query, memory)
        return found


def has_kernels(memory: Memory | Grouped, attention: Additive) -> TypeGuard[Memory]:
    """Whether our own kernels can look at a memory: on a processor, not wider than float32."""
    vector = attention.vector
    if not isinstance(memory, Memory) or vector.device.type != "cpu" or vector.dtype != torch.float32:
        return False
    return memory.keys.dtype in NUMBERS and memory.values.dtype in NUMBERS


def look_once(attention: Additive, query: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
    """`attention(query, memory)` of queries [B, T, query_size] by our own kernels, without a gradient."""
    asked = (2 * attention.from_query(query)).float().contiguous()
    arrays = *map(array_of, memory[:2]), (2 * attention.vector).detach().numpy(), memory.mask.numpy()
    contexts, weights = looked(asked.numpy(), *arrays)
    return torch.from_numpy(contexts), torch.from_numpy(weights)


def array_of(part: Tensor) -> NDArray[Any]:
    """A tensor as an array; bfloat16 as the uint16 of its bits."""
    part = part.detach().contiguous()
    return part.view(torch.int16).numpy().view(np.uint16) if part.dtype == torch.bfloat16 else part.numpy()


def looked(
    asked: Array, keys: NDArray[Any], values: NDArray[Any], vector: Array, mask: NDArray[np.bool_]
) -> tuple[Array, Array]:
    """Contexts [B, T, V] and weights [B, T, S] as `kernels.attention.look` finds them, in torch's threads."""
    from ostinato.kernels.attention import look

    contexts = np.empty((*asked.shape[:2], values.shape[2]), np.float32)
    weights = np.empty((*asked.shape[:2], keys.shape[1]), np.float32)

    def work(member: int, begin: int, end: int) -> None:
        look(asked, keys, values, vector, mask, contexts, weights, begin, end)

    share_out(len(asked), work)
    return contexts, weights


def share_out(rows: int, work: Callable[[int, int, int], None]) -> None:
    """`work(member, begin, end)` in torch's threads, for so many rows."""
    from ostinato.kernels.team import part, team_of

    team = team_of(torch.get_num_threads())
    team.run(lambda member: work(member, *part(0, rows, member, team.threads)))


class LookingByKernels:
    """`Looking` of additive attention, whose steps add to one gradient of the memory."""

    def __init__(self, attention: Additive, memory: Memory):
        self.attention, self.mask = attention, memory.mask.numpy()
        parts = memory.keys.float().contiguous(), memory.values.float().contiguous(), 2 * attention.vector
        self.keys, self.values, self.vector = (part.detach().numpy() for part in parts)
        self.errors: tuple[Array, Array, Array] | None = None
        self.node = _Memory.apply(*parts, self)  # type: ignore[no-untyped-call]

    def __call__(self, query: Tensor) -> tuple[Tensor, Tensor]:
        asked = 2 * self.attention.from_query(query).float()
        context, weights = _Look.apply(asked, self.node, self)  # type: ignore[no-untyped-call]
        return context, weights

    def look(self, asked: Array) -> tuple[Array, Array]:
        """Contexts and weights of queries [N, K]."""
        contexts, weights = looked(asked[:, None], self.keys, self.values, self.vector, self.mask)
        return contexts[:, 0], weights[:, 0]

    def blame(self, asked: Array, weights: Array, wanted: tuple[Array, Array]) -> Array:
        """The gradient by the queries, that by contexts and weights being `wanted`; the rest is added to `errors`."""
        from ostinato.kernels.attention import blame

        if self.errors is None:
            vectors = np.zeros((torch.get_num_threads(), len(self.vector)), np.float32)
            self.errors = np.zeros_like(self.keys), np.zeros_like(self.values), vectors
        keys, values, vectors = self.errors
        memory, errors = (self.keys, self.values, self.mask), np.empty_like(asked)

        def work(member: int, begin: int, end: int) -> None:
            blame(asked, memory, self.vector, weights, wanted, errors, (keys, values), vectors[member], begin, end)

        share_out(len(asked), work)
        return errors


class _Memory(torch.autograd.Function):
    """The memory in the graph: its backward runs when those of all steps have."""

    @staticmethod
    def forward(ctx: Any, keys: Tensor, values: Tensor, vector: Tensor, looking: LookingByKernels) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.looking = looking
        return keys.new_zeros(())

    @staticmethod
    def backward(ctx: Any, _: Tensor | None) -> tuple[Tensor | None, ...]:
        errors, ctx.looking.errors = ctx.looking.errors, None
        if errors is None:
            return None, None, None, None
        keys, values, vectors = errors
        return torch.from_numpy(keys), torch.from_numpy(values), torch.from_numpy(vectors.sum(axis=0)), None


class _Look(torch.autograd.Function):
    """A step's look."""

    @staticmethod
    def forward(ctx: Any, asked: Tensor, node: Tensor, looking: LookingByKernels) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        asked = asked.contiguous()
        contexts, weights = map(torch.from_numpy, looking.look(asked.numpy()))
        ctx.looking = looking
        ctx.save_for_backward(asked, weights)
        return contexts, weights

    @staticmethod
    def backward(ctx: Any, context: Tensor | None, weight: Tensor | None) -> tuple[Tensor | None, None, None]:
        asked, weights = ctx.saved_tensors
        values = ctx.looking.values.shape[2]
        wanted = (
            np.zeros((len(asked), values), np.float32) if context is None else context.float().contiguous().numpy(),
            np.zeros((0, 0), np.float32) if weight is None else weight.float().contiguous().numpy(),
        )
        return torch.from_numpy(ctx.looking.blame(asked.numpy(), weights.numpy(), wanted)), None, None
