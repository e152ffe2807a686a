"""Layers of cells over a window of text, forward and backward, by the kernels of `kernels.recurrent_*`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostinato.kernels import joining, recurrent
from ostinato.kernels.packing import narrow, pair_rows, panels
from ostinato.kernels.recurrent import Mask
from ostinato.kernels.simd import WIDTH
from ostinato.nn.fused.cells import Kernels
from ostinato.nn.fused.memory import Memory
from ostinato.nn.fused.weights import Floats, Matrix, Sides, Vectors, width_of

__all__ = ["NOTHING", "Join", "Layer", "Segment", "Words", "learn", "spread", "width_of"]

Words = NDArray[np.uint16]
NOTHING = Mask(0, np.uint32(0), np.float32(1), 1)


def spread(size: int) -> int:
    """At least `size` numbers of 4 bytes, so many that rows of them do not all fall on the same lines of a cache."""
    return size + 16 if size % 256 == 0 else size


def even(count: int) -> int:
    """The next even number."""
    return count + count % 2


@dataclass(frozen=True)
class Join:
    """What a layer does to its cell's outputs before it hands them on, and keeps. norm: gain and shift, or None."""

    norm: Vectors | None
    epsilon: float
    residual: bool


@dataclass(frozen=True)
class Layer:
    """One layer: its cell's parameters and kernels. size: H. parts: recurrent matrices, as the kernels have them."""

    kernels: Kernels
    size: int
    input: Matrix
    parts: list[Matrix]
    vectors: Vectors
    join: Join | None

    @property
    def reads(self) -> int:
        """How many numbers it reads a step."""
        return self.input.columns

    @property
    def sums(self) -> int:
        """How many numbers the gates of a token have."""
        return self.kernels.columns * self.size

    @property
    def residual(self) -> bool:
        """Whether what the layer below handed on is added to what it hands on."""
        return self.join is not None and self.join.residual

    def matrices(self) -> list[tuple[Matrix, int, str]]:
        """All matrices, each with the column where the errors of its products begin and the name of what it reads."""
        parts = [
            (matrix, part.column * self.size, "left" if part.of_reset else "hidden")
            for matrix, part in zip(self.parts, self.kernels.parts, strict=True)
        ]
        return [(self.input, 0, "inputs"), *parts]

    def every_vector(self) -> list[tuple[Vectors, str]]:
        """All vectors, with the name of their errors."""
        norm = self.join.norm if self.join else None
        return [(self.vectors, "vector errors"), *([(norm, "norm errors")] if norm else [])]


