"""A decoder that looks before every step, its whole loop by the kernels, as one step of torch's graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ostinato.kernels import recurrent
from ostinato.kernels.attention import blame, look
from ostinato.kernels.packing import narrow
from ostinato.kernels.team import team_of
from ostinato.nn.attention import Additive, Attention
from ostinato.nn.cells import Cell
from ostinato.nn.cells.recurrent import RecurrentCell
from ostinato.nn.fused.cells import Kernels, kernels_of_cell
from ostinato.nn.fused.engine import layer_of
from ostinato.nn.fused.graph import Shared, learns_by_kernels, places_of
from ostinato.nn.fused.layers import NOTHING, Layer, Segment, Words, even, learn
from ostinato.nn.fused.memory import Memory
from ostinato.nn.fused.weights import Floats, Matrix, Sides, width_of
from ostinato.nn.looking import has_kernels
from ostinato.nn.memory import Grouped
from ostinato.nn.memory import Memory as Remembered


def loop_of(cell: Cell, attention: Attention | None, memory: Remembered | Grouped) -> Loop | None:
    """What takes a decoder through its loop by the kernels, for learning; None where they do not fit."""
    if not isinstance(attention, Additive) or not has_kernels(memory, attention):
        return None
    parameters = [*cell.parameters(), attention.from_query.weight, attention.vector]
    if not learns_by_kernels(parameters, memory.values):
        return None
    if not isinstance(cell, RecurrentCell) or (kernels := kernels_of_cell(cell)) is None:
        return None
    loop = _loops.get(cell)
    if loop is None or loop.vector is not attention.vector or loop.places != places_of(parameters[:-1]):
        loop = _loops[cell] = Loop(cell, kernels, attention)
    return loop


class Loop(Shared):
    """The weights that every step reads, for the kernels."""

    def __init__(self, cell: RecurrentCell, kernels: Kernels, attention: Additive):
        super().__init__([*cell.parameters(), attention.from_query.weight])
        self.layer = layer_of(cell, kernels, None, False, self.both)
        self.query = Matrix(*self.both(attention.from_query.weight))
        self.vector = attention.vector

    def read(
        self, words: Tensor, sizes: Sequence[int], state: Any, memory: Remembered | Grouped
    ) -> tuple[Tensor, Tensor]:
        """Take words [N, D], `sizes[t]` rows at step t and never more than before, through all steps from a state.

        Returns the outputs [N, H] and the contexts [N, V] of all steps, in bfloat16. The state's hidden is the query.
        Words behind those of the steps are not read, and have zeros for outputs and contexts.
        """
        assert isinstance(memory, Remembered)
        keys, values = memory.keys.float().contiguous(), memory.values.float().contiguous()
        cell = state.cell if self.layer.kernels.has_cell else None
        given = words, state.hidden, cell, keys, values, 2 * self.vector
        found: tuple[Tensor, Tensor] = _Loop.apply(self, sizes, memory.mask, *given, *self.parameters)  # type: ignore[no-untyped-call]
        return found


_loops: WeakKeyDictionary[Cell, Loop] = WeakKeyDictionary()


class Sight(NamedTuple):
    """What all steps look at: keys [B, S, K], values [B, S, V], mask [B, S], and what sigmoids are weighed by [K]."""

    keys: Floats
    values: Floats
    mask: NDArray[np.bool_]
    vector: Floats

    def of(self, begin: int, rows: int) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """Keys, values and mask of some rows."""
        mine = slice(begin, begin + rows)
        return self.keys[mine], self.values[mine], self.mask[mine]


class Turns(Segment):
    """The rows of one thread: step t reads the first sizes[t] of them, tokens begins[t].. of it.

    places: where these tokens stand among those of the whole batch, all of them if it has all rows. States stand by
    steps: those before a step in rows 2 * begins[t].., after them those after it.
    """

    def __init__(self, begin: int, end: int, sizes: NDArray[np.int64], memory: Memory):
        own = np.clip(sizes - begin, 0, end - begin)
        firsts = np.cumsum(sizes) - sizes + begin
        self.sizes = own[own > 0].tolist()
        self.begins = (np.cumsum(own) - own).tolist()
        read = int(own.sum())
        self.places: slice | NDArray[np.int64] = slice(0, read)
        if read < sizes.sum():
            self.places = np.concatenate([first + np.arange(size) for first, size in zip(firsts, own, strict=True)])
        super().__init__(begin, end, len(self.sizes), memory, read)

    def tokens_of(self, step: int) -> slice:
        """A step's tokens."""
        return slice(self.begins[step], self.begins[step] + self.sizes[step])

    def before(self, step: int) -> slice:
        """The states before a step."""
        return slice(2 * self.begins[step], 2 * self.begins[step] + self.sizes[step])

    def after(self, step: int, rows: int) -> slice:
        """The first states after a step."""
        begin = self.before(step).stop
        return slice(begin, begin + rows)

    def around(self, step: int) -> slice:
        """Both."""
        return slice(2 * self.begins[step], 2 * self.begins[step] + 2 * self.sizes[step])

    def states(self, number: int, layer: Layer) -> tuple[NDArray[Any], ...]:
        size, width = layer.size, width_of(layer.size)
        rows = 2 * self.read
        states = (self.take("states", number, (rows, size)), self.take("hidden", number, (rows, width), np.uint16))
        if layer.kernels.has_cell:
            return *states, self.take("shown", number, (self.read, size))
        if any(part.of_reset for part in layer.kernels.parts):
            return *states, self.take("left", number, (self.tokens, width), np.uint16)
        return states

    def step_states(self, step: int, layer: Layer) -> tuple[NDArray[Any], ...]:
        """`states` of one step, as kernels take them."""
        first, narrow, *others = self.states(0, layer)
        around, tokens = self.around(step), self.tokens_of(step)
        return first[around], narrow[around], *(other[tokens] for other in others)

    def seen(self, what: str, size: int) -> Floats:
        """What a step looks with or finds: a row of so many numbers for every token."""
        return self.take(what, 0, (self.tokens, size))


