"""Numbers that are not known yet: a step run on them leaves the list of its operations behind.

The step of a model is written once, in NumPy. Run on arrays it gives numbers; run on symbols it is recorded, and
the record can be written down for another program (stream/onnx_file.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

UFUNCS = {
    np.add: "Add",
    np.subtract: "Sub",
    np.multiply: "Mul",
    np.true_divide: "Div",
    np.negative: "Neg",
    np.tanh: "Tanh",
    np.exp: "Exp",
    np.log: "Log",
    np.sqrt: "Sqrt",
    np.maximum: "Max",
    np.matmul: "MatMul",
}
"""NumPy's functions of numbers, and the names ONNX has for them."""


@dataclass(frozen=True)
class Operation:
    """One operation of a record: the names of what it reads and makes."""

    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]


@dataclass
class Record:
    """The operations of a step in order, and the arrays they read."""

    operations: list[Operation] = field(default_factory=list)
    constants: dict[str, NDArray[Any]] = field(default_factory=dict)
    _known: dict[tuple[Any, ...], str] = field(default_factory=dict)

    def run(self, kind: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
        """A symbol for what the operation gives, a tuple of them if it gives several."""
        names = tuple(self._name(value) for value in inputs)
        made = tuple(f"{kind.lower()}_{len(self.operations)}_{place}" for place in range(outputs))
        self.operations.append(Operation(kind, names, made, attributes))
        symbols = tuple(Symbol(self, name) for name in made)
        return symbols if outputs > 1 else symbols[0]

    def constant(self, array: NDArray[Any]) -> Symbol:
        """A symbol for an array; the same memory is kept once."""
        place = (array.__array_interface__["data"][0], array.shape, array.strides, array.dtype.str)
        if place not in self._known:
            self._known[place] = f"constant_{len(self.constants)}"
            self.constants[self._known[place]] = array
        return Symbol(self, self._known[place])

    def _name(self, value: Any) -> str:
        if isinstance(value, Symbol):
            return value.name
        if isinstance(value, int | float):
            value = np.array(value, np.float32)
        return self.constant(np.asarray(value)).name


class Symbol(NDArrayOperatorsMixin):
    """A value by name; arithmetic on it is recorded."""

    def __init__(self, record: Record, name: str):
        self.record, self.name = record, name

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__" or options or function not in UFUNCS:
            return NotImplemented
        return self.record.run(UFUNCS[function], *inputs)
