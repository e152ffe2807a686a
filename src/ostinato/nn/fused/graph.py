"""What torch's graph and the kernels share: parameters, their gradients, and memory from a pass to its backward."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

from ostinato.kernels import simd
from ostinato.nn.fused.memory import Memory
from ostinato.nn.fused.weights import Floats


def learns_by_kernels(parameters: Iterable[Tensor], xs: Tensor) -> bool:
    """Whether a graph may hold a pass of the kernels over xs: all these parameters learn, by products in bfloat16."""
    if not (simd.HAS_BF16 and torch.is_grad_enabled() and xs.device.type == "cpu" and xs.numel()):
        return False
    if not torch.is_autocast_enabled("cpu") or torch.get_autocast_dtype("cpu") != torch.bfloat16:
        return False
    return all(one.requires_grad and one.dtype == torch.float32 for one in parameters)


def places_of(parameters: Iterable[Tensor]) -> dict[int, int]:
    """Where the numbers of parameters are."""
    return {id(parameter): parameter.data_ptr() for parameter in parameters}


class Shared:
    """Parameters as the kernels read them, our own gradients of them, and the memory of passes that are over."""

    def __init__(self, parameters: Iterable[Tensor]):
        self.parameters = list(parameters)
        self.gradients: list[Floats] = [np.zeros(parameter.shape, np.float32) for parameter in self.parameters]
        self.places = places_of(self.parameters)
        self.free: list[list[Memory]] = []

    def both(self, parameter: Tensor) -> tuple[Floats, Floats]:
        """The memory of a parameter, and that of its gradient."""
        known = [parameter is other for other in self.parameters]
        return parameter.detach().numpy(), self.gradients[known.index(True)]

    def borrow(self, threads: int) -> list[Memory]:
        """Memory for the threads of a pass, which gives it back to `free` in the end."""
        for place, held in enumerate(self.free):
            if len(held) == threads:
                return self.free.pop(place)
        return [Memory() for _ in range(threads)]

    def learnt(self) -> list[Tensor]:
        """The gradients of all parameters, as they stand, in memory of their own."""
        return [torch.from_numpy(gradient.copy()) for gradient in self.gradients]