class Passage:
    """One pass through the loop, from the words to the gradients; the rows of the batch are split over threads."""

    def __init__(self, loop: Loop, sizes: Sequence[int], sight: Sight):
        self.loop, self.layer, self.sight = loop, loop.layer, sight
        self.team = team_of(torch.get_num_threads())
        self.memory = loop.borrow(self.team.threads)
        steps = np.array(sizes, np.int64)
        ends = shares(steps, self.team.threads)
        self.turns = [Turns(ends[place], ends[place + 1], steps, memory) for place, memory in enumerate(self.memory)]
        self.used = [turns for turns in self.turns if turns.read]

    @property
    def known(self) -> int:
        """Size of the word vectors: what the cell reads beside the context."""
        return self.layer.reads - int(self.sight.values.shape[2])

    def forward(self, words: Words, hidden: Floats, cell: Floats | None) -> tuple[Words, Words]:
        """Outputs [N, H] and contexts [N, V] of words [N, D], all of them the bits of bfloat16."""
        outputs = np.zeros((len(words), self.layer.size), np.uint16)
        contexts = np.zeros((len(words), self.sight.values.shape[2]), np.uint16)

        def work(member: int) -> None:
            turns, layer = self.turns[member], self.layer
            for matrix in (*(matrix for matrix, _, _ in layer.matrices()), self.loop.query):
                matrix.pack(member, self.team.threads)
            if member == 0:
                layer.vectors.collect()
            self.team.meet()
            if not turns.read:
                return
            inputs, above = turns.inputs(0, layer.reads), self._above(turns)
            inputs[: turns.read, : self.known] = words[turns.places]
            first, narrow_first, *_ = turns.states(0, layer)
            rows = slice(turns.begin, turns.begin + turns.sizes[0])
            first[: turns.sizes[0]] = (hidden if cell is None else cell)[rows]
            recurrent.narrow_rows(hidden[rows], narrow_first)
            for step in range(turns.steps):
                self._step(turns, step, inputs, above)
            outputs[turns.places] = above[: turns.read, : layer.size]
            contexts[turns.places] = inputs[: turns.read, self.known : layer.reads]

        self.team.run(work)
        return outputs, contexts

    def _above(self, turns: Turns) -> Words:
        return turns.take("above", 0, (turns.tokens, width_of(self.layer.size)), np.uint16)

    def _sought(self, turns: Turns) -> tuple[Floats, Floats, Floats]:
        """Queries, contexts and weights of all tokens."""
        keys, values, _, _ = self.sight
        asked, contexts = turns.seen("asked", keys.shape[2]), turns.seen("contexts", values.shape[2])
        return asked, contexts, turns.seen("weights", keys.shape[1])

    def _step(self, turns: Turns, step: int, inputs: Words, above: Words) -> None:
        layer, now, rows = self.layer, turns.tokens_of(step), turns.sizes[step]
        if step:
            for kept in turns.states(0, layer)[:2]:
                kept[turns.before(step)] = kept[turns.after(step - 1, rows)]
        states = turns.step_states(step, layer)
        asked, contexts, weights = (found[now] for found in self._sought(turns))
        self.loop.query.apply(states[1], rows, asked)
        asked *= 2
        keys, values, mask = self.sight.of(turns.begin, rows)
        look(asked[:, None], keys, values, self.sight.vector, mask, contexts[:, None], weights[:, None], 0, rows)
        seen = turns.take("seen", 0, contexts.shape, np.uint16)
        narrow(contexts, seen, 0, rows)
        inputs[now, self.known : layer.reads] = seen
        gates = turns.gates(0, layer)[now]
        layer.input.apply(inputs[now], rows, gates)
        matrices = tuple(matrix.forwards for matrix in layer.parts)
        layer.kernels.forward(gates, layer.vectors.values, matrices, states, above[now], 1, rows, NOTHING)

    def backward(self, outputs: Floats, contexts: Floats, batch: int) -> Errors:
        """All errors, from those of outputs [N, H] and contexts [N, V]; the gradients of the weights are written."""
        keys, values, _, vector = self.sight
        words = np.zeros((len(outputs), self.known), np.float32)
        hidden = np.zeros((batch, self.layer.size), np.float32)
        vectors = np.zeros((len(self.turns), len(vector)), np.float32)
        memory = torch.zeros(keys.shape).numpy(), torch.zeros(values.shape).numpy()  # without asking for new pages
        errors = Errors(words, hidden, np.zeros_like(hidden), *memory, vectors)

        def work(member: int) -> None:
            turns = self.turns[member]
            if turns.read:
                self._back(turns, outputs, contexts, errors._replace(vectors=vectors[member]))
            self.team.meet()
            learn(self.layer, 0, list(self.used), member, self.team.threads, False)
            self.loop.query.learn([self._sides(turns) for turns in self.used], member, self.team.threads, False)

        self.team.run(work)
        self.loop.free.append(self.memory)
        return errors._replace(vectors=vectors.sum(axis=0))

    def _back(self, turns: Turns, outputs: Floats, contexts: Floats, errors: Errors) -> None:
        layer, read = self.layer, turns.read
        own, wanted = turns.take("output errors", 0, (read, layer.size)), turns.seen("wanted", contexts.shape[1])
        own[:], wanted[:read] = outputs[turns.places], contexts[turns.places]
        below = turns.take("input errors", 0, (turns.tokens, layer.reads))
        blamed = Blamed(own, wanted, below, turns.errors(0, layer), self._query_errors(turns))
        for vectors, name in layer.every_vector():
            turns.take(name, 0, (vectors.values.size,))[:] = 0
        carried = turns.take("carried", 0, (turns.rows, layer.size))
        carried[:] = 0
        for step in reversed(range(turns.steps)):
            self._step_back(turns, step, blamed, carried, errors)
        errors.words[turns.places] = below[:read, : self.known]
        if layer.kernels.has_cell:
            errors.cell[turns.begin : turns.end] = carried
        for halves in (blamed.sums, blamed.queries):
            halves[read:] = 0
        turns.pair_errors(0, blamed.sums)
        turns.pair_errors(1, blamed.queries)
        _, narrow_states, *left = turns.states(0, layer)
        before = turns.take("before", 0, (turns.tokens, narrow_states.shape[1]), np.uint16)
        for step in range(turns.steps):
            before[turns.tokens_of(step)] = narrow_states[turns.before(step)]
        turns.pair("hidden", 0, before)
        turns.pair("inputs", 0, turns.inputs(0, layer.reads))
        if any(name == "left" for _, _, name in layer.matrices()):
            turns.pair("left", 0, left[0])

    def _step_back(self, turns: Turns, step: int, blamed: Blamed, carried: Floats, errors: Errors) -> None:
        layer, now, rows, known = self.layer, turns.tokens_of(step), turns.sizes[step], self.known
        sums, own, below, wanted = blamed.sums[now], blamed.outputs[now], blamed.inputs[now], blamed.contexts[now]
        backwards = tuple(matrix.backwards for matrix in layer.parts)
        vector_errors = turns.take("vector errors", 0, (layer.vectors.values.size,))
        layer.kernels.backward(
            turns.gates(0, layer)[now], layer.vectors.values, backwards, turns.step_states(step, layer),
            sums, own, vector_errors, carried[:rows], 1, rows,
        )  # fmt: skip
        layer.input.errors(sums, rows, below)
        wanted += below[:, known:]
        asked, _, weights = (found[now] for found in self._sought(turns))
        query_errors = turns.take("asked errors", 0, asked.shape)
        memory, memory_errors = self.sight.of(turns.begin, rows), errors.of(turns.begin, rows)
        blame(
            asked, memory, self.sight.vector, weights, (wanted, NONE), query_errors, memory_errors, errors.vectors,
            0, rows,
        )  # fmt: skip
        query_errors *= 2
        narrow(query_errors, blamed.queries[now], 0, rows)
        earlier = blamed.outputs[turns.tokens_of(step - 1)] if step else errors.hidden[turns.begin : turns.end]
        recurrent.blame(blamed.queries[now], 0, 0, rows, self.loop.query.backwards, earlier, 0, 1)
        for matrix, column, name in layer.matrices()[1:]:
            if name == "hidden":
                recurrent.blame(sums, 0, column, rows, matrix.backwards, earlier, 0, 1)
        if not layer.kernels.has_cell:
            earlier[:rows] += carried[:rows]
            carried[:rows] = 0

    def _query_errors(self, turns: Turns) -> Words:
        """The errors of what steps ask, for the products with them."""
        return turns.take("errors", 1, (turns.tokens, even(self.loop.query.rows)), np.uint16)

    def _sides(self, turns: Turns) -> Sides:
        """Both sides of the product for the gradient of the query's matrix."""
        own = turns.layer_sides("hidden", 0, self.layer, 0, self.layer.size)
        return turns.sides("hidden", 1, even(self.loop.query.rows), 0, self.layer.size)._replace(right=own.right)


