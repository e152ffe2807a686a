"""Small series: a season, a slow wave and a little noise, and a configuration that learns them in a second."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from ostinato.runs import RunDir
from ostinato.tasks import working
from ostinato.tasks.forecasting.options import Config, DataOptions, ForecastOptions, ModelOptions, TrainOptions
from ostinato.tasks.forecasting.predict import ForecastPredictor
from ostinato.tasks.language.build import Callbacks
from ostinato.tasks.task import PredictOptions

BEGIN = datetime(2020, 1, 1)


def wave(count: int = 300, seed: int = 0, size: float = 10.0, noise: float = 0.05) -> list[float]:
    """Values by the hour: a day's wave and one of ten days."""
    draw = random.Random(seed)
    return [
        50 + size * (math.sin(2 * math.pi * hour / 24) + 0.5 * math.sin(hour / 38) + noise * draw.gauss(0, 1))
        for hour in range(count)
    ]


def write(path: Path, values: Sequence[float], begin: int = 0, header: bool = True, name: str | None = None) -> Path:
    """A row an hour, from hour number `begin` on; name: of the series, in a column of its own."""
    lines = [("where," if name else "") + "time,x\n"] if header else []
    for hour, value in enumerate(values, begin):
        row = [name] if name else []
        lines.append(",".join([*row, (BEGIN + timedelta(hours=hour)).strftime("%Y-%m-%d %H:%M"), f"{value:.6f}\n"]))
    path.write_text("".join(lines))
    return path


def config(
    train: Path | Sequence[Path],
    data: dict[str, Any] | None = None,
    model: dict[str, Any] | None = None,
    forecast: dict[str, Any] | None = None,
    **options: Any,
) -> Config:
    """A small network, a few epochs."""
    files = (train,) if isinstance(train, Path) else train
    return Config(
        DataOptions(**{"train": tuple(map(str, files)), "valid_part": 50, "test_part": 50, **(data or {})}),
        ModelOptions(**{"hidden": 8, "kind": "gru", **(model or {})}),
        TrainOptions(**{"epochs": 6, "window": 24, "rows": 4, "learning_rate": 0.02, "threads": 1, **options}),
        ForecastOptions(**(forecast or {})),
    )


def trained(plan: Config, path: Path, notes: list[str] | None = None) -> RunDir:
    return working.train("forecasting", plan, path, Callbacks(note=[].append if notes is None else notes.append))


def loaded(run: RunDir) -> ForecastPredictor:
    found = working.load(run.path)
    assert isinstance(found, ForecastPredictor)
    return found


def answers(run: RunDir, source: Path, scores: bool = True) -> list[dict[str, Any]]:
    return [json.loads(line) for line in loaded(run).predict(str(source), PredictOptions(json=True, scores=scores))]


def wave_run(folder: Path) -> RunDir:
    """Trained well enough to beat both naive forecasts."""
    return trained(config(write(folder / "wave.csv", wave()), epochs=20), folder / "run")


def run_of_two(folder: Path) -> RunDir:
    """Two series of very different size in one file, `many.csv`, with a vector for each."""
    one, other = wave(200, seed=1), [1000 * value for value in wave(150, seed=2)]
    lines = write(folder / "a", one, name="small").read_text().splitlines(True)
    lines += write(folder / "b", other, name="large").read_text().splitlines(True)[1:]
    (folder / "many.csv").write_text(lines[0] + "".join(sorted(lines[1:], key=lambda line: line.split(",")[1])))
    return trained(config(folder / "many.csv", {"series": "where"}, {"series_size": 2}), folder / "many")
