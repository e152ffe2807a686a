"""The trained parameters of a network as ranges of one tensor, and their gradients as ranges of another."""

from __future__ import annotations

import itertools

import numpy as np
import torch
from torch import Tensor, nn

from ostinato.kernels.packing import aligned

ALIGN = 16
"""Numbers, 64 bytes: every parameter begins at a multiple, where a vector instruction likes to load."""


class Flat:
    """The numbers that training changes, side by side: norm, update and exchange are one pass over one array each.

    values, gradient: [N] float32, never reallocated. Matrices come first; the numbers from `decayed` on belong to
    biases and norms, which decoupled decay leaves alone. Gaps between parameters are zero and stay zero. A tied
    parameter stands here once; one that does not train (requires_grad False) keeps its own memory.
    """

    def __init__(self, network: nn.Module):
        """Move the parameters; give each a gradient of zeros. The network must be float32 and on its final device."""
        named = [(name, parameter) for name, parameter in network.named_parameters() if parameter.requires_grad]
        assert all(parameter.dtype == torch.float32 for _, parameter in named), "only float32 is trained"
        named.sort(key=lambda item: item[1].ndim <= 1)  # stable: otherwise in the network's order
        room = [-(-parameter.numel() // ALIGN) * ALIGN for _, parameter in named]
        begins = [0, *itertools.accumulate(room)]
        device = named[0][1].device if named else torch.device("cpu")
        self.values, self.gradient = (zeros(begins[-1], device) for _ in range(2))
        self.decayed = sum(size for size, (_, parameter) in zip(room, named, strict=True) if parameter.ndim > 1)
        self.places = {name: (begin, p.shape) for begin, (name, p) in zip(begins, named, strict=False)}
        values, gradients = self.views(self.values), self.views(self.gradient)
        for name, parameter in named:
            values[name].copy_(parameter.detach())
            parameter.data, parameter.grad = values[name], gradients[name]

    def views(self, flat: Tensor) -> dict[str, Tensor]:
        """The ranges of a tensor [N] that belong to the parameters, in their shapes, by name."""
        return {name: flat[begin : begin + shape.numel()].view(shape) for name, (begin, shape) in self.places.items()}


def zeros(size: int, device: torch.device) -> Tensor:
    """Zeros [size]; on the processor in memory that our kernels read fastest."""
    return torch.from_numpy(aligned((size,), np.float32)) if device.type == "cpu" else torch.zeros(size, device=device)
