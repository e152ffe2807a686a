"""Training beside PyTorch's own example of a word language model: updates a second on equal work.

The peer is `word_language_model` of github.com/pytorch/examples (train_peer.py), ours is what `ostinato train` does
(train_ours.py). Both begin with the same weights and read the same text; that they learn the same is checked.
"""

from __future__ import annotations

import math
import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np

from ostinato.bench.blocks import Effort, Worker, by_blocks, disturbance, is_quiet, sample
from ostinato.bench.measure import Note, Row, Rows, in_time
from ostinato.bench.names import TrainCaseName as CaseName
from ostinato.bench.train_case import CASES, EQUAL, LSTM, TrainCase, text_ids, zipf_ids
from ostinato.core.errors import MismatchError

QUICK: tuple[CaseName, ...] = ("lstm-200", "char-512")
PEER = "PyTorch word_language_model"
NEAR = 0.1
"""The share by which the losses after the same updates may differ: dropout draws other masks, and PyTorch moves every
bias twice."""


@dataclass(frozen=True)
class Bench:
    """On which text, with how many threads, how much; `folder` is scratch room."""

    folder: Path
    text: Path | None
    threads: int
    effort: Effort
    updates: int
    note: Note

    def spec(self, case: TrainCase) -> dict[str, Any]:
        """What a side is told."""
        ids = self.folder / f"{case.tokeniser}-{case.vocabulary}.npy"
        if not ids.exists():
            np.save(ids, zipf_ids(case.vocabulary) if self.text is None else text_ids(self.text, case))
        return {"case": asdict(case), "ids": str(ids), "threads": self.threads}

    def ours(self, case: TrainCase) -> Worker:
        """Our side, started."""
        return Worker("train_ours", self.spec(case), self.threads)

    def theirs(self, case: TrainCase) -> Worker:
        """PyTorch's side, started. Its threads wait as it likes, unless others use the processor: then that is far
        slower than waiting as ours do."""
        return Worker("train_peer", self.spec(case), self.threads, spins=is_quiet())


def run(
    cases: tuple[CaseName, ...] = (),
    text: Path | None = None,
    threads: int | None = None,
    runs: int | None = None,
    quick: bool = False,
    growth: bool = False,
    note: Note = lambda text: None,
) -> Rows:
    """The rows of the named cases as they come; of all if none is named, or of two small ones if it must be quick.

    text: what is trained on, ids drawn from Zipf's law if None. threads: of both sides, all cores if None.
    growth: how our speed grows with length, batch and size instead, beside the machine's peaks.
    Raises ConfigError for a text that is not there, DataError, MismatchError if the two sides do not learn the same.
    """
    with tempfile.TemporaryDirectory(prefix="ostinato-bench-") as folder:
        effort, updates = Effort.of(runs, quick), 20 if quick else 100
        bench = Bench(Path(folder), text, threads or os.cpu_count() or 1, effort, updates, note)
        if growth:
            from ostinato.bench.growth import rows

            yield from rows(bench, quick)
            return
        for name in in_time(cases or (QUICK if quick else get_args(CaseName)), quick, note):
            yield beside_lstm(bench, name) if name in EQUAL else beside_pytorch(bench, CASES[name])


def beside_pytorch(bench: Bench, case: TrainCase) -> Row:
    """Our speed and PyTorch's. Raises MismatchError if the losses differ."""
    with bench.theirs(case) as theirs, bench.ours(case) as ours:
        bench.note(f"{case.name}: {bench.updates} updates of each from the same weights")
        losses = [worker.ask(updates=bench.updates)["loss"] for worker in (ours, theirs)]
        check_losses(case.name, *losses)
        facts = {"ours_loss": losses[0], "peer_loss": losses[1], "loss_after_updates": bench.updates}
        return compared(bench, case, (ours, theirs), PEER, facts)


def beside_lstm(bench: Bench, name: str) -> Row:
    """The speed of one of our cells beside that of our LSTM of as many parameters."""
    case, other = EQUAL[name], LSTM
    with bench.ours(case) as ours, bench.ours(other) as theirs:
        bench.note(f"{name}: warming up")
        sizes = [worker.ask(updates=3)["parameters"] for worker in (ours, theirs)]
        facts = {"ours_parameters": sizes[0], "peer_parameters": sizes[1]}
        peer = f"our LSTM, {other.layers} layers of {other.hidden}"
        return compared(bench, case, (ours, theirs), peer, facts)


def compared(bench: Bench, case: TrainCase, sides: tuple[Worker, Worker], peer: str, facts: dict[str, Any]) -> Row:
    """The row of two sides that have warmed up."""

    def note(text: str) -> None:
        bench.note(f"{case.name}: {text}")

    ours, theirs = by_blocks(sides, bench.effort, note, warm=3)
    best = [max(block.answer["best"] for block in side) for side in (ours, theirs)]
    more = {
        "threads": bench.threads,
        "engine": ours[0].answer["engine"],
        "ours_best": best[0],
        "peer_best": best[1],
        "foreign": disturbance(ours, theirs),
        "tokens_an_update": case.tokens,
    }
    what = (
        f"{case.layers} x {case.hidden}, V = {case.vocabulary:,}, {case.rows} rows of {case.bptt}, "
        f"{bench.threads} thread{'s' if bench.threads > 1 else ''}"
    )
    mine, other = (sample(side, "tokens/s", cpu="cpu_update") for side in (ours, theirs))
    return Row(case.name, what, "tokens/s", mine, other, peer, facts | more)


def check_losses(name: str, ours: float, theirs: float) -> None:
    """Raise MismatchError for losses that are not those of equal work."""
    if not math.isfinite(ours + theirs) or abs(ours - theirs) > NEAR * theirs:
        raise MismatchError(
            f"{name}: from the same weights ours comes to {ours:.4g} nats a token, the peer to {theirs:.4g}; "
            "they do not do the same work"
        )
