"""The flat arrays that kernels/stepping.py reads, made of a network and its output layer."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostinato.kernels import stepping as at
from ostinato.kernels import stepping_cells as kinds
from ostinato.kernels.packing import aligned
from ostinato.kernels.stepping_tile import BLOCK
from ostinato.stream.cells.elman import Elman
from ostinato.stream.cells.gru import GRU
from ostinato.stream.cells.lstm import LSTM, LSTM1997, CoupledLSTM
from ostinato.stream.heads import Head, SoftmaxHead
from ostinato.stream.matrix import Matrix, Precision, decoded
from ostinato.stream.networks import Network, RecurrentNetwork

GROUP = 4
"""Inner axes are filled up with zeros to a multiple of what is multiplied at once, of int8 numbers four."""

WORDS = 1024
"""Words whose rows of the table are made together."""

TABLE = 1 << 26
"""Numbers of two bytes that a table for the lowest layer may have (128 MiB)."""

FORMS: dict[Precision, tuple[int, Any, str]] = {
    "int8": (at.INT8, np.uint8, "int8"),
    "bf16": (at.BF16, np.uint16, "bfloat16"),
    "fp32": (at.FP32, np.float32, "float32"),
}
"""Of each precision: its number, the type of rows, the name of its products."""

CELLS: dict[type[Any], int] = {
    LSTM: kinds.LSTM,
    LSTM1997: kinds.LSTM_1997,
    CoupledLSTM: kinds.LSTM_COUPLED,
    GRU: kinds.GRU,
}


def reason(network: Network, head: Head) -> str | None:
    """Why a model cannot be packed, or None if it can."""
    if not isinstance(network, RecurrentNetwork):
        return "it is no stack of recurrent cells"
    for layer in network.layers:
        cell = layer.cell
        if type(cell) not in CELLS and _elman(cell) is None:
            return f"cells of kind {type(cell).__name__} are not"
        if layer.block is not None or layer.zoneout:
            return "its layers have feed-forward blocks or zoneout"
    if network.skip and len(network.layers) > 1:
        return "its layers are joined by skip connections"
    if type(head) is not SoftmaxHead:
        return "its output layer is no plain softmax"
    return None


def _elman(cell: Any) -> int | None:
    """The number of an Elman cell's kind, None for another cell."""
    if type(cell) is not Elman:
        return None
    return {"tanh": kinds.TANH, "relu": kinds.RELU}.get(cell.options.get("activation", "tanh"))


def table_is_small(network: Network) -> bool:
    """Whether the lowest layer's input products of all words are few enough to be kept."""
    assert isinstance(network, RecurrentNetwork)
    cell: Any = network.layers[0].cell
    return len(network.embedding.values) * len(cell.from_input.matrix.values) <= TABLE


