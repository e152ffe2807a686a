"""Cells stacked in layers and unrolled over a sequence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor, nn

from ostinato.nn.cells import Cell


class StackState(NamedTuple):
    layers: tuple[Any, ...]  # one cell state a layer


class Stack(nn.Module):
    """Layers of one kind of cell, each reading the outputs of the one below.

    dropout falls on what every layer reads and on the last outputs, never on the recurrence [Zaremba2014].
    residual adds a layer's input to its output where the sizes agree [He2016]. layer_norm normalises what
    each layer hands on, before the residual is added [Ba2016].
    """

    def __init__(
        self,
        make: Callable[[int, int], Cell],
        input_size: int,
        hidden_size: int,
        layers: int,
        dropout: float = 0.0,
        residual: bool = False,
        layer_norm: bool = False,
    ):
        super().__init__()
        sizes = [input_size] + [hidden_size] * (layers - 1)
        self.layers = nn.ModuleList(make(size, hidden_size) for size in sizes)
        self.norms = nn.ModuleList(nn.LayerNorm(hidden_size) if layer_norm else nn.Identity() for _ in sizes)
        self.dropout = nn.Dropout(dropout)
        self.residual = residual

    def init_state(self, batch: int) -> StackState:
        """The state of `batch` rows that have read nothing."""
        return StackState(tuple(cell.init_state(batch) for cell in self.cells))

    @property
    def cells(self) -> list[Cell]:
        """The cells, lowest layer first."""
        return [cell for cell in self.layers if isinstance(cell, Cell)]

    def scan(self, state: StackState, xs: Tensor) -> tuple[Tensor, StackState]:
        """Read `xs` [B, T, input_size]; return the outputs [B, T, hidden_size] and the last state."""
        states = []
        for layer, (cell, before) in enumerate(zip(self.cells, state.layers, strict=True)):
            read = self.dropout(xs)
            if read.shape[1] == 1 and not self.training:
                outputs, after = cell.step(before, read[:, 0])
                outputs = outputs[:, None]
            else:
                outputs, after = cell.scan(before, read)
            xs = self.join(layer, xs, outputs)
            states.append(after)
        return self.dropout(xs), StackState(tuple(states))

    def join(self, layer: int, inputs: Tensor, outputs: Tensor) -> Tensor:
        """What layer number `layer` hands on: its outputs, normalised and with the residual if asked for."""
        outputs = self.norms[layer](outputs)
        return outputs + inputs if self.residual and inputs.shape == outputs.shape else outputs


def unroll(cell: Cell, state: Any, xs: Tensor) -> tuple[list[Tensor], Any, list[Any]]:
    """A loop of `step` over `xs` [B, T, D]: the output [B, H] of every step, the last state, the gates of every step.

    The outputs are not stacked, so that the recurrence itself hangs on each of them.
    """
    outputs, gates = [], []
    for x in xs.unbind(dim=1):
        gates.append(cell.gates(state, x))
        output, state = cell.step(state, x)
        outputs.append(output)
    return outputs, state, gates
