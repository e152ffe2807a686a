"""What the training loop needs of a task."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from ostinato.core.state import map_leaves
from ostinato.runs import RunDir


@dataclass(frozen=True)
class Validation:
    """What a look at the validation data found.

    loss: nats a target. worth: what is to become small, the loss or minus a measure; the weights with the least are
    kept. measures: numbers to log, by name.
    """

    loss: float
    worth: float
    measures: dict[str, float] = field(default_factory=dict)


class Counted(Protocol):
    """All that the loop reads of a batch: `weight`, 1 where a target counts and 0 elsewhere, and `fresh` [rows], where
    a row begins with a new state. What else is in it only its learner knows.
    """

    @property
    def weight(self) -> NDArray[np.float32]: ...
    @property
    def fresh(self) -> NDArray[np.bool_]: ...


class Listed(Protocol):
    """Batches that can be counted and picked."""

    def __len__(self) -> int: ...

    def __getitem__(self, number: int, /) -> Any: ...


class Learner(Protocol):
    """A task as the loop sees it."""

    @property
    def network(self) -> nn.Module:
        """What is trained."""

    def start_event(self) -> dict[str, Any]:
        """What log.jsonl should know from the start: `outputs`, `unigram_nats`, `train_tokens`, `engine`."""

    def batches(self, epoch: int) -> Listed:
        """The batches of an epoch, the same ones whenever asked."""

    def init_state(self, rows: int) -> Any:
        """The state of rows that have read nothing, as tensors."""

    def gradients(self, state: Any, batch: Any, scale: float, add: bool) -> tuple[float, Any]:
        """Add the gradient of scale * loss to every parameter's `.grad`, in place; without `add` write it there.

        The loss is summed over the counted targets. Returns it unscaled, in nats, and the state after the batch,
        which no gradient flows through.
        """

    def validate(self) -> Validation:
        """How good the network is on the validation data."""

    def told(self, loss: float, best: float) -> str:
        """What a progress bar says of the training loss since the last report and of the least worth so far."""

    def probe(self, batch: Any) -> dict[str, Any]:
        """`through_time` and `activations` of the network on part of a batch, see `monitor.probe`."""

    def sample(self) -> dict[str, Any] | None:
        """Generated `text` [..], `repeated` and `distinct`; the same for the same weights. None of none."""

    def save(self, run: RunDir) -> None:
        """Write the network as the run's model."""


def backward(loss: Tensor, state: Any, scale: float) -> tuple[float, Any]:
    """`gradients` from a loss and a state that torch can differentiate."""
    (loss * scale).backward()  # type: ignore[no-untyped-call]
    return float(loss.detach()), map_leaves(lambda leaf: leaf.detach(), state)


def perplexity(loss: float) -> float:
    """exp(loss), infinity where it does not fit."""
    return math.exp(loss) if loss < 700 else math.inf