class Packing:
    """The flat arrays of a model, and the plan that says where everything lies in them."""

    def __init__(self, network: RecurrentNetwork, head: SoftmaxHead, precision: Precision, with_table: bool):
        self.kind, self.row_type, _ = FORMS[precision]
        self._panels: list[NDArray[Any]] = []
        self._numbers: list[NDArray[np.float32]] = [np.zeros(BLOCK, np.float32)]  # where nothing lies: zeros
        self._products: list[list[int]] = []
        self._sizes = [0, BLOCK]  # of what is packed: weights, numbers
        self.leaves = 0
        lowest: Any = network.layers[0].cell
        self.table, table_scale = np.zeros((1, 1), np.int16), 0
        if with_table:
            self.table, table_scale = self._table(network.embedding, lowest.from_input.matrix, _biases(lowest)[0])
        size, rows = network.embedding.shape[1], []
        for number, layer in enumerate(network.layers):
            rows.append(self._layer(layer, size, network.residual, with_table and number == 0))
            size = layer.cell.output_size
        project = -1 if network.project is None else self._product(network.project.matrix, network.project.bias)
        scores = self._product(head.output.matrix, head.output.bias)
        self.embedding, read_scale = self._embedding(network.embedding, not with_table or bool(rows[0][at.RESIDUAL]))
        columns = [product[at.BLOCKS] * BLOCK for product in self._products]
        first = [0] * at.COLUMNS
        first[at.KIND], first[at.LAYERS], first[at.HIDDEN] = self.kind, len(rows), size
        first[at.PROJECT], first[at.HEAD] = project, scores
        first[at.TABLE_SCALE], first[at.READ_SCALE] = table_scale, read_scale
        first[at.WIDE] = max([*columns[:scores], -(-network.embedding.shape[1] // BLOCK) * BLOCK])
        first[at.DEEP] = max([product[at.LENGTH] for product in self._products] + [self.embedding.shape[1]])
        first[at.LOGITS], first[at.READABLE] = columns[scores], network.embedding.shape[0]
        self.plan = np.array([row + [0] * (at.COLUMNS - len(row)) for row in [first, *rows, *self._products]], np.int64)

    def panels(self) -> NDArray[Any]:
        """The weights of all products, one behind the other."""
        whole: NDArray[Any] = aligned((self._sizes[0],), self._panels[0].dtype)
        return np.concatenate(self._panels, out=whole)

    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[Any], NDArray[np.int16]]:
        """The plan, the numbers, the embedding, and the table."""
        numbers: NDArray[np.float32] = aligned((self._sizes[1],), np.float32)
        return self.plan, np.concatenate(self._numbers, out=numbers), self.embedding, self.table

    def _layer(self, layer: Any, size: int, residual: bool, with_table: bool) -> list[int]:
        """The row of the plan for a layer that reads `size` numbers."""
        cell, row = layer.cell, [0] * at.COLUMNS
        kind = _elman(cell)
        row[at.CELL] = kind = CELLS[type(cell)] if kind is None else kind
        bias, own = _biases(cell)
        row[at.INPUT] = -1 if with_table else self._product(cell.from_input.matrix, bias)
        row[at.RECURRENT] = self._product(cell.from_hidden.matrix, own, add=kind != kinds.GRU)
        row[at.LEAF] = self.leaves
        self.leaves += len(cell.init_state(0))
        row[at.RESIDUAL] = residual and size == cell.output_size
        row[at.NORM] = -1
        if layer.norm is not None:
            shift = layer.norm.bias if layer.norm.bias is not None else np.zeros_like(layer.norm.weight)
            row[at.NORM] = self._keep(np.concatenate([layer.norm.weight, shift]))
            row[at.EPSILON] = round(layer.norm.epsilon * 1e12)
        return row

    def _product(self, matrix: Matrix, bias: NDArray[np.float32] | None, add: bool = False) -> int:
        """Pack weights [N, K]; return the product's number. add: it is added to another, so that it has no bias."""
        values = matrix.values
        columns, inner = values.shape
        blocks, length = -(-columns // BLOCK), -(-inner // GROUP) * GROUP
        filled = np.zeros((blocks * BLOCK, length), values.dtype)
        filled[:columns, :inner] = values
        group = 4 // values.itemsize
        packed = filled.reshape(blocks, BLOCK, length // group, group).transpose(0, 2, 1, 3)
        row = [0] * at.COLUMNS
        row[at.PLACE], row[at.LENGTH], row[at.BLOCKS], row[at.SIZE] = self._sizes[0], length, blocks, inner
        self._panels.append(packed.reshape(-1))
        self._sizes[0] += packed.size
        if matrix.scale is not None:
            row[at.SCALE] = self._keep(_filled(matrix.scale, blocks * BLOCK))
            row[at.CORRECTION] = self._keep(
                (128 * filled.sum(axis=1, dtype=np.int32)).astype(np.int32).view(np.float32)
            )
        bias = np.zeros(columns, np.float32) if bias is None else bias
        row[at.BIAS] = -1 if add else self._keep(_filled(bias, blocks * BLOCK))
        self._products.append(row)
        return len(self._products) - 1

    def _keep(self, values: NDArray[np.float32]) -> int:
        """Put numbers with the others; return where."""
        place = self._sizes[1]
        self._numbers.append(_filled(values, -(-len(values) // 16) * 16))
        self._sizes[1] += len(self._numbers[-1])
        return place

    def _embedding(self, matrix: Matrix, used: bool) -> tuple[NDArray[Any], int]:
        """Rows as products read them, and where their scales lie."""
        if not used:
            return np.zeros((1, GROUP), self.row_type), 0
        values = matrix.values
        rows = aligned((len(values), -(-values.shape[1] // GROUP) * GROUP), self.row_type)
        if matrix.scale is None:
            rows[:, : values.shape[1]] = values
            return rows, self._keep(np.ones(len(values), np.float32))
        rows[:, : values.shape[1]] = (values.astype(np.int16) + 128).astype(np.uint8)
        return rows, self._keep(matrix.scale)

    def _table(
        self, embedding: Matrix, weights: Matrix, bias: NDArray[np.float32] | None
    ) -> tuple[NDArray[np.int16], int]:
        """The lowest layer's input products of all words, in steps of the largest size of each / 32767."""
        ids, columns = len(embedding.values), len(weights.values)
        table, scales = np.empty((ids, columns), np.int16), np.empty(ids, np.float32)
        dense = decoded(weights.values, weights.scale).T
        for begin in range(0, ids, WORDS):
            rows = slice(begin, begin + WORDS)
            products = embedding.rows(np.arange(ids)[rows]) @ dense + (0 if bias is None else bias)
            scales[rows] = np.abs(products).max(axis=1) / 32767
            steps = products / np.where(scales[rows] > 0, scales[rows], np.float32(1))[:, None]
            table[rows] = np.rint(steps)
        return table, self._keep(scales)


def _biases(cell: Any) -> tuple[NDArray[np.float32] | None, NDArray[np.float32] | None]:
    """What is added to a cell's input product, and to its hidden product."""
    read, own = cell.from_input.bias, cell.from_hidden.bias
    if isinstance(cell, GRU):
        if cell.candidate_bias is not None:
            added = np.concatenate([np.zeros(2 * cell.hidden_size, np.float32), cell.candidate_bias])
            own = added if own is None else own + added
        return read, own
    return (read + own if read is not None and own is not None else own if read is None else read), None


def _filled(values: NDArray[np.float32], size: int) -> NDArray[np.float32]:
    """Values and zeros behind them."""
    filled = np.zeros(size, np.float32)
    filled[: len(values)] = values
    return filled
