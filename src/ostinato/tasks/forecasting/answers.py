"""Series as a forecaster reads them, and its forecasts of each step from the true ones before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ostinato.core.config import build
from ostinato.core.errors import ConfigError, DataError
from ostinato.nn.forecaster import Forecaster, ForecasterOptions, Inputs, shifted
from ostinato.nn.lm import evaluating
from ostinato.nn.options import KINDS, RecurrentOptions
from ostinato.tasks.forecasting.data import Corpus, Series
from ostinato.tasks.forecasting.options import ModelOptions
from ostinato.text.bucket import Places, batches_by_length
from ostinato.text.times import Cycle, Numbers, Step, calendar, found_cycles

PIECE = 1024
"""Steps that are read at once where whole series are."""

ROWS, STEPS = 64, 1 << 15
"""Series read side by side, and steps of them, at most."""


@dataclass(frozen=True)
class Reading:
    """How series become numbers: the name of each that is known, the step to the next time, the calendar there."""

    names: tuple[str, ...]
    step: Step
    cycles: tuple[Cycle, ...]

    def number(self, name: str) -> int:
        """The number of a series, 0 if training lacks it."""
        return self.names.index(name) + 1 if name in self.names else 0

    def calendar(self, times: Numbers, ahead: int = 1) -> NDArray[np.float32]:
        """The calendar [..., K] so many steps after times [...]."""
        if not self.cycles:
            return np.zeros((*times.shape, 0), np.float32)
        return calendar(self.step.all_after(times, ahead), self.cycles)


class Stretches:
    """Series of which stretches are read side by side."""

    def __init__(self, reading: Reading, series: Sequence[Series]):
        self.series = series
        self.numbers = np.array([reading.number(one.name) for one in series], np.int64)
        self.calendars = [reading.calendar(one.times) for one in series]
        self.lengths = np.array([len(one) for one in series], np.int64)

    def inputs(self, places: Places, device: torch.device) -> Inputs:
        """The inputs of stretches [B, 3], each of a series from a step to before another; NaN behind the shorter."""
        steps = int((places[:, 2] - places[:, 1]).max())

        def gathered(arrays: Sequence[NDArray[Any]], filler: float) -> Tensor:
            like = arrays[0]
            whole = np.full((len(places), steps, like.shape[1]), filler, like.dtype)
            for row, (number, begin, end) in zip(whole, places.tolist(), strict=True):
                row[: end - begin] = arrays[number][begin:end]
            return torch.from_numpy(whole).to(device)

        values = gathered([one.values for one in self.series], np.nan)
        covariates = gathered([one.covariates for one in self.series], 0)
        numbers = torch.from_numpy(self.numbers[places[:, 0]]).to(device)
        return Inputs(values, covariates, gathered(self.calendars, 0), numbers)

    def pasts(self, places: Places, past: int, device: torch.device) -> Tensor:
        """The `past` values before each stretch, [B, past, D], NaN before the first step of a series."""
        found = np.full((len(places), past, self.series[0].values.shape[1]), np.nan)
        for row, (number, begin, _) in zip(found, places.tolist(), strict=True):
            known = min(past, begin)
            row[past - known :] = self.series[number].values[begin - known : begin]
        return torch.from_numpy(found).to(device)


class Said(NamedTuple):
    """What was forecast for every step [N, D] of a series from those before it, NaN for the first.

    losses: what training would make small. misses: distances in widths of the interval, see `Forecaster.misses`.
    nats: the surprise; NaN if the head has no density.
    """

    mean: Numbers
    low: Numbers
    high: Numbers
    losses: Numbers
    misses: Numbers
    nats: Numbers


def one_step(network: Forecaster, reading: Reading, series: Sequence[Series]) -> list[Said]:
    """The forecasts of every step of series from the true steps before it, the state carried from the first on."""
    stretches, found = Stretches(reading, series), {}
    with evaluating(network):
        for places in batches_by_length(stretches.lengths, ROWS, STEPS):
            for place, said in zip(places.tolist(), _said(network, stretches, places), strict=True):
                found[place] = said
    return [found[place] for place in range(len(series))]


def _said(network: Forecaster, stretches: Stretches, places: Places) -> list[Said]:
    """Of the series at `places`, side by side."""
    device = network.value_scale.device
    state, most = network.init_state(len(places)), int(stretches.lengths[places].max())
    pieces: list[list[Tensor]] = []
    for begin in range(0, most - 1, PIECE):
        spans = [(place, min(begin, stretches.lengths[place]), _end(begin, stretches, place)) for place in places]
        inputs = stretches.inputs(np.array(spans, np.int64), device)
        following = inputs.values[:, 1:]
        read = Inputs(inputs.values[:, :-1], inputs.covariates[:, :-1], inputs.calendar[:, :-1], inputs.series)
        forecast, state = network.scan(state, read)
        nats = network.nats(forecast, following) if network.head.has_density else torch.full_like(following, torch.nan)
        judged = network.losses(forecast, following), network.misses(forecast, following), nats
        parts = network.mean(forecast), *network.interval(forecast), *judged
        pieces.append([part.double().cpu() for part in parts])
    whole = [torch.cat(parts, 1).numpy() for parts in zip(*pieces, strict=True)] if pieces else []
    return [_of_row(whole, row, int(stretches.lengths[place])) for row, place in enumerate(places.tolist())]


def _end(begin: int, stretches: Stretches, place: int) -> int:
    """A stretch holds the step after those that are read, so that each has the one it forecasts."""
    return int(max(min(begin, stretches.lengths[place]), min(begin + PIECE + 1, stretches.lengths[place])))


def _of_row(whole: Sequence[Numbers], row: int, length: int) -> Said:
    if not whole:
        raise DataError("no series has two rows, so there is nothing to forecast; give more rows")
    parts = []
    for part in whole:
        first = np.full((1, part.shape[2]), np.nan)
        parts.append(np.concatenate([first, part[row, : length - 1]]))
    return Said(*parts)


def scales(network: Forecaster, corpus: Corpus) -> dict[str, Tensor]:
    """Means and deviations of values, changes and covariates in the training part, by the names of the buffers."""
    values, changes, covariates = [], [], []
    for one in corpus.series:
        end = one.ends[0]
        came = torch.from_numpy(np.where(one.came, one.values, np.nan)[None, :end])
        whole = network.inward(came)
        values.append(whole[0])
        changes.append((whole - shifted(network.begins(whole), 1))[0])
        covariates.append(torch.from_numpy(one.covariates[:end]))
    return {
        "value_scale": torch.stack([_scale(part) for part in (torch.cat(values), *values)]),
        "change_scale": torch.stack([_scale(part) for part in (torch.cat(changes), *changes)]),
        "covariate_scale": _scale(torch.cat(covariates)),
    }


def _scale(numbers: Tensor) -> Tensor:
    """Mean and deviation [2, D] of numbers [N, D] without NaN; deviation 1 of what never changes."""
    known = ~numbers.isnan()
    count = known.sum(0).clamp_min(1)
    mean = numbers.nan_to_num(0.0).sum(0) / count
    deviation = ((numbers - mean).nan_to_num(0.0).square().sum(0) / count).sqrt()
    still = deviation <= 1e-12 * mean.abs().clamp_min(1e-300)
    return torch.stack([mean, torch.where(still, 1.0, deviation)])


def forecaster_options(model: ModelOptions, corpus: Corpus) -> tuple[ForecasterOptions, tuple[Cycle, ...]]:
    """What the network of a configuration reads and says of this data. Raises ConfigError for what cannot be."""
    season = corpus.season
    if model.relative in ("season", "both") and season < 2:
        raise ConfigError(f"model.relative {model.relative} needs a season, and this data has none; set data.season")
    lags = ((season,) if season > 1 else ()) if model.lags is None else model.lags
    cycles = _cycles(model, corpus)
    options = ForecasterOptions(
        values=len(corpus.columns.values),
        covariates=len(corpus.columns.covariates),
        calendar=2 * len(cycles),
        series=len(corpus.series),
        series_size=model.series_size,
        head=model.head,
        levels=model.levels if model.head == "quantile" else (),
        relative=model.relative,
        season=season,
        lags=lags,
        level=model.level,
        log=model.log,
        direct=model.direct,
    )
    for one in corpus.series:
        if one.ends[0] < max(season, options.back + 1, *(lag + 1 for lag in lags), 2) + 1:
            of = f" of series {one.name!r}" if one.name else ""
            raise DataError(
                f"{one.ends[0]} training rows{of} are not more than a season of {season} steps and what model.lags and "
                "model.relative look back to; give more rows, or a smaller data.season"
            )
    return options, cycles


def _cycles(model: ModelOptions, corpus: Corpus) -> tuple[Cycle, ...]:
    if model.calendar is None:
        span = max(float(one.times[one.ends[0] - 1] - one.times[0]) for one in corpus.series)
        return found_cycles(corpus.step, span) if corpus.columns.clock.kind == "date" else ()
    cycles = tuple(cycle for cycle in model.calendar if cycle != "none")
    if cycles and corpus.columns.clock.kind != "date":
        raise ConfigError(f"model.calendar {', '.join(cycles)}: this data has no dates; leave it out")
    return cycles


def description(network: Forecaster, reading: Reading) -> dict[str, Any]:
    """What a model file must say so that `described` makes the network again."""
    cells = {"cell": network.kind, "cells": asdict(network.cells)}
    return {**cells, "options": asdict(network.options), "reading": asdict(reading)}


def described(about: dict[str, Any], where: str) -> tuple[Forecaster, Reading]:
    """The network of a `description`, its weights not yet set. Raises KeyError, ConfigError."""
    kind = str(about["cell"])
    cells = build(KINDS[kind], about["cells"], where)
    assert isinstance(cells, RecurrentOptions)
    network = Forecaster(kind, cells, build(ForecasterOptions, about["options"], where))
    return network, build(Reading, about["reading"], where)
