"""Linear attention with a matrix for its state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ostinato.core.errors import FormatError
from ostinato.core.state import State
from ostinato.stream import ops
from ostinato.stream.cells.base import StreamCell, cells
from ostinato.stream.matrix import Weights

EPSILON = 1e-6


class GatedDeltaState(NamedTuple):
    memory: Any  # [B, heads, head, head], keys by values
    recent: Any  # [B, window - 1, 3 * hidden_size], the oldest first


@cells.register("gated-delta")
class GatedDelta(StreamCell):
    """S' = a * S + b k (v - a * S k), y = Wo (N(S' q) * silu(Wg x)), S stored keys by values."""

    def __init__(self, weights: Weights, input_size: int, hidden_size: int, options: Mapping[str, Any]):
        super().__init__(weights, input_size, hidden_size, options)
        self.heads, self.window = weights.length("log_rate"), weights.length("convolution")
        if not self.heads or not self.window or hidden_size % self.heads:
            raise FormatError(f"{self.heads} heads and {self.window} steps do not make a cell of {hidden_size} units")
        self.head = hidden_size // self.heads
        self.from_input = weights.linear("from_input", 4 * hidden_size + 2 * self.heads, input_size)
        self.convolution = weights.vector("convolution", self.window, 3 * hidden_size)
        self.rate = -np.exp(weights.vector("log_rate", self.heads))
        self.rate_shift = weights.vector("rate_shift", self.heads)
        self.gain = weights.vector("gain", self.head)
        self.to_output = weights.linear("to_output", hidden_size, hidden_size)

    def init_state(self, batch: int) -> GatedDeltaState:
        memory = np.zeros((batch, self.heads, self.head, self.head), np.float32)
        return GatedDeltaState(memory, np.zeros((batch, self.window - 1, 3 * self.hidden_size), np.float32))

    def read(self, x: Any) -> Any:
        return self.from_input(x)

    def advance(self, state: State, read: Any) -> tuple[Any, GatedDeltaState]:
        memory, recent = state
        sizes = (3 * self.hidden_size, self.hidden_size, self.heads, self.heads)
        mixed, gate, write, rate = ops.divide(read, *sizes)
        total = mixed * self.convolution[-1]
        if self.window > 1:
            total = total + ops.total(recent * self.convolution[:-1], axis=1, keep=False)
            recent = ops.shift(recent, mixed)
        query, key, value = (ops.reshape(part, self.heads, 1, self.head) for part in ops.split(ops.silu(total), 3))
        query, key = unit(query), unit(key)
        keep = ops.reshape(np.exp(self.rate * ops.softplus(rate + self.rate_shift)), self.heads, 1, 1)
        kept = keep * memory
        error = value - key @ kept
        by_key = ops.reshape(ops.sigmoid(write), self.heads, 1, 1) * ops.reshape(key, self.heads, self.head, 1)
        memory = kept + by_key * error
        answer = self.normed(query @ memory)
        return self.to_output(answer * ops.silu(gate)), GatedDeltaState(memory, recent)

    def normed(self, answers: Any) -> Any:
        """The heads' answers [B, heads, 1, head] over their root mean square, side by side [B, hidden_size]."""
        mean = ops.total(answers * answers, axis=-1, keep=True) / float(self.head)
        return ops.reshape(answers / np.sqrt(mean + EPSILON) * self.gain, self.hidden_size)


def unit(x: Any) -> Any:
    """x over its length along the last axis."""
    return x / np.sqrt(ops.total(x * x, axis=-1, keep=True) + EPSILON)
