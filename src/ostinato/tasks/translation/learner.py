"""A translator as the training loop sees it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ostinato.core.vocabulary import Ids
from ostinato.nn.encoder_decoder import EncoderDecoder
from ostinato.nn.lm import evaluating
from ostinato.nn.translator import Translator
from ostinato.tasks.learning import TaskBatch, TaskBatches, TaskLearner
from ostinato.tasks.starting import begin_words
from ostinato.tasks.translation.answers import Asking, answers_of, description, make_network
from ostinato.tasks.translation.data import Corpus
from ostinato.tasks.translation.encoding import Encoded, batches_by_source
from ostinato.tasks.translation.measures import NAMES, measured, worth
from ostinato.tasks.translation.options import Config
from ostinato.text.bucket import Places
from ostinato.train.device import device_of
from ostinato.train.learner import Validation

NAME = "translation"


@dataclass(frozen=True, eq=False)
class SampledBatch(TaskBatch):
    """sampling: share of the words read that are the network's own."""

    sampling: float


class SampledBatches(TaskBatches):
    """The batches of an epoch, each with the share of words that is drawn when its turn comes."""

    def __init__(self, batches: TaskBatches, epoch: int, config: Config):
        self._given, self._epoch, self._train = batches, epoch, config.train

    def __len__(self) -> int:
        return len(self._given)

    def __getitem__(self, number: int) -> SampledBatch:
        batch, train = self._given[number], self._train
        done = (self._epoch + number / len(self._given)) / train.epochs
        rise = (done - train.sampling_from) / max(1e-9, train.sampling_to - train.sampling_from)
        return SampledBatch(batch.rows, batch.weight, train.scheduled_sampling * min(1.0, max(0.0, rise)))


class TranslationLearner(TaskLearner):
    """Trains by the log-probs of the targets; keeps the weights with the best measure on the validation data."""

    network: EncoderDecoder

    def __init__(self, corpus: Corpus, network: EncoderDecoder, config: Config, train: Encoded):
        self.corpus, self.config, self.train = corpus, config, train
        self.measure = NAMES[config.measure]
        self.valid = Encoded(corpus, corpus.parts["valid"])
        pairs, most = corpus.parts["valid"], config.train.validate_limit
        places = np.linspace(0, len(pairs) - 1, min(most, len(pairs))).astype(np.int64)
        self.asked = [pairs[place] for place in places.tolist()]
        lengths = self.train.lengths
        super().__init__(NAME, network, config.train, lengths, lengths[:, 1])
        self.network.bf16 = self.bf16
        self.sampling = 0.0

    def start_event(self) -> dict[str, Any]:
        """Adds `outputs` and `unigram_nats`, what knowing only how frequent each piece is would cost."""
        counts = counts_of(self.train.targets, self.network.outputs)
        return {**super().start_event(), "outputs": self.network.outputs, "unigram_nats": unigram_nats(counts)}

    def batches(self, epoch: int) -> SampledBatches:
        """The shuffled batches of an epoch; the same for the same seed."""
        options = self.options
        random = np.random.default_rng([options.seed, epoch])
        order = random.permutation(len(self.lengths))
        order = order[self.lengths[order].max(axis=1) <= options.longest]
        batches = batches_by_source(self.lengths, options.rows, options.tokens, order)
        random.shuffle(batches)
        return SampledBatches(TaskBatches(batches, self.targets), epoch, self.config)

    def gradients(self, state: Any, batch: TaskBatch, scale: float, add: bool) -> tuple[float, Any]:
        """As every task's, with the share of words that is the network's own."""
        assert isinstance(batch, SampledBatch)
        self.sampling = batch.sampling
        return super().gradients(state, batch, scale, add)

    def loss(self, rows: Places) -> Tensor:
        """The sum of -log p(target | source) in nats; in training with smoothed labels."""
        return self.network.loss(*self.train.batch(rows, self.device), self.sampling if self.network.training else 0.0)

    def validate(self) -> Validation:
        """The loss over all targets, and the measure of greedy answers."""
        asking = Asking(rows=self.options.rows, tokens=self.options.tokens)
        loss = loss_of(self.network, self.valid, asking)
        sources = [self.corpus.source.ids(pair.source) for pair in self.asked]
        found = answers_of(Translator(self.network), sources, self.corpus, asking)
        vocabulary, side = self.corpus.target.vocabulary, self.corpus.target
        texts = [side.text(vocabulary.pieces_of(one[0].tokens)) if one else "" for one in found]
        value = measured(self.config, self.corpus, self.asked, texts)
        return Validation(loss, worth(self.config.measure, value), {self.config.measure: value})

    def told(self, loss: float, best: float) -> str:
        """The loss, and the best measure so far."""
        return super().told(loss, -best if worth(self.config.measure, 1.0) > 0 and np.isfinite(best) else best)

    def about(self) -> dict[str, Any]:
        """The network, and what it was made for."""
        return {**description(self.network), "vocabularies": self.corpus.fingerprints}


def loss_of(network: EncoderDecoder, encoded: Encoded, asking: Asking) -> float:
    """The mean -log p (nats) of a target's piece, the stop symbols included."""
    lengths, device = encoded.lengths, next(network.parameters()).device
    nats = 0.0
    with evaluating(network):
        for places in batches_by_source(lengths, asking.rows, asking.tokens, np.arange(len(lengths)), None):
            nats += float(network.loss(*encoded.batch(places, device)))
    return nats / max(1, int(lengths[:, 1].sum()))


def counts_of(targets: Sequence[Ids], outputs: int) -> Places:
    """How often each piece stands in targets that end with the stop symbol [outputs]."""
    return np.bincount(np.concatenate(targets), minlength=outputs).astype(np.int64)


def unigram_nats(counts: Places) -> float:
    """The entropy of pieces that stand so often: the loss of knowing no more than that."""
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())


def new_network(config: Config, corpus: Corpus, train: Encoded, folder: Path | None = None) -> EncoderDecoder:
    """The network of a configuration on its device, drawn with its seed.

    folder: the data of a run, with the word vectors that it begins with, if there are some.
    """
    torch.manual_seed(config.train.seed)
    counts = counts_of(train.targets, corpus.target.vocabulary.outputs)
    network = make_network(corpus, config.model.network, counts)
    if folder is not None:
        begin_words(network, folder, config.model.frozen)
    return network.to(device_of(config.train))
