"""What the training loop needs of a task."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor, nn

from ostinato.core.score import Score
from ostinato.core.state import map_leaves
from ostinato.runs import RunDir
from ostinato.text.batch import Batch


class Listed(Protocol):
    """Batches that can be counted and picked."""

    def __len__(self) -> int: ...

    def __getitem__(self, number: int, /) -> Batch: ...


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

    def gradients(self, state: Any, batch: Batch, scale: float, add: bool) -> tuple[float, Any]:
        """Add the gradient of scale * loss to every parameter's `.grad`, in place; without `add` write it there.

        The loss is summed over the counted targets. Returns it unscaled, in nats, and the state after the batch,
        which no gradient flows through.
        """

    def validate(self) -> Score:
        """The score on the validation text."""

    def sample(self) -> dict[str, Any]:
        """Generated `text` [..], `repeated` and `distinct`; the same whenever the weights are the same."""

    def save(self, run: RunDir) -> None:
        """Write the network as the run's model."""


def backward(loss: Tensor, state: Any, scale: float) -> tuple[float, Any]:
    """`gradients` from a loss and a state that torch can differentiate."""
    (loss * scale).backward()  # type: ignore[no-untyped-call]
    return float(loss.detach()), map_leaves(lambda leaf: leaf.detach(), state)