NONE = np.zeros((0, 0), np.float32)
"""The errors of weights, which nobody has."""


class Blamed(NamedTuple):
    """Errors of the tokens of one thread: of outputs, contexts and inputs; of sums and queries in bfloat16."""

    outputs: Floats
    contexts: Floats
    inputs: Floats
    sums: Words
    queries: Words


class Errors(NamedTuple):
    """Errors of what a pass was given."""

    words: Floats  # [N, D]
    hidden: Floats  # [B, H], of the states before the first step
    cell: Floats
    keys: Floats  # [B, S, K]
    values: Floats  # [B, S, V]
    vectors: Floats  # [K]

    def of(self, begin: int, rows: int) -> tuple[Floats, Floats]:
        """Those of keys and values of some rows."""
        mine = slice(begin, begin + rows)
        return self.keys[mine], self.values[mine]


def shares(sizes: NDArray[np.int64], threads: int) -> list[int]:
    """Where each thread's rows begin, and where the last one's end, so that all have much the same number of steps."""
    steps = (sizes[:, None] > np.arange(sizes.max(initial=0))).sum(axis=0)
    wanted = steps.sum() * np.arange(1, threads) / threads
    return [0, *np.searchsorted(np.cumsum(steps), wanted).tolist(), len(steps)]


class _Loop(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, loop: Loop, sizes: Sequence[int], mask: Tensor, words: Tensor, hidden: Tensor, cell: Tensor | None,
        keys: Tensor, values: Tensor, vector: Tensor, *_: Tensor,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        sight = Sight(*(part.detach().numpy() for part in (keys, values, mask, vector)))
        ctx.passage, ctx.batch, ctx.dtype = Passage(loop, sizes, sight), len(hidden), words.dtype
        read = words.detach().to(torch.bfloat16).contiguous().view(torch.int16).numpy().view(np.uint16)
        first = [None if part is None else part.detach().float().contiguous().numpy() for part in (hidden, cell)]
        assert first[0] is not None
        outputs, contexts = ctx.passage.forward(read, *first)
        bits = torch.from_numpy(outputs.view(np.int16)), torch.from_numpy(contexts.view(np.int16))
        return bits[0].view(torch.bfloat16), bits[1].view(torch.bfloat16)

    @staticmethod
    def backward(ctx: Any, outputs: Tensor, contexts: Tensor) -> tuple[Any, ...]:
        passage, ctx.passage = ctx.passage, None
        assert passage is not None, "the gradient of a loop was asked for twice"
        given = (part.float().contiguous().numpy() for part in (outputs, contexts))
        words, hidden, cell, *others = map(torch.from_numpy, passage.backward(*given, ctx.batch))
        cell_errors = cell if passage.layer.kernels.has_cell else None
        return None, None, None, words.to(ctx.dtype), hidden, cell_errors, *others, *passage.loop.learnt()
