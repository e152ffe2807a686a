"""What a network says of pictures: hypotheses found by a beam, some pictures at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ostinato.core.config import build
from ostinato.decode import Hypothesis
from ostinato.nn.captioner import Captioner, CaptionNetwork, Picture
from ostinato.nn.captioner_options import CaptionerOptions
from ostinato.tasks.captioning.data import Corpus
from ostinato.tasks.translation.answers import LEAST, ROOM, Asking, Looked


def captions_of(
    captioner: Captioner, pictures: Sequence[Picture], corpus: Corpus, asking: Asking
) -> list[list[Hypothesis]]:
    """For each picture its captions, best first. How long one may be hangs on the training captions alone."""
    strategy, stop = asking.strategy, corpus.target.vocabulary.stop
    most = LEAST + math.ceil(ROOM * corpus.longest)
    found: list[list[Hypothesis]] = []
    for begin in range(0, len(pictures), asking.rows):
        reading = captioner.read(pictures[begin : begin + asking.rows])
        found += strategy.decode(reading, *reading.init_state(), stop=stop, max_tokens=most)
    return found


def looked_at(
    captioner: Captioner, pictures: Sequence[Picture], captions: Sequence[Hypothesis], corpus: Corpus, rows: int
) -> list[Looked]:
    """Each caption said again of its picture; one that was cut off has no stop symbol."""
    stop = corpus.target.vocabulary.stop
    targets = [np.array([*one.tokens, *([stop] if one.finished else [])], np.int64) for one in captions]
    found: list[Looked] = []
    for begin in range(0, len(targets), rows):
        some = slice(begin, begin + rows)
        found += [Looked(*scored) for scored in captioner.score(pictures[some], targets[some])]
    return found


def make_network(corpus: Corpus, options: CaptionerOptions, counts: NDArray[np.int64] | None) -> CaptionNetwork:
    """A new network for this shape and vocabulary; counts: how often each piece stands in the training captions."""
    given = None if counts is None else torch.from_numpy(counts)
    return CaptionNetwork(corpus.shape, corpus.target.vocabulary.outputs, options, given)


def description(network: CaptionNetwork) -> dict[str, Any]:
    """What a model file must say so that `described` makes the network again."""
    return {"options": asdict(network.options)}


def described(about: dict[str, Any], corpus: Corpus, where: str) -> CaptionNetwork:
    """The network of a `description`, its weights not yet set. Raises KeyError, ConfigError."""
    return make_network(corpus, build(CaptionerOptions, about["options"], where), None)
