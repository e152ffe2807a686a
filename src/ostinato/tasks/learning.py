"""Sequence tasks as the training loop sees them: batches of similar length, a loss by torch, a measure to keep."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ostinato.runs import RunDir
from ostinato.text.bucket import Places, batches_by_length, shuffled_batches
from ostinato.train.checkpoint import as_array
from ostinato.train.learner import Validation
from ostinato.train.options import TaskTrainOptions


@dataclass(frozen=True, eq=False)
class TaskBatch:
    """Some examples: their places in the training data. weight: as many ones as targets count."""

    rows: Places
    weight: NDArray[np.float32]

    @property
    def fresh(self) -> NDArray[np.bool_]:
        """All begin with a new state."""
        return np.ones(len(self.rows), np.bool_)


class TaskBatches:
    """The batches of an epoch, by number."""

    def __init__(self, batches: Sequence[Places], targets: NDArray[np.int64]):
        self._batches, self._targets = batches, targets

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, number: int) -> TaskBatch:
        rows = self._batches[number]
        return TaskBatch(rows, np.ones(int(self._targets[rows].sum()), np.float32))


class TaskLearner:
    """The base of every task's learner: derive, and give `loss`, `validate` and `about`.

    kind: what model.safetensors calls the model. lengths: [N] or [N, 2], tokens of each training example, which
    batches are made by. targets: [N], how many targets each has, by whose number the loss is divided. measure: what
    `validate` judges by, for the progress bar; larger is better.
    """

    measure = "accuracy"

    def __init__(
        self,
        kind: str,
        network: nn.Module,
        options: TaskTrainOptions,
        lengths: NDArray[np.int64],
        targets: NDArray[np.int64],
    ):
        self.kind, self.network, self.options = kind, network, options
        self.lengths, self.targets = lengths, targets
        self.bf16 = options.precision == "bf16"

    def loss(self, rows: Places) -> Tensor:
        """The summed loss (nats) of the targets of these training examples, for torch to differentiate."""
        raise NotImplementedError

    def validate(self) -> Validation:
        """How good the network is on the validation data."""
        raise NotImplementedError

    def about(self) -> dict[str, Any]:
        """What the model file must say of itself so that the network can be made again."""
        raise NotImplementedError

    def start_event(self) -> dict[str, Any]:
        """The engine and how much there is to train on; a task with labels adds `outputs` and `unigram_nats`."""
        return {
            "task": self.kind,
            "train_tokens": int(self.targets.sum()),
            "engine": f"torch {'bf16' if self.bf16 else 'float32'} on {self.device.type}",
            "engine_reason": "our own kernels train whole language models, of other networks parts",
        }

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        return next(self.network.parameters()).device

    def batches(self, epoch: int) -> TaskBatches:
        """The shuffled batches of an epoch; the same for the same seed."""
        options = self.options
        sizes = options.rows, options.tokens, options.longest
        return TaskBatches(shuffled_batches(self.lengths, *sizes, options.seed, epoch), self.targets)

    def init_state(self, rows: int) -> Any:
        """No state: every example begins anew."""
        return ()

    def gradients(self, state: Any, batch: TaskBatch, scale: float, add: bool) -> tuple[float, Any]:
        """The summed loss of a batch in nats; gradients as `Learner.gradients` says."""
        if not add:
            self.network.zero_grad(set_to_none=False)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
            loss = self.loss(batch.rows)
        (loss.float() * scale).backward()  # type: ignore[no-untyped-call]
        return float(loss.detach()), state

    def told(self, loss: float, best: float) -> str:
        """The loss, and the best measure so far."""
        text = f"loss {loss:.3f}"
        return text if best == math.inf else f"{text}  best valid {self.measure} {-best:.2f}"

    def probe(self, batch: TaskBatch) -> dict[str, Any]:
        """Nothing: gates are looked at in language models."""
        return {"through_time": [], "activations": []}

    def sample(self) -> dict[str, Any] | None:
        """None."""
        return None

    def kept(self) -> dict[str, Tensor]:
        """What of the network the model file keeps, by name."""
        return dict(self.network.state_dict())

    def save(self, run: RunDir) -> None:
        """Write the network as the run's model."""
        arrays = {name: as_array(tensor) for name, tensor in self.kept().items()}
        parameters = sum(array.size for array in arrays.values())
        run.save_model(self.kind, arrays, {"parameters": parameters, **self.about()})


def in_order(
    lengths: NDArray[np.int64], rows: int, tokens: int, answer: Callable[[Places], Sequence[Any]]
) -> list[Any]:
    """Answers for all examples, in their order, found in batches of similar length.

    answer: gives one answer for each of the places it is called with.
    """
    answers: list[Any] = [None] * len(lengths)
    for places in batches_by_length(lengths, rows, tokens):
        for place, found in zip(places.tolist(), answer(places), strict=True):
            answers[place] = found
    return answers
