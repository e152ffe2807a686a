"""More than one step ahead: futures drawn step by step from what the network says, or its own forecast read as true."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ostinato.core.state import map_leaves
from ostinato.nn.forecaster import INTERVAL, Forecast, Forecaster, ForecasterState, Inputs
from ostinato.tasks.forecasting.answers import Reading
from ostinato.tasks.forecasting.options import ForecastOptions
from ostinato.text.times import Numbers

AT_ONCE = 8192
"""Futures that are drawn side by side."""


class Standing(NamedTuple):
    """Where B series stand: what the network knows, says of the next step, and the last step that it has read."""

    state: ForecasterState
    forecast: Forecast  # [B, 1, D]
    values: Tensor  # [B, D]
    covariates: Tensor  # [B, C]
    times: Tensor  # [B]


class Future(NamedTuple):
    """Forecasts [B, H, D] and the ends of their intervals, NaN where they have none."""

    mean: Numbers
    low: Numbers
    high: Numbers


def look_ahead(
    network: Forecaster, reading: Reading, names: list[str], standing: Standing, options: ForecastOptions, seed: int
) -> Future:
    """The forecasts of the next steps of the series of these names.

    The futures of a series depend on the seed, its name and its time, and not on what else is asked. Beyond the first
    step covariates stay what they were.
    """
    paths, size = max(1, options.paths), len(names)
    if options.horizon == 1:
        return Future(*_told(network, standing.forecast))
    rows = max(1, AT_ONCE // paths)
    parts = [
        _some(network, reading, names[begin : begin + rows], _picked(standing, begin, begin + rows), options, seed)
        for begin in range(0, size, rows)
    ]
    return Future(*(np.concatenate(found) for found in zip(*parts, strict=True)))


def _picked(standing: Standing, begin: int, end: int) -> Standing:
    picked: Standing = map_leaves(lambda leaf: leaf[begin:end], standing)
    return picked


def _some(
    network: Forecaster, reading: Reading, names: list[str], standing: Standing, options: ForecastOptions, seed: int
) -> Future:
    paths, size, horizon = max(1, options.paths), len(names), options.horizon
    device, times = standing.values.device, standing.times.cpu().numpy()
    shares = torch.from_numpy(_shares(seed, names, times, paths, horizon, standing.values.shape[1])).to(device)
    repeated: Standing = map_leaves(lambda leaf: leaf.repeat_interleave(paths, 0), standing)
    state, forecast = repeated.state, repeated.forecast
    numbers = torch.tensor([reading.number(name) for name in names], device=device).repeat_interleave(paths)
    means, drawn = [], []
    for step in range(1, horizon + 1):
        mean = network.mean(forecast)
        value = network.quantile(forecast, shares[:, step - 1 : step]) if options.paths else mean
        means.append(mean[:, 0])
        drawn.append(value[:, 0])
        if step == horizon:
            break
        ahead = torch.from_numpy(reading.calendar(times, step + 1)).to(device).repeat_interleave(paths, 0)
        inputs = Inputs(value, repeated.covariates[:, None], ahead[:, None], numbers)
        forecast, state = network.scan(state, inputs)
    whole = [torch.stack(found, 1).reshape(size, paths, horizon, -1) for found in (means, drawn)]
    told = [whole[0].mean(1).cpu().numpy()]
    for share in ((1 - INTERVAL) / 2, (1 + INTERVAL) / 2):
        end = whole[1].quantile(share, 1).cpu().numpy()
        told.append(end if options.paths else np.full_like(end, np.nan))
    for part, first in zip(told, _told(network, standing.forecast), strict=True):
        part[:, :1] = first  # of the first step the distribution itself is known
    return Future(*told)


def _told(network: Forecaster, forecast: Forecast) -> tuple[Numbers, Numbers, Numbers]:
    """The forecast [B, 1, D] of the next step and the ends of its interval."""
    mean, (low, high) = network.mean(forecast), network.interval(forecast)
    return mean.cpu().numpy(), low.cpu().numpy(), high.cpu().numpy()


def _shares(seed: int, names: list[str], times: Numbers, paths: int, horizon: int, size: int) -> NDArray[np.float64]:
    """Numbers [series x paths, horizon, size] between 0 and 1, drawn for each series by itself."""
    found = []
    for name, time in zip(names, times.tolist(), strict=True):
        key = hashlib.sha256(f"{seed}|{name}|{time!r}".encode("utf8", "surrogatepass")).digest()
        random = np.random.default_rng(int.from_bytes(key[:8], "little"))
        found.append(random.random((paths, horizon, size)))
    return np.clip(np.concatenate(found), 1e-9, 1 - 1e-9)
