"""The training loop: one update after another, carried state, checkpoints, reports."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn

from ostinato.core.errors import DivergedError, Interrupted
from ostinato.core.progress import Progress, Watch, unwatched
from ostinato.core.score import Score
from ostinato.core.state import map_leaves
from ostinato.runs import RunDir
from ostinato.text.batch import Batch
from ostinato.train import checkpoint, monitor, optimise
from ostinato.train.diagnosis import Diagnosis
from ostinato.train.doctor import Watcher
from ostinato.train.options import TrainOptions


class Listed(Protocol):
    """Batches that can be counted and picked."""

    def __len__(self) -> int: ...

    def __getitem__(self, number: int, /) -> Batch: ...


class Learner(Protocol):
    """What the loop needs of a task."""

    @property
    def network(self) -> nn.Module:
        """What is trained."""

    def start_event(self) -> dict[str, Any]:
        """What log.jsonl should know from the start: `outputs`, `unigram_nats`, `train_tokens`."""

    def batches(self, epoch: int) -> Listed:
        """The batches of an epoch, the same ones whenever asked."""

    def init_state(self, rows: int) -> Any:
        """The state of rows that have read nothing, as tensors."""

    def loss(self, state: Any, batch: Batch) -> tuple[Tensor, Any]:
        """The summed loss in nats over the counted targets, and the state after the batch."""

    def validate(self) -> Score:
        """The score on the validation text."""

    def sample(self) -> dict[str, Any]:
        """Generated `text` [..], `repeated` and `distinct`; the same whenever the weights are the same."""

    def save(self, run: RunDir) -> None:
        """Write the network as the run's model."""


@dataclass(frozen=True)
class Position:
    """Where training stands; with the tensors of a checkpoint it is all that `resume` needs."""

    epoch: int = 0
    batch: int = 0  # batches of this epoch already read
    step: int = 0  # updates made
    tokens: int = 0  # targets learnt from
    seconds: float = 0.0
    factor: float = 1.0  # of the plateau schedule
    best: float = math.inf  # lowest validation loss, nats a token
    best_step: int = 0
    waited: int = 0  # validations since then
    ended: Literal["", "epochs", "patience"] = ""  # why training is over, if it is


@dataclass
class Window:
    """Sums since the last report."""

    nats: float = 0.0
    count: int = 0
    norm: float = 0.0
    clipped: float = 0.0
    began: float = 0.0


