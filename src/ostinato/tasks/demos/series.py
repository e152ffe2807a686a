"""A series by the hour: a day's wave that is another at the week's end, a slow trend, and noise; generated."""

from __future__ import annotations

import math
import random
from datetime import datetime, timedelta
from pathlib import Path

from ostinato.tasks.demos.prepared import Prepared, write_lines
from ostinato.tasks.forecasting.options import Config, DataOptions, ForecastOptions, ModelOptions, TrainOptions

BEGIN, HOURS = datetime(2024, 1, 1), 24 * 7 * 26
NOISE = 1.5


def series(folder: Path, share: float = 1.0) -> Prepared:
    """Half a year of hours; the last fifth judges, a day ahead."""
    draw = random.Random(1)
    times = [BEGIN + timedelta(hours=hour) for hour in range(int(HOURS * share))]
    drift = 0.0
    lines = []
    for time in times:
        drift = 0.995 * drift + draw.gauss(0, NOISE / 2)
        lines.append(f"{time:%Y-%m-%d %H:%M},{load(time) + drift + draw.gauss(0, NOISE):.2f}")
    path = write_lines(folder / "load.csv", ["time,load", *lines])
    asked = write_lines(folder / "asked.csv", ["time,load", *lines[-24 * 14 :]])
    config = Config(
        DataOptions(train=(path,), valid_part=0.1, test_part=0.2),
        ModelOptions(kind="gru", hidden=32, relative="season"),
        TrainOptions(epochs=30, rows=16, window=72),
        ForecastOptions(horizon=1),
    )
    beside: dict[str, float | str] = {
        "the last value": "persistence_rmse",
        "the value a day ago": "seasonal-naive_rmse",
    }
    return Prepared("forecasting", config, asked, (), beside=beside)


def load(time: datetime) -> float:
    """What is used in an hour, as of electricity: little at night, most in the evening, less at the week's end."""
    hour, weekend = time.hour, time.weekday() >= 5
    day = 100 - 25 * math.cos(2 * math.pi * (hour - 3) / 24) - 10 * math.cos(4 * math.pi * (hour - 1) / 24)
    return day * (0.8 if weekend else 1.0) + 0.002 * (time - BEGIN).total_seconds() / 3600
