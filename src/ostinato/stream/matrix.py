"""Weight matrices in float32, bfloat16 or int8, and the arrays of a model by name."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import FormatError
from ostinato.stream import ops
from ostinato.stream.symbol import Symbol

Precision = Literal["fp32", "bf16", "int8"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)

SCALE = ".scale"
"""Comes after the name of an int8 matrix in the name of its scales."""


@dataclass(frozen=True, eq=False)
class Matrix:
    """Weights [N, K] of a product with rows [B, K].

    values: float32, bfloat16 as uint16 (its bits), or int8; scale: of int8, float32 [N], what a row's integers
    are multiplied by. Sums are float32 whatever the form.
    """

    values: NDArray[Any]
    scale: NDArray[np.float32] | None = None
    whole: Matrix | None = field(default=None, repr=False)  # what this is some rows of
    begin: int = 0  # the first of them

    @property
    def shape(self) -> tuple[int, int]:
        """[N, K]."""
        rows, columns = self.values.shape
        return rows, columns

    @cached_property
    def dense(self) -> NDArray[np.float32]:
        """The weights as float32 [N, K]."""
        if self.whole is not None:
            return self.whole.dense[self.begin : self.begin + len(self.values)]
        return decoded(self.values, self.scale)

    def part(self, begin: int, end: int) -> Matrix:
        """The matrix of some rows, in the same memory."""
        assert self.whole is None
        return Matrix(self.values[begin:end], None if self.scale is None else self.scale[begin:end], self, begin)

    def multiply(self, x: Any) -> Any:
        """The products [..., N] float32 of rows x [..., K] with every row of weights: x W'."""
        if isinstance(x, Symbol):
            return x.record.run("Gemm", x, self._symbol(x), transB=1)
        rows = x.reshape(-1, x.shape[-1]) @ self.dense.T
        return rows.reshape(*x.shape[:-1], len(self.values))

    def rows(self, ids: Any) -> Any:
        """The rows [..., K] of these numbers, float32."""
        if isinstance(ids, Symbol):
            return ids.record.run("Gather", self._symbol(ids), ids, axis=0)
        return decoded(self.values[ids], None if self.scale is None else self.scale[ids])

    def _symbol(self, like: Symbol) -> Symbol:
        """The weights as a constant of a record; some rows are cut out there, so that both share memory."""
        if self.whole is None:
            return like.record.constant(self.dense)
        ends = (np.array([at], np.int64) for at in (self.begin, self.begin + len(self.values), 0))
        cut: Symbol = like.record.run("Slice", self.whole._symbol(like), *ends)
        return cut


def decoded(values: NDArray[Any], scale: NDArray[np.float32] | None) -> NDArray[np.float32]:
    """Stored weights [..., K] as float32; scale: [...] of int8."""
    if values.dtype == np.uint16:
        wide = values.astype(np.uint32) << 16
        return wide.view(np.float32)
    if values.dtype == np.int8:
        assert scale is not None
        return values.astype(np.float32) * scale[..., None]
    weights: NDArray[np.float32] = values
    return weights


def encoded(name: str, weights: NDArray[np.float32], precision: Precision) -> dict[str, NDArray[Any]]:
    """The arrays a matrix [N, K] is stored as, under its name and for int8 that of its scales.

    bf16: rounded to the nearest, ties to even. int8: symmetric, the largest of each row at +-127.
    """
    if precision == "bf16":
        bits = np.ascontiguousarray(weights, np.float32).view(np.uint32)
        return {name: ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)}
    if precision == "int8":
        scale = np.abs(weights).max(axis=1).astype(np.float32) / np.float32(127)
        steps = weights / np.where(scale > 0, scale, np.float32(1))[:, None]
        return {name: np.rint(steps).astype(np.int8), name + SCALE: scale}
    return {name: np.ascontiguousarray(weights, np.float32)}


@dataclass(frozen=True, eq=False)
class Linear:
    """A product and, if there is one, a bias [N]."""

    matrix: Matrix
    bias: NDArray[np.float32] | None

    def __call__(self, x: Any) -> Any:
        """x W' + b: [B, K] to [B, N]."""
        product = self.matrix.multiply(x)
        return product if self.bias is None else product + self.bias

    def part(self, begin: int, end: int) -> Linear:
        """The same for some rows only."""
        return Linear(self.matrix.part(begin, end), None if self.bias is None else self.bias[begin:end])


@dataclass(frozen=True, eq=False)
class Norm:
    """Layer normalisation with a gain and, if there is one, a bias. epsilon: that of torch.nn.LayerNorm."""

    weight: NDArray[np.float32]
    bias: NDArray[np.float32] | None
    epsilon: float = 1e-5

    def __call__(self, x: Any) -> Any:
        """Rows [..., N] normalised over the last axis."""
        return ops.normalise(
            x, self.weight, np.zeros_like(self.weight) if self.bias is None else self.bias, self.epsilon
        )


class Weights:
    """The arrays of a model by name, each asked for with the shape it must have.

    Raises FormatError, when asked, for an array that is missing or has another shape or type.
    """

    def __init__(self, arrays: Mapping[str, NDArray[Any]]):
        self._arrays, self._prefix = arrays, ""
        self._asked: set[str] = set()
        self.matrices: set[str] = set()
        """The names of the arrays that were asked for as matrices."""

    def under(self, prefix: str) -> Weights:
        """The arrays whose names go on after `prefix.`."""
        inner = copy(self)
        inner._prefix = f"{self._prefix}{prefix}."
        return inner

    def __contains__(self, name: str) -> bool:
        return self._prefix + name in self._arrays

    def vector(self, name: str, *shape: int) -> NDArray[np.float32]:
        """A float32 array of that shape."""
        return self._array(name, shape, np.float32)

    def matrix(self, name: str, rows: int, columns: int) -> Matrix:
        """A matrix [rows, columns] in whatever form it is stored."""
        values = self._array(name, (rows, columns), np.float32, np.uint16, np.int8)
        self.matrices.add(self._prefix + name)
        return Matrix(values, self._array(name + SCALE, (rows,), np.float32) if values.dtype == np.int8 else None)

    def length(self, name: str) -> int:
        """How many rows or numbers an array has whose size only it knows; 0 if it is missing."""
        array = self._arrays.get(self._prefix + name)
        return 0 if array is None or not array.ndim else len(array)

    def linear(self, name: str, rows: int, columns: int) -> Linear:
        """`name.weight` [rows, columns] with `name.bias` [rows] if there is one."""
        bias = self.vector(f"{name}.bias", rows) if f"{name}.bias" in self else None
        return Linear(self.matrix(f"{name}.weight", rows, columns), bias)

    def norm(self, name: str, size: int) -> Norm:
        """`name.weight` [size] with `name.bias` if there is one."""
        bias = self.vector(f"{name}.bias", size) if f"{name}.bias" in self else None
        return Norm(self.vector(f"{name}.weight", size), bias)

    def pass_over(self, name: str) -> None:
        """Count an array as asked for that no step reads."""
        self._asked.add(self._prefix + name)

    def left_over(self) -> list[str]:
        """The names that nobody asked for."""
        return sorted(set(self._arrays) - self._asked)

    def _array(self, name: str, shape: tuple[int, ...], *types: type) -> NDArray[Any]:
        name = self._prefix + name
        if name not in self._arrays:
            raise FormatError(f"the array {name} is missing; export the run again")
        self._asked.add(name)
        array = self._arrays[name]
        if array.shape != shape or array.dtype not in [np.dtype(kind) for kind in types]:
            raise FormatError(f"the array {name} is {array.dtype} {array.shape}, not {shape}; export the run again")
        return array
