"""A captioner as the training loop sees it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ostinato.nn.captioner import Captioner, CaptionNetwork
from ostinato.nn.lm import evaluating
from ostinato.tasks.captioning.answers import captions_of, description, make_network
from ostinato.tasks.captioning.data import Corpus, moments
from ostinato.tasks.captioning.encoding import Encoded
from ostinato.tasks.captioning.measures import measured
from ostinato.tasks.captioning.options import Config
from ostinato.tasks.learning import TaskBatches, TaskLearner
from ostinato.tasks.starting import begin_words
from ostinato.tasks.translation.answers import Asking
from ostinato.tasks.translation.learner import counts_of, unigram_nats
from ostinato.tasks.translation.measures import NAMES
from ostinato.text.bucket import Places, cut
from ostinato.train.device import device_of
from ostinato.train.learner import Validation

NAME = "captioning"


class CaptionLearner(TaskLearner):
    """Trains by the log-probs of the captions; keeps the weights with the best measure on the validation data."""

    network: CaptionNetwork

    def __init__(self, corpus: Corpus, network: CaptionNetwork, config: Config, train: Encoded):
        self.corpus, self.config, self.train = corpus, config, train
        self.measure = NAMES[config.train.measure]
        part = corpus.parts["valid"]
        self.valid = Encoded(part, corpus.target)
        most = min(config.train.validate_limit, len(part))
        self.asked = part.chosen(np.linspace(0, len(part) - 1, most).astype(np.int64))
        self.captioner = Captioner(network)
        lengths = train.lengths
        super().__init__(NAME, network, config.train, lengths, lengths)
        self.network.bf16 = self.bf16

    def start_event(self) -> dict[str, Any]:
        """Adds `outputs` and `unigram_nats`, what knowing only how frequent each piece is would cost."""
        counts = counts_of(self.train.targets, self.network.outputs)
        return {**super().start_event(), "outputs": self.network.outputs, "unigram_nats": unigram_nats(counts)}

    def batches(self, epoch: int) -> TaskBatches:
        """The shuffled batches of an epoch, of captions of any lengths: of one length, they would tell when to stop."""
        options = self.options
        order = np.random.default_rng([options.seed, epoch]).permutation(len(self.lengths))
        order = order[self.lengths[order] <= options.longest]
        return TaskBatches(cut(order, self.lengths, options.rows, options.tokens), self.targets)

    def loss(self, rows: Places) -> Tensor:
        """The sum of -log p(caption | picture) in nats; in training with smoothed labels."""
        return self.network.loss(*self.train.batch(self.captioner, rows))

    def validate(self) -> Validation:
        """The loss over all captions, and the measure of greedy ones."""
        asking = Asking(rows=self.options.rows)
        pictures = [self.asked.picture(place) for place in range(len(self.asked))]
        found = captions_of(self.captioner, pictures, self.corpus, asking)
        side = self.corpus.target
        texts = [side.text(side.vocabulary.pieces_of(one[0].tokens)) for one in found]
        value = measured(self.config, side, self.asked.items, texts)
        loss = loss_of(self.captioner, self.valid, self.options.rows)
        return Validation(loss, -value, {self.config.train.measure: value})

    def about(self) -> dict[str, Any]:
        """The network, and what it was made for."""
        return {**description(self.network), "shape": self.corpus.shape, "vocabulary": self.corpus.fingerprint}


def loss_of(captioner: Captioner, encoded: Encoded, rows: int) -> float:
    """The mean -log p (nats) of a caption's piece, the stop symbols included."""
    nats, lengths = 0.0, encoded.lengths
    with evaluating(captioner.network):
        for begin in range(0, len(lengths), rows):
            some = np.arange(begin, min(begin + rows, len(lengths)))
            nats += float(captioner.network.loss(*encoded.batch(captioner, some)))
    return nats / max(1, int(lengths.sum()))


def new_network(config: Config, corpus: Corpus, train: Encoded, folder: Path) -> CaptionNetwork:
    """The network of a configuration on its device, drawn with its seed, for the channels of the training data.

    folder: the data of the run, with the word vectors that it begins with, if there are some.
    """
    torch.manual_seed(config.train.seed)
    network = make_network(corpus, config.model.network, counts_of(train.targets, corpus.target.vocabulary.outputs))
    begin_words(network, folder, config.model.frozen)
    mean, deviation = moments(corpus.parts["train"])
    network.encoder.standardise(torch.from_numpy(mean).float(), torch.from_numpy(deviation).float())
    return network.to(device_of(config.train))
