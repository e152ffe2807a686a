"""A cell that reads whole sequences by the kernels, as one step of torch's graph: for networks that torch trains."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ostinato.kernels.team import part, team_of
from ostinato.nn.cells import Cell
from ostinato.nn.cells.recurrent import RecurrentCell
from ostinato.nn.fused.cells import Kernels, kernels_of_cell
from ostinato.nn.fused.engine import layer_of
from ostinato.nn.fused.graph import Shared, learns_by_kernels, places_of
from ostinato.nn.fused.layers import NOTHING, Segment, Words, learn
from ostinato.nn.fused.weights import Floats, width_of


def scanner_of(cell: Cell, xs: Tensor) -> Scanner | None:
    """What reads xs [B, T, input_size] by the kernels, from the start and for learning; None where they do not fit."""
    if not (cell.training and learns_by_kernels(cell.parameters(), xs)):
        return None
    if not isinstance(cell, RecurrentCell) or (kernels := kernels_of_cell(cell)) is None:
        return None
    scanner = _scanners.get(cell)
    if scanner is None or scanner.places != places_of(cell.parameters()):
        scanner = _scanners[cell] = Scanner(cell, kernels)
    return scanner


class Scanner(Shared):
    """A cell's weights for the kernels."""

    def __init__(self, cell: RecurrentCell, kernels: Kernels):
        super().__init__(cell.parameters())
        self.layer = layer_of(cell, kernels, None, False, self.both)

    def read(self, cell: Cell, xs: Tensor) -> Tensor:
        """The outputs [B, T, H] in bfloat16 of a cell that starts anew and reads xs [B, T, input_size]."""
        found: Tensor = _Read.apply(xs, self, cell.init_state(len(xs)), *self.parameters)  # type: ignore[no-untyped-call]
        return found


_scanners: WeakKeyDictionary[Cell, Scanner] = WeakKeyDictionary()


class Reading:
    """One reading, from the inputs to the gradients; the rows of the batch are split over torch's threads."""

    def __init__(self, scanner: Scanner, batch: int, steps: int):
        self.scanner, self.layer, self.batch, self.steps = scanner, scanner.layer, batch, steps
        self.team = team_of(torch.get_num_threads())
        self.memory = scanner.borrow(self.team.threads)
        self.segments = [
            Segment(*part(0, batch, member, self.team.threads), steps, memory)
            for member, memory in enumerate(self.memory)
        ]

    def forward(self, xs: Words, state: Any) -> Words:
        """The outputs [B, T, H] of inputs [T, B, input_size], both the bits of bfloat16."""
        layer, outputs = self.layer, np.empty((self.batch, self.steps, self.layer.size), np.uint16)

        def work(member: int) -> None:
            segment = self.segments[member]
            for matrix, _, _ in layer.matrices():
                matrix.pack(member, self.team.threads)
            if member == 0:
                layer.vectors.collect()
            self.team.meet()
            if not segment.rows:
                return
            segment.enter(0, layer, state)
            mine = slice(segment.begin, segment.end)
            by_steps(segment.inputs(0, layer.reads), segment)[:, :, : layer.reads] = xs[:, mine]
            above = segment.take("above", 0, (segment.tokens, width_of(layer.size)), np.uint16)
            segment.forward(0, layer, above, NOTHING)
            hidden = by_steps(segment.states(0, layer)[1][segment.rows :], segment)
            outputs[mine] = hidden[:, :, : layer.size].swapaxes(0, 1)

        self.team.run(work)
        return outputs

    def backward(self, errors: Floats) -> Floats:
        """The errors [B, T, input_size] of the inputs from those [T, B, H] of the outputs; gradients are written."""
        layer, below = self.layer, np.empty((self.batch, self.steps, self.layer.reads), np.float32)
        used = [segment for segment in self.segments if segment.rows]

        def work(member: int) -> None:
            segment = self.segments[member]
            if segment.rows:
                mine = slice(segment.begin, segment.end)
                own = segment.take("output errors", 0, (segment.tokens, layer.size))
                by_steps(own, segment)[:] = errors[:, mine]
                read = segment.take("input errors", 0, (segment.tokens, layer.reads))
                segment.backward(0, layer, own, read)
                below[mine] = by_steps(read, segment).swapaxes(0, 1)
            self.team.meet()
            learn(layer, 0, used, member, self.team.threads, False)

        self.team.run(work)
        self.scanner.free.append(self.memory)
        return below


def by_steps(values: NDArray[Any], segment: Segment) -> NDArray[Any]:
    """[tokens, D] of a segment as [T, B, D], a view."""
    return values[: segment.read].reshape(segment.steps, segment.rows, -1)


def by_time(xs: Tensor, dtype: torch.dtype) -> Tensor:
    """xs [B, T, D] as [T, B, D] of a type, in one pass."""
    return xs.transpose(0, 1).to(dtype, memory_format=torch.contiguous_format)


class _Read(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, xs: Tensor, scanner: Scanner, state: Any, *_: Tensor) -> Tensor:
        ctx.reading, ctx.dtype = Reading(scanner, *xs.shape[:2]), xs.dtype
        words = by_time(xs.detach(), torch.bfloat16).view(torch.int16).numpy()
        outputs = ctx.reading.forward(words.view(np.uint16), state)
        return torch.from_numpy(outputs.view(np.int16)).view(torch.bfloat16)

    @staticmethod
    def backward(ctx: Any, errors: Tensor) -> tuple[Tensor | None, ...]:
        reading, ctx.reading = ctx.reading, None
        assert reading is not None, "the gradient of a reading was asked for twice"
        below = reading.backward(by_time(errors, torch.float32).numpy())
        return torch.from_numpy(below).to(ctx.dtype), None, None, *reading.scanner.learnt()
