"""The training loop: one update after another, carried state, checkpoints, reports."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ostinato.core.errors import DivergedError, Interrupted
from ostinato.core.progress import Progress, Watch, unwatched
from ostinato.core.state import leaves, map_leaves
from ostinato.runs import RunDir
from ostinato.train import checkpoint, device, monitor, optimise
from ostinato.train.average import Average
from ostinato.train.diagnosis import Chinese, Diagnosis
from ostinato.train.doctor import Watcher
from ostinato.train.flat import Flat
from ostinato.train.learner import Counted, Learner, Validation, perplexity
from ostinato.train.options import LoopOptions
from ostinato.train.position import Position, Window
from ostinato.train.ranks import Ranks
from ostinato.train.signals import stopping
from ostinato.train.sweeps import sweeps_for
from ostinato.train.threads import Threads

OVERFLOW = math.sqrt(torch.finfo(torch.float32).max)
"""A gradient norm whose square float32 cannot hold; what is learnt from there on is noise."""


class Trainer:
    """Trains a learner inside a run directory, from the beginning or from its last checkpoint.

    Making one moves the network's parameters side by side (`Flat`), so the network must be on its device by then.
    """

    def __init__(
        self,
        learner: Learner,
        run: RunDir,
        options: LoopOptions,
        watch: Watch = unwatched,
        warn: Callable[[Diagnosis], None] = lambda diagnosis: None,
        tensorboard: Path | None = None,
        config: Mapping[str, Any] | None = None,
        ranks: Ranks = Ranks(),  # noqa: B008, frozen
    ):
        """`config` goes into every checkpoint, so that `resume` can tell what was changed since.

        ranks: this process among those that train together; only the first one is watched, warns and writes.
        """
        self.learner, self.run, self.options = learner, run, options
        self.network, self.ranks = learner.network, ranks
        self.flat = Flat(self.network)
        self.device = self.flat.values.device
        sweeps = sweeps_for(self.device, Threads(options.threads or 1))
        self.optimiser = optimise.Optimiser(self.flat, options, sweeps)
        self.average = Average(self.flat, sweeps)
        self.rate = options.rate
        self.at = Position()
        self.carried: Any = None  # the state after the last batch, of this process's rows
        self.rows = 0  # of the last batch, over all processes
        self.watch, self.warn = watch, warn
        self.doctor = Watcher()
        self.window = Window()
        self.board = monitor.Board(tensorboard) if tensorboard and ranks.lead else None
        self.config = dict(config or {})
        self.stop_asked = False
        self.began = 0.0

    def fit(self) -> Position:
        """Train to the end; return where it ended.

        Raises Interrupted after Ctrl-C or SIGTERM (a checkpoint is written first), DivergedError when a
        loss or gradient is not finite (the run keeps its last good checkpoint), StorageError.
        """
        with stopping(self._ask, several=self.ranks.size > 1):
            if not self.ranks.lead:
                self._fit()
                return self.at
            with self.run.lock():
                self._fit()
        return self.at

    def _ask(self) -> None:
        self.stop_asked = True

    def _fit(self) -> None:
        saved = self.run.load_checkpoint()
        self.ranks.wait()  # nobody writes before all have read
        self.network.train()
        if saved is None:
            self._begin()
        else:
            self._restore(*saved)
        self.began = time.monotonic() - self.at.seconds
        self.window = Window(began=time.monotonic())
        if not self._complete():
            while not self.at.ended:
                self._epoch()
            self._stop(self.at.ended)
            self._checkpoint()

    def _complete(self) -> bool:
        """Whether the run had already stopped of itself, so that there is nothing left to do."""
        events = self.run.events() if self.ranks.lead and self.at.ended else []
        return self.ranks.any(bool(events) and events[-1].get("event") == "stop")

    def _begin(self) -> None:
        self.ranks.follow(self.flat.values)
        torch.manual_seed(self.options.seed + self.ranks.rank)  # each process drops out other units
        if self.ranks.lead:
            self.run.cut_log(-1)
            about = {**monitor.describe(self.network), "processes": self.ranks.size, **self.learner.start_event()}
            self._log({"event": "start", **about})

    def _restore(self, arrays: Mapping[str, Any], about: Mapping[str, Any]) -> None:
        parts = self.network, self.optimiser, self.average
        carried, random = checkpoint.restore(arrays, about, *parts, self.learner.init_state)
        self.at = Position.from_json(about["position"])
        if carried is not None:
            self.carried = map_leaves(lambda rows: rows[self.ranks.rows(len(rows))].to(self.device), carried)
            self.rows = max((len(rows) for rows in leaves(carried)), default=0)
        if len(random) == self.ranks.size:
            device.set_random_state(self.device, random[self.ranks.rank])
        else:  # another number of processes: no process goes on with the masks of another
            torch.manual_seed(self.options.seed + self.at.step + self.ranks.rank)
        if self.ranks.lead:
            self._tell_resumed(about["damaged"])

    def _tell_resumed(self, damaged: list[str]) -> None:
        self.run.cut_log(self.at.step)
        for event in self.run.events():
            self.doctor.see(event)
        if not self.at.ended:
            about = self.learner.start_event()
            engine: dict[str, Any] = {key: about[key] for key in ("engine", "engine_reason") if key in about}
            self._log({"event": "resume", "damaged": damaged, "processes": self.ranks.size, **engine})
        for name in damaged:
            self.warn(damaged_checkpoint(name, self.at.step))

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
            if self.ranks.any(self.stop_asked) and not self.at.ended:
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

    def _update(self, group: list[Counted], share: float) -> None:
        count = sum(int(batch.weight.sum()) for batch in group)
        nats = 0.0
        for number, batch in enumerate(group):
            part, self.rows = self.ranks.part(batch), len(batch.fresh)
            scale, add = 1 / max(1, count), number > 0
            more, self.carried = self.learner.gradients(self._state_for(part), part, scale, add)
            nats += more
        self.ranks.add(self.flat.gradient)
        nats = self.ranks.total(nats)
        norm, clipped = self.optimiser.norms()
        if not (math.isfinite(nats) and norm < OVERFLOW):
            self._diverged(nats, norm)
        self.rate = optimise.learning_rate(self.options, self.at.step, share, self.at.factor)
        self.optimiser.step(self.rate, norm)
        averaging = self.at.averaging.before_update(self.options, self.at.epoch)
        if averaging.begun:
            self.average.add()
        batch_number, tokens = self.at.batch + len(group), self.at.tokens + count
        self.at = replace(self.at, batch=batch_number, step=self.at.step + 1, tokens=tokens, averaging=averaging)
        self._tell(nats, count, norm, clipped, share)

    def _state_for(self, batch: Counted) -> Any:
        """The carried state, with the rows that begin anew set back."""
        rows = len(batch.fresh)
        if self.carried is None or batch.fresh.all():
            return self.learner.init_state(rows)
        fresh = torch.from_numpy(batch.fresh.copy())
        if not fresh.any():
            return self.carried

        def choose(new: Tensor, old: Tensor) -> Tensor:
            return torch.where(fresh.to(old.device).reshape((-1,) + (1,) * (old.ndim - 1)), new, old)

        return map_leaves(choose, self.learner.init_state(rows), self.carried)

    def _tell(self, nats: float, count: int, norm: float, clipped: float, share: float) -> None:
        window = self.window
        window.nats, window.count = window.nats + nats, window.count + count
        if norm >= window.norm:
            window.norm, window.clipped = norm, clipped
        loss = window.nats / max(1, window.count)
        note = f"epoch {self.at.epoch + 1}/{self.options.epochs}  {self.learner.told(loss, self.at.best)}"
        self.watch(Progress("train", self.at.tokens, share, note))

    def _report(self, validate: bool) -> None:
        window = self.window
        loss = window.nats / max(1, window.count)
        found = self._validate() if validate else None
        valid = None if found is None else found.loss
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
            "learning_rate": self.rate,
            "tokens_per_second": round(window.count / max(1e-9, time.monotonic() - window.began), 1),
        }
        if found is not None and found.measures:
            event["valid"] = found.measures
        self._log(event)
        if validate and self.ranks.lead:
            self._look()
        self.window = Window(began=time.monotonic())

    def _validate(self) -> Validation:
        """A look at the validation data; keeps the best weights and drives the plateau schedule and averaging."""
        found = Validation(math.inf, math.inf)
        with self.average.in_place():
            if self.ranks.lead:
                found = self.learner.validate()
            loss = self.ranks.told(found.worth)
            if loss < self.at.best and self.ranks.lead:
                self.learner.save(self.run)
        self.at = replace(self.at, averaging=self.at.averaging.after_validation(self.options, loss))
        if loss < self.at.best:
            self.at = replace(self.at, best=loss, best_step=self.at.step, waited=0)
        else:
            factor = self.at.factor * (self.options.decay if self.options.schedule == "plateau" else 1.0)
            waited = self.at.waited + 1
            tired = 0 < self.options.patience <= waited and not self.at.ended
            self.at = replace(self.at, waited=waited, factor=factor, ended="patience" if tired else self.at.ended)
        return found

    def _look(self) -> None:
        """Log a probe and samples; draws no random number of training."""
        gradients = monitor.gradient_norms(self.network)
        batch = self.learner.batches(self.at.epoch)[0]
        self._log({"event": "probe", "gradients": gradients, **self.learner.probe(batch)})
        with self.average.in_place():
            sample = self.learner.sample()
        if sample is not None:
            self._log({"event": "sample", **sample})

    def _diverged(self, nats: float, norm: float) -> None:
        name, value = monitor.first_not_finite(self.network) or ("none", nats)
        what = "gradient" if math.isfinite(nats) else "loss"
        kept = [path.name for path in self.run.checkpoints()]
        self._log(
            {"event": "diverged", "epoch": self.at.epoch, "batch": self.at.batch, "what": what}
            | {"parameter": name, "value": str(value), "checkpoint": kept[-1] if kept else None}
        )
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
        self._log({"event": "stop", "reason": reason, **at, "peak_memory": device.peak_memory(self.device)})

    def _log(self, event: dict[str, Any]) -> None:
        if not self.ranks.lead:
            return
        event = {"event": event["event"], "step": self.at.step, **event}
        self.run.log(event)
        if self.board:
            self.board.write(event)
        for diagnosis in self.doctor.see(event):
            self.warn(diagnosis)

    def _checkpoint(self) -> None:
        self.at = replace(self.at, seconds=self._seconds())
        carried = self.ranks.whole_state(self.carried, self.rows)
        random = self.ranks.whole(device.random_state(self.device)[None], self.ranks.size)
        if not self.ranks.lead:
            return
        arrays, about = checkpoint.pack(self.network, self.optimiser, self.average, carried, random)
        self.run.save_checkpoint(self.at.step, arrays, {"position": asdict(self.at), "config": self.config, **about})

    def _seconds(self) -> float:
        return time.monotonic() - self.began


def damaged_checkpoint(name: str, step: int) -> Diagnosis:
    """What is said when a checkpoint could not be read and an older one was taken."""
    return Diagnosis(
        "damaged-checkpoint",
        "warning",
        f"checkpoint {name} is truncated or damaged, training goes on from step {step}",
        "nothing but time is lost; check the disk",
        {"checkpoint": name, "step": step},
        Chinese("检查点损坏", f"检查点 {name} 被截断或损坏，训练从第 {step} 步继续", "损失的只有时间；检查一下磁盘"),
    )
