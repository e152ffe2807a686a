"""One small trainer for generated tasks: a stack of the product's cells with a read-out, its own optimiser."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ostinato.claims.sequences import Task
from ostinato.core.progress import Progress, Watch, unwatched
from ostinato.nn.cells.lstm import ForgettingCell
from ostinato.nn.networks import make_cell
from ostinato.nn.options import KINDS, RecurrentOptions
from ostinato.nn.unroll import Stack
from ostinato.train.flat import Flat
from ostinato.train.optimise import Optimiser
from ostinato.train.options import LoopOptions


@dataclass(frozen=True)
class Plan:
    """How long and how fast. clip_at: the norm that gradients are clipped to, None for no clipping."""

    updates: int
    rate: float = 0.003
    clip_at: float | None = 1.0
    optimiser: str = "adam"

    @property
    def options(self) -> LoopOptions:
        """As the product's optimiser takes it."""
        clipping: dict[str, Any] = {"clip": "off"} if self.clip_at is None else {"clip_at": self.clip_at}
        return LoopOptions(optimiser=self.optimiser, learning_rate=self.rate, **clipping)  # type: ignore[arg-type]


class Trace(NamedTuple):
    """What was seen in training, by update: the loss, and the gradient norm before clipping."""

    losses: list[float]
    norms: list[float]


def fit(module: nn.Module, plan: Plan, loss: Callable[[int], Tensor], watch: Watch = unwatched) -> Trace:
    """Train on `loss(update)`, a mean over what was drawn for that update.

    Stops early once a loss or norm is not finite; that one is kept as infinity.
    """
    optimiser = Optimiser(Flat(module), plan.options)
    losses: list[float] = []
    norms: list[float] = []
    for update in range(plan.updates):
        module.zero_grad(set_to_none=False)
        found = loss(update)
        found.backward()  # type: ignore[no-untyped-call]
        before, _ = optimiser.norms()
        losses.append(float(found.detach()))
        norms.append(before)
        if not (math.isfinite(losses[-1]) and math.isfinite(before)):
            losses[-1] = norms[-1] = math.inf
            break
        optimiser.step(plan.rate, before)
        if update % 10 == 0:
            watch(Progress("train", 0, update / plan.updates, f"loss {losses[-1]:.4f}"))
    return Trace(losses, norms)


class Reader(nn.Module):
    """A stack of cells of one kind that reads vectors, or symbols by their embeddings, and answers at every step.

    reads: size of the vectors, or how many symbols there are. Initialised as the product's networks are.
    """

    def __init__(self, kind: str, reads: int, hidden: int, answers: int, symbols: bool = False, **choices: Any):
        super().__init__()
        options = KINDS[kind](hidden=hidden, dropout=0.0, **choices)
        assert isinstance(options, RecurrentOptions)
        self.embedding: nn.Module = nn.Identity()
        if symbols:
            embedding = self.embedding = nn.Embedding(reads, hidden)
            nn.init.uniform_(embedding.weight, -0.1, 0.1)
        width = hidden if symbols else reads
        self.stack = Stack(partial(make_cell, kind, options), width, options)
        self.answer = nn.Linear(self.stack.output_size, answers)

    def forward(self, inputs: Tensor) -> Tensor:
        """Answers [B, T, answers] to vectors [B, T, reads] or symbols [B, T], from a new state."""
        outputs, _ = self.stack.scan(self.stack.init_state(len(inputs)), self.embedding(inputs))
        answers: Tensor = self.answer(outputs)
        return answers

    def last(self, inputs: Tensor) -> Tensor:
        """The answer [B, answers] after the last step."""
        outputs, _ = self.stack.scan(self.stack.init_state(len(inputs)), self.embedding(inputs))
        answer: Tensor = self.answer(outputs[:, -1])
        return answer


def remember_for(reader: Reader, steps: int) -> Reader:
    """Set the gates of LSTM cells for lags up to `steps`: forget biases ln(1..steps - 1), input biases minus these.

    Source: [Tallec2018], whose name for it is chrono initialisation.
    """
    with torch.no_grad():
        for cell in reader.stack.cells:
            assert isinstance(cell, ForgettingCell)
            times = torch.empty(cell.hidden_size).uniform_(1, max(1.0, steps - 1)).log_()
            for block, biases in ((1, times), (0, -times)):
                cell.biases_of(block)[0].copy_(biases)
    return reader


def smoothed(values: list[float], window: int) -> list[float]:
    """The mean of each `window` values in a row, as many as there are whole windows."""
    return [sum(values[at : at + window]) / window for at in range(0, len(values) - window + 1, window)]


def learn(reader: Reader, plan: Plan, draw: Callable[[], Task], watch: Watch = unwatched) -> Trace:
    """Train a reader to answer after the last step; `draw` gives a new batch for every update."""

    def loss(update: int) -> Tensor:
        task = draw()
        return loss_of(reader.last(task.inputs), task.targets)

    return fit(reader, plan, loss, watch)


def loss_of(answers: Tensor, targets: Tensor) -> Tensor:
    """Squared error for numbers, cross-entropy in nats for classes; the mean."""
    if targets.is_floating_point():
        return nn.functional.mse_loss(answers[..., 0], targets)
    return nn.functional.cross_entropy(answers.flatten(0, -2), targets.flatten())


def right(reader: Reader, task: Task, tolerance: float = 0.04) -> float:
    """The share of answers after the last step that are right: the class, or a number to within the tolerance."""
    with torch.no_grad():
        answers = reader.last(task.inputs)
    if task.targets.is_floating_point():
        found = (answers[:, 0] - task.targets).abs() < tolerance
    else:
        found = answers.argmax(dim=-1) == task.targets
    return float(found.float().mean())
