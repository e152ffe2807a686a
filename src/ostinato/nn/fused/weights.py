"""Parameters as the kernels read them, and their gradients: views of the network's own memory."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ostinato.kernels.packing import pack_columns, pack_rows, packed, pairs, panels
from ostinato.kernels.product import product
from ostinato.kernels.recurrent import drop_rows
from ostinato.kernels.simd import WIDTH
from ostinato.kernels.team import part
from ostinato.nn.fused.dropout import Dropout

Floats = NDArray[np.float32]


def width_of(size: int) -> int:
    """The width of rows of bfloat16 that hold `size` numbers: whole registers."""
    return panels(size) * WIDTH


class Sides(NamedTuple):
    """Errors and what was read, two tokens at a time: their product over the tokens is a gradient."""

    errors: NDArray[np.uint16]
    begin: int  # where the first error of a matrix stands
    stride: int  # from one pair of tokens to the next
    right: NDArray[np.uint32]  # packed


class Matrix:
    """A weight matrix [N, K] and its gradient; `forwards` and `backwards` are it and its transpose, packed."""

    def __init__(self, values: Floats, gradient: Floats):
        self.values, self.gradient = values, gradient
        self.rows, self.columns = int(values.shape[0]), int(values.shape[1])
        self.forwards = packed(self.rows, width_of(self.columns))
        self.backwards = packed(self.columns, self.rows)

    def pack(self, member: int, members: int) -> None:
        """Pack this member's share of the weights as they are now."""
        pack_rows(self.values, self.forwards, *part(0, panels(self.rows), member, members))
        pack_columns(self.values, self.backwards, *part(0, pairs(self.rows), member, members))

    def apply(self, inputs: NDArray[np.uint16], tokens: int, out: Floats) -> None:
        """Write the products with inputs [tokens, width] to the first N columns of out."""
        width, stride = inputs.shape[1], out.shape[1]
        product(inputs, 0, width, 2, tokens, self.forwards, 0, width // 2, self.rows, out, 0, stride, 0)

    def errors(self, errors: NDArray[np.uint16], tokens: int, below: Floats) -> None:
        """The errors of the inputs, below [tokens, K], from those of the products, the first N columns of errors."""
        width, length, size = errors.shape[1], pairs(self.rows), self.columns
        product(errors, 0, width, 2, tokens, self.backwards, 0, length, size, below, 0, size, 0)

    def learn(self, sides: list[Sides], member: int, members: int, add: bool) -> None:
        """Add a member's rows of the gradient, from all segments, to what is there; or write them."""
        self._multiply(sides, self.gradient, *part(0, self.rows, member, members), add)

    def _multiply(self, sides: list[Sides], out: Floats, begin: int, end: int, add: bool) -> None:
        size = self.columns
        for number, (errors, first, stride, right) in enumerate(sides):
            left, place, length = first + 2 * begin, begin * size, right.shape[1]
            more = int(add or number > 0)
            product(errors, left, 2, stride, end - begin, right, 0, length, size, out, place, size, more)


class DroppedMatrix(Matrix):
    """A matrix of whose weights a share is dropped, others every time `drop` is called [Merity2018]."""

    def __init__(self, values: Floats, gradient: Floats):
        super().__init__(np.empty_like(values), gradient)
        self.whole, self.room = values, np.empty_like(values)
        self.mask = Dropout(0.0, 0).mask(1, 1)

    def drop(self, dropout: Dropout, member: int, members: int) -> None:
        """Make this member's share of the weights that are used now. All members must have done so before `pack`."""
        begin, end = part(0, self.rows, member, members)
        if member == 0:
            self.mask = dropout.mask(1, self.rows)
        drop_rows(self.whole[begin:end], self.values[begin:end], dropout.mask(1, self.rows), begin)

    def learn(self, sides: list[Sides], member: int, members: int, add: bool) -> None:
        begin, end = part(0, self.rows, member, members)
        self._multiply(sides, self.room, begin, end, False)
        if add:
            mine = np.empty_like(self.room[begin:end])
            drop_rows(self.room[begin:end], mine, self.mask, begin)
            self.gradient[begin:end] += mine
        else:
            drop_rows(self.room[begin:end], self.gradient[begin:end], self.mask, begin)


class Vector(NamedTuple):
    """A parameter that is a vector, and where it is added."""

    value: Floats
    gradient: Floats
    begin: int


class Vectors:
    """Vectors of parameters as one array, those that stand in the same place added up."""

    def __init__(self, members: list[Vector]):
        self.members = members
        size = max((vector.begin + vector.value.size for vector in members), default=0)
        self.values = np.zeros(size, np.float32)

    def collect(self) -> None:
        """Read the parameters as they are now."""
        self.values[:] = 0
        for value, _, begin in self.members:
            self.values[begin : begin + value.size] += value

    def learn(self, errors: list[Floats], member: int, members: int, add: bool) -> None:
        """Add a member's share of the gradients, of the errors of all segments, to what is there; or write it."""
        for _, gradient, begin in self.members:
            mine = slice(*part(0, gradient.size, member, members))
            total = sum(error[begin : begin + gradient.size][mine] for error in errors)
            gradient[mine] = gradient[mine] + total if add else total
