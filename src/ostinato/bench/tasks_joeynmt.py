"""JoeyNMT's side of the benchmark of sequence tasks, run by a Python that has it; driven as serve.py says.

Its own model, loss, batches, clipping and optimiser, called as its TrainManager does for a batch. Imports nothing of
ours but serve.py, so that its environment needs nothing of ours.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import logging
import random
import sys
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from ostinato.bench.serve import Channel, Ended, Pace

UNKNOWN, PAD, BEGIN, END = range(4)
"""JoeyNMT's special ids; pieces follow."""


def configuration(size: int, dropout: float) -> dict[str, Any]:
    """What its YAML file would say of the model: the sizes of `TranslateCase`."""
    common = {"rnn_type": "lstm", "hidden_size": size, "num_layers": 1, "dropout": dropout, "type": "recurrent"}
    embeddings = {"embedding_dim": size, "scale": False}
    decoder = {"input_feeding": True, "attention": "bahdanau", "init_hidden": "bridge", "hidden_dropout": 0.0}
    return {
        "tied_embeddings": True,
        "tied_softmax": True,
        "encoder": {**common, "bidirectional": True, "embeddings": embeddings},
        "decoder": {**common, **decoder, "embeddings": dict(embeddings)},
    }


def rows_of(content: Any) -> tuple[list[Any], list[Any]]:
    """Sources and targets in JoeyNMT's ids, targets between its symbols."""
    sides = []
    for name in ("sources", "targets"):
        flat, ends = content[name] + END + 1, np.cumsum(content[f"{name}_lengths"])
        sides.append(np.split(flat, ends[:-1]))
    sources, targets = sides
    return [[*one, END] for one in sources], [[BEGIN, *one, END] for one in targets]


def shuffled(sources: list[Any], targets: list[Any], tokens: int) -> list[list[int]]:
    """Batches as its TokenBatchSampler makes them: in random order, until rows x longest reaches `tokens`."""
    order = list(range(len(sources)))
    random.Random(1).shuffle(order)
    batches, batch, longest = [], [], 0
    for row in order:
        batch.append(row)
        longest = max(longest, len(sources[row]), len(targets[row]) - 1)
        if longest * len(batch) >= tokens:
            batches.append(batch)
            batch, longest = [], 0
    return batches


def padded(rows: list[Any]) -> Any:
    """Rows as one tensor, padding behind."""
    width = max(map(len, rows))
    return torch.tensor([[*map(int, row), *[PAD] * (width - len(row))] for row in rows])


def serve(spec: dict[str, Any]) -> None:
    """Train for ever, in blocks."""
    logging.disable(logging.CRITICAL)
    modules = {
        name: importlib.import_module(f"joeynmt.{name}") for name in ("batch", "builders", "model", "vocabulary")
    }
    content, case = np.load(spec["pairs"]), spec["case"]
    sources, targets = rows_of(content)
    if spec["batches"] == "own":
        batches = shuffled(sources, targets, case["tokens"])
    else:
        batches = [part.tolist() for part in np.split(content["rows"], content["bounds"])]
    names = {"unk": "<unk>", "pad": "<pad>", "bos": "<s>", "eos": "</s>"}
    ids = {"unk_id": UNKNOWN, "pad_id": PAD, "bos_id": BEGIN, "eos_id": END, "sep_id": None, "sep_token": None}
    symbols = SimpleNamespace(**{f"{key}_token": name for key, name in names.items()}, **ids, lang_tags=[])
    vocabulary = modules["vocabulary"].Vocabulary([f"w{number}" for number in range(case["vocabulary"] - 2)], symbols)
    torch.manual_seed(spec["seed"])
    model = modules["model"].build_model(configuration(case["size"], case["dropout"]), vocabulary, vocabulary)
    model.loss_function = ("crossentropy", 0.0)
    clip = modules["builders"].build_gradient_clipper({"clip_grad_val": None, "clip_grad_norm": 1.0})
    options = {"optimizer": "adam", "learning_rate": case["rate"], "weight_decay": 0.0, "adam_betas": (0.9, 0.999)}
    optimiser = modules["builders"].build_optimizer(options, model.parameters())
    version = importlib.metadata.version("joeynmt")
    pace = Pace(Channel(), {"version": version, "parameters": sum(p.numel() for p in model.parameters())})
    device = torch.device("cpu")
    while True:
        for rows in batches:
            lengths = torch.tensor([len(sources[row]) for row in rows])
            given = padded([sources[row] for row in rows]), lengths, None, padded([targets[row] for row in rows]), None
            batch = modules["batch"].Batch(*given, torch.tensor(rows), device, PAD, END)
            model.train()
            batch.sort_by_src_length()
            loss, _, _, _ = model(return_type="loss", **vars(batch))
            mean = batch.normalize(loss, normalization="tokens")
            mean.backward()
            clip(parameters=model.parameters())
            optimiser.step()
            model.zero_grad()
            pace.update(mean.item(), batch.ntokens)


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    torch.set_num_threads(given["threads"])
    with suppress(Ended):
        serve(given)
