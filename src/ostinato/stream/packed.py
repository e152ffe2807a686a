"""The step of a stream model as one compiled call, on weights laid out once as the processor reads them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import ConfigError, ShapeError
from ostinato.core.state import State, leaves
from ostinato.core.vocabulary import Ids, LogProbs, Vocabulary
from ostinato.kernels import stepping as at
from ostinato.kernels.packing import aligned
from ostinato.kernels.stepping_tile import NATIVE
from ostinato.stream.heads import Head, SoftmaxHead
from ostinato.stream.matrix import Precision
from ostinato.stream.networks import Network, RecurrentNetwork, StackState
from ostinato.stream.packing import FORMS, Packing, reason, table_is_small

SHARED = 48
"""The fewest rows that threads share: waiting for each other costs as much as some."""

PORTABLE = {"fp32": np.int32, "bf16": np.int16, "int8": np.uint8}
"""What weights are called where the processor lacks their instruction (see kernels/stepping_tile.py)."""


class PackedStepper:
    """Steps a `StreamModel`, in the model's precision.

    int8: the products are exact in integers; what they read is narrowed row by row to steps of the row's largest
    size / 127. bf16: what they read is rounded to bfloat16. States, gates, norms and the softmax are float32 always.
    table: keep the lowest layer's input product for every word (2 bytes a number, a scale a word) instead of making
        it anew each step; None: if it is below 128 MiB. Never for fp32. threads: for batches of 48 rows or more.
    native: None: use the processor's own instruction for the products if it has it.
    Raises ConfigError for a model that is not a plain stack of these cells under a softmax; `reason` says why.
    """

    def __init__(
        self,
        network: Network,
        head: Head,
        vocabulary: Vocabulary,
        precision: Precision,
        threads: int = 1,
        table: bool | None = None,
        native: bool | None = None,
    ):
        if (fault := reason(network, head)) is not None:
            raise ConfigError(f"this model cannot be packed: {fault}; step it as it is")
        assert isinstance(network, RecurrentNetwork)
        assert isinstance(head, SoftmaxHead)
        self.outputs, self.precision, self.vocabulary, self.threads = vocabulary.outputs, precision, vocabulary, threads
        self.kinds: list[Any] = [type(layer.cell.init_state(0)) for layer in network.layers]
        self.hidden, self.leaves = network.layers[0].cell.hidden_size, sum(len(kind._fields) for kind in self.kinds)
        wanted = table_is_small(network) if table is None else table
        packing = Packing(network, head, precision, wanted and precision != "fp32")
        self.plan, self.numbers, self.embedding, self.table = packing.arrays()
        native = NATIVE[FORMS[precision][2]] if native is None else native
        self.panels = packing.panels() if native else packing.panels().view(PORTABLE[precision])
        self._pool = ThreadPoolExecutor(threads - 1) if threads > 1 else None
        self._scratch: list[tuple[NDArray[Any], NDArray[np.float32]]] = []

    @property
    def nbytes(self) -> int:
        """Bytes of everything that was packed, the table included."""
        return sum(array.nbytes for array in (self.panels, self.numbers, self.embedding, self.table, self.plan))

    @property
    def read_bytes(self) -> int:
        """Bytes of weights that one step of one row reads."""
        return self.panels.nbytes

    def init_state(self, batch: int) -> State:
        """The state of `batch` rows that have read nothing."""
        return self.state_of(np.zeros((self.leaves, batch, self.hidden), np.float32))

    def state_of(self, values: NDArray[np.float32]) -> State:
        """The state whose arrays are those of values [leaves, B, H], in the same memory."""
        layers, place = [], 0
        for kind in self.kinds:
            layers.append(kind(*values[place : place + len(kind._fields)]))
            place += len(kind._fields)
        return StackState(tuple(layers))

    def step(self, state: State, tokens: Ids, out: LogProbs | None = None) -> tuple[LogProbs, State]:
        """Read tokens [B]; return log-probs [B, outputs] of the next in nats and the new state.

        out: where to put the log-probs, float32. Raises MismatchError for an id that is none, ShapeError.
        """
        tokens = np.array(tokens, np.int64)  # one kind of array, or the kernel would be compiled for each
        batch = len(tokens)
        before = np.empty((self.leaves, batch, self.hidden), np.float32)
        after = np.empty_like(before)
        for number, leaf in enumerate(leaves(state)):
            if leaf.shape != (batch, self.hidden):
                raise ShapeError(f"{batch} tokens with a state of shape {leaf.shape}, not {(batch, self.hidden)}")
            before[number] = leaf
        out = np.empty((batch, self.outputs), np.float32) if out is None else out
        self.fill(before, after, tokens, out)
        return out, self.state_of(after)

    def score(self, state: State, inputs: Ids, targets: Ids) -> tuple[LogProbs, State]:
        """Log-prob [B, T] in nats of each target [B, T] after the inputs up to its own place, and the last state.

        A fold of `step`, T times. Raises as `step` does.
        """
        lane, picked = Lane(self, len(inputs)), np.empty(inputs.shape, np.float32)
        lane.start(state)
        rows = np.arange(len(inputs))
        for place in range(inputs.shape[1]):
            picked[:, place] = lane.read(inputs[:, place])[rows, targets[:, place]]
        return picked, lane.state

    def fill(
        self, before: NDArray[np.float32], after: NDArray[np.float32], tokens: Ids, out: NDArray[np.float32]
    ) -> None:
        """As `step`, from and into arrays that are there: states [leaves, B, H], which must not overlap.

        All must lie row by row in memory, writable, and have their shapes, which is not checked; tokens are int64.
        Raises MismatchError.
        """
        batch = len(tokens)
        if self._pool is None or batch < SHARED:
            bad = self._fill(before, after, tokens, out, 0, batch)
        else:
            bad = max(self._in_threads(self._pool, before, after, tokens, out))
        if bad >= 0:
            self.vocabulary.check(tokens, "tokens")

    def _in_threads(self, pool: ThreadPoolExecutor, before: Any, after: Any, tokens: Any, out: Any) -> Iterable[int]:
        """What `_fill` returns for each thread's share of the rows."""
        cuts = [len(tokens) * number // self.threads for number in range(self.threads + 1)]
        rest = [
            pool.submit(self._fill, before, after, tokens, out, begin, end)
            for begin, end in itertools.pairwise(cuts[1:])
        ]
        return [self._fill(before, after, tokens, out, 0, cuts[1]), *(part.result() for part in rest)]

    def _fill(self, before: Any, after: Any, tokens: Any, out: Any, begin: int, end: int) -> int:
        act, work = self._scratch.pop() if self._scratch else self._room()
        bad: int = at.step(
            self.plan, self.panels, self.numbers, self.embedding, self.table,
            tokens, before, after, out, begin, end, act, work,
        )  # fmt: skip
        self._scratch.append((act, work))
        return bad

    def _room(self) -> tuple[NDArray[Any], NDArray[np.float32]]:
        model = self.plan[0]
        act = aligned((at.ROWS * int(model[at.DEEP]),), FORMS[self.precision][1])
        size = (3 * at.ROWS + 2) * int(model[at.WIDE]) + at.ROWS * (1 + int(model[at.LOGITS]))
        return act, aligned((size,), np.float32)

    def open(self, batch: int = 1) -> Lane:
        """Rows that are stepped in memory of their own, the fastest way."""
        return Lane(self, batch)


class Lane:
    """Rows of a `PackedStepper` that read one token after another; nothing is allocated from step to step."""

    def __init__(self, stepper: PackedStepper, batch: int):
        self._stepper = stepper
        self._before, self._after = np.zeros((2, stepper.leaves, batch, stepper.hidden), np.float32)
        self._out = aligned((batch, stepper.outputs), np.float32)

    @property
    def state(self) -> State:
        """The state now, as a value."""
        return self._stepper.state_of(self._before.copy())

    def start(self, state: State) -> None:
        """Go on from a state. Raises ShapeError for one of other rows."""
        for kept, leaf in zip(self._before, leaves(state), strict=True):
            if leaf.shape != kept.shape:
                raise ShapeError(f"a state of shape {leaf.shape} for rows of shape {kept.shape}")
            kept[:] = leaf

    def read(self, tokens: Ids) -> LogProbs:
        """Log-probs [B, outputs] (nats) after tokens [B], in memory that the next call fills again."""
        if tokens.shape != self._before.shape[1:2]:
            raise ShapeError(f"tokens of shape {tokens.shape} for {self._before.shape[1]} rows")
        self._stepper.fill(self._before, self._after, np.array(tokens, np.int64), self._out)
        self._before, self._after = self._after, self._before
        return self._out
