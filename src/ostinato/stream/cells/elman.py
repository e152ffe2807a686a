"""The simple recurrent network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ostinato.core.state import State
from ostinato.stream import ops
from ostinato.stream.cells.base import RecurrentCell, cells

ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "tanh": np.tanh,
    "relu": ops.relu,
    "sigmoid": ops.sigmoid,
    "gelu": ops.gelu,
}


class ElmanState(NamedTuple):
    hidden: Any  # [B, hidden_size]


@cells.register("rnn")
class Elman(RecurrentCell):
    """h' = f(W x + U h + b)."""

    blocks = 1

    def init_state(self, batch: int) -> ElmanState:
        return ElmanState(self.zeros(batch))

    def advance(self, state: State, read: Any) -> tuple[Any, ElmanState]:
        activation = ACTIVATIONS[self.options.get("activation", "tanh")]
        hidden = activation(read + self.from_hidden(ElmanState(*state).hidden))
        return hidden, ElmanState(hidden)