class Trainer:
    """Trains a learner inside a run directory, from the beginning or from its last checkpoint."""

    def __init__(
        self,
        learner: Learner,
        run: RunDir,
        options: TrainOptions,
        watch: Watch = unwatched,
        warn: Callable[[Diagnosis], None] = lambda diagnosis: None,
        tensorboard: Path | None = None,
        config: Mapping[str, Any] | None = None,
    ):
        """`config` goes into every checkpoint, so that `resume` can tell what was changed since."""
        self.learner, self.run, self.options = learner, run, options
        self.network = learner.network
        self.optimiser = optimise.make_optimiser(self.network, options)
        self.at = Position()
        self.carried: Any = None
        self.watch, self.warn = watch, warn
        self.doctor = Watcher()
        self.window = Window()
        self.board = monitor.Board(tensorboard) if tensorboard else None
        self.config = dict(config or {})
        self.stop_asked = False
        self.began = 0.0

    def fit(self) -> Position:
        """Train to the end; return where it ended.

        Raises Interrupted after Ctrl-C or SIGTERM (a checkpoint is written first), DivergedError when a
        loss or gradient is not finite (the run keeps its last good checkpoint), StorageError.
        """
        with self.run.lock(), self._signals():
            self._begin()
            if not self._complete():
                while not self.at.ended:
                    self._epoch()
                self._stop(self.at.ended)
                self._checkpoint()
        return self.at

    def _complete(self) -> bool:
        """Whether the run had already stopped of itself, so that there is nothing left to do."""
        events = self.run.events()
        return bool(self.at.ended) and bool(events) and events[-1].get("event") == "stop"

    def _begin(self) -> None:
        saved = self.run.load_checkpoint()
        self.network.train()
        if saved is None:
            torch.manual_seed(self.options.seed)
            self.run.cut_log(-1)
            self._log({"event": "start", **monitor.describe(self.network), **self.learner.start_event()})
        else:
            arrays, about = saved
            self.at = Position(**about["position"])
            self.carried = checkpoint.restore(arrays, about, self.network, self.optimiser, self.learner.init_state)
            self.run.cut_log(self.at.step)
            for event in self.run.events():
                self.doctor.see(event)
            if not self.at.ended:
                self._log({"event": "resume", "damaged": about["damaged"]})
            for name in about["damaged"]:
                self.warn(damaged_checkpoint(name, self.at.step))
        self.began = time.monotonic() - self.at.seconds
        self.window = Window(began=time.monotonic())

    def _epoch(self) -> None:
        """Train to the end of the current epoch, or of training."""
        batches, epoch = self.learner.batches(self.at.epoch), self.at.epoch
        while self.at.epoch == epoch and not self.at.ended:
            first = self.at.batch
            group = [batches[i] for i in range(first, min(first + self.options.accumulate, len(batches)))]
            self._update(group, (epoch + first / len(batches)) / self.options.epochs)
            if self.at.batch == len(batches):
                last = epoch + 1 == self.options.epochs
                self.at = replace(self.at, epoch=epoch + 1, batch=0, ended="epochs" if last else "")
            self._after_update(epoch_ended=self.at.epoch > epoch)
            if self.stop_asked and not self.at.ended:
                self._checkpoint()
                self._stop("interrupted")
                raise Interrupted(f"stopped at step {self.at.step}; `ostinato resume {self.run}` goes on from here")

    def _after_update(self, epoch_ended: bool) -> None:
        every = self.options.validate_every
        validate = bool(self.at.ended) or (self.at.step % every == 0 if every else epoch_ended)
        if validate or self.at.step % self.options.report_every == 0:
            self._report(validate)
        if validate or self.at.step % self.options.checkpoint_every == 0:
            self._checkpoint()

    def _update(self, group: list[Batch], share: float) -> None:
        count = sum(int(batch.weight.sum()) for batch in group)
        self.optimiser.zero_grad(set_to_none=True)
        nats = 0.0
        for batch in group:
            loss, state = self.learner.loss(self._state_for(batch), batch)
            (loss / max(1, count)).backward()  # type: ignore[no-untyped-call]
            self.carried = map_leaves(lambda leaf: leaf.detach(), state)
            nats += float(loss.detach())
        norm = optimise.global_norm(p.grad for p in self.network.parameters())
        if not (math.isfinite(nats) and math.isfinite(norm)):
            self._diverged(nats, norm)
        clipped = optimise.clip(self.network, self.options, norm)
        rate = optimise.learning_rate(self.options, self.at.step, share, self.at.factor)
        for settings in self.optimiser.param_groups:
            settings["lr"] = rate
        self.optimiser.step()
        self.at = replace(
            self.at, batch=self.at.batch + len(group), step=self.at.step + 1, tokens=self.at.tokens + count
        )
        self._tell(nats, count, norm, clipped, share)

    def _state_for(self, batch: Batch) -> Any:
        """The carried state, with the rows that begin anew set back."""
        rows = len(batch.fresh)
        if self.carried is None or batch.fresh.all():
            return self.learner.init_state(rows)
        fresh = torch.from_numpy(batch.fresh.copy())
        if not fresh.any():
            return self.carried

        def choose(new: Tensor, old: Tensor) -> Tensor:
            return torch.where(fresh.reshape((-1,) + (1,) * (old.ndim - 1)), new, old)

        return map_leaves(choose, self.learner.init_state(rows), self.carried)

    def _tell(self, nats: float, count: int, norm: float, clipped: float, share: float) -> None:
        window = self.window
        window.nats, window.count = window.nats + nats, window.count + count
        if norm >= window.norm:
            window.norm, window.clipped = norm, clipped
        loss = window.nats / max(1, window.count)
        note = f"epoch {self.at.epoch + 1}/{self.options.epochs}  perplexity {perplexity(loss):.1f}"
        if self.at.best < math.inf:
            note += f"  best valid {perplexity(self.at.best):.2f}"
        self.watch(Progress("train", self.at.tokens, share, note))

    def _report(self, validate: bool) -> None:
        window = self.window
        loss = window.nats / max(1, window.count)
        valid = self._validate() if validate else None
        event: dict[str, Any] = {
            "event": "report",
            "epoch": self.at.epoch,
            "tokens": self.at.tokens,
            "seconds": round(self._seconds(), 3),
            "loss": loss,
            "perplexity": perplexity(loss),
            "valid_loss": valid,
            "valid_perplexity": None if valid is None else perplexity(valid),
            "gradient_norm": window.norm,
            "clipped_norm": window.clipped,
            "learning_rate": self.optimiser.param_groups[0]["lr"],
            "tokens_per_second": round(window.count / max(1e-9, time.monotonic() - window.began), 1),
        }
        self._log(event)
        if validate:
            self._look()
        self.window = Window(began=time.monotonic())

    def _validate(self) -> float:
        """The validation loss, nats a token; keeps the best weights and drives the plateau schedule."""
        score = self.learner.validate()
        loss = score.nats / max(1, score.count)
        if loss < self.at.best:
            self.at = replace(self.at, best=loss, best_step=self.at.step, waited=0)
            self.learner.save(self.run)
        else:
            factor = self.at.factor * (self.options.decay if self.options.schedule == "plateau" else 1.0)
            waited = self.at.waited + 1
            tired = 0 < self.options.patience <= waited and not self.at.ended
            self.at = replace(self.at, waited=waited, factor=factor, ended="patience" if tired else self.at.ended)
        return loss

    def _look(self) -> None:
        """Log a probe and samples; draws no random number of training."""
        gradients = monitor.gradient_norms(self.network)
        batch = self.learner.batches(self.at.epoch)[0]
        self._log({"event": "probe", "gradients": gradients, **monitor.probe(self.network, batch)})
        self._log({"event": "sample", **self.learner.sample()})

    def _diverged(self, nats: float, norm: float) -> None:
        name, value = monitor.first_not_finite(self.network) or ("none", nats)
        what = "gradient" if math.isfinite(nats) else "loss"
        self._log(
            {"event": "diverged", "epoch": self.at.epoch, "batch": self.at.batch, "what": what}
            | {"parameter": name, "value": str(value)}
        )
        kept = [path.name for path in self.run.checkpoints()]
        self._stop("diverged")
        raise DivergedError(
            f"{self.run}: the {what} is {value} at step {self.at.step + 1} (epoch {self.at.epoch + 1}, batch "
            f"{self.at.batch + 1}), first in parameter {name}; the run keeps "
            f"{'checkpoint ' + kept[-1] if kept else 'no checkpoint yet'}: train again with a smaller "
            "--train.learning-rate or --train.clip norm"
        )

    def _stop(self, reason: str) -> None:
        best = self.at.best if math.isfinite(self.at.best) else None
        at = {"best": best, "best_step": self.at.best_step, "seconds": round(self._seconds(), 3)}
        self._log({"event": "stop", "reason": reason, **at})

    def _log(self, event: dict[str, Any]) -> None:
        event = {"event": event["event"], "step": self.at.step, **event}
        self.run.log(event)
        if self.board:
            self.board.write(event)
        for diagnosis in self.doctor.see(event):
            self.warn(diagnosis)

    def _checkpoint(self) -> None:
        self.at = replace(self.at, seconds=self._seconds())
        arrays, about = checkpoint.pack(self.network, self.optimiser, self.carried)
        self.run.save_checkpoint(self.at.step, arrays, {"position": asdict(self.at), "config": self.config, **about})

    def _seconds(self) -> float:
        return time.monotonic() - self.began

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """The first Ctrl-C or SIGTERM asks for a stop after the current update; a second one breaks off."""

        def ask(number: int, frame: FrameType | None) -> None:
            if self.stop_asked:
                raise KeyboardInterrupt
            self.stop_asked = True

        try:
            before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
        except ValueError:  # not in the main thread: no signals to catch
            before = {}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def damaged_checkpoint(name: str, step: int) -> Diagnosis:
    """What is said when a checkpoint could not be read and an older one was taken."""
    return Diagnosis(
        "damaged-checkpoint",
        "warning",
        f"checkpoint {name} is truncated or damaged, training goes on from step {step}",
        "nothing but time is lost; check the disk",
        {"checkpoint": name, "step": step},
    )


def perplexity(loss: float) -> float:
    """exp(loss), infinity where it does not fit."""
    return math.exp(loss) if loss < 700 else math.inf
