"""Errors of forecasts in the series' own unit and against the naive forecast, and how often intervals hold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ostinato.core.errors import DataError, ShapeError
from ostinato.core.score import signature
from ostinato.tasks.metrics.measure import Measure

Numbers: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class ForecastScore(Measure):
    """How far forecasts are from what came.

    count: values judged. missing: values that never came (NaN) and were left out. mae, rmse: in the unit of the
    series. mase: the mean absolute error over that of the naive forecast in training, below 1 if better; None
    without its scale, or if that is zero. coverage: the share of values in their interval, whose mean width is
    `width`; None without intervals.
    """

    mae: float
    rmse: float
    mase: float | None = None
    coverage: float | None = None
    width: float | None = None
    missing: int = 0

    def __str__(self) -> str:
        mase = "" if self.mase is None else f", MASE {self.mase:.3f}"
        inside = "" if self.coverage is None else f", {100 * self.coverage:.1f}% in their interval"
        return f"RMSE {self.rmse:.4g}, MAE {self.mae:.4g}{mase}{inside} ({self.count:,} values) [{self.signature}]"


def forecast_score(
    actual: ArrayLike,
    forecast: ArrayLike,
    scale: ArrayLike | None = None,
    interval: tuple[ArrayLike, ArrayLike] | None = None,
    **facts: object,
) -> ForecastScore:
    """How far `forecast` is from `actual`, of any equal shape; NaN in `actual` is a value that never came.

    scale: of `naive_scale`, one for all or one for each value (as [series, 1] beside [series, time]). interval: lower
    and upper ends, which belong to it. facts: for the signature, first the data, and what the forecasts had read.
    Raises ShapeError if shapes differ, DataError for a forecast that is not finite or if no value is left.
    Source: [Hyndman2006] for MASE.
    """
    true, predicted = _array(actual), _array(forecast)
    came = ~np.isnan(true)
    error = np.abs(_fitted(predicted, true, "forecasts") - true)[came]
    if not error.size:
        raise DataError("no values to judge the forecasts by; give a series with values after its training part")
    if not np.isfinite(error).all():
        raise DataError(f"{int((~np.isfinite(error)).sum()):,} of {error.size:,} forecasts or values are not finite")
    ends = None if interval is None else [_fitted(_array(end), true, "interval ends")[came] for end in interval]
    inside = None if ends is None else (ends[0] <= true[came]) & (true[came] <= ends[1])
    return ForecastScore(
        count=error.size,
        signature=signature(**facts),
        mae=float(error.mean()),
        rmse=math.sqrt(float(np.square(error).mean())),
        mase=None if scale is None else _mase(error, np.broadcast_to(_array(scale), true.shape)[came]),
        coverage=None if inside is None else float(inside.mean()),
        width=None if ends is None else float((ends[1] - ends[0]).mean()),
        missing=int((~came).sum()),
    )


def naive_scale(training: ArrayLike, season: int = 1) -> float:
    """The mean absolute change over a season in the training part [T] of a series: what divides the error in MASE.

    season: 1 for persistence. NaN is left out; 0 for a series that never changes. Raises DataError if the series is
    not longer than a season. Source: [Hyndman2006].
    """
    series = _array(training)
    if series.ndim != 1:
        raise ShapeError(f"one series [T] has a scale, got shape {series.shape}; take them one by one")
    if season < 1 or len(series) <= season:
        raise DataError(f"{len(series)} values in training, but a season is {season}; give more than one season")
    changes = np.abs(series[season:] - series[:-season])
    changes = changes[~np.isnan(changes)]
    if not changes.size:
        raise DataError("no two values of the training part lie a season apart; too much of it is missing")
    return float(changes.mean())


def _mase(error: Numbers, scale: Numbers) -> float | None:
    return float((error / scale).mean()) if (scale > 0).all() else None


def _array(values: ArrayLike) -> Numbers:
    return np.asarray(values, np.float64)


def _fitted(values: Numbers, true: Numbers, what: str) -> Numbers:
    if values.shape != true.shape:
        raise ShapeError(f"{what} of shape {values.shape} for values of shape {true.shape}")
    return values
