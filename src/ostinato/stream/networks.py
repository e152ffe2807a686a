"""What reads ids before the output layer, made of trained arrays: a stack of cells, or a window of words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ostinato.core.errors import ConfigError
from ostinato.core.state import State, map_leaves
from ostinato.core.vocabulary import Ids
from ostinato.stream import ops
from ostinato.stream.cells import StreamCell, cells
from ostinato.stream.matrix import Linear, Weights

GATES = {"relu": ops.relu, "gelu": ops.gelu, "swiglu": ops.silu}


class StackState(NamedTuple):
    layers: tuple[State, ...]  # one cell state a layer


class FeedForward:
    """x + W2 f(W1 x), or x + W2 (silu(W1 x) * V x), of which `inner` holds W1 and V."""

    def __init__(self, weights: Weights, size: int, activation: str):
        self.gated, self.activate = activation == "swiglu", GATES[activation]
        width = weights.length("inner.weight")
        self.inner = weights.linear("inner", width, size)
        self.outer = weights.linear("outer", size, width // 2 if self.gated else width)

    def __call__(self, x: Any) -> Any:
        """Rows [..., size] with what the block adds to them."""
        read = self.inner(x)
        if self.gated:
            gate, value = ops.split(read, 2)
            return x + self.outer(self.activate(gate) * value)
        return x + self.outer(self.activate(read))


class Layer:
    """A cell and what its outputs go through."""

    def __init__(self, cell: StreamCell, norm: Callable[[Any], Any] | None, block: FeedForward | None, zoneout: float):
        self.cell, self.norm, self.block, self.zoneout = cell, norm, block, zoneout

    def step(self, state: State, x: Any) -> tuple[Any, State]:
        """One step of the cell on x [B, D]."""
        return self.advance(state, self.cell.read(x))

    def scan(self, state: State, xs: Any) -> tuple[Any, State]:
        """The cell's outputs [B, T, H] for xs [B, T, D], T at least 1, and the last state."""
        read, outputs = self.cell.read(xs), []
        for place in range(xs.shape[1]):
            output, state = self.advance(state, read[:, place])
            outputs.append(output)
        return np.stack(outputs, axis=1), state

    def advance(self, state: State, read: Any) -> tuple[Any, State]:
        """The cell's step, or its mean under zoneout."""
        output, after = self.cell.advance(state, read)
        if not self.zoneout:
            return output, after
        share = self.zoneout
        after = map_leaves(lambda old, new: (1 - share) * new + share * old, state, after)
        return after[0], after

    def finish(self, outputs: Any) -> Any:
        """What the layer makes of its cell's outputs."""
        outputs = outputs if self.norm is None else self.norm(outputs)
        return outputs if self.block is None else self.block(outputs)


class RecurrentNetwork:
    """A lookup, a stack of cells, and perhaps a projection; the order of things is that of nn/unroll.py."""

    def __init__(self, kind: str, weights: Weights, outputs: int, options: Mapping[str, Any]):
        refuse(kind, options)
        self.options, hidden = options, int(options["hidden"])
        width = int(options["embedding"] or hidden)
        self.embedding = weights.matrix("embedding.weight", outputs + 2, width)
        stack, size = weights.under("stack"), width
        self.skip, self.residual = bool(options.get("skip")), bool(options.get("residual"))
        self.layers: list[Layer] = []
        self.sizes: list[int] = []
        for number in range(int(options["layers"])):
            read = size + width if self.skip and number else size
            cell = cells[kind](stack.under(f"layers.{number}"), read, hidden, options)
            size = cell.output_size
            self.layers.append(self._layer(cell, stack, number))
            self.sizes.append(size)
        self.features_size = sum(self.sizes) if self.skip else size
        self.project = self._projection(weights, width)

    def _layer(self, cell: StreamCell, stack: Weights, number: int) -> Layer:
        norm = stack.norm(f"norms.{number}", cell.output_size) if self.options.get("layer_norm") else None
        activation = self.options.get("feed_forward") or "none"
        block = None
        if activation != "none":
            block = FeedForward(stack.under(f"blocks.{number}"), cell.output_size, activation)
        return Layer(cell, norm, block, float(self.options.get("zoneout") or 0))

    def _projection(self, weights: Weights, width: int) -> Linear | None:
        if not (self.options["tied"] and width != self.features_size):
            return None
        found = weights.linear("project", width, self.features_size)
        self.features_size = width
        return found

    def init_state(self, batch: int) -> StackState:
        """The state of `batch` rows that have read nothing."""
        return StackState(tuple(layer.cell.init_state(batch) for layer in self.layers))

    def step(self, state: State, tokens: Any) -> tuple[Any, StackState]:
        """What the output layer reads, [B, D], after tokens [B], and the new state."""
        return self._through(StackState(*state), self.embedding.rows(tokens), Layer.step)

    def scan(self, state: State, inputs: Ids) -> tuple[Any, StackState]:
        """What the output layer reads, [B, T, D], after each of inputs [B, T], T at least 1, and the last state."""
        return self._through(StackState(*state), self.embedding.rows(inputs), Layer.scan)

    def _through(self, state: StackState, xs: Any, read: Callable[..., tuple[Any, State]]) -> tuple[Any, StackState]:
        lower, handed, states = xs, [], []
        for number, (layer, before) in enumerate(zip(self.layers, state.layers, strict=True)):
            below = ops.join(lower, xs) if self.skip and number else lower
            outputs, after = read(layer, before, below)
            outputs = layer.finish(outputs)
            same = self.sizes[number] == (self.sizes[number - 1] if number else self.embedding.shape[1])
            lower = outputs + lower if self.residual and same else outputs
            handed.append(lower)
            states.append(after)
        features = ops.join(*handed) if self.skip else lower
        features = features if self.project is None else self.project(features)
        return features, StackState(tuple(states))


