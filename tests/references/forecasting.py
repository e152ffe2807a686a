"""Slow twins of the forecaster, value by value from the definitions: changes, features, density, pinball loss."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist


def begin(values: Sequence[float], place: int, relative: str, season: int) -> float | None:
    """What the forecast made after `values[place]` is a change from; None if it is not there."""
    if relative == "none":
        return 0.0
    if relative == "last":
        return values[place]
    last_season = place + 1 - season
    if relative == "season":
        return values[last_season] if last_season >= 0 else None
    if last_season - 1 < 0:
        return None
    return values[place] + values[last_season] - values[last_season - 1]


def change(values: Sequence[float], place: int, relative: str, season: int) -> float | None:
    """What `values[place]` differs from what it was forecast to be a change from."""
    if place < 1 and relative != "none":
        return None
    start = 0.0 if relative == "none" else begin(values, place - 1, relative, season)
    return None if start is None else values[place] - start


def features(
    values: Sequence[float],
    place: int,
    relative: str,
    season: int,
    lags: Sequence[int],
    level: bool,
    value_scale: tuple[float, float],
    change_scale: tuple[float, float],
) -> list[float]:
    """What is read of the values after `values[place]`: values, then changes, each at the lags; 0 if not there."""
    found = []
    if level:
        for lag in (1, *lags):
            at = place + 1 - lag
            found.append((values[at] - value_scale[0]) / value_scale[1] if at >= 0 else 0.0)
    if relative != "none":
        for lag in (1, *lags):
            at = place + 1 - lag
            number = change(values, at, relative, season) if at >= 0 else None
            found.append(0.0 if number is None else (number - change_scale[0]) / change_scale[1])
    return found


def normal_nats(value: float, mean: float, deviation: float) -> float:
    """Minus the log of the normal density."""
    return -math.log(NormalDist(mean, deviation).pdf(value))


def pinball(value: float, quantiles: Sequence[float], levels: Sequence[float]) -> float:
    """Twice the mean pinball loss."""
    losses = [
        level * (value - quantile) if value >= quantile else (1 - level) * (quantile - value)
        for quantile, level in zip(quantiles, levels, strict=True)
    ]
    return 2 * sum(losses) / len(losses)
