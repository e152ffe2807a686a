"""The peer's side of the training benchmark: `python -m ostinato.bench.train_peer SPEC`, driven as serve.py says.

What `word_language_model` of github.com/pytorch/examples does to an LSTM on the processor, in our words: the same
modules and the same operations in an update (checked beside it for speed, and for equal losses to the last digit).
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from ostinato.bench.serve import Channel, Ended, Pace
from ostinato.bench.train_case import SEED, TrainCase, initial_weights

Hidden: TypeAlias = tuple[Tensor, Tensor]


class WordModel(nn.Module):
    """Embedding, dropout, nn.LSTM with dropout between its layers, dropout, a decoder that shares the embedding."""

    def __init__(self, case: TrainCase):
        super().__init__()
        self.case = case
        self.dropout = nn.Dropout(case.dropout)
        self.encoder = nn.Embedding(case.vocabulary, case.hidden)
        self.lstm = nn.LSTM(case.hidden, case.hidden, case.layers, dropout=case.dropout)
        self.decoder = nn.Linear(case.hidden, case.vocabulary)
        self.decoder.weight = self.encoder.weight

    def forward(self, tokens: Tensor, hidden: Hidden) -> tuple[Tensor, Hidden]:
        """Log-probs [T * B, V] after tokens [T, B], and the state."""
        outputs, hidden = self.lstm(self.dropout(self.encoder(tokens)), hidden)
        scores = self.decoder(self.dropout(outputs))
        return torch.log_softmax(scores.view(-1, self.case.vocabulary), dim=1), hidden

    def start(self, rows: int) -> Hidden:
        """Zeros."""
        shape = self.case.layers, rows, self.case.hidden
        return torch.zeros(shape), torch.zeros(shape)

    @torch.no_grad()
    def load(self, weights: dict[str, Any]) -> None:
        """Take the weights of `initial_weights`."""
        names = {"input": "weight_ih", "hidden": "weight_hh", "input_bias": "bias_ih", "hidden_bias": "bias_hh"}
        for name, array in weights.items():
            kind, _, layer = name.partition(".")
            if layer:
                getattr(self.lstm, f"{names[kind]}_l{layer}").copy_(torch.from_numpy(array))
        self.encoder.weight.copy_(torch.from_numpy(weights["embedding"]))
        self.decoder.bias.copy_(torch.from_numpy(weights["output_bias"]))


def columns(ids: Any, rows: int) -> Tensor:
    """The text in `rows` columns of consecutive ids, [T, rows]; what does not fill them is left out."""
    length = len(ids) // rows
    return torch.from_numpy(np.asarray(ids[: length * rows], np.int64)).view(rows, length).t().contiguous()


def update(model: WordModel, inputs: Tensor, targets: Tensor, hidden: Hidden) -> tuple[float, Hidden]:
    """One step of clipped gradient descent: the mean loss in nats, and the state."""
    model.zero_grad()
    before = (hidden[0].detach(), hidden[1].detach())
    log_probs, hidden = model(inputs, before)
    loss = nn.functional.nll_loss(log_probs, targets)
    loss.backward()  # type: ignore[no-untyped-call]
    nn.utils.clip_grad_norm_(model.parameters(), model.case.clip)
    for parameter in model.parameters():
        assert parameter.grad is not None
        parameter.data.add_(parameter.grad, alpha=-model.case.rate)
    return loss.item(), hidden


def serve(case: TrainCase, ids: Path, threads: int) -> None:
    """Train for ever, in blocks."""
    torch.set_num_threads(threads)
    torch.manual_seed(SEED)
    model = WordModel(case)
    model.load(initial_weights(case))
    model.train()
    text, facts = columns(np.load(ids), case.rows), {"parameters": sum(p.numel() for p in model.parameters())}
    pace = Pace(Channel(), facts)
    while True:
        hidden = model.start(case.rows)
        for at in range(0, len(text) - case.bptt, case.bptt):
            inputs, targets = text[at : at + case.bptt], text[at + 1 : at + 1 + case.bptt].view(-1)
            loss, hidden = update(model, inputs, targets, hidden)
            pace.update(loss, targets.numel())


if __name__ == "__main__":
    spec = json.loads(sys.argv[1])
    with suppress(Ended):
        serve(TrainCase(**spec["case"]), Path(spec["ids"]), spec["threads"])
