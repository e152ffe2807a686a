"""A classifier as the training loop sees it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ostinato.nn.classifier import Classifier
from ostinato.tasks.classification.answers import description, judged, make_network, subwords_of
from ostinato.tasks.classification.data import Corpus
from ostinato.tasks.classification.options import Config, TrainOptions
from ostinato.tasks.learning import TaskBatches, TaskLearner
from ostinato.tasks.starting import copy_into, hold, kept
from ostinato.text.bucket import Places
from ostinato.train.device import device_of
from ostinato.train.learner import Validation

NAME = "classification"

LATER = 1e-6
"""Points of accuracy that a later epoch is worth: weights settle, and few examples often give the same accuracy."""


class ClassificationLearner(TaskLearner):
    """Trains by the cross-entropy of the labels; keeps the weights with the best accuracy on the validation data, or
    those of the last epoch."""

    network: Classifier
    options: TrainOptions

    def __init__(self, corpus: Corpus, network: Classifier, config: Config):
        self.corpus, self.model = corpus, config.model
        encoder = corpus.encoder(subwords_of(config.model))
        self.texts, self.valid = (
            encoder.texts(example.text for example in corpus.parts[part]) for part in ("train", "valid")
        )
        self.numbers, self.valid_numbers = (corpus.numbers(corpus.parts[part]) for part in ("train", "valid"))
        ones = np.ones(len(self.numbers), np.int64)
        super().__init__(NAME, network, config.train, self.texts.lengths, ones)
        self.epoch = 0

    def batches(self, epoch: int) -> TaskBatches:
        """The shuffled batches of an epoch; the same for the same seed."""
        self.epoch = epoch
        return super().batches(epoch)

    def start_event(self) -> dict[str, Any]:
        """Adds `outputs` and `unigram_nats`, what knowing only how frequent each label is would cost."""
        shares = np.bincount(self.numbers) / len(self.numbers)
        nats = float(-(shares[shares > 0] * np.log(shares[shares > 0])).sum())
        return {**super().start_event(), "outputs": len(self.corpus.labels), "unigram_nats": nats}

    def loss(self, rows: Places) -> Tensor:
        """The sum of -log p(label | text) in nats."""
        numbers = torch.from_numpy(self.numbers[rows]).to(self.device)
        log_probs = self.network(*self.texts.batch(rows, self.device))
        return torch.nn.functional.nll_loss(log_probs, numbers, reduction="sum")

    def validate(self) -> Validation:
        """The accuracy, and the loss over known labels; of equal accuracies the later epoch's is better.

        Where the last epoch is kept, every one is better than those before.
        """
        log_probs, _ = judged(self.network, self.valid, self.options.rows, self.options.tokens)
        known = self.valid_numbers >= 0
        loss = -log_probs[known, self.valid_numbers[known]].mean()
        accuracy = 100 * float((log_probs.argmax(axis=1) == self.valid_numbers).mean())
        worth = -float(self.epoch) if self.options.keep == "last" else -accuracy - LATER * self.epoch
        return Validation(float(loss), worth, {"accuracy": accuracy})

    def told(self, loss: float, best: float) -> str:
        """The loss, and the best accuracy so far if that decides."""
        return super().told(loss, math.inf if self.options.keep == "last" else best)

    def about(self) -> dict[str, Any]:
        """The network, and what it was made for."""
        made_for = {"labels": list(self.corpus.labels), "vocabulary": self.corpus.vocabulary.fingerprint}
        return {**description(self.network, self.model), **made_for}


def new_network(config: Config, corpus: Corpus, folder: Path) -> Classifier:
    """The network of a configuration on its device, drawn with its seed and begun with what the run keeps for that."""
    torch.manual_seed(config.train.seed)
    arrays, source, taken = kept(folder)
    network = make_network(*config.model.resolve(taken, source), corpus, config.model)
    copy_into(network, arrays, source)
    if config.model.frozen:
        hold(network, ["embedding.weight"])
    return network.to(device_of(config.train))
