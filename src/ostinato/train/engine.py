"""What computes the gradients of a language network: torch, or something faster for the networks it knows."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch

from ostinato.kernels.team import team_of
from ostinato.nn.fused.engine import Fused, why_not
from ostinato.nn.networks import Network, RecurrentNetwork
from ostinato.text.batch import Batch
from ostinato.train.learner import backward


class Engine(Protocol):
    """name: what it is, with its precision and device. reason: why it was chosen. Both go into the log."""

    name: str
    reason: str

    def gradients(self, state: Any, batch: Batch, scale: float, add: bool) -> tuple[float, Any]:
        """As `Learner.gradients`."""


class TorchEngine:
    """`Network.loss` and autograd: every network, cell, output layer and device."""

    def __init__(self, network: Network, reason: str):
        self.network, self.reason = network, reason
        device = next(network.parameters()).device
        self.name = f"torch {'bf16' if network.bf16 else 'float32'} on {device.type}"

    def gradients(self, state: Any, batch: Batch, scale: float, add: bool) -> tuple[float, Any]:
        if not add:
            self.network.zero_grad(set_to_none=False)
        device = next(self.network.parameters()).device
        arrays = (batch.inputs, batch.targets, batch.weight)
        tensors = (torch.from_numpy(np.ascontiguousarray(array)).to(device) for array in arrays)
        return backward(*self.network.loss(state, *tensors), scale)


class FusedEngine:
    """Our own kernels, for the networks they know; made ready at the first batch, when all weights stand in place."""

    reason = "the kernels know this network"

    def __init__(self, network: Network):
        self.network = network
        self.name = "own kernels, bf16 on cpu"
        self._fused: Fused | None = None

    def gradients(self, state: Any, batch: Batch, scale: float, add: bool) -> tuple[float, Any]:
        if self._fused is None:
            assert isinstance(self.network, RecurrentNetwork)
            self._fused = Fused(self.network, team_of(torch.get_num_threads()))
        return self._fused.gradients(state, batch.inputs, batch.targets, batch.weight, scale, add)


def choose_engine(network: Network) -> Engine:
    """The engine that trains a network; made once, when its weights are on their device."""
    reason = why_not(network)
    return FusedEngine(network) if reason is None else TorchEngine(network, reason)
