"""The straightforward side: `python -m ostinato.bench.tasks_peer SPEC`, driven as serve.py says.

An encoder-decoder with additive attention as PyTorch's users write it: packed sequences, masked scores, a loop of
LSTMCell, cross-entropy over all steps at once, Adam. The same sizes, weights, masks and batches as ours, which are made
before the clock runs. In two forms, of the same numbers: `plain`, in which a step does all that belongs to it, as in
PyTorch's own tutorial on translation; and `hoisted`, in which what does not hang on the step before is done at once.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from ostinato.bench.serve import Channel, Ended, Pace
from ostinato.bench.tasks_case import TranslateCase, config_of, corpus_of
from ostinato.nn.encoder_decoder import EncoderDecoder
from ostinato.tasks.translation.encoding import Batch, Encoded
from ostinato.tasks.translation.learner import TranslationLearner, new_network


class Seq2Seq(nn.Module):
    """What PyTorch offers for it, piece by piece; one embedding for sources, targets and the output layer."""

    def __init__(self, case: TranslateCase, hoisted: bool):
        super().__init__()
        size, self.outputs, self.hoisted = case.size, case.vocabulary, hoisted
        self.dropout = nn.Dropout(case.dropout)
        self.embedding = nn.Embedding(case.vocabulary + 2, size)
        self.encoder = nn.LSTM(size, size, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(2 * size, 2 * size)
        self.keys = nn.Linear(2 * size, size)
        self.query = nn.Linear(size, size, bias=False)
        self.vector = nn.Linear(size, 1, bias=False)
        self.cell = nn.LSTMCell(3 * size, size)
        self.readout = nn.Linear(4 * size, size)
        self.output_bias = nn.Parameter(torch.zeros(case.vocabulary))

    def forward(self, sources: Tensor, lengths: Tensor, inputs: Tensor) -> Tensor:
        """Scores [B, T, V] of the word after each of inputs [B, T]."""
        packed = pack_padded_sequence(
            self.dropout(self.embedding(sources)), lengths, batch_first=True, enforce_sorted=False
        )
        read, (last, _) = self.encoder(packed)
        memory, _ = pad_packed_sequence(read, batch_first=True)  # [B, S, 2H]
        mask = torch.arange(memory.shape[1]) < lengths[:, None]
        hidden, cell = torch.tanh(self.bridge(torch.cat([last[0], last[1]], dim=-1))).chunk(2, dim=-1)
        if not self.hoisted:
            said = []
            for step in range(inputs.shape[1]):
                word = self.embedding(inputs[:, step])
                context = self.attend(hidden, self.keys(memory), memory, mask)
                hidden, cell = self.cell(torch.cat([self.dropout(word), context], dim=-1), (hidden, cell))
                said.append(self.score(self.dropout(hidden), context, word))
            return torch.stack(said, dim=1)
        keys, words = self.keys(memory), self.embedding(inputs)
        dropped = self.dropout(words)
        outputs, contexts = [], []
        for step in range(inputs.shape[1]):
            context = self.attend(hidden, keys, memory, mask)
            hidden, cell = self.cell(torch.cat([dropped[:, step], context], dim=-1), (hidden, cell))
            outputs.append(hidden)
            contexts.append(context)
        return self.score(self.dropout(torch.stack(outputs, 1)), torch.stack(contexts, 1), words)

    def attend(self, hidden: Tensor, keys: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        """The context [B, 2H] that a state [B, H] sees."""
        scores = self.vector(torch.tanh(self.query(hidden)[:, None] + keys)).squeeze(-1)
        weights = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
        return torch.bmm(weights[:, None], memory).squeeze(1)

    def score(self, outputs: Tensor, contexts: Tensor, words: Tensor) -> Tensor:
        """Scores [..., V] of the next word."""
        features = torch.tanh(self.readout(torch.cat([outputs, contexts, words], dim=-1)))
        return nn.functional.linear(features, self.embedding.weight[: self.outputs], self.output_bias)

    @torch.no_grad()
    def take(self, ours: EncoderDecoder) -> None:
        """Begin with the weights of a network of ours; PyTorch's second bias of each gate begins at zero."""
        given = dict(ours.named_parameters())
        named = {
            "embedding.weight": "encoder.embedding.weight",
            "bridge.weight": "decoder.bridge.linear.weight",
            "bridge.bias": "decoder.bridge.linear.bias",
            "keys.weight": "decoder.attention.from_value.weight",
            "keys.bias": "decoder.attention.from_value.bias",
            "query.weight": "decoder.attention.from_query.weight",
            "readout.weight": "decoder.readout.weight",
            "readout.bias": "decoder.readout.bias",
            "output_bias": "decoder.head.bias",
        }
        for theirs, name in named.items():
            self.get_parameter(theirs).copy_(given[name])
        self.vector.weight.copy_(given["decoder.attention.vector"][None])
        fill(self.encoder, "_l0", ours.get_submodule("encoder.stack.layers.0"))
        fill(self.encoder, "_l0_reverse", ours.get_submodule("encoder.stack.backwards.0"))
        fill(self.cell, "", ours.get_submodule("decoder.stack.layers.0"))


def fill(module: nn.Module, ending: str, cell: Any) -> None:
    """Give an LSTM of PyTorch the weights of a cell of ours."""
    module.get_parameter(f"weight_ih{ending}").copy_(cell.from_input.weight)
    module.get_parameter(f"weight_hh{ending}").copy_(cell.from_hidden.weight)
    module.get_parameter(f"bias_ih{ending}").copy_(cell.from_input.bias)
    module.get_parameter(f"bias_hh{ending}").zero_()


def loss_of(model: Seq2Seq, batch: Batch) -> Tensor:
    """The mean -log p (nats) of the targets of a batch."""
    scores = model(batch.sources, batch.lengths, batch.inputs)
    goals = batch.targets.masked_fill(batch.weight == 0, -100)
    return nn.functional.cross_entropy(scores.flatten(0, 1), goals.flatten(), ignore_index=-100)


def serve(case: TranslateCase, threads: int, hoisted: bool) -> None:
    """Train for ever, in blocks."""
    config, corpus = config_of(case, "fp32", threads), corpus_of(case)
    encoded = Encoded(corpus, corpus.parts["train"])
    ours = new_network(config, corpus, encoded)
    listed = TranslationLearner(corpus, ours, config, encoded).batches(0)
    batches = [encoded.batch(listed[number].rows, torch.device("cpu")) for number in range(len(listed))]
    torch.manual_seed(config.train.seed)
    model = Seq2Seq(case, hoisted)
    model.take(ours)
    model.train()
    optimiser = torch.optim.Adam(model.parameters(), lr=case.rate)
    pace = Pace(Channel(), {"parameters": sum(parameter.numel() for parameter in model.parameters())})
    while True:
        for batch in batches:
            optimiser.zero_grad()
            loss = loss_of(model, batch)
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(model.parameters(), config.train.clip_at)
            optimiser.step()
            pace.update(loss.item(), int(batch.weight.sum()))


if __name__ == "__main__":
    spec = json.loads(sys.argv[1])
    torch.set_num_threads(spec["threads"])
    with suppress(Ended):
        serve(TranslateCase(**spec["case"]), spec["threads"], spec["hoisted"])
