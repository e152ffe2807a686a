"""Options of training. No torch here: the command line reads this for its help."""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

from annotated_types import Ge, Gt, Le, Lt
from pydantic import AfterValidator, model_validator
from pydantic.dataclasses import dataclass

from ostinato.core.config import STRICT

Count = Annotated[int, Ge(1)]


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("must be a finite number")
    return value


Rate = Annotated[float, Gt(0), AfterValidator(_finite)]
Amount = Annotated[float, Ge(0), AfterValidator(_finite)]

DEFAULT_RATES = {"sgd": 1.0, "adam": 0.003, "adamw": 0.003}
"""The learning rate used when none is given, by optimiser."""


@dataclass(frozen=True, config=STRICT)
class LoopOptions:
    """What the training loop is told, whatever it trains."""

    epochs: Count = 5
    """Passes over the training text."""
    accumulate: Count = 1
    """Batches whose gradients are added before an update."""
    optimiser: Literal["sgd", "adam", "adamw"] = "adamw"
    learning_rate: Rate | None = None
    """None: 1.0 for sgd, 0.003 for adam and adamw."""
    momentum: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Of sgd."""
    weight_decay: Amount = 0.0
    schedule: Literal["constant", "cosine", "plateau"] = "cosine"
    """cosine: to zero over the epochs; plateau: times `decay` when validation does not improve."""
    warmup: Annotated[int, Ge(0)] = 0
    """Updates over which the learning rate rises linearly."""
    decay: Annotated[float, Gt(0), Lt(1)] = 0.25
    """Factor of the plateau schedule."""
    clip: Literal["norm", "value", "off"] = "norm"
    """Gradient clipping: by global norm, by value, or off."""
    clip_at: Rate = 1.0
    validate_every: Count | None = None
    """Updates between validations; None: once an epoch."""
    patience: Annotated[int, Ge(0)] = 0
    """Validations without a gain before training stops; 0: never."""
    report_every: Count = 50
    """Updates between reports in log.jsonl."""
    checkpoint_every: Count = 500
    """Updates between checkpoints; one is also written at every validation."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """bf16: matrix products of training in bfloat16; weights, sums and evaluation stay float32. auto: where the
    processor has such instructions."""
    average: Literal["off", "nt-asgd", "tail"] = "off"
    """Take the mean of the weights after each update for the model. nt-asgd: from where validation is worse than
    `average_after` validations ago; tail: from that many epochs on."""
    average_after: Count = 5
    """Validations (nt-asgd) or epochs (tail) before averaging."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """auto: cuda where there is one."""
    seed: Annotated[int, Ge(0), Le(2**63 - 1)] = 1
    threads: Count | None = None
    """Processor threads; None: all cores, shared by the processes of a machine."""

    @model_validator(mode="after")
    def _has_effect(self) -> Self:
        if self.average == "tail" and self.average_after >= self.epochs:
            raise ValueError(
                f"average tail begins after {self.average_after} epochs and training has {self.epochs}: "
                "lower average_after or train longer"
            )
        return self

    @property
    def rate(self) -> float:
        """The learning rate at full height."""
        return DEFAULT_RATES[self.optimiser] if self.learning_rate is None else self.learning_rate


@dataclass(frozen=True, config=STRICT)
class TrainOptions(LoopOptions):
    """How a neural model is trained; n-gram models are estimated from counts in one pass."""

    rows: Count = 16
    """Sequences side by side in a batch."""
    bptt: Count = 50
    """Steps the gradient reaches back; the state is carried further, detached."""


@dataclass(frozen=True, config=STRICT)
class TaskTrainOptions(LoopOptions):
    """How the model of a sequence task is trained."""

    rows: Count = 32
    """Examples of a batch, at most."""
    tokens: Count = 4096
    """Tokens of a batch, padding included, at most; so long examples come in small batches and memory stays bounded."""
    longest: Count = 1000
    """Tokens of an example beyond which it is left out of training, and counted."""
