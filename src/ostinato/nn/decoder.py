"""A recurrent decoder: reads words, looks at what was encoded, and says which word comes next."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from ostinato.core.errors import ConfigError
from ostinato.core.state import leaves, map_leaves
from ostinato.nn.attention import Attention, attentions
from ostinato.nn.encoder_decoder_options import DecoderOptions
from ostinato.nn.gathered import StepLinear, gathered
from ostinato.nn.heads import LinearHead, make_head
from ostinato.nn.loss import CACHED
from ostinato.nn.lowest import Lowest, dtype_of, settled, step
from ostinato.nn.memory import Grouped, Memory
from ostinato.nn.networks import make_cell
from ostinato.nn.ragged import Ragged
from ostinato.nn.unroll import Stack, StackState

if TYPE_CHECKING:
    from ostinato.nn.fused.decoding import Loop


class Encoded(NamedTuple):
    """What an encoder hands to a decoder: a vector for every place, and one for the whole."""

    values: Tensor  # [B, S, value size]
    mask: Tensor  # [B, S], true where there is something
    summary: Tensor  # [B, summary size]


class DecoderState(NamedTuple):
    layers: StackState
    last: Tensor  # [B, n], what the next step looks with (attend before) or reads (input feeding); else n = 0


class Decoding(NamedTuple):
    """All that the next step needs, as tensors whose rows can be taken."""

    decoder: DecoderState
    memory: Memory | Grouped
    summary: Tensor  # [B, n], the fixed vector that every step reads; else n = 0


class Decoder(nn.Module):
    """Embedding, a stack of cells, attention, and an output layer whose matrix may be the embedding's [Press2017].

    attend before  c = attention(s, memory)   s' = step(s, [y; c])   features = tanh(W [s'; c; y] + b)
    attend after   s' = step(s, y)   c = attention(s', memory)   features = tanh(W [s'; c] + b)
    input feeding  the same, and s' = step(s, [y; features of the step before])
    fixed vector   s' = step(s, y)   features = tanh(W s' + b)
    every step     s' = step(s, [y; summary])   features = tanh(W [s'; summary; y] + b)

    y is the vector of the word read, s the output of the highest layer. The state starts as tanh(V summary + a).
    What does not hang on the step before is one product for all steps: the part of y in the lowest layer, the keys,
    the features and the output layer. Dropout falls on y, between layers and on s' where the features read it.

    value_size, summary_size: of what the encoder gives. counts: [outputs], how often each id stands in the training
    text, for output layers that sample. embedding: one of `outputs` + 2 ids to share, or None for one of its own.
    Raises ConfigError for options that do not fit each other.
    Source: [Bahdanau2015] section A.2; [Luong2015] eq. 5-6 and section 3.3; [Sutskever2014]; [Cho2014] eq. 8-10.
    Differs: features of one tanh instead of maxout, and with the state after the step instead of before it.
    """

    def __init__(
        self,
        outputs: int,
        value_size: int,
        summary_size: int,
        options: DecoderOptions,
        counts: Tensor | None = None,
        embedding: nn.Embedding | None = None,
    ):
        super().__init__()
        self.outputs = outputs
        self.bf16 = False  # bfloat16 in the output layer's products in training
        self.table: Tensor | None = None  # of every id, what the lowest cell reads of it; where nobody trains any more
        attends = options.attention != "none"
        self.before = attends and options.attend == "before"
        self.feeds, self.whole = options.input_feeding, options.context == "every-step"
        self.rereads = self.before or self.whole  # the features read the word again
        self.width = options.embedding if options.tied else options.hidden
        context = value_size if attends else summary_size if self.whole else 0
        beside = self.width if self.feeds else context if self.rereads else 0
        self.embedding = embedding or word_vectors(outputs, options.embedding)
        self.stack = Stack(
            partial(make_cell, options.kind, options.recurrent), options.embedding + beside, options.recurrent
        )
        size = self.stack.output_size
        self.attention: Attention | None = None
        if attends:
            self.attention = attentions[options.attention](size, value_size, options.attention_size or options.hidden)
        self.bridge = Bridge(summary_size, self.stack, self.before)
        if not (attends or self.whole or self.bridge.reaches):
            raise ConfigError(
                f"model.kind: {options.kind} keeps no vector that could start as the source's, so a fixed vector must "
                "be read at every step; set context to every-step, or take attention"
            )
        self.readout = StepLinear(size + context + (options.embedding if self.rereads else 0), self.width)
        tied = self.embedding.weight if options.tied else None
        self.head = make_head(options.head, self.width, outputs, counts, tied)
        self.options = replace(options, head=self.head.options)

    def start(self, encoded: Encoded) -> Decoding:
        """Where a decoder begins that has read nothing of what it says; the start symbol comes first.

        Raises ShapeError if there is nothing to attend to in a row.
        """
        summary = encoded.summary
        layers, query = self.bridge(summary, self.stack.init_state(len(summary)))
        last = query if self.before else summary.new_zeros(len(summary), self.width if self.feeds else 0)
        if self.attention is None:
            nothing = encoded.values[:, :0]
            memory = Memory(nothing, nothing, encoded.mask[:, :0])
        else:
            memory = self.attention.prepare(encoded.values, encoded.mask)
        return Decoding(DecoderState(layers, last), memory, summary if self.whole else summary[:, :0])

    def read(self, decoding: Decoding, inputs: Tensor) -> tuple[Tensor, Tensor, Decoding]:
        """Read ids [B, T]; return features [B, T, width], attention weights [B, T, S], and what follows."""
        if self.before or self.feeds:
            features, seen, state = self.by_steps(decoding, inputs, Ragged.full(*inputs.shape))
            features, weights = features.view(*inputs.mT.shape, -1).transpose(0, 1), torch.stack(seen, dim=1)
        else:
            features, weights, state = self.at_once(decoding, self.embedding(inputs))
        return features, weights, decoding._replace(decoder=state)

    def read_ragged(self, decoding: Decoding, inputs: Tensor, ragged: Ragged) -> Tensor:
        """The features [N, width] that `read` gives at the places that `ragged` has, step after step."""
        if ragged.sizes and (loop := self.loop(decoding)) is not None:
            return self.by_kernels(loop, decoding, inputs, ragged)
        if self.before or self.feeds:
            return self.by_steps(decoding, inputs, ragged)[0]
        features, _, _ = self.at_once(decoding, self.embedding(inputs))
        return ragged.packed(features)

    def at_once(self, decoding: Decoding, words: Tensor) -> tuple[Tensor, Tensor, DecoderState]:
        """As `read` of word vectors [B, T, embedding], where no step reads what the one before has seen."""
        state, memory, summary = decoding
        contexts = summary[:, None].expand(-1, words.shape[1], -1)
        xs = torch.cat([words, contexts], dim=-1) if self.whole else words
        outputs, layers = self.scan(state.layers, xs)
        weights = outputs.new_zeros(*words.shape[:2], 0)
        if self.attention is not None:
            contexts, weights = self.attention(outputs, memory)
        return self.features(outputs, contexts, words), weights, DecoderState(layers, state.last)

    def scan(self, layers: StackState, xs: Tensor) -> tuple[Tensor, StackState]:
        """`Stack.scan`, which is a step of every cell for one word in evaluation."""
        cell = self.stack.cells[0]
        with nullcontext() if self.training else settled(cell):
            return self.stack.scan(layers, xs.to(dtype_of(cell)))

    def by_steps(self, decoding: Decoding, inputs: Tensor, ragged: Ragged) -> tuple[Tensor, list[Tensor], DecoderState]:
        """As `read_ragged`, where each step reads what the one before has seen; and the weights of each step, and the
        state of the rows that the last one read."""
        layers, last = decoding.decoder
        assert self.attention is not None
        look = self.attention.over(decoding.memory)
        lowest = Lowest(self.stack.cells[0], self.options.embedding)
        ids = ragged.packed(inputs)
        words = self.stack.dropout(self.embedding(ids))
        reads = lowest.hoist(words) if self.table is None else self.table[ids]
        outputs, contexts, weights = [], [], []
        with gathered(self.stack, self.attention, self.readout):
            for word in torch.split(reads, list(ragged.sizes)):
                if len(word) < len(last):
                    layers, last = map_leaves(partial(first, len(word)), (layers, last))
                if self.before:
                    context, weight = look(last)
                    last, layers = self.step_layers(lowest, layers, word, context)
                else:
                    output, layers = self.step_layers(lowest, layers, word, last)
                    output = self.stack.dropout(output)
                    context, weight = look(output)
                    last = self.features(output, context)
                outputs.append(last)
                contexts.append(context)
                weights.append(weight)
        features = torch.cat(outputs) if outputs else last.new_zeros(0, self.width)
        if self.before and outputs:
            features = self.features(self.stack.dropout(features), torch.cat(contexts), words)
        return features, weights, DecoderState(layers, last)

    def ragged(self, decoding: Decoding, weight: Tensor) -> Ragged:
        """Which rows each step reads where `weight` [B, T] says what counts."""
        return Ragged.of(weight) if self.loop(decoding) is None else Ragged.of(weight, 1)

    def loop(self, decoding: Decoding) -> Loop | None:
        """What takes the steps to come by our own kernels, for learning; None where they do not fit."""
        stack = self.stack
        if not (self.before and self.training and torch.is_autocast_enabled(decoding.summary.device.type)):
            return None
        plain = isinstance(stack.norms[0], nn.Identity) and isinstance(stack.blocks[0], nn.Identity)
        if len(stack.cells) > 1 or not plain or any(stack.noise):
            return None
        from ostinato.nn.fused.decoding import loop_of

        return loop_of(stack.cells[0], self.attention, decoding.memory)

    def by_kernels(self, loop: Loop, decoding: Decoding, inputs: Tensor, ragged: Ragged) -> Tensor:
        """As `read_ragged`, all steps at once in a loop of the kernels."""
        ids = ragged.packed(inputs)
        shaped = nn.functional.pad(ids, (0, -len(ids) % SHAPED))
        words = self.stack.dropout(self.embedding(shaped))
        outputs, contexts = loop.read(words, ragged.sizes, decoding.decoder.layers.layers[0], decoding.memory)
        return self.features(self.stack.dropout(outputs), contexts, words)[: len(ids)]

    @torch.no_grad()
    def tabulate(self) -> None:
        """Find once what the lowest cell reads of every word, which answers then look up. Weights must not change."""
        lowest = Lowest(self.stack.cells[0], self.options.embedding)
        vectors = self.embedding.weight
        if (self.before or self.feeds) and lowest.linear and len(vectors) * len(lowest.weight) <= TABLE:
            self.table = lowest.hoist(vectors)

    def step_layers(
        self, lowest: Lowest, states: StackState, word: Tensor, beside: Tensor
    ) -> tuple[Tensor, StackState]:
        """The output [B, size] of one step of all layers, before dropout, and the new states."""
        lower, state = lowest.step(states.layers[0], word, beside)
        lower = self.stack.blocks[0](self.stack.norms[0](lower))
        after = [state]
        for layer, cell in enumerate(self.stack.cells[1:], 1):
            output, state = step(cell, states.layers[layer], self.stack.dropout(lower))
            lower = self.stack.join(layer, lower, output)
            after.append(state)
        return lower, StackState(tuple(after))

    def features(self, outputs: Tensor, contexts: Tensor, words: Tensor | None = None) -> Tensor:
        """What the output layer reads, [..., width]."""
        parts = [outputs, contexts] if words is None or not self.rereads else [outputs, contexts, words]
        return torch.tanh(self.readout(torch.cat(parts, dim=-1)))

    def log_probs(self, features: Tensor) -> Tensor:
        """Log-probs [..., outputs] (nats) of the next word; under autocast the products alone are in bfloat16."""
        if isinstance(self.head, LinearHead) and self.head.options.kind == "softmax":
            from ostinato.nn.fused import saying

            said = saying.log_probs(self.head, features)
            return log_softmax(self.head.scores(features)) if said is None else said
        with torch.autocast(features.device.type, enabled=False):
            return self.head.log_probs(features.to(torch.promote_types(features.dtype, torch.float32)))

    def step(self, decoding: Decoding, tokens: Tensor) -> tuple[Tensor, Decoding, Tensor]:
        """Read ids [B]; return log-probs [B, outputs] of the next (nats), what follows, and the weights [B, S]."""
        features, weights, after = self.read(decoding, tokens[:, None])
        return self.log_probs(features[:, 0]), after, weights[:, 0]

    def loss(self, features: Tensor, targets: Tensor, weight: Tensor) -> Tensor:
        """The summed -log p (nats) of targets [...] after features [..., width] where weight [...] is not zero.

        In training the targets are smoothed: the loss of a target is (1 - e) of its own and e of the mean over all
        words. Source: [Szegedy2016] section 7.
        """
        counted = weight.reshape(-1) > 0
        chosen, goals = features.reshape(-1, self.width)[counted], targets.reshape(-1)[counted]
        chosen = chosen.to(torch.promote_types(chosen.dtype, torch.float32))
        with torch.autocast(features.device.type, enabled=False):
            nats = self.head.loss(chosen, goals, self.bf16 and self.training)
            share = self.options.label_smoothing
            return nats + share * self.advantage(chosen, goals) if share and self.training else nats

    def advantage(self, features: Tensor, goals: Tensor) -> Tensor:
        """The sum of how much higher the goals [N] score than the mean of all words: e of it is what smoothing adds.

        The normaliser is in both, so no distribution is needed: log p(goal) - mean of log p = score - mean score.
        """
        head = self.head
        assert isinstance(head, LinearHead)
        matrix = head.weight[: self.outputs]
        scores = (features * nn.functional.embedding(goals, head.weight)).sum() + head.bias[goals].sum()
        return scores - features.sum(dim=0) @ matrix.mean(dim=0) - len(goals) * head.bias.mean()

    @torch.no_grad()
    def mix(self, decoding: Decoding, inputs: Tensor, share: float) -> Tensor:
        """Inputs [B, T] where a share of the words, the first never, are what the decoder drew after those before.

        Source: [Bengio2015] section 2.3. Differs: dropout draws other masks here than when the result is learnt from.
        """
        mixed = [inputs[:, 0]]
        for given in inputs.unbind(dim=1)[1:]:
            log_probs, decoding, _ = self.step(decoding, mixed[-1])
            drawn = torch.multinomial(log_probs.exp(), 1)[:, 0]
            mixed.append(torch.where(torch.rand(len(given), device=given.device) < share, drawn, given))
        return torch.stack(mixed, dim=1)


class Bridge(nn.Module):
    """Start states tanh(V summary + a) for every vector that a stack keeps; what is no vector starts as ever.

    asks: whether a query is wanted. It is the start of the highest layer's hidden state, or, where its cell keeps
    none, a vector like it. reaches: whether there is any vector in the state.
    Source: [Bahdanau2015] section A.2.2.
    """

    def __init__(self, summary_size: int, stack: Stack, asks: bool):
        super().__init__()
        state = stack.init_state(1)
        self.sizes = [leaf.shape[1] for leaf in leaves(state) if leaf.dim() == 2]
        self.reaches = bool(self.sizes)
        if asks and not hasattr(state.layers[-1], "hidden"):
            self.sizes.append(stack.output_size)
        self.linear = nn.Linear(summary_size, sum(self.sizes)) if self.sizes else None

    def forward(self, summary: Tensor, state: StackState) -> tuple[StackState, Tensor]:
        """`state`, of rows that have read nothing, for summaries [B, summary size]; and the query [B, output size]."""
        if self.linear is None:
            return state, summary[:, :0]
        vectors = iter(torch.split(torch.tanh(self.linear(summary)), self.sizes, dim=-1))

        def begin(leaf: Tensor) -> Tensor:
            return next(vectors).to(torch.promote_types(leaf.dtype, torch.float32)) if leaf.dim() == 2 else leaf

        layers: StackState = map_leaves(begin, state)
        query: Tensor | None = getattr(layers.layers[-1], "hidden", None)
        return layers, next(vectors, summary[:, :0]) if query is None else query


def first(rows: int, leaf: Tensor) -> Tensor:
    """So many rows of a tensor."""
    return leaf[:rows]


def log_softmax(scores: Tensor) -> Tensor:
    """Log-probs of scores [..., outputs], at least float32; a few rows at a time where no gradient is wanted."""
    dtype = torch.promote_types(scores.dtype, torch.float32)
    if torch.is_grad_enabled() or dtype == scores.dtype:
        return torch.log_softmax(scores, dim=-1, dtype=dtype)
    made = torch.empty(scores.shape, dtype=dtype, device=scores.device)
    rows, out = scores.reshape(-1, scores.shape[-1]), made.view(-1, scores.shape[-1])
    for begin in range(0, len(rows), CACHED):
        torch.log_softmax(rows[begin : begin + CACHED], dim=-1, dtype=dtype, out=out[begin : begin + CACHED])
    return made


SHAPED = 64
"""Words are a multiple of so many where steps are not: a library that prepares every shape of a product meets few."""

TABLE = 1 << 25
"""Numbers of the largest table of what is read of every word."""

LENGTH = 3.0
"""Of a new word vector: so that gates tell words apart from the first step on, and tied scores stay small."""


def word_vectors(outputs: int, size: int) -> nn.Embedding:
    """Vectors of all ids that can be read: `outputs`, the start symbol and padding."""
    embedding = nn.Embedding(outputs + 2, size)
    nn.init.normal_(embedding.weight, std=LENGTH * size**-0.5)
    return embedding
