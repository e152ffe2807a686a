"""One training step of a recurrent language model in bfloat16, all of it: loss, gradients and the state carried on."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ostinato.kernels import recurrent, simd
from ostinato.kernels.recurrent import Mask
from ostinato.kernels.team import Team, part
from ostinato.nn.cells.parallel_scan import AveragingCell
from ostinato.nn.cells.recurrent import RecurrentCell
from ostinato.nn.fused.cells import Kernels, kernels_of
from ostinato.nn.fused.dropout import Dropout
from ostinato.nn.fused.head import SoftmaxWeights, softmax_of
from ostinato.nn.fused.layers import Join, Layer, Segment, learn
from ostinato.nn.fused.memory import Memory
from ostinato.nn.fused.weights import DroppedMatrix, Matrix, Vector, Vectors, width_of
from ostinato.nn.heads import LinearHead
from ostinato.nn.networks import Network, RecurrentNetwork
from ostinato.nn.unroll import Stack, StackState

KNOWN = (
    "hidden", "layers", "embedding", "tied", "biases", "activation", "recurrent_init", "input_init", "forget_bias",
    "dropout", "variational", "embedding_dropout", "weight_dropout", "residual", "layer_norm",
)  # fmt: skip
"""The options of a network that the kernels know; all others must be as they are if nobody sets them."""

Ids = NDArray[np.int64]


def why_not(network: Network) -> str | None:
    """What keeps a network from being trained by `Fused`, in a few words; None if nothing does."""
    if not simd.HAS_BF16:
        return "this processor has no bfloat16 instructions (AVX512-BF16)"
    if not network.bf16:
        return "precision is float32"
    if next(network.parameters()).device.type != "cpu":
        return "the network is not on the processor"
    if not all(parameter.requires_grad for parameter in network.parameters()):
        return "some of its parameters are not to be trained"
    if not isinstance(network, RecurrentNetwork):
        return "the kernels know recurrent networks only"
    plain, options = type(network.options)(), network.options
    if kernels_of(network.kind, plain) is None:
        return f"{network.kind} has no kernels of its own"
    if kernels_of(network.kind, options) is None:
        return f"{network.kind} with activation {getattr(options, 'activation', None)} has no kernels of its own"
    for field in dataclasses.fields(plain):
        if field.name not in KNOWN and getattr(options, field.name) != getattr(plain, field.name):
            return f"the kernels know no model.{field.name}{inner(getattr(options, field.name))}"
    return None


def inner(options: object) -> str:
    """Of a group of options, the first that is not as it is if nobody sets it, as `.kind adaptive`; else nothing."""
    if not dataclasses.is_dataclass(options) or isinstance(options, type):
        return ""
    values = ((field.name, getattr(options, field.name), field.default) for field in dataclasses.fields(options))
    return next((f".{name} {value}" for name, value, default in values if value != default), "")


class Fused:
    """A training step of a network for which `why_not` has no answer.

    The products are bfloat16 with float32 sums; weights, gradients, gates, states and softmax are float32. Rows of
    the batch are split over the threads for the layers, the vocabulary for the softmax. The same numbers for the same
    weights, batch, seed and number of threads. Dropout falls where `Stack` says, with masks of its own.
    Source: the layout follows [Appleyard2016] (one product for all steps' inputs, one for all weight gradients).
    """

    def __init__(self, network: RecurrentNetwork, team: Team):
        assert why_not(network) is None
        self.network, self.team, self.options = network, team, network.options
        self.embedding, self.embedding_gradient = both(network.embedding.weight)
        kernels = kernels_of(network.kind, network.options)
        assert kernels is not None
        self.layers = layers_of(network.stack, kernels)
        project = network.project
        self.projection = Matrix(*both(project.weight)) if isinstance(project, nn.Linear) else None
        assert isinstance(network.head, LinearHead)
        words, (matrix, gradient), (bias, bias_gradient) = (
            network.outputs, both(network.head.weight), both(network.head.bias),
        )  # fmt: skip
        self.weights = SoftmaxWeights(matrix[:words], bias, gradient[:words], bias_gradient)
        self.width = matrix.shape[1]
        self.head = softmax_of(team)
        self.shared = Memory()
        self.own = [Memory() for _ in range(team.threads)]

    def gradients(
        self, state: StackState, inputs: Ids, targets: Ids, weight: Any, scale: float, add: bool = True
    ) -> tuple[float, StackState]:
        """Add the gradient of scale * loss to the parameters' gradients; return the loss (nats) and the state after.

        inputs, targets [B, T] int64, T at least 1; weight [B, T], zero where a target does not count. The loss is the
        sum of -log p. add: False writes the gradients, all of them, whatever was there.
        """
        batch, steps = inputs.shape
        members = min(self.team.threads, batch)
        segments = []
        for member in range(self.team.threads):
            begin, end = part(0, batch, member, members) if member < members else (batch, batch)
            segments.append(Segment(begin, end, steps, self.own[member]))
        step = Step(self, segments, state, inputs, targets, weight, scale, add)
        self.team.run(step.work)
        return sum(step.nats), step.after()

    def tied(self) -> bool:
        """Whether the first rows of the embedding are the output matrix."""
        return self.weights.matrix.ctypes.data == self.embedding.ctypes.data

    def matrices(self) -> list[Matrix]:
        """All matrices but the embedding and the output matrix."""
        found = [matrix for layer in self.layers for matrix, _, _ in layer.matrices()]
        return [*found, self.projection] if self.projection else found


class Step:
    """One batch on its way through the network and back."""

    def __init__(
        self,
        fused: Fused,
        segments: list[Segment],
        state: StackState,
        inputs: Ids,
        targets: Ids,
        weight: Any,
        scale: float,
        add: bool,
    ):
        self.fused, self.segments, self.state, self.scale, self.add = fused, segments, state, scale, add
        self.team, self.layers, self.top = fused.team, fused.layers, len(fused.layers)
        self.used = [segment for segment in segments if segment.rows]
        self.begins = np.cumsum([0] + [segment.tokens for segment in segments]).tolist()
        self.ids = self._by_segment(inputs, 0)
        counted = self._by_segment(weight > 0, False)
        self.rows = np.flatnonzero(counted)
        self.targets = self._by_segment(targets, 0)[self.rows]
        self.below: dict[int, Any] = {}  # by thread, the errors of the embeddings
        self.nats = [0.0] * self.team.threads
        self._draw()
        tokens = self.begins[-1]
        self.features = fused.shared.take("features", (tokens, width_of(fused.width)), np.uint16)
        self.errors = fused.shared.take("errors", (tokens, fused.width))

    def _draw(self) -> None:
        """The seeds of all dropout."""
        options, seed = self.fused.options, int(torch.randint(1 << 31, ()))
        self.dropout = Dropout(options.dropout, seed, options.variational)
        self.word_mask = Dropout(options.embedding_dropout, seed).part(-1).mask(1, 1)
        self.weight_dropout = Dropout(options.noise.weight_dropout, seed)

    def _by_segment(self, values: Any, idle: Any) -> NDArray[Any]:
        """Values [B, T] in the order in which tokens stand: thread by thread, step by step."""
        parts = []
        for segment in self.segments:
            column = np.full(segment.tokens, idle, values.dtype)
            column[: segment.read] = values[segment.begin : segment.end].T.reshape(-1)
            parts.append(column)
        return np.concatenate(parts)

    def work(self, member: int) -> None:
        """What one thread does."""
        segment = self.segments[member]
        self._pack(member)
        for number, (layer, before) in enumerate(zip(self.layers, self.state.layers, strict=True)):
            segment.enter(number, layer, before)
        self.team.meet()
        if segment.rows:
            self._forward(member, segment)
        self.team.meet()
        mine = slice(self.begins[member], self.begins[member + 1])
        self.errors[mine] = 0
        self.nats[member] = self.fused.head.run(
            member, self.fused.weights, self.features, self.rows, self.targets, self.scale, self.errors, self.add
        )
        self.team.meet()
        if segment.rows:
            self._backward(member, segment, self.errors[mine])
        self.team.meet()
        self._learn(member)

    def _pack(self, member: int) -> None:
        """This member's share of the weights, ready for the kernels, and of the gradients that must be cleared."""
        threads, matrices = self.team.threads, self.fused.matrices()
        dropped = [matrix for matrix in matrices if isinstance(matrix, DroppedMatrix)]
        for number, one in enumerate(dropped):
            one.drop(self.weight_dropout.part(-2 - number), member, threads)
        if dropped:
            self.team.meet()
        for matrix in matrices:
            matrix.pack(member, threads)
        if member == 0:
            for layer in self.layers:
                for vectors, _ in layer.every_vector():
                    vectors.collect()
        if not self.add:
            self._clear(member)

    def _clear(self, member: int) -> None:
        """Zero what is only added to later: the embedding's rows, except those that the output matrix writes."""
        fused, weights, threads = self.fused, self.fused.weights, self.team.threads
        written = len(weights.matrix) if fused.tied() else 0
        begin, end = part(written, len(fused.embedding), member, threads)
        fused.embedding_gradient[begin:end] = 0
        if not len(self.rows):  # no target counts, so the softmax does nothing
            for gradient in (weights.matrix_gradient, weights.bias_gradient):
                assert gradient is not None
                begin, end = part(0, len(gradient), member, threads)
                gradient[begin:end] = 0

    def _mask(self, number: int, member: int) -> Mask:
        """The dropout of what layer `number` reads."""
        segment = self.segments[member]
        return self.dropout.part(number).part(member).mask(segment.rows, segment.tokens)

    def _embed(self, member: int, segment: Segment) -> None:
        """What the first layer reads."""
        size, first = self.layers[0].reads, self.layers[0]
        ids = self.ids[self.begins[member] :][: segment.read]
        factors = self._factors(segment)
        if factors.size:
            recurrent.word_factors(ids, self.word_mask, factors)
        plain = segment.handed(0, size)[: None if first.residual else 0]
        inputs = segment.inputs(0, size)
        recurrent.gather(self.fused.embedding, ids, factors, plain, inputs, self._mask(0, member))

    def _factors(self, segment: Segment) -> Any:
        """What the embeddings of a segment's words are multiplied by; none if no words are dropped."""
        return segment.take("factors", 0, (segment.read if self.word_mask.threshold else 0,))

    def _forward(self, member: int, segment: Segment) -> None:
        self._embed(member, segment)
        projection, features = self.fused.projection, self.features[self.begins[member] :]
        for number, layer in enumerate(self.layers):
            last = number + 1 == self.top
            above = features if last and projection is None else segment.inputs(number + 1, layer.size)
            segment.forward(number, layer, above, self._mask(number + 1, member))
        if projection:
            segment.project(self.top, projection, features)

    def _backward(self, member: int, segment: Segment, errors: Any) -> None:
        if self.fused.projection:
            below = self._below(member, self.top, self.fused.projection.columns)
            segment.project_back(self.top, self.fused.projection, errors, below)
            errors = below
        self._drop(errors, self.top, member)
        for number in reversed(range(self.top)):
            layer = self.layers[number]
            below = self._below(member, number, layer.reads)
            segment.backward(number, layer, errors, below)
            self._drop(below, number, member)
            if layer.residual:
                below += errors
            errors = below
        self.below[member] = errors

    def _below(self, member: int, number: int, size: int) -> Any:
        """Room for the errors of what a layer reads, other than that for the next layer's."""
        return self.fused.own[member].take(f"below {number % 2}", (self.segments[member].tokens, size))

    def _drop(self, errors: Any, number: int, member: int) -> None:
        mask = self._mask(number, member)
        if mask.threshold:
            recurrent.drop_errors(errors, mask)

    def _learn(self, member: int) -> None:
        """This member's rows of all weight gradients, from all segments; its columns of the embedding's."""
        threads, used, projection = self.team.threads, self.used, self.fused.projection
        for number, layer in enumerate(self.layers):
            learn(layer, number, used, member, threads, self.add)
        if projection:
            sides = [segment.project_sides(self.top, projection) for segment in used]
            projection.learn(sides, member, threads, self.add)
        columns = part(0, self.fused.embedding.shape[1], member, threads, 16)
        for other, segment in enumerate(used):
            ids = self.ids[self.begins[other] :][: segment.read]
            factors = self._factors(segment)
            recurrent.scatter(self.below[other], ids, factors, self.fused.embedding_gradient, *columns)

    def after(self) -> StackState:
        """The state after the last step, in tensors of its own."""
        states = []
        for number, (layer, before) in enumerate(zip(self.layers, self.state.layers, strict=True)):
            parts = [segment.outputs(number, layer)[-segment.rows :] for segment in self.used]
            leaves = {"hidden": torch.from_numpy(np.concatenate(parts))}
            if layer.kernels.has_cell:
                parts = [segment.states(number, layer)[0][-segment.rows :] for segment in self.used]
                leaves["cell"] = torch.from_numpy(np.concatenate(parts))
            states.append(before._replace(**leaves))
        return StackState(tuple(states))


def both(parameter: Tensor) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The memory of a parameter and of its gradient, which is made if there is none yet."""
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    return parameter.detach().numpy(), parameter.grad.numpy()


def layers_of(stack: Stack, kernels: Kernels) -> list[Layer]:
    """The layers of a stack as the kernels take them."""
    layers, lower = [], None
    for cell, norm in zip(stack.cells, stack.norms, strict=True):
        assert isinstance(cell, RecurrentCell | AveragingCell)
        residual = stack.options.residual and (cell.input_size if lower is None else lower) == cell.output_size
        norm_of = norm if isinstance(norm, nn.LayerNorm) else None
        vectors, epsilon = (norm_vectors(norm_of), norm_of.eps) if norm_of else (None, 0.0)
        join = Join(vectors, epsilon, residual) if stack.options.residual or vectors else None
        layers.append(layer_of(cell, kernels, join, stack.noise.weight_dropout > 0))
        lower = cell.output_size
    return layers


def norm_vectors(norm: nn.LayerNorm) -> Vectors:
    """The gain and the shift of a normalisation, one after the other."""
    gain, shift = both(norm.weight), both(norm.bias)
    return Vectors([Vector(*gain, 0), Vector(*shift, len(gain[0]))])


def layer_of(
    cell: RecurrentCell | AveragingCell,
    kernels: Kernels,
    join: Join | None,
    dropped: bool,
    both: Callable[[Tensor], tuple[NDArray[np.float32], NDArray[np.float32]]] = both,
) -> Layer:
    """A layer of a cell's arrays; both: gives the memory of a parameter and of its gradient."""
    size, make = cell.hidden_size, DroppedMatrix if dropped else Matrix
    parts: list[Matrix] = []
    if isinstance(cell, RecurrentCell):
        values, gradient = both(cell.from_hidden.weight)
        ranges = [slice(part.begin * size, part.end * size) for part in kernels.parts]
        parts = [make(values[rows], gradient[rows]) for rows in ranges]
    vectors = []
    for parameter, blocks, column in kernels.vectors(cell):
        rows = slice(blocks.start * size, blocks.stop * size)
        value, error = (array.reshape(-1)[rows] for array in both(parameter))
        vectors.append(Vector(value, error, column * size))
    return Layer(kernels, size, Matrix(*both(cell.from_input.weight)), parts, Vectors(vectors), join)
