"""Cells stacked in layers and unrolled over a sequence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ostinato.core.errors import ConfigError
from ostinato.core.state import map_leaves
from ostinato.nn import regularise
from ostinato.nn.cells import Cell
from ostinato.nn.cells.recurrent import RecurrentCell
from ostinato.nn.feed_forward import FeedForward
from ostinato.nn.options import RecurrentOptions


class StackState(NamedTuple):
    layers: tuple[Any, ...]  # one cell state a layer


class Unrolled(NamedTuple):
    """A cell's steps one by one, each list [T] long. states: what each step hands to the next.

    A state is apart from the output of its step, so a gradient by it is what comes back through time alone.
    """

    outputs: list[Tensor]  # [B, output_size]
    states: list[Any]
    gates: list[Any]


class Stack(nn.Module):
    """Layers of one kind of cell, each reading the outputs of the one below.

    dropout falls on what every layer reads and on the last outputs, never on the recurrence [Zaremba2014].
    layer_norm normalises the outputs of each layer [Ba2016], feed_forward adds a block to them, and residual
    adds what the layer below handed on, where the sizes agree [He2016]. skip lets every layer read the
    inputs too, and what reads the stack, all layers [Graves2013]. bidirectional gives every layer a second
    cell that reads from the end, its outputs beside the first one's [Schuster1997]; such a stack reads whole
    sequences only. The noise on the recurrence is in `regularise`.
    """

    def __init__(self, make: Callable[[int, int], Cell], input_size: int, options: RecurrentOptions):
        super().__init__()
        self.options, self.noise = options, options.noise
        forwards, backwards, handed, size = [], [], [], input_size
        for layer in range(options.layers):
            read = size + input_size if options.skip and layer else size
            forwards.append(make(read, options.hidden))
            if options.bidirectional:
                backwards.append(make(read, options.hidden))
            size = forwards[-1].output_size * (2 if options.bidirectional else 1)
            handed.append(size)
        self.layers, self.backwards = nn.ModuleList(forwards), nn.ModuleList(backwards)
        self.norms = nn.ModuleList(nn.LayerNorm(size) if options.layer_norm else nn.Identity() for size in handed)
        self.blocks = nn.ModuleList(
            nn.Identity() if options.feed_forward == "none" else FeedForward(size, options.feed_forward)
            for size in handed
        )
        self.dropout = regularise.Dropout(options.dropout, options.variational)
        self.output_size = sum(handed) if options.skip else size

    def init_state(self, batch: int) -> StackState:
        """The state of `batch` rows that have read nothing."""
        return StackState(tuple(cell.init_state(batch) for cell in self.cells))

    @property
    def cells(self) -> list[Cell]:
        """The cells that read from the beginning, lowest layer first."""
        return [cell for cell in self.layers if isinstance(cell, Cell)]

    def scan(self, state: StackState, xs: Tensor) -> tuple[Tensor, StackState]:
        """Read `xs` [B, T, input_size]; return the outputs [B, T, output_size] and the last state.

        Raises ConfigError if the stack is bidirectional.
        """
        if self.options.bidirectional:
            raise ConfigError("a bidirectional stack reads whole sequences, not step by step; use `read`")
        states = list(state.layers)

        def read(layer: int, xs: Tensor) -> Tensor:
            outputs, states[layer] = self.recur(self.cells[layer], states[layer], xs)
            return outputs

        return self.through(xs, read), StackState(tuple(states))

    def read(self, xs: Tensor, lengths: Tensor) -> Tensor:
        """The outputs [B, T, output_size] of whole sequences `xs` [B, T, input_size], one or both directions.

        lengths: [B], at least 1 and at most T. What lies beyond a row's length takes no part; the outputs there mean
        nothing.
        """
        turned = reversal(lengths, xs.shape[1])

        def read(layer: int, xs: Tensor) -> Tensor:
            outputs = self.afresh(self.cells[layer], xs)
            if not self.options.bidirectional:
                return outputs
            back = self.backwards[layer]
            assert isinstance(back, Cell)
            others = self.afresh(back, turn(xs, turned))
            return torch.cat([outputs, turn(others, turned)], dim=-1)

        return self.through(xs, read)

    def look(self, state: StackState, xs: Tensor) -> tuple[Tensor, list[Unrolled]]:
        """The outputs [B, T, output_size], and the steps of every layer.

        The recurrence itself hangs on the step's outputs and states, so that gradients through time can be asked for.
        """
        layers: list[Unrolled] = []

        def read(layer: int, xs: Tensor) -> Tensor:
            layers.append(unroll(self.cells[layer], state.layers[layer], xs, self.noise.zoneout))
            return torch.stack(layers[-1].outputs, dim=1)

        return self.through(xs, read), layers

    def through(self, xs: Tensor, read: Callable[[int, Tensor], Tensor]) -> Tensor:
        """What the stack makes of `xs` when `read(layer, xs)` gives the outputs of a layer's cells."""
        lower, handed = xs, []
        for layer in range(len(self.layers)):
            below = torch.cat([lower, xs], dim=-1) if self.options.skip and layer else lower
            lower = self.join(layer, lower, read(layer, self.dropout(below)))
            handed.append(lower)
        outputs: Tensor = self.dropout(torch.cat(handed, dim=-1) if self.options.skip else lower)
        return outputs

    def join(self, layer: int, lower: Tensor, outputs: Tensor) -> Tensor:
        """What layer number `layer` hands on of its cell's outputs, given what the one below handed on."""
        outputs = self.blocks[layer](self.norms[layer](outputs))
        return outputs + lower if self.options.residual and lower.shape == outputs.shape else outputs

    def afresh(self, cell: Cell, xs: Tensor) -> Tensor:
        """The outputs [B, T, output_size] of a cell that reads xs [B, T, D] from the start; by our own kernels in
        training, where they know the cell and products are bfloat16 on a processor."""
        if self.training and torch.is_autocast_enabled(xs.device.type) and not any(self.noise):
            from ostinato.nn.fused.scanning import scanner_of

            if (scanner := scanner_of(cell, xs)) is not None:
                return scanner.read(cell, xs)
        outputs, _ = self.recur(cell, cell.init_state(len(xs)), xs)
        return outputs

    def recur(self, cell: Cell, state: Any, xs: Tensor) -> tuple[Tensor, Any]:
        """`cell.scan` with the recurrence's noise; step by step only where that noise is."""
        share = self.noise.weight_dropout
        if not (self.training and share):
            return self.unnoised(cell, state, xs)
        assert isinstance(cell, RecurrentCell)
        outputs, state = regularise.scan_with_dropped_weights(self.unnoised, cell, state, xs, share)
        return outputs, state

    def unnoised(self, cell: Cell, state: Any, xs: Tensor) -> tuple[Tensor, Any]:
        noise = self.noise
        if noise.zoneout or (noise.recurrent_dropout and self.training):
            return self.by_steps(cell, state, xs)
        if xs.shape[1] == 1 and not self.training:
            output, state = cell.step(state, xs[:, 0])
            return output[:, None], state
        return cell.scan(state, xs)

    def by_steps(self, cell: Cell, state: Any, xs: Tensor) -> tuple[Tensor, Any]:
        share = self.noise.recurrent_dropout if self.training else 0.0
        keep = regularise.mask(cell.zeros(len(xs)), share) if share else None
        outputs = []
        for x in xs.unbind(dim=1):
            output, state = advance(cell, state, x, self.noise.zoneout, keep)
            outputs.append(output)
        return torch.stack(outputs, dim=1), state


