"""Dynamic evaluation: a neural model that goes on learning from the text it is measured on, once that is scored."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ostinato.core.errors import ConfigError, MismatchError
from ostinato.core.model import LanguageModel
from ostinato.core.state import map_leaves
from ostinato.core.vocabulary import Ids, Vocabulary
from ostinato.mix import Mixture
from ostinato.nn.lm import NeuralLM
from ostinato.nn.networks import Network
from ostinato.stream.model import StreamModel
from ostinato.tasks.language.reading import Segment, before_lines

MEASURED = 500  # segments of the training text from which the size of gradients is known


@dataclass(frozen=True)
class DynamicOptions:
    """How a model learns while it reads.

    rate: the step along the gradient of a segment's mean loss (nats a token); 0 learns nothing, None is to be tuned.
    method: `sgd`, or `rms`, where the step of each weight is divided by the size its gradients have on the training
    text. decay: the share of the way back to the trained weights after each segment. length: tokens of a segment.
    """

    rate: float | None
    method: Literal["sgd", "rms"] = "sgd"
    decay: float = 0.0
    length: int = 20

    def check(self) -> None:
        """Raise ConfigError for numbers out of range."""
        if self.rate is not None and not (np.isfinite(self.rate) and self.rate >= 0):
            raise ConfigError(f"the rate of dynamic evaluation must be a number of at least 0, got {self.rate}")
        if not 0 <= self.decay < 1:
            raise ConfigError(f"the decay of dynamic evaluation must be at least 0 and below 1, got {self.decay}")
        if self.length < 1:
            raise ConfigError(f"segments of {self.length} tokens: give at least 1; 5 to 50 are usual")


def thawed(model: LanguageModel) -> tuple[LanguageModel, list[Network]]:
    """A copy of a model whose networks may be changed, and these networks; n-gram models inside are shared.

    Raises MismatchError if nothing in the model can learn.
    """
    networks: list[Network] = []

    def copied(part: LanguageModel) -> LanguageModel:
        if isinstance(part, NeuralLM):
            networks.append(copy.deepcopy(part.network).eval())
            return NeuralLM(networks[-1], part.vocabulary)
        return Mixture([copied(member) for member in part.members], part.weights) if isinstance(part, Mixture) else part

    made = copied(model)
    if isinstance(model, StreamModel):
        raise MismatchError("dynamic evaluation needs weights that learn, but this is an export; name its run instead")
    if not networks:
        raise MismatchError("dynamic evaluation needs a neural model, or a mixture with one; this one cannot learn")
    return made, networks


class Adapter:
    """A network that learns from what it has read.

    sgd  w' = w - rate g + decay (w0 - w)
    rms  w' = w - rate g / (RMS + e) + min(1, decay RMS / mean RMS) (w0 - w)

    g: gradient of the segment's mean loss. w0: the trained weights. RMS: the root of the mean square of g over
    segments of the training text, its mean over all weights is e. fresh_lines: each line is read on its own.
    Source: [Krause2018]. Differs: e is measured, not chosen, so that a rate suits networks of any scale.
    """

    def __init__(
        self,
        network: Network,
        vocabulary: Vocabulary,
        options: DynamicOptions,
        fresh_lines: bool,
        sizes: Sequence[Tensor] | None = None,
    ):
        assert options.rate is not None
        assert (options.method == "rms") == (sizes is not None)
        self.network, self.vocabulary, self.options, self.fresh_lines = network, vocabulary, options, fresh_lines
        self.rate, self.sizes = options.rate, sizes
        self.mean_size = mean_of(sizes) if sizes else 0.0
        self.weights = list(network.parameters())
        self.trained = [weight.detach().clone() for weight in self.weights]
        self.state: Any = None

    def learn(self, segment: Segment) -> None:
        """Step along the gradient of a segment, which is then read; a document begins with the trained weights."""
        if segment.fresh:
            self.restart()
        found, self.state = gradients(self.network, self.vocabulary, self.state, segment, self.fresh_lines)
        with torch.no_grad():
            for place, gradient in enumerate(found):
                self._step(place, gradient)

    def restart(self) -> None:
        """The trained weights, and a state that has read nothing."""
        with torch.no_grad():
            for weight, trained in zip(self.weights, self.trained, strict=True):
                weight.copy_(trained)
        self.state = self.network.init_state(1)

    def _step(self, place: int, gradient: Tensor) -> None:
        weight, options = self.weights[place], self.options
        back = (self.trained[place] - weight) if options.decay else None
        if self.sizes is None:
            weight.add_(gradient, alpha=-self.rate)
            if back is not None:
                weight.add_(back, alpha=options.decay)
            return
        size = self.sizes[place]
        weight.addcdiv_(gradient, size + self.mean_size, value=-self.rate)
        if back is not None:
            weight.addcmul_((options.decay / self.mean_size * size).clamp_(max=1), back)


def gradients(
    network: Network, vocabulary: Vocabulary, state: Any, segment: Segment, fresh_lines: bool
) -> tuple[Sequence[Tensor], Any]:
    """The gradient of a segment's mean loss for each weight, and the state after it (None with fresh lines)."""
    arrays = rows_of(segment, vocabulary) if fresh_lines else (*segment[:2], np.ones(segment.targets.shape, np.float32))
    device = next(network.parameters()).device
    inputs, targets, weight = (torch.from_numpy(array).to(device) for array in arrays)
    if fresh_lines:
        state = network.init_state(len(inputs))
    with torch.enable_grad():
        loss, after = network.loss(state, inputs, targets, weight)
        found = torch.autograd.grad(
            loss / segment.targets.size, list(network.parameters()), allow_unused=True, materialize_grads=True
        )
    return found, None if fresh_lines else map_leaves(lambda leaf: leaf.detach(), after)


def rows_of(segment: Segment, vocabulary: Vocabulary) -> tuple[Ids, Ids, NDArray[np.float32]]:
    """Inputs, targets and weight [lines, longest] of a segment of whole lines, one a row."""
    starts = np.flatnonzero(before_lines(segment.inputs[0], vocabulary))
    sizes = np.diff(starts, append=segment.inputs.size)
    inside = np.arange(sizes.max()) < sizes[:, None]
    inputs, targets = np.full(inside.shape, vocabulary.pad), np.full(inside.shape, vocabulary.stop)
    inputs[inside], targets[inside] = segment.inputs[0], segment.targets[0]
    return inputs, targets, inside.astype(np.float32)


def gradient_sizes(
    network: Network, vocabulary: Vocabulary, text: Iterable[Segment], fresh_lines: bool
) -> list[Tensor]:
    """The root of the mean square of each weight's gradient over segments, each read from a fresh state.

    Source: [Krause2018].
    """
    squares = [torch.zeros_like(weight) for weight in network.parameters()]
    count = 0
    for segment in text:
        found, _ = gradients(network, vocabulary, network.init_state(1), segment, fresh_lines)
        for square, gradient in zip(squares, found, strict=True):
            square.addcmul_(gradient, gradient)
        count += 1
    return [square.div_(max(1, count)).sqrt_() for square in squares]


def mean_of(sizes: Sequence[Tensor]) -> float:
    """The mean over all numbers of some tensors; never 0."""
    total = sum(float(size.sum(dtype=torch.float64)) for size in sizes)
    return max(total / sum(size.numel() for size in sizes), 1e-12)


def spread(text: Sequence[Segment] | Iterator[Segment], count: int = MEASURED) -> list[Segment]:
    """About so many segments of a text, evenly far apart."""
    found = list(text)
    return found[:: max(1, len(found) // count)]
