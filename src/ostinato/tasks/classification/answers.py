"""What a network says of texts: log-probs of all labels, in batches of similar length."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostinato.core.config import build
from ostinato.core.vocabulary import LogProbs
from ostinato.embed.subwords import Subwords
from ostinato.nn.classifier import Classifier
from ostinato.nn.lm import evaluating
from ostinato.nn.options import KINDS, RecurrentOptions
from ostinato.tasks.classification.data import Corpus
from ostinato.tasks.classification.encoding import Encoded
from ostinato.tasks.classification.options import ModelOptions
from ostinato.tasks.learning import in_order
from ostinato.text.bucket import Places


def judged(
    network: Classifier, texts: Encoded, rows: int, tokens: int, weights: bool = False
) -> tuple[LogProbs, list[NDArray[np.float32]]]:
    """Log-probs [N, labels] (nats) of texts, and with `weights` how much attention looked at each id of each.

    rows, tokens: of a batch, at most; they change no answer. Raises ConfigError if there is no attention to look at.
    """
    device, lengths = network.output.weight.device, texts.lengths

    def answer(places: Places) -> list[tuple[Any, Any]]:
        batch = texts.batch(places, device)
        outputs = network.read(*batch)
        found = network.judge(outputs, batch.lengths).float().cpu().numpy()
        looked = (
            network.weights(outputs, batch.lengths).float().cpu().numpy() if weights else [np.zeros(0)] * len(places)
        )
        return [(row, seen[: lengths[place]]) for row, seen, place in zip(found, looked, places, strict=True)]

    with evaluating(network):
        answers = in_order(lengths, rows, tokens, answer)
    log_probs = np.stack([row for row, _ in answers]) if answers else np.zeros((0, network.labels), np.float32)
    return log_probs, [seen for _, seen in answers]


def subwords_of(model: ModelOptions) -> Subwords | None:
    """The character n-grams that a network reads."""
    return Subwords(model.least, model.most, model.buckets) if model.subwords else None


def make_network(kind: str, options: RecurrentOptions, corpus: Corpus, model: ModelOptions) -> Classifier:
    """A new network for these labels and this vocabulary."""
    words, labels, buckets = len(corpus.vocabulary), len(corpus.labels), model.buckets if model.subwords else 0
    noise = model.hidden_words, corpus.vocabulary.unknown
    return Classifier(kind, words, labels, options, model.pooling, *noise, buckets)


def description(network: Classifier, model: ModelOptions) -> dict[str, Any]:
    """What a model file must say so that `described` makes the network again."""
    return {
        "cell": network.kind,
        "options": asdict(network.options),
        "pooling": list(network.pooling),
        "hidden_words": network.hidden_words,
        "subwords": [model.least, model.most, model.buckets] if model.subwords else None,
    }


def described(about: dict[str, Any], corpus: Corpus, where: str) -> tuple[Classifier, Subwords | None]:
    """The network of a `description`, its weights not yet set, and its n-grams. Raises KeyError, ConfigError."""
    kind = str(about["cell"])
    options = build(KINDS[kind], about["options"], where)
    assert isinstance(options, RecurrentOptions)
    grams = None if about["subwords"] is None else about["subwords"]
    given = {} if grams is None else {"subwords": True, "least": grams[0], "most": grams[1], "buckets": grams[2]}
    given |= {"pooling": about["pooling"], "hidden_words": about["hidden_words"]}
    model = build(ModelOptions, given, where)
    return make_network(kind, options, corpus, model), subwords_of(model)
