"""All demonstrations of sequence tasks, and what running one finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ostinato.core.files import write_json
from ostinato.runs import RunDir
from ostinato.tasks import working
from ostinato.tasks.demos.digits import digits
from ostinato.tasks.demos.documentation import casing, segmentation
from ostinato.tasks.demos.letters import dates, numbers
from ostinato.tasks.demos.prepared import Prepared
from ostinato.tasks.demos.series import series
from ostinato.tasks.demos.sounds import sounds
from ostinato.tasks.task import PredictOptions, Report

if TYPE_CHECKING:
    from ostinato.tasks.language.build import Callbacks

DEMOS: dict[str, Callable[[Path], Prepared]] = {
    "tag": casing,
    "segment": segmentation,
    "translate": dates,
    "numbers": numbers,
    "spell": sounds,
    "caption": digits,
    "forecast": series,
}


@dataclass(frozen=True)
class Shown:
    """A trained run, how good it is, and answers: each with what a person reads of its input.

    beside: how good what needs no network is, by name.
    """

    prepared: Prepared
    run: RunDir
    report: Report
    answers: tuple[tuple[str, str], ...]
    beside: dict[str, float]


def demonstrate(name: str, folder: Path, callbacks: Callbacks) -> Shown:
    """Make the data, train, judge on the test data and answer a few inputs, all in `folder`."""
    data = folder / "data"
    prepared = DEMOS[name](data)
    run = working.train(prepared.task, prepared.config, folder / "run", callbacks)
    predictor = working.load(run.path)
    report = predictor.evaluate((), callbacks.watch)
    write_json(run.path / "score.json", report.to_json())
    answers = map(prepared.read, predictor.predict(prepared.asked, PredictOptions()))
    found = {
        name: value if isinstance(value, float) else report.measures[value] for name, value in prepared.beside.items()
    }
    return Shown(prepared, run, report, tuple(zip(prepared.given, answers, strict=False)), found)
