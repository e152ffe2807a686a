"""Cross-validation of any task whose examples can be cut into folds: a run for every fold and seed, and the spread."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from ostinato.core.config import explain, read_toml
from ostinato.core.errors import ConfigError
from ostinato.core.files import write_json
from ostinato.runs import TASK, RunDir
from ostinato.tasks.task import Report, Table
from ostinato.tasks.working import config_from, load, plain, resume, train

if TYPE_CHECKING:
    from ostinato.tasks.language.build import Callbacks

FILE = "crossvalidation.json"


@dataclass(frozen=True)
class CrossValidation:
    """The task's measure on every fold (columns) with every seed (rows)."""

    measure: str
    seeds: tuple[int, ...]
    values: tuple[tuple[float, ...], ...]
    counts: tuple[int, ...]  # examples of each fold
    measures: dict[str, float]  # means over folds and seeds

    @property
    def by_seed(self) -> list[float]:
        """The mean over folds of each seed."""
        return [statistics.fmean(row) for row in self.values]

    @property
    def by_fold(self) -> list[float]:
        """The mean over seeds of each fold."""
        return [statistics.fmean(column) for column in zip(*self.values, strict=True)]

    @property
    def mean(self) -> float:
        """The mean over folds and seeds."""
        return statistics.fmean(self.by_seed)

    def to_json(self) -> dict[str, Any]:
        """As plain values; `spread_folds`, `spread_seeds` are sample standard deviations of `by_fold`, `by_seed`."""
        found = {"mean": self.mean, "spread_folds": spread(self.by_fold), "spread_seeds": spread(self.by_seed)}
        return {"measure": self.measure, **found, **dataclasses.asdict(self), "by_seed": self.by_seed}

    def __str__(self) -> str:
        among = [f"{spread(self.by_fold):.2f} over {len(self.counts)} folds"]
        if len(self.seeds) > 1:
            among.append(f"{spread(self.by_seed):.2f} over {len(self.seeds)} seeds")
        return f"{self.mean:.2f} {self.measure}, standard deviation {', '.join(among)} ({sum(self.counts):,} judged)"

    def table(self) -> Table:
        """Every value."""
        seeds = [f"seed {seed}" for seed in self.seeds]
        columns = ("fold", "judged", *seeds)
        rows = [
            (f"{number}", f"{count:,}", *(f"{value:.2f}" for value in column))
            for number, (count, column) in enumerate(
                zip(self.counts, zip(*self.values, strict=True), strict=True), start=1
            )
        ]
        means = ("mean", f"{sum(self.counts):,}", *(f"{value:.2f}" for value in self.by_seed))
        return Table(f"{self.measure} by fold", columns, (*rows, means))


def spread(values: Sequence[float]) -> float:
    """The sample standard deviation; 0 of one value."""
    return statistics.stdev(values) if len(values) > 1 else 0.0


def cross_validate(
    name: str, config: Any, folder: str | Path, folds: int, seeds: Sequence[int], callbacks: Callbacks
) -> CrossValidation:
    """Train and judge a run for each fold with each seed, in `folder`; called again, it goes on where it stopped.

    Every example of the training data is judged once for each seed, by a network that has not seen it. Raises
    ConfigError for a task whose data has no folds, or if a run there was made with other options; as `train` does.
    """
    if not hasattr(config.data, "folds"):
        raise ConfigError(f"the examples of {name} follow each other in time, so they cannot be cut into folds")
    if not seeds or len(set(seeds)) < len(seeds):
        raise ConfigError("cross-validation needs one or more different seeds: --seeds 1 2 3")
    reports = [
        [_judged(name, _fold(config, folds, fold, seed), Path(folder), callbacks) for fold in range(1, folds + 1)]
        for seed in seeds
    ]
    found = summed(reports, seeds)
    write_json(Path(folder) / FILE, found.to_json())
    return found


def summed(reports: Sequence[Sequence[Report]], seeds: Sequence[int]) -> CrossValidation:
    """The reports of all seeds (rows) and folds as one."""
    every = [report for row in reports for report in row]
    shared = set.intersection(*(set(report.measures) for report in every))
    means = {name: statistics.fmean(report.measures[name] for report in every) for name in sorted(shared)}
    values = tuple(tuple(report.value for report in row) for row in reports)
    return CrossValidation(every[0].measure, tuple(seeds), values, tuple(one.count for one in reports[0]), means)


def _fold(config: Any, folds: int, fold: int, seed: int) -> Any:
    """The configuration of one run. Raises ConfigError if it cannot be cut so."""
    try:
        data = dataclasses.replace(config.data, folds=folds, fold=fold)
        return dataclasses.replace(config, data=data, train=dataclasses.replace(config.train, seed=seed))
    except ValidationError as fault:
        raise ConfigError(f"data: {explain(fault)}") from None


def _judged(name: str, config: Any, folder: Path, callbacks: Callbacks) -> Report:
    path = folder / f"seed-{config.train.seed}-fold-{config.data.fold:02d}"
    run = _trained(name, config, path, callbacks)
    report = load(run.path).evaluate((), callbacks.watch)
    write_json(run.path / "score.json", report.to_json())
    callbacks.note(f"fold {config.data.fold} of {config.data.folds}, seed {config.train.seed}: {report}")
    return report


def _trained(name: str, config: Any, path: Path, callbacks: Callbacks) -> RunDir:
    """The finished run at `path`: made, resumed, or as it is."""
    from ostinato.train.device import settle

    if not path.exists():
        return train(name, config, path, callbacks)
    run = RunDir.open(path, TASK)
    before = config_from(name, read_toml(path / "config.toml"), str(path))
    now = dataclasses.replace(config, train=settle(config.train))
    if plain(before) != plain(now):
        changed = [key for key, value in plain(now).items() if plain(before).get(key) != value]
        raise ConfigError(f"{path} was made with other options ({', '.join(changed)}); choose another --run-dir")
    return run if run.finished else resume(path, callbacks)
