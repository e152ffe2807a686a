"""Our side of the training benchmark: `python -m ostinato.bench.train_ours SPEC`, driven as serve.py says.

The very loop of `ostinato train`, on a text that begins again at its end, without validation and checkpoints.
"""

from __future__ import annotations

import json
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ostinato.bench.serve import Channel, Ended, Pace
from ostinato.bench.train_case import SEED, TrainCase, initial_weights
from ostinato.core.progress import Progress
from ostinato.core.vocabulary import Vocabulary
from ostinato.nn.networks import Network
from ostinato.runs import RunDir
from ostinato.tasks.language.learner import LanguageLearner, make_network
from ostinato.tasks.options import Config, ModelOptions
from ostinato.text.batch import Batch
from ostinato.text.corpora import Corpus
from ostinato.text.normalise import Normaliser
from ostinato.text.options import DataOptions
from ostinato.text.pipeline import Pipeline
from ostinato.text.stream import TokenStream
from ostinato.text.tokenise import make_tokeniser
from ostinato.train.device import settle
from ostinato.train.learner import Listed
from ostinato.train.loop import Trainer
from ostinato.train.options import TrainOptions

NEVER = 1 << 40


@dataclass(frozen=True)
class Endless:
    """Batches that begin again after the last."""

    once: Listed

    def __len__(self) -> int:
        return NEVER

    def __getitem__(self, number: int) -> Batch:
        batch: Batch = self.once[number % len(self.once)]
        return batch


class Measured(LanguageLearner):
    """A learner that keeps the loss (nats a token) of the last batch, and never comes to an epoch's end."""

    loss = 0.0
    tokens = 0

    def batches(self, epoch: int) -> Any:
        """The batches of the epoch, again and again."""
        return Endless(super().batches(epoch))

    def gradients(self, state: Any, batch: Batch, scale: float, add: bool) -> tuple[float, Any]:
        nats, state = super().gradients(state, batch, scale, add)
        self.tokens = int(batch.weight.sum())
        self.loss = nats / self.tokens
        return nats, state


def config_of(case: TrainCase, threads: int) -> Config:
    """What `ostinato train` would be told."""
    model = ModelOptions(
        kind=case.kind,  # type: ignore[arg-type]
        hidden=case.hidden,
        layers=case.layers,
        dropout=case.dropout,
        residual=case.residual or None,
    )
    options = TrainOptions(
        rows=case.rows,
        bptt=case.bptt,
        optimiser="sgd",
        learning_rate=case.rate,
        schedule="constant",
        clip_at=case.clip,
        validate_every=NEVER,
        checkpoint_every=NEVER,
        seed=SEED,
        device="cpu",
        threads=threads,
    )
    return Config(DataOptions(tokeniser=case.tokeniser, regime="stream"), model, settle(options))


def corpus_of(case: TrainCase, ids: NDArray[Any]) -> Corpus:
    """Ids as a corpus of one document, with a vocabulary of numbers."""
    vocabulary = Vocabulary(map(str, range(case.vocabulary - 2)))
    size = len(ids)
    stream = TokenStream(
        ids, np.zeros(1, np.int64), vocabulary.fingerprint, vocabulary.stop, size, size, 0, 1, "bench#00000000"
    )
    pipeline = Pipeline(Normaliser(()), make_tokeniser("blank"))
    return Corpus(stream, stream, None, vocabulary, pipeline, DataOptions())


@torch.no_grad()
def load_weights(network: Network, case: TrainCase) -> None:
    """Take the weights of `initial_weights`, the two biases of a gate as their sum."""
    weights = {name: torch.from_numpy(array) for name, array in initial_weights(case).items()}
    ours = dict(network.named_parameters())
    ours["embedding.weight"][: case.vocabulary] = weights["embedding"]
    ours["head.bias"].copy_(weights["output_bias"])
    for layer in range(case.layers):
        prefix = f"stack.layers.{layer}"
        ours[f"{prefix}.from_input.weight"].copy_(weights[f"input.{layer}"])
        ours[f"{prefix}.from_hidden.weight"].copy_(weights[f"hidden.{layer}"])
        ours[f"{prefix}.from_input.bias"].copy_(weights[f"input_bias.{layer}"] + weights[f"hidden_bias.{layer}"])


def serve(case: TrainCase, ids: Path, threads: int) -> None:
    """Train for ever, in blocks."""
    config = config_of(case, threads)
    torch.set_num_threads(threads)
    corpus = corpus_of(case, np.load(ids))
    network = make_network(config, corpus)
    if case.kind == "lstm":
        load_weights(network, case)
    learner = Measured(network, corpus, config)
    facts = {"engine": learner.engine.name, "parameters": learner.model.parameters}
    pace = Pace(Channel(), facts)

    def watch(progress: Progress) -> None:
        if progress.label == "train":
            pace.update(learner.loss, learner.tokens)

    with tempfile.TemporaryDirectory() as folder:
        Trainer(learner, RunDir(Path(folder)), config.train, watch).fit()


if __name__ == "__main__":
    spec = json.loads(sys.argv[1])
    with suppress(Ended):
        serve(TrainCase(**spec["case"]), Path(spec["ids"]), spec["threads"])