class Segment:
    """The rows of the batch that one thread takes through all steps and layers, and what it remembers of them.

    Tokens stand step by step; `tokens` is even, with an idle one at the end if need be. A name in `memory` has one
    width: the columns that fill up its rows are zero from the beginning and stay so.
    """

    def __init__(self, begin: int, end: int, steps: int, memory: Memory, read: int | None = None):
        """read: how many tokens there are, where not every row has all steps."""
        self.begin, self.end, self.steps, self.memory = begin, end, steps, memory
        self.rows = end - begin
        self.read = steps * self.rows if read is None else read
        self.tokens = even(self.read)
        self.order = np.arange(self.tokens)
        self.order[self.read :] = -1

    def take(self, name: str, number: int, shape: tuple[int, ...], dtype: Any = np.float32) -> NDArray[Any]:
        """Memory of this segment for one layer."""
        return self.memory.take(f"{name} {number}", shape, dtype)

    def states(self, number: int, layer: Layer) -> tuple[NDArray[Any], ...]:
        """The states of all steps, the first ones before them: float32 (cell or hidden), then the hidden in bfloat16.

        Then the hidden states in float32 of a cell that has others, or what a reset gate left of them in bfloat16.
        """
        rows, size, width = (self.steps + 1) * self.rows, layer.size, width_of(layer.size)
        states = (self.take("states", number, (rows, size)), self.take("hidden", number, (rows, width), np.uint16))
        if layer.kernels.has_cell:
            shown = self.read if layer.join else self.rows
            return *states, self.take("shown", number, (shown, size))
        if any(part.of_reset for part in layer.kernels.parts):
            return *states, self.take("left", number, (self.tokens, width), np.uint16)
        return states

    def outputs(self, number: int, layer: Layer) -> Floats:
        """The hidden states: those of the last step at the end, of all steps if the layer has a `Join`."""
        states = self.states(number, layer)
        return states[2] if layer.kernels.has_cell else states[0][self.rows :]

    def enter(self, number: int, layer: Layer, before: Any) -> None:
        """The state before the first step, from that of the whole batch."""
        rows, states = slice(self.begin, self.end), self.states(number, layer)
        hidden = np.ascontiguousarray(before.hidden.numpy()[rows])
        states[0][: self.rows] = before.cell.numpy()[rows] if layer.kernels.has_cell else hidden
        recurrent.narrow_rows(hidden, states[1])

    def inputs(self, number: int, size: int) -> Words:
        """What a layer reads, of that size: [tokens, width]."""
        return self.take("inputs", number, (self.tokens, width_of(size)), np.uint16)

    def handed(self, number: int, size: int) -> Floats:
        """What a layer was handed, before dropout, where somebody keeps it: [read, size]."""
        return self.take("handed", number, (self.read, size))

    def gates(self, number: int, layer: Layer) -> Floats:
        """Sums, activations and errors of a layer's gates, one after another: [tokens, blocks * H]."""
        return self.take("gates", number, (self.tokens, layer.sums))

    def forward(self, number: int, layer: Layer, above: Words, mask: Mask) -> None:
        """Read all steps with one layer; its states before the first stand in `states` already."""
        gates = self.gates(number, layer)
        layer.input.apply(self.inputs(number, layer.reads), self.read, gates)
        layer.kernels.forward(
            gates, layer.vectors.values, tuple(matrix.forwards for matrix in layer.parts), self.states(number, layer),
            above, self.steps, self.rows, NOTHING if layer.join else mask,
        )  # fmt: skip
        if layer.join:
            lower = self.handed(number, layer.size)[: None if layer.residual else 0]
            joining.forward(
                self.outputs(number, layer), self._norm(layer), np.float32(layer.join.epsilon), lower,
                *self._normal(number, layer), self.handed(number + 1, layer.size), above, mask,
            )  # fmt: skip

    def _norm(self, layer: Layer) -> Floats:
        norm = layer.join.norm if layer.join else None
        return norm.values.reshape(2, -1) if norm else np.empty((0, layer.size), np.float32)

    def _normal(self, number: int, layer: Layer) -> tuple[Floats, Floats]:
        return self.take("normal", number, (self.read, layer.size)), self.take("scales", number, (self.read,))

    def backward(self, number: int, layer: Layer, errors: Floats, below: Floats) -> None:
        """From errors [tokens, H] of what a layer hands on those of what it read, below [tokens, in].

        The residual connection is left to the caller; without a `Join`, `errors` are overwritten.
        """
        for vectors, name in layer.every_vector():
            self.take(name, number, (vectors.values.size,))[:] = 0
        if layer.join:
            hidden = self.memory.take("hidden errors", (self.read, layer.size))
            norm_errors = self.take("norm errors", number, (2, layer.size))
            normal = self._normal(number, layer)
            joining.backward(errors[: self.read], self._norm(layer), *normal, hidden, norm_errors)
            errors = hidden
        narrow_errors = self.errors(number, layer)
        carried = self.take("carried", number, (self.rows, layer.size))
        carried[:] = 0
        layer.kernels.backward(
            self.gates(number, layer), layer.vectors.values, tuple(matrix.backwards for matrix in layer.parts),
            self.states(number, layer), narrow_errors, errors,
            self.take("vector errors", number, (layer.vectors.values.size,)), carried, self.steps, self.rows,
        )  # fmt: skip
        narrow_errors[self.read :] = 0
        layer.input.errors(narrow_errors, self.tokens, below)
        self.pair_errors(number, narrow_errors)
        for name in sorted({name for _, _, name in layer.matrices()}):
            self.pair(name, number, self._source(name, number, layer))

    def errors(self, number: int, layer: Layer) -> Words:
        """The errors of a layer's sums, for all products with them."""
        return self.take("errors", number, (self.tokens, self._width(layer)), np.uint16)

    def _width(self, layer: Layer) -> int:
        """The width of rows of errors: an odd H leaves room for the pair that a matrix's last error is in."""
        return even(layer.sums) + 2 * (layer.size % 2)

    def _source(self, name: str, number: int, layer: Layer) -> Words:
        if name == "inputs":
            return self.inputs(number, layer.reads)
        return self.states(number, layer)[1 if name == "hidden" else 2]

    def pair_errors(self, number: int, errors: Words) -> None:
        """Put errors two tokens at a time, as the products over all tokens read them."""
        shape = self.tokens // 2, spread(errors.shape[1])
        recurrent.pair_up(errors, self.take("error pairs", number, shape, np.uint32))

    def pair(self, name: str, number: int, source: Words) -> None:
        """Put what a matrix reads two tokens at a time."""
        half = self.tokens // 2
        out = self.take(f"{name} pairs", number, (source.shape[1] // WIDTH, half, WIDTH), np.uint32)
        pair_rows(source, self.order, out, 0, half)

    def sides(self, name: str, number: int, width: int, column: int, size: int) -> Sides:
        """Both sides of the product for a weight gradient: errors, of that width, from a column; what was read."""
        half, stride = self.tokens // 2, spread(width)
        errors = self.take("error pairs", number, (half, stride), np.uint32).view(np.uint16)
        right = self.take(f"{name} pairs", number, (panels(size), half, WIDTH), np.uint32)
        return Sides(errors, 2 * column, 2 * stride, right)

    def layer_sides(self, name: str, number: int, layer: Layer, column: int, size: int) -> Sides:
        """`sides` of a layer's matrix."""
        return self.sides(name, number, self._width(layer), column, size)

    def project(self, number: int, matrix: Matrix, above: Words) -> None:
        """Hand on the products of a matrix with what it reads as layer `number`, in bfloat16."""
        products = self.memory.take("projected", (self.tokens, matrix.rows))
        matrix.apply(self.inputs(number, matrix.columns), self.read, products)
        recurrent.narrow_rows(products[: self.read], above)

    def project_back(self, number: int, matrix: Matrix, errors: Floats, below: Floats) -> None:
        """The errors of what `project` read from those [tokens, D] of what it handed on."""
        narrow_errors = self.take("errors", number, (self.tokens, even(matrix.rows)), np.uint16)
        narrow(errors, narrow_errors, 0, self.tokens)
        matrix.errors(narrow_errors, self.tokens, below)
        self.pair_errors(number, narrow_errors)
        self.pair("inputs", number, self.inputs(number, matrix.columns))

    def project_sides(self, number: int, matrix: Matrix) -> Sides:
        """`sides` of the projection."""
        return self.sides("inputs", number, even(matrix.rows), 0, matrix.columns)


def learn(layer: Layer, number: int, segments: list[Segment], member: int, members: int, add: bool) -> None:
    """Add a member's share of all gradients of a layer, of the segments with rows, to what is there; or write it."""
    for matrix, column, name in layer.matrices():
        sides = [segment.layer_sides(name, number, layer, column, matrix.columns) for segment in segments]
        matrix.learn(sides, member, members, add)
    for vectors, name in layer.every_vector():
        errors = [segment.take(name, number, (vectors.values.size,)) for segment in segments]
        vectors.learn(errors, member, members, add)
