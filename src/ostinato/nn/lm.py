"""The door of the neural models: NumPy outside, tensors inside."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ostinato.core.model import check_ids
from ostinato.core.state import State, map_leaves
from ostinato.core.vocabulary import Ids, LogProbs, Vocabulary
from ostinato.nn.networks import Network

LOGITS = 1 << 21  # numbers of log-probs alive at once while scoring (8 MiB): few enough to stay in the cache


class NeuralLM:
    """A `Network` as a language model: states and log-probs are NumPy arrays, dropout is off."""

    def __init__(self, network: Network, vocabulary: Vocabulary):
        assert network.outputs == vocabulary.outputs
        self.network, self.vocabulary, self.outputs = network, vocabulary, network.outputs

    @property
    def device(self) -> torch.device:
        """Where the network computes."""
        return next(self.network.parameters()).device

    @property
    def parameters(self) -> int:
        """How many numbers were learnt."""
        return sum(parameter.numel() for parameter in self.network.parameters())

    @cached_property
    def width(self) -> int:
        """How many features the output layer reads."""
        with evaluating(self.network):
            one = torch.zeros(1, 1, dtype=torch.int64, device=self.device)
            return int(self.network.features(self.network.init_state(1), one)[0].shape[-1])

    def init_state(self, batch: int) -> State:
        """The state of `batch` rows that have read nothing."""
        return to_numpy(self.network.init_state(batch))

    def step(self, state: State, tokens: Ids) -> tuple[LogProbs, State]:
        """Read tokens [B]; return log-probs [B, outputs] of the next in nats and the new state."""
        log_probs, _, after = self.read_one(state, tokens)
        return log_probs, after

    def read_one(self, state: State, tokens: Ids) -> tuple[LogProbs, NDArray[np.float32], State]:
        """As `step`, with the features [B, width] that the output layer read."""
        self.vocabulary.check(tokens, "tokens")
        with evaluating(self.network):
            ids = torch.from_numpy(tokens).to(self.device)[:, None]
            features, after = self.network.features(to_torch(state, self.device), ids)
            log_probs: LogProbs = self.network.log_probs(features[:, 0]).float().cpu().numpy()
        return log_probs, features[:, 0].float().cpu().numpy(), to_numpy(after)

    def score(self, state: State, inputs: Ids, targets: Ids) -> tuple[LogProbs, State]:
        """Log-prob [B, T] in nats of each target after the inputs up to its own place, and the last state.

        inputs, targets: [B, T]. Raises ShapeError, MismatchError. Equals a fold of `step`.
        """
        log_probs, _, after = self.read(state, inputs, targets)
        return log_probs, after

    def read(self, state: State, inputs: Ids, targets: Ids) -> tuple[LogProbs, NDArray[np.float32], State]:
        """As `score`, with the features [B, T, width] that the output layer read."""
        check_ids(self.vocabulary, inputs, targets)
        if inputs.size == 0:
            return np.zeros(inputs.shape, np.float32), np.zeros((*inputs.shape, self.width), np.float32), state
        with evaluating(self.network):
            ids = torch.from_numpy(np.ascontiguousarray(inputs)).to(self.device)
            features, after = self.network.features(to_torch(state, self.device), ids)
            flat = features.reshape(-1, features.shape[-1])
            goals = torch.from_numpy(np.ascontiguousarray(targets)).to(self.device).reshape(-1, 1)
            rows = max(1, LOGITS // self.outputs)
            parts = [
                self.network.log_probs(flat[begin : begin + rows]).gather(1, goals[begin : begin + rows])
                for begin in range(0, len(flat), rows)
            ]
            picked: LogProbs = torch.cat(parts).reshape(inputs.shape).float().cpu().numpy()
        return picked, features.float().cpu().numpy(), to_numpy(after)


class evaluating:
    """Dropout off inside the block, and no gradients unless asked for; the training mode is put back after it."""

    def __init__(self, network: torch.nn.Module, gradients: bool = False):
        self.network, self.was_training = network, network.training
        self.inference = torch.inference_mode(not gradients)

    def __enter__(self) -> None:
        if self.was_training:
            self.network.eval()
        self.inference.__enter__()

    def __exit__(self, *fault: Any) -> None:
        self.inference.__exit__(*fault)
        if self.was_training:
            self.network.train()


def to_numpy(state: Any) -> State:
    """A state of tensors as one of arrays."""
    arrays: State = map_leaves(lambda leaf: leaf.detach().cpu().numpy(), state)
    return arrays


def to_torch(state: State, device: torch.device | None = None) -> Any:
    """A state of arrays as one of tensors; on the processor they share memory: nothing may write to them."""

    def tensor(leaf: np.ndarray[Any, Any]) -> Tensor:
        return torch.from_numpy(leaf if leaf.flags.writeable and leaf.flags.c_contiguous else leaf.copy()).to(
            device=device
        )

    return map_leaves(tensor, state)