def advance(cell: Cell, state: Any, x: Tensor, zoneout: float, keep: Tensor | None = None) -> tuple[Tensor, Any]:
    """A step of the cell with zoneout, and through the mask `keep` [B, H] on the hidden state if there is one."""
    if keep is None:
        output, after = cell.step(state, x)
    else:
        assert isinstance(cell, RecurrentCell)
        output, after = regularise.masked_step(cell, state, x, keep)
    if zoneout:
        after = regularise.zoned(state, after, zoneout, cell.training)
        output = after.hidden
    return output, after


def unroll(cell: Cell, state: Any, xs: Tensor, zoneout: float = 0.0) -> Unrolled:
    """A loop of `step` over `xs` [B, T, D]: output, state and gates of every step.

    They are not stacked, so that the recurrence itself hangs on each of them.
    """
    steps = Unrolled([], [], [])
    for x in xs.unbind(dim=1):
        steps.gates.append(cell.gates(state, x))
        output, after = advance(cell, state, x, zoneout)
        state = map_leaves(lambda leaf: leaf.view_as(leaf), after)
        steps.outputs.append(output)
        steps.states.append(state)
    return steps


def reversal(lengths: Tensor, steps: int) -> Tensor:
    """Places [B, T] that turn each row around within its length and leave what lies beyond; its own inverse."""
    places = torch.arange(steps, device=lengths.device).expand(len(lengths), -1)
    ends = lengths[:, None]
    return torch.where(places < ends, ends - 1 - places, places)


class _Turn(torch.autograd.Function):
    """Rows of [B * T, D] in another order, which done twice is the first again: so its gradient is the same."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, order: Tensor) -> Tensor:
        ctx.save_for_backward(order)
        return rows.index_select(0, order)

    @staticmethod
    def backward(ctx: Any, errors: Tensor) -> tuple[Tensor, None]:
        (order,) = ctx.saved_tensors
        found: Tensor = _Turn.apply(errors, order)  # type: ignore[no-untyped-call]
        return found, None


def turn(xs: Tensor, places: Tensor) -> Tensor:
    """`xs` [B, T, D] with each row's steps in the order of `places` [B, T], as `reversal` gives them."""
    order = places + xs.shape[1] * torch.arange(len(xs), device=xs.device)[:, None]
    found: Tensor = _Turn.apply(xs.flatten(0, 1), order.flatten())  # type: ignore[no-untyped-call]
    return found.view_as(xs)