def refuse(kind: str, options: Mapping[str, Any]) -> None:
    """Raise ConfigError for a network that cannot step from left to right or that is not known here."""
    if options.get("bidirectional"):
        raise ConfigError("a bidirectional network reads whole sequences, so it cannot step from token to token")
    if kind not in cells:
        raise ConfigError(f"no model of kind {kind!r} can be exported; those that can: {', '.join([*cells, 'nplm'])}")


class WindowState(NamedTuple):
    window: Any  # [B, order - 1] ids, the oldest first


class WindowNetwork:
    """The last order-1 words, one tanh layer, and the words themselves beside it if they go to the output too."""

    def __init__(self, kind: str, weights: Weights, outputs: int, options: Mapping[str, Any]):
        assert kind == "nplm"
        self.order, self.start = int(options["order"]), outputs
        width, hidden = int(options["embedding"]), int(options["hidden"])
        self.embedding = weights.matrix("embedding.weight", outputs + 2, width)
        self.hidden = weights.linear("hidden", hidden, (self.order - 1) * width)
        self.direct = bool(options["direct"])
        self.features_size = hidden + (self.order - 1) * width * self.direct

    def init_state(self, batch: int) -> WindowState:
        """The state of `batch` rows that have read nothing: as if the start symbol stood there."""
        return WindowState(np.full((batch, self.order - 1), self.start))

    def step(self, state: State, tokens: Any) -> tuple[Any, WindowState]:
        """What the output layer reads, [B, D], after tokens [B], and the new state."""
        window = ops.shift(WindowState(*state).window, tokens)
        return self._features(window), WindowState(window)

    def scan(self, state: State, inputs: Ids) -> tuple[Any, WindowState]:
        """What the output layer reads, [B, T, D], after each of inputs [B, T], and the last state."""
        ids = np.concatenate([WindowState(*state).window, inputs], axis=1)
        windows = np.lib.stride_tricks.sliding_window_view(ids, self.order - 1, axis=1)[:, 1:]
        features = self._features(windows.reshape(-1, self.order - 1))
        return features.reshape(*inputs.shape, -1), WindowState(ids[:, inputs.shape[1] :])

    def _features(self, windows: Any) -> Any:
        """What the output layer reads, [B, D], of windows [B, order - 1]."""
        xs = ops.reshape(self.embedding.rows(windows), -1)
        hidden = np.tanh(self.hidden(xs))
        return ops.join(hidden, xs) if self.direct else hidden


Network = RecurrentNetwork | WindowNetwork


def make_network(kind: str, weights: Weights, outputs: int, options: Mapping[str, Any]) -> Network:
    """The network of that kind. Raises FormatError for arrays that do not fit, ConfigError for what cannot step."""
    return (WindowNetwork if kind == "nplm" else RecurrentNetwork)(kind, weights, outputs, options)
