"""One small trainer for generated tasks: a stack of the product's cells with a read-out, its own optimiser."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from torch import Tensor, nn

from ostinato.core.progress import Progress, Watch, unwatched
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
            watch(Progress("train", update, update / plan.updates, f"loss {losses[-1]:.4f}"))
    return Trace(losses, norms)


class Reader(nn.Module):
    """A stack of cells of one kind that reads vectors, or symbols by their embeddings, and answers at every step.

    reads: size of the vectors, or how many symbols there are. Initialised as the product's networks are.
    """

    def __init__(self, kind: str, reads: int, hidden: int, answers: int, symbols: bool = False, **choices: Any):
        super().__init__()
        options = KINDS[kind](hidden=hidden, dropout=0.0, **choices)
        assert isinstance(options, RecurrentOptions)
        self.embedding = nn.Embedding(reads, hidden) if symbols else nn.Identity()
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


def smoothed(values: list[float], window: int) -> list[float]:
    """The mean of each `window` values in a row, as many as there are whole windows."""
    return [sum(values[at : at + window]) / window for at in range(0, len(values) - window + 1, window)]
