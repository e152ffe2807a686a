"""The networks behind the neural language models: ids in, features out, and one output layer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ostinato.core.errors import ConfigError
from ostinato.core.registry import Registry
from ostinato.core.state import map_leaves
from ostinato.nn import initialise
from ostinato.nn.cells import Cell, ForgetGate, cells
from ostinato.nn.heads import Head, LinearHead, make_head
from ostinato.nn.options import BIDIRECTIONAL, NPLMOptions, RecurrentOptions
from ostinato.nn.regularise import drop_words
from ostinato.nn.unroll import Stack, StackState


class Network(nn.Module):
    """A language model's insides: `features` reads ids with a state, `head` scores what comes next.

    outputs: how many ids can come next. The ids that can be read are two more (start symbol, padding).
    options: what it was made from, with what depends on the vocabulary decided; made from them again, it is the same.
    held: rows [K] of parameters, by their names, that training leaves as they are.
    """

    embedding: nn.Embedding
    head: Head

    def __init__(self, outputs: int, options: RecurrentOptions | NPLMOptions):
        super().__init__()
        self.outputs, self.options = outputs, options
        self.bf16 = False  # bfloat16 matrix products in training
        self.held: dict[str, Tensor] = {}

    def begin_with(self, ids: Tensor, rows: Tensor, hold: bool = False) -> None:
        """Give the ids [K] these word vectors [K, D]; hold: training leaves them as they are."""
        with torch.no_grad():
            self.embedding.weight[ids] = rows.to(self.embedding.weight)
        self.held = {"embedding.weight": ids} if hold else {}

    def set_head(self, width: int, counts: Tensor | None, tied: Tensor | None) -> None:
        """Make the output layer for features of that width; what it decided by the vocabulary goes into `options`."""
        assert tied is None or isinstance(tied, nn.Parameter)
        self.head = make_head(self.options.head, width, self.outputs, counts, tied)
        self.options = replace(self.options, head=self.head.options)

    def init_state(self, batch: int) -> Any:
        """The state [batch, ...] of rows that have read nothing, as tensors."""
        raise NotImplementedError

    def features(self, state: Any, inputs: Tensor) -> tuple[Tensor, Any]:
        """Read ids [B, T]; return what the output layer reads, [B, T, D], and the new state."""
        raise NotImplementedError

    def log_probs(self, features: Tensor) -> Tensor:
        """Log-probs [..., outputs] (nats) of the next token after features [..., D]."""
        return self.head.log_probs(features)

    def loss(self, state: Any, inputs: Tensor, targets: Tensor, weight: Tensor) -> tuple[Tensor, Any]:
        """Teacher forcing: the summed -log p (nats) of targets [B, T] where weight is not zero, and the state.

        In training the sum may be the head's estimate. Padding (weight 0) takes no part in it or the gradient.
        """
        features, state = self.features(state, inputs)
        counted = weight.reshape(-1) > 0
        chosen = features.reshape(-1, features.shape[-1])[counted]
        return self.head.loss(chosen, targets.reshape(-1)[counted], self.bf16), state


class RecurrentNetwork(Network):
    """Embedding, a stack of cells, and an output layer whose matrix may be the embedding's [Press2017].

    kind: the registered name of the cell. counts: [outputs], how often each id stands in the training text, for
    output layers that sample. Raises ConfigError for a bidirectional one.
    """

    options: RecurrentOptions

    def __init__(self, kind: str, outputs: int, options: RecurrentOptions, counts: Tensor | None = None):
        super().__init__(outputs, options)
        if options.bidirectional:
            raise ConfigError(f"model.bidirectional: {BIDIRECTIONAL}")
        self.kind = kind
        width = options.embedding or options.hidden
        self.embedding = nn.Embedding(outputs + 2, width)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        self.stack = Stack(partial(make_cell, kind, options), width, options)
        size = self.stack.output_size
        project = options.tied and size != width
        self.project = nn.Linear(size, width, bias=False) if project else nn.Identity()
        self.set_head(width if options.tied else size, counts, self.embedding.weight if options.tied else None)

    def init_state(self, batch: int) -> StackState:
        return self.stack.init_state(batch)

    def features(self, state: StackState, inputs: Tensor) -> tuple[Tensor, StackState]:
        xs = self.embedding(inputs)
        share = self.options.embedding_dropout
        if self.training and share:
            xs = drop_words(xs, inputs, self.outputs + 2, share)
        with torch.autocast(xs.device.type, torch.bfloat16, enabled=self.bf16 and self.training):
            outputs, state = self.stack.scan(state, xs)
            outputs = self.project(outputs)
        return outputs.to(xs.dtype), map_leaves(lambda leaf: leaf.to(xs.dtype), state)


def make_cell(kind: str, options: RecurrentOptions, input_size: int, hidden_size: int) -> Cell:
    """A cell of that kind with its weights as the options say."""
    cell = cells[kind](input_size, hidden_size, **options.cell_options())
    initialise.cell_(cell, getattr(options, "recurrent_init", "uniform"), options.input_init)
    forget_bias = getattr(options, "forget_bias", None)
    if forget_bias is not None:
        assert isinstance(cell, ForgetGate)
        cell.set_forget_bias(forget_bias)
    return cell


class NPLMState(NamedTuple):
    window: Tensor  # [B, order - 1] ids, the oldest first


class NPLM(Network):
    """The neural probabilistic language model: a fixed window of embeddings, one tanh layer, a softmax.

    y = b + W x + U tanh(d + H x), x the concatenated embeddings of the last order-1 ids; W only if `direct`.
    Source: [Bengio2003] eq. 1-4. Dropout on x and on the hidden layer is ours.
    """

    options: NPLMOptions

    def __init__(self, outputs: int, options: NPLMOptions, counts: Tensor | None = None):
        super().__init__(outputs, options)
        self.order = options.order
        self.start = outputs
        self.embedding = nn.Embedding(outputs + 2, options.embedding)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        read = (options.order - 1) * options.embedding
        self.hidden = nn.Linear(read, options.hidden)
        self.direct = options.direct
        self.dropout = nn.Dropout(options.dropout)
        self.set_head(options.hidden + (read if options.direct else 0), counts, None)
        if isinstance(self.head, LinearHead):
            bound = options.hidden**-0.5
            nn.init.uniform_(self.head.weight, -bound, bound)
            nn.init.zeros_(self.head.weight[:, options.hidden :])

    def init_state(self, batch: int) -> NPLMState:
        return NPLMState(torch.full((batch, self.order - 1), self.start, device=self.embedding.weight.device))

    def features(self, state: NPLMState, inputs: Tensor) -> tuple[Tensor, NPLMState]:
        ids = torch.cat([state.window, inputs], dim=1)
        windows = ids.unfold(1, self.order - 1, 1)[:, 1:]  # [B, T, order - 1], ending at each input
        xs = self.dropout(self.embedding(windows).flatten(2))
        hidden = self.dropout(torch.tanh(self.hidden(xs)))
        read = torch.cat([hidden, xs], dim=-1) if self.direct else hidden
        return read, NPLMState(ids[:, inputs.shape[1] :])


networks: Registry[Callable[..., Network]] = Registry("model")
"""Networks by kind, made as `networks[kind](outputs, options, counts)`: one for every cell, and the NPLM."""

for _name in cells:
    networks.register(_name)(partial(RecurrentNetwork, _name))
networks.register("nplm")(NPLM)
