"""The cells that have kernels of their own: what each is made of."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from torch import Tensor

from ostinato.kernels import recurrent_average, recurrent_elman, recurrent_gru, recurrent_layer_norm, recurrent_lstm
from ostinato.nn.cells import Cell, cells
from ostinato.nn.cells.parallel_scan import AveragingCell
from ostinato.nn.cells.recurrent import RecurrentCell


class Part(NamedTuple):
    """A recurrent matrix: a range of the rows of `from_hidden`, in blocks of H."""

    begin: int
    end: int
    column: int  # the block at which the errors of its products begin
    of_reset: bool = False  # it reads what a reset gate left of the hidden states


class Kernels(NamedTuple):
    """A cell as the engine sees it.

    columns: how many blocks of H numbers a token has; the first ones get the products with the inputs. vectors: the
    parameters that are vectors, biases and peepholes, each with the block at which it is added to the others.
    """

    columns: int
    parts: tuple[Part, ...]
    has_cell: bool  # keeps a cell state beside the hidden state
    forward: Callable[..., None]
    backward: Callable[..., None]
    vectors: Callable[[Any], list[tuple[Tensor, slice, int]]]


Vectors = list[tuple[Tensor, slice, int]]
"""Parameters, which of their blocks, and where these are added."""


def biases(cell: RecurrentCell | AveragingCell) -> Vectors:
    """The one or two biases of every gate, whose sum counts."""
    second = cell.from_hidden.bias if isinstance(cell, RecurrentCell) else cell.second_bias
    found: list[Tensor | None] = [cell.from_input.bias, second]
    return [(bias, slice(0, cell.blocks), 0) for bias in found if bias is not None]


def with_peepholes(cell: Any) -> Vectors:
    """Biases, then the peepholes."""
    return [*biases(cell), (cell.from_cell, slice(0, 3), 4)]


def around_the_reset(cell: Any) -> Vectors:
    """The biases of a GRU whose candidate has one inside the reset: block 3."""
    if cell.candidate_bias is not None:
        return [(cell.from_input.bias, slice(0, 3), 0), (cell.candidate_bias, slice(0, 1), 3)]
    second = cell.from_hidden.bias
    return [(cell.from_input.bias, slice(0, 3), 0), (second, slice(0, 2), 0), (second, slice(2, 3), 3)]


def of_norms(cell: Any) -> Vectors:
    """The gains of both normalised sums, their biases, gain and shift of the cell."""
    found: list[Tensor | None] = [cell.norm_input.bias, cell.norm_hidden.bias]
    return [
        (cell.norm_input.weight, slice(0, 4), 0),
        (cell.norm_hidden.weight, slice(0, 4), 4),
        *((bias, slice(0, 4), 8) for bias in found if bias is not None),
        (cell.norm_cell.weight, slice(0, 1), 12),
        (cell.norm_cell.bias, slice(0, 1), 13),
    ]


def memory(form: int, blocks: int, vectors: Callable[[Any], Vectors] = biases) -> Kernels:
    """A form of the LSTM."""
    forward, backward = partial(recurrent_lstm.forward, form), partial(recurrent_lstm.backward, form)
    return Kernels(blocks, (Part(0, blocks, 0),), True, forward, backward, vectors)


def simple(activation: int) -> Kernels:
    """The simple recurrent network."""
    forward, backward = (partial(kernel, activation) for kernel in (recurrent_elman.forward, recurrent_elman.backward))
    return Kernels(1, (Part(0, 1, 0),), False, forward, backward, biases)


def averaging(form: int, blocks: int) -> Kernels:
    """A cell without a recurrent matrix."""
    forward, backward = (partial(kernel, form) for kernel in (recurrent_average.forward, recurrent_average.backward))
    return Kernels(blocks, (), False, forward, backward, biases)


KERNELS: dict[str, Kernels] = {
    "lstm": memory(recurrent_lstm.FORGET, 4),
    "lstm-1997": memory(recurrent_lstm.ADD, 3),
    "lstm-coupled": memory(recurrent_lstm.COUPLED, 3),
    "lstm-peephole": memory(recurrent_lstm.PEEPHOLE, 4, with_peepholes),
    "lstm-layer-norm": Kernels(
        8, (Part(0, 4, 4),), True, recurrent_layer_norm.forward, recurrent_layer_norm.backward, of_norms,
    ),
    "gru": Kernels(
        4, (Part(0, 2, 0), Part(2, 3, 3)), False,
        recurrent_gru.forward_after, recurrent_gru.backward_after, around_the_reset,
    ),
    "gru-reset-before": Kernels(
        3, (Part(0, 2, 0), Part(2, 3, 2, of_reset=True)), False,
        recurrent_gru.forward_before, recurrent_gru.backward_before, biases,
    ),
    "min-gru": averaging(recurrent_average.UPDATE, 2),
    "min-lstm": averaging(recurrent_average.GATES, 3),
    "rnn tanh": simple(recurrent_elman.TANH),
    "rnn relu": simple(recurrent_elman.RELU),
    "rnn sigmoid": simple(recurrent_elman.SIGMOID),
}  # fmt: skip
"""By kind of model; of the simple recurrent network, with its activation."""


def kernels_of(kind: str, options: Any) -> Kernels | None:
    """The kernels of a kind of model, or None if it has none."""
    return KERNELS.get(f"rnn {options.activation}" if kind == "rnn" else kind)


def kernels_of_cell(cell: Cell) -> Kernels | None:
    """The same for a cell by itself."""
    kind = next((name for name in cells if type(cell) is cells[name]), "")
    return kernels_of(kind, cell)
