"""What a log says so far, kept in bounded memory: all that the doctor's rules look at.

Every event costs a constant amount of work, so a run can be watched while it goes on.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

STRETCHES = 64  # a run is looked at as at most this many stretches of equal length
RECENT = 3  # reports that count as now where one number may be a spike


@dataclass(frozen=True)
class Stretch:
    """Consecutive reports taken together. loss: nats a target. norm: the largest gradient norm, `clipped` after it."""

    step: int
    targets: int
    loss: float
    norm: float
    clipped: float
    rate: float

    def join(self, later: Stretch) -> Stretch:
        """This stretch and the one that follows as one."""
        largest = max(self, later, key=lambda stretch: stretch.norm)
        targets = self.targets + later.targets
        return Stretch(later.step, targets, mean_loss([self, later]), largest.norm, largest.clipped, later.rate)


def mean_loss(stretches: Sequence[Stretch]) -> float:
    """The loss over all of them, nats a target."""
    return sum(part.loss * part.targets for part in stretches) / sum(part.targets for part in stretches)


@dataclass(frozen=True)
class Validation:
    """A validation loss and the training loss since the validation before, both nats a target."""

    step: int
    valid: float
    train: float


@dataclass
class History:
    """The events of a log, one `add` after another. Fields are empty or None until their event has come."""

    start: Mapping[str, Any] = field(default_factory=dict)
    step: int = 0
    stretches: list[Stretch] = field(default_factory=list)
    recent: deque[Stretch] = field(default_factory=lambda: deque(maxlen=RECENT))
    clipped: int = 0  # reports in which a gradient was clipped
    reports: int = 0
    best: Validation | None = None
    last: Validation | None = None
    worse: int = 0  # validations since the best
    probe: Mapping[str, Any] = field(default_factory=dict)
    silent: set[str] | None = None  # parameters whose gradient was 0 at every probe
    sample: Mapping[str, Any] = field(default_factory=dict)
    diverged: Mapping[str, Any] | None = None
    stop: Mapping[str, Any] | None = None
    _length: int = 1  # reports in a full stretch
    _filled: int = 1  # reports in the last stretch
    _since: list[Stretch] = field(default_factory=list)  # the stretch since the last validation, if any
    _tokens: int = 0

    def add(self, event: Mapping[str, Any]) -> None:
        """Take in one event of log.jsonl; kinds that are not known are left out."""
        self.step = max(self.step, event.get("step", 0))
        match event.get("event"):
            case "start":
                self.start = event
            case "report":
                self._add_report(event)
            case "probe":
                self._add_probe(event)
            case "sample":
                self.sample = event
            case "diverged":
                self.diverged = event
            case "stop":
                self.stop = event
            case "resume":
                self.stop = self.diverged = None

    @property
    def uniform(self) -> float | None:
        """The loss of guessing evenly, ln |V| in nats, if the start event says how many outputs there are."""
        outputs = self.start.get("outputs") or 0
        return math.log(outputs) if outputs > 1 else None

    @property
    def unigram(self) -> float | None:
        """The entropy of the training targets without context, nats; None if it is not known."""
        return self.start.get("unigram_nats")

    @property
    def loss(self) -> float:
        """The training loss over the last quarter of the run."""
        return mean_loss(self.stretches[-math.ceil(len(self.stretches) / 4) :])

    @property
    def finished(self) -> bool:
        """Whether training came to its planned end."""
        return self.stop is not None and self.stop.get("reason") in ("epochs", "patience")

    @property
    def warming_up(self) -> bool:
        """Whether the learning rate still rises."""
        rates = [stretch.rate for stretch in self.stretches]
        return len(rates) > 1 and rates[-1] > max(rates[:-1])

    def _add_report(self, event: Mapping[str, Any]) -> None:
        tokens, loss = event.get("tokens", 0), float(event["loss"])
        targets, self._tokens = max(1, tokens - self._tokens), tokens
        if not math.isfinite(loss):
            self.diverged = self.diverged or {**event, "what": "loss", "value": str(loss)}
            return
        norm = event.get("gradient_norm") or 0.0
        clipped = event.get("clipped_norm", norm)
        new = Stretch(event["step"], targets, loss, norm, clipped, event.get("learning_rate") or 0.0)
        self.reports += 1
        self.clipped += norm > clipped
        self.recent.append(new)
        self._append(new)
        self._since = [self._since[0].join(new)] if self._since else [new]
        if event.get("valid_loss") is not None:
            self._add_validation(Validation(event["step"], event["valid_loss"], self._since.pop().loss))

    def _append(self, new: Stretch) -> None:
        """Lengthen the last stretch or begin another; join them two by two when there are too many."""
        if self.stretches and self._filled < self._length:
            self.stretches[-1] = self.stretches[-1].join(new)
            self._filled += 1
            return
        if len(self.stretches) == STRETCHES:
            self.stretches = [a.join(b) for a, b in zip(self.stretches[::2], self.stretches[1::2], strict=True)]
            self._length *= 2
        self.stretches.append(new)
        self._filled = 1

    def _add_validation(self, new: Validation) -> None:
        self.last = new
        if self.best is None or new.valid < self.best.valid:
            self.best, self.worse = new, 0
        else:
            self.worse += 1

    def _add_probe(self, event: Mapping[str, Any]) -> None:
        self.probe = event
        zero = {name for name, norm in event.get("gradients", {}).items() if norm == 0}
        self.silent = zero if self.silent is None else self.silent & zero
