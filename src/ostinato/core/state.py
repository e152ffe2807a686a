"""State: what a model remembers, as a value.

A state is a NamedTuple of arrays whose first axis is the batch; members may be NamedTuples or tuples of
states themselves. Nothing here changes a state in place. The functions work on any such tree, so the
models, the decoders, the mixture and the server share them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import FormatError, ShapeError

State: TypeAlias = tuple[Any, ...]
"""A NamedTuple of arrays [B, ...], nested if need be."""


def map_leaves(function: Callable[..., Any], *states: Any) -> Any:
    """The tree of `function(leaf, ...)` over states of one structure (arrays or tensors alike)."""
    first = states[0]
    if not isinstance(first, tuple):
        return function(*states)
    parts = [map_leaves(function, *members) for members in zip(*states, strict=True)]
    return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)


def leaves(state: Any) -> Iterator[Any]:
    """The arrays of a state, left to right."""
    if isinstance(state, tuple):
        for part in state:
            yield from leaves(part)
    else:
        yield state


def batch_size(state: State) -> int:
    """How many rows a state holds; 0 for a state without arrays."""
    return next((len(leaf) for leaf in leaves(state)), 0)


def nbytes(state: State) -> int:
    """Bytes the arrays of a state occupy, all rows together."""
    return sum(int(leaf.nbytes) for leaf in leaves(state))


def take(state: State, rows: NDArray[np.int64]) -> State:
    """The chosen rows, in that order, repeats allowed (a beam's reordering)."""
    picked: State = map_leaves(lambda leaf: leaf[rows], state)
    return picked


def stack(states: Sequence[State]) -> State:
    """One state whose rows are those of the given states, in order.

    Raises ShapeError if there is none.
    """
    if not states:
        raise ShapeError("cannot stack an empty list of states")
    joined: State = map_leaves(lambda *parts: np.concatenate(parts), *states)
    return joined


def where(rows: NDArray[np.bool_], yes: State, no: State) -> State:
    """Row by row, `yes` where `rows` [B] is true and `no` elsewhere."""

    def choose(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
        return np.where(rows.reshape((-1,) + (1,) * (a.ndim - 1)), a, b)

    chosen: State = map_leaves(choose, yes, no)
    return chosen


def same(a: State, b: State, atol: float = 0.0) -> bool:
    """Whether two states have one structure and agree within `atol`."""
    mine, others = list(leaves(a)), list(leaves(b))
    return len(mine) == len(others) and all(
        x.shape == y.shape and np.allclose(x, y, rtol=0, atol=atol) for x, y in zip(mine, others, strict=True)
    )


def to_bytes(state: State) -> bytes:
    """The state as bytes: one line of JSON (dtypes and shapes), then the arrays, little-endian."""
    arrays = [np.ascontiguousarray(leaf) for leaf in leaves(state)]
    arrays = [array.astype(array.dtype.newbyteorder("<")) for array in arrays]
    header = json.dumps([[array.dtype.str, list(array.shape)] for array in arrays])
    return header.encode() + b"\n" + b"".join(array.tobytes() for array in arrays)


def from_bytes(data: bytes, like: State) -> State:
    """The state that `to_bytes` wrote; `like` (any batch size) gives the structure.

    Raises FormatError if the bytes are damaged or belong to another kind of state.
    """
    head, _, body = data.partition(b"\n")
    try:
        described = [(np.dtype(name), tuple(shape)) for name, shape in json.loads(head)]
    except (ValueError, TypeError) as fault:
        raise FormatError(f"these {len(data)} bytes are not a state: {fault}") from fault
    wanted = list(leaves(like))
    fits = len(wanted) == len(described) and all(
        dtype == leaf.dtype.newbyteorder("<") and shape[1:] == leaf.shape[1:]
        for (dtype, shape), leaf in zip(described, wanted, strict=True)
    )
    sizes = [dtype.itemsize * int(np.prod(shape)) for dtype, shape in described]
    if not fits or sum(sizes) != len(body):
        raise FormatError("this state was saved by another model or is cut short; begin with init_state")
    arrays, at = [], 0
    for (dtype, shape), size in zip(described, sizes, strict=True):
        arrays.append(np.frombuffer(body[at : at + size], dtype).reshape(shape).astype(dtype.newbyteorder("=")))
        at += size
    source = iter(arrays)
    restored: State = map_leaves(lambda _: next(source), like)
    return restored
