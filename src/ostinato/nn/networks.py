"""The networks behind the neural language models: ids in, features out, and one output layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ostinato.core.registry import Registry
from ostinato.core.state import map_leaves
from ostinato.nn import initialise
from ostinato.nn.cells import Cell, cells
from ostinato.nn.cells.lstm import LSTM
from ostinato.nn.loss import linear_cross_entropy
from ostinato.nn.options import (
    ElmanOptions,
    GRUOptions,
    LSTMOptions,
    NPLMOptions,
    RecurrentOptions,
)
from ostinato.nn.unroll import Stack, StackState


class Network(nn.Module):
    """A language model's insides: `features` reads ids with a state, an output layer scores what comes next.

    outputs: how many ids can come next. The ids that can be read are two more (start symbol, padding).
    """

    def __init__(self, outputs: int):
        super().__init__()
        self.outputs = outputs
        self.bf16 = False  # bfloat16 matrix products in training

    def init_state(self, batch: int) -> Any:
        """The state [batch, ...] of rows that have read nothing, as tensors."""
        raise NotImplementedError

    def features(self, state: Any, inputs: Tensor) -> tuple[Tensor, Any]:
        """Read ids [B, T]; return what the output layer reads, [B, T, D], and the new state."""
        raise NotImplementedError

    def output_layer(self) -> tuple[Tensor, Tensor]:
        """The output weight [outputs or more, D] and bias [outputs]; further rows of the weight take no part."""
        raise NotImplementedError

    def log_probs(self, features: Tensor) -> Tensor:
        """Log-probs [..., outputs] (nats) of the next token after features [..., D]."""
        weight, bias = self.output_layer()
        return torch.log_softmax(nn.functional.linear(features, weight[: self.outputs], bias), dim=-1)

    def loss(self, state: Any, inputs: Tensor, targets: Tensor, weight: Tensor) -> tuple[Tensor, Any]:
        """Teacher forcing: the summed -log p (nats) of targets [B, T] where weight is not zero, and the state.

        Padding (weight 0) takes no part in the sum or the gradient.
        """
        features, state = self.features(state, inputs)
        counted = weight.reshape(-1) > 0
        chosen = features.reshape(-1, features.shape[-1])[counted]
        return linear_cross_entropy(chosen, *self.output_layer(), targets.reshape(-1)[counted], self.bf16), state


class RecurrentNetwork(Network):
    """Embedding, a stack of cells, and a softmax whose matrix may be the embedding's [Press2017]."""

    def __init__(self, make: Callable[[int, int], Cell], outputs: int, options: RecurrentOptions):
        super().__init__(outputs)
        width = options.embedding or options.hidden
        self.embedding = nn.Embedding(outputs + 2, width)
        self.stack = Stack(
            make, width, options.hidden, options.layers, options.dropout, options.residual, options.layer_norm
        )
        project = options.tied and width != options.hidden
        self.project = nn.Linear(options.hidden, width, bias=False) if project else nn.Identity()
        self.output = None if options.tied else nn.Parameter(torch.empty(outputs, options.hidden))
        self.output_bias = nn.Parameter(torch.zeros(outputs))
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        if self.output is not None:
            nn.init.uniform_(self.output, -0.1, 0.1)
        for cell in self.stack.cells:
            initialise.cell_(cell, options.recurrent_init)

    def init_state(self, batch: int) -> StackState:
        return self.stack.init_state(batch)

    def features(self, state: StackState, inputs: Tensor) -> tuple[Tensor, StackState]:
        xs = self.embedding(inputs)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16 and self.training):
            outputs, state = self.stack.scan(state, xs)
            outputs = self.project(outputs)
        return outputs.to(xs.dtype), map_leaves(lambda leaf: leaf.to(xs.dtype), state)

    def output_layer(self) -> tuple[Tensor, Tensor]:
        return self.embedding.weight if self.output is None else self.output, self.output_bias


class NPLMState(NamedTuple):
    window: Tensor  # [B, order - 1] ids, the oldest first


class NPLM(Network):
    """The neural probabilistic language model: a fixed window of embeddings, one tanh layer, a softmax.

    y = b + W x + U tanh(d + H x), x the concatenated embeddings of the last order-1 ids; W only if `direct`.
    Source: [Bengio2003] eq. 1-4. Dropout on x and on the hidden layer is ours.
    """

    def __init__(self, outputs: int, options: NPLMOptions):
        super().__init__(outputs)
        self.order = options.order
        self.start = outputs
        self.embedding = nn.Embedding(outputs + 2, options.embedding)
        read = (options.order - 1) * options.embedding
        self.hidden = nn.Linear(read, options.hidden)
        self.direct = options.direct
        self.dropout = nn.Dropout(options.dropout)
        self.output = nn.Parameter(torch.empty(outputs, options.hidden + (read if options.direct else 0)))
        self.output_bias = nn.Parameter(torch.zeros(outputs))
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        nn.init.uniform_(self.output, -(options.hidden**-0.5), options.hidden**-0.5)
        if options.direct:
            with torch.no_grad():
                self.output[:, options.hidden :] = 0

    def init_state(self, batch: int) -> NPLMState:
        window = torch.full((batch, self.order - 1), self.start, device=self.output.device)
        return NPLMState(window)

    def features(self, state: NPLMState, inputs: Tensor) -> tuple[Tensor, NPLMState]:
        ids = torch.cat([state.window, inputs], dim=1)
        windows = ids.unfold(1, self.order - 1, 1)[:, 1:]  # [B, T, order - 1], ending at each input
        xs = self.dropout(self.embedding(windows).flatten(2))
        hidden = self.dropout(torch.tanh(self.hidden(xs)))
        read = torch.cat([hidden, xs], dim=-1) if self.direct else hidden
        return read, NPLMState(ids[:, inputs.shape[1] :])

    def output_layer(self) -> tuple[Tensor, Tensor]:
        return self.output, self.output_bias


networks: Registry[Callable[[int, Any], Network]] = Registry("model")


@networks.register("rnn")
def elman_network(outputs: int, options: ElmanOptions) -> Network:
    """An Elman language model."""
    cell = cells["rnn"]
    return RecurrentNetwork(lambda d, h: cell(d, h, options.activation), outputs, options)  # type: ignore[call-arg]


@networks.register("lstm")
def lstm_network(outputs: int, options: LSTMOptions) -> Network:
    """An LSTM language model."""
    network = RecurrentNetwork(cells["lstm"], outputs, options)
    for cell in network.stack.cells:
        assert isinstance(cell, LSTM)
        cell.set_forget_bias(options.forget_bias)
    return network


@networks.register("gru")
def gru_network(outputs: int, options: GRUOptions) -> Network:
    """A GRU language model."""
    return RecurrentNetwork(cells["gru"], outputs, options)


@networks.register("nplm")
def nplm_network(outputs: int, options: NPLMOptions) -> Network:
    """A feed-forward neural language model."""
    return NPLM(outputs, options)
