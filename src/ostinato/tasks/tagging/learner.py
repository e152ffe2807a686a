"""A tagger as the training loop sees it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ostinato.core.vocabulary import Ids
from ostinato.nn.lm import evaluating
from ostinato.nn.tagger import Tagger
from ostinato.tasks.learning import TaskLearner, in_order
from ostinato.tasks.starting import copy_into, hold, kept
from ostinato.tasks.tagging.answers import (
    Answer,
    Asking,
    Features,
    Parts,
    batch_of,
    chosen,
    description,
    emissions_of,
    make_network,
    spelled,
)
from ostinato.tasks.tagging.data import Corpus, auxiliary_labels
from ostinato.tasks.tagging.options import Config
from ostinato.tasks.tagging.reading import Tagged
from ostinato.tasks.tagging.report import Judged, main_value
from ostinato.text.bucket import Places, padded
from ostinato.train.device import device_of
from ostinato.train.learner import Validation

NAME = "tagging"


class TaggingLearner(TaskLearner):
    """Trains by the log-probs of the right labels; keeps the weights with the best measure on the validation data."""

    network: Tagger

    def __init__(self, corpus: Corpus, network: Tagger, config: Config):
        self.corpus, self.features, self.measure = corpus, Features.of(config.model), corpus.measure
        train, valid = corpus.parts["train"], corpus.parts["valid"]
        self.train = corpus.lexicon.encode(sentence.words for sentence in train)
        self.numbers = [corpus.labels.numbers(sentence.labels) for sentence in train]
        self.valid = Parts(corpus.lexicon, [sentence.words for sentence in valid], config.train.longest)
        self.valid_numbers = self.valid.cut([corpus.labels.numbers(sentence.labels) for sentence in valid])
        lengths = self.train.lengths
        super().__init__(NAME, network, config.train, lengths, lengths)
        self.auxiliary, self.weight = auxiliary_numbers(train), config.model.auxiliary_weight
        self.network.hidden_words.copy_(self._hidden(config.model.hidden_words, config.model.hidden_rare))

    def _hidden(self, share: float, rare: float) -> Tensor:
        """The probability [words] with which training reads each word as unknown [Kiperwasser2016]."""
        ids = self.train.forms.words[np.concatenate(self.train.sentences)]
        counts = np.bincount(ids, minlength=self.network.words)
        seldom = rare / (rare + counts) if rare else np.zeros(len(counts))
        return torch.from_numpy((share + (1 - share) * seldom).astype(np.float32))

    def start_event(self) -> dict[str, Any]:
        """Adds `outputs` and `unigram_nats`, what knowing only how frequent each label is would cost."""
        shares = np.bincount(np.concatenate(self.numbers)) / self.lengths.sum()
        nats = float(-(shares[shares > 0] * np.log(shares[shares > 0])).sum())
        return {**super().start_event(), "outputs": len(self.corpus.labels.names), "unigram_nats": nats}

    def loss(self, rows: Places) -> Tensor:
        """The sum of -log p(labels | words) in nats; what auxiliary columns add is in its gradient alone."""
        network, batch = self.network, batch_of(self.train, rows, self.corpus.lexicon, self.device)
        outputs = network.outputs(*batch)
        nats = network.loss(network.judge(outputs), self._padded(self.numbers, rows), batch.lengths)
        if not self.auxiliary:
            return nats
        others = network.auxiliary_loss(outputs, [self._padded(numbers, rows) for numbers in self.auxiliary])
        return nats + self.weight * (others - others.detach())

    def _padded(self, numbers: Sequence[Ids], rows: Places) -> Tensor:
        """Labels [B, T] of some sentences, -1 where there is none."""
        labels, _ = padded([numbers[row] for row in rows], -1)
        return torch.from_numpy(labels).to(self.device)

    def validate(self) -> Validation:
        """The measure, and the loss over the labels that are known."""
        encoded, asking, nats = self.valid.encoded, Asking(self.options.rows, self.options.tokens), 0.0
        with evaluating(self.network):
            table = spelled(self.network, encoded.forms, self.corpus.lexicon)

            def answer(places: Places) -> list[Answer]:
                nonlocal nats
                emissions, lengths = emissions_of(self.network, encoded, table, places)
                labels, _ = padded([self.valid_numbers[place] for place in places], -1)
                nats += float(self.network.loss(emissions, torch.from_numpy(labels).to(self.device), lengths))
                return chosen(self.network, emissions, lengths, asking)

            found = in_order(encoded.lengths, asking.rows, asking.tokens, answer)
        judged = Judged.of(self.corpus, self.corpus.parts["valid"], self.valid.joined(found))
        value = main_value(judged)
        return Validation(nats / max(1, self._known()), -value, {self.measure: value})

    def _known(self) -> int:
        """How many validation labels the loss is a sum over."""
        if not self.network.is_crf:
            return sum(int((numbers >= 0).sum()) for numbers in self.valid_numbers)
        return sum(len(numbers) for numbers in self.valid_numbers if (numbers >= 0).all())

    def kept(self) -> dict[str, Tensor]:
        """All but the auxiliary layers."""
        return {name: part for name, part in super().kept().items() if not name.startswith("auxiliary.")}

    def about(self) -> dict[str, Any]:
        """The network, and what it was made for."""
        made_for = {"labels": list(self.corpus.labels.names), "lexicon": self.corpus.lexicon.fingerprint}
        return {**description(self.network, self.features), **made_for}


def auxiliary_numbers(sentences: Sequence[Tagged]) -> list[list[Ids]]:
    """The labels in each auxiliary column that has several as numbers [T], sentence by sentence."""
    found = []
    for column, names in enumerate(auxiliary_labels(sentences)):
        if len(names) < 2:
            continue
        places = {name: place for place, name in enumerate(names)}
        labels = (sentence.auxiliary[column] for sentence in sentences)
        found.append([np.array([places[label] for label in row], np.int64) for row in labels])
    return found


def new_network(config: Config, corpus: Corpus, folder: Path) -> Tagger:
    """The network of a configuration on its device, drawn with its seed and begun with what the run keeps for that."""
    torch.manual_seed(config.train.seed)
    arrays, source, taken = kept(folder)
    network = make_network(*config.model.resolve(taken, source), corpus, Features.of(config.model))
    copy_into(network, arrays, source)
    size = network.stack.output_size
    counts = (len(names) for names in auxiliary_labels(corpus.parts["train"]))
    network.auxiliary.extend(nn.Linear(size, count) for count in counts if count > 1)
    if config.model.frozen:
        hold(network, ["embedding.weight"])
    return network.to(device_of(config.train))
