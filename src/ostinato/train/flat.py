"""The trained parameters of a network as ranges of one tensor, and their gradients as ranges of another."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ostinato.kernels.packing import aligned

ALIGN = 16
"""Numbers, 64 bytes: every parameter begins at a multiple, where a vector instruction likes to load."""


class Held(NamedTuple):
    """Rows of a parameter that stay as they are."""

    values: Tensor
    gradient: Tensor
    rows: Tensor  # [K]
    kept: Tensor  # [K, ...]


class Flat:
    """The numbers that training changes, side by side: norm, update and exchange are one pass over one array each.

    values, gradient: [N] float32, never reallocated. Matrices come first; the numbers from `decayed` on belong to
    biases and norms, which decoupled decay leaves alone. Gaps between parameters are zero and stay zero. A tied
    parameter stands here once; one that does not train (requires_grad False) keeps its own memory. Rows that the
    network holds (`Network.held`) are put back after what moves everything, and their gradient is cleared.
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
        held: Mapping[str, Tensor] = getattr(network, "held", {})
        self._held = [
            Held(values[name], gradients[name], rows.to(device), values[name][rows.to(device)])
            for name, rows in held.items()
        ]

    def clear_held(self) -> None:
        """Make the gradient of the rows that are held zero."""
        for _, gradient, rows, _ in self._held:
            gradient[rows] = 0

    def put_back(self) -> None:
        """Give the rows that are held the values they had at the beginning."""
        for values, _, rows, kept in self._held:
            values[rows] = kept

    def views(self, flat: Tensor) -> dict[str, Tensor]:
        """The ranges of a tensor [N] that belong to the parameters, in their shapes, by name."""
        return {name: flat[begin : begin + shape.numel()].view(shape) for name, (begin, shape) in self.places.items()}


def zeros(size: int, device: torch.device) -> Tensor:
    """Zeros [size]; on the processor in memory that our kernels read fastest."""
    return torch.from_numpy(aligned((size,), np.float32)) if device.type == "cpu" else torch.zeros(size, device=device)
