"""A recurrent forecaster: the values of a series one step at a time, and after each a distribution of the next.

Values go in and out in their own unit: how large those of a series are, and their changes, is kept beside the weights.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Literal, NamedTuple

import torch
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from ostinato.core.config import STRICT
from ostinato.nn.forecast_heads import make_head
from ostinato.nn.networks import make_cell
from ostinato.nn.options import RecurrentOptions
from ostinato.nn.unroll import Stack, StackState

INTERVAL = 0.9
"""The probability that a value lies in its interval."""

NEAR_ZERO = 0.01
"""How far from zero the output layer begins at most: near enough to say little, far enough to pass gradients on."""


@dataclass(frozen=True, config=STRICT)
class ForecasterOptions:
    """What a forecaster reads and says, beside its layers.

    values, covariates, calendar: numbers a step has of each. series: how many there are; series_size: numbers in the
    vector of each, 0 for none. relative: what a forecast is a change from. season: steps in one. lags: the forecast
    value lies so many steps behind. level: read values, not only their changes. log: work with logarithms. direct: the
    output layer reads what the recurrent layers read too.
    """

    values: int
    covariates: int = 0
    calendar: int = 0
    series: int = 1
    series_size: int = 0
    head: Literal["gaussian", "quantile"] = "gaussian"
    levels: tuple[float, ...] = ()
    relative: Literal["none", "last", "season", "both"] = "last"
    season: int = 1
    lags: tuple[int, ...] = ()
    level: bool = True
    log: bool = False
    direct: bool = True

    @property
    def back(self) -> int:
        """Steps from a value back to the oldest one that it is a change from."""
        return {"none": 0, "last": 1, "season": self.season, "both": self.season + 1}[self.relative]

    @property
    def past(self) -> int:
        """Values before the last one that must be known."""
        return max((lag - 1 for lag in self.lags), default=0) + self.back

    @property
    def features(self) -> int:
        """Numbers that are read at a step."""
        forms = self.level + (self.relative != "none")
        return forms * self.values * (1 + len(self.lags)) + self.covariates + self.calendar + self.series_size


class Inputs(NamedTuple):
    """What is read at T steps of B series. Numbers are in their own unit, a value that is not known is NaN."""

    values: Tensor  # [B, T, values] float64
    covariates: Tensor  # [B, T, covariates] float64
    calendar: Tensor  # [B, T, calendar] float32, of the time that is forecast
    series: Tensor  # [B] int64, from 1; 0 is a series that training lacks


class ForecasterState(NamedTuple):
    stack: StackState
    past: Tensor  # [B, past, values] float64, NaN before the first


class Forecast(NamedTuple):
    """A distribution of the next value after each step: `centre` + `scale` times what the head says."""

    centre: Tensor  # [B, T, values] float64
    scale: Tensor  # [B, T, values] float64
    parameters: Tensor  # [B, T, values, head] of the weights' type


class Forecaster(nn.Module):
    """A stack of cells that reads values and their changes, and a head that says how the next one will differ.

    With relative last, the forecast after y_t is y_t + m + s h, where the change from a value to the next had mean m
    and deviation s in training and h is of the head; with season it begins at y_{t+1-season}, with both at
    y_t + y_{t+1-season} - y_{t-season}, with none at 0. Until a season has been read y_t stands in. The output layer
    begins near zero, so that an untrained network says about that. direct: as [Lai2018], a linear path beside the
    recurrent one.
    """

    value_scale: Tensor  # [series + 1, 2, values] float64: mean and deviation of values; row 0 of all series together
    change_scale: Tensor  # [series + 1, 2, values]: those of what is forecast
    covariate_scale: Tensor  # [2, covariates]
    stretch: Tensor  # [values]: what deviations from the centre are multiplied by, see `calibrate`

    def __init__(self, kind: str, cells: RecurrentOptions, options: ForecasterOptions):
        super().__init__()
        self.kind, self.cells, self.options = kind, cells, options
        self.stack = Stack(partial(make_cell, kind, cells), options.features, cells)
        self.head = make_head(options.head, options.levels)
        size = self.stack.output_size + (options.features if options.direct else 0)
        self.output = nn.Linear(size, options.values * self.head.size)
        nn.init.uniform_(self.output.weight, -NEAR_ZERO, NEAR_ZERO)
        self.output.bias.data = self.head.begin().repeat(options.values)
        rows, sized = options.series + 1, options.series_size
        self.series = nn.Embedding(rows, sized, padding_idx=0) if sized else None
        for name, shape in (
            ("value_scale", (rows, 2, options.values)),
            ("change_scale", (rows, 2, options.values)),
            ("covariate_scale", (2, options.covariates)),
        ):
            scale = torch.zeros(shape, dtype=torch.float64)
            scale.select(-2, 1).fill_(1)
            self.register_buffer(name, scale)
        self.register_buffer("stretch", torch.ones(options.values, dtype=torch.float64))

    def set_scales(self, scales: Mapping[str, Tensor]) -> None:
        """Set the means and deviations of values, changes and covariates, by the names of the buffers."""
        for name, scale in scales.items():
            getattr(self, name).copy_(scale)

    def init_state(self, batch: int) -> ForecasterState:
        """The state of `batch` series of which nothing is known."""
        past = self.value_scale.new_full((batch, self.options.past, self.options.values), torch.nan)
        return ForecasterState(self.stack.init_state(batch), past)

    def scan(self, state: ForecasterState, inputs: Inputs) -> tuple[Forecast, ForecasterState]:
        """Read T steps, at least 1; return the forecast after each, and the state after the last."""
        whole = torch.cat([state.past, self.inward(inputs.values)], 1)
        steps = inputs.values.shape[1]
        begins = self.begins(whole)
        xs = self.features(whole, begins, inputs)
        outputs, stack = self.stack.scan(state.stack, xs)
        with torch.autocast(xs.device.type, enabled=False):  # small, and forecasts are worth their digits
            read = torch.cat([outputs.to(xs), xs], -1) if self.options.direct else outputs.to(xs)
            parameters = self.output(read).unflatten(-1, (self.options.values, self.head.size))
        mean, deviation = self.change_scale[inputs.series, None].unbind(2)
        begun = torch.where(begins.isnan(), whole, begins)[:, -steps:]
        past = whole[:, whole.shape[1] - self.options.past :]
        return Forecast(begun + mean, deviation.expand_as(begun), parameters), ForecasterState(stack, past)

    def begins(self, whole: Tensor) -> Tensor:
        """What the forecast after each of the values [B, P, values] is a change from; NaN if that is not known."""
        relative, season = self.options.relative, self.options.season
        if relative == "none":
            return torch.zeros_like(whole)
        if relative == "last":
            return whole
        seasonal = shifted(whole, season - 1)
        return seasonal if relative == "season" else whole + seasonal - shifted(whole, season)

    def features(self, whole: Tensor, begins: Tensor, inputs: Inputs) -> Tensor:
        """What the stack reads [B, T, features], 0 for what is not known."""
        options, steps = self.options, inputs.values.shape[1]
        forms = []
        if options.level:
            mean, deviation = self.value_scale[inputs.series, None].unbind(2)
            forms.append((whole - mean) / deviation)
        if options.relative != "none":
            mean, deviation = self.change_scale[inputs.series, None].unbind(2)
            forms.append((whole - shifted(begins, 1) - mean) / deviation)
        parts = [shifted(form, lag - 1)[:, -steps:] for form in forms for lag in (1, *options.lags)]
        parts.append((inputs.covariates - self.covariate_scale[0]) / self.covariate_scale[1])
        xs = [torch.cat(parts, -1).nan_to_num(0.0), inputs.calendar]
        if self.series is not None:
            xs.append(self.series(inputs.series)[:, None].expand(-1, steps, -1))
        return torch.cat([part.to(self.output.weight) for part in xs], -1)

    def inward(self, values: Tensor) -> Tensor:
        """Values as the network works with them."""
        return values.log() if self.options.log else values

    def standardised(self, forecast: Forecast, values: Tensor) -> Tensor:
        """Values as the head sees them: 0 and 1 are the mean and deviation of changes in training."""
        return (self.inward(values) - forecast.centre) / forecast.scale

    def loss(self, forecast: Forecast, values: Tensor, counted: Tensor) -> Tensor:
        """The summed loss of values [B, T, values] under the forecasts before them, where `counted` [B, T, values].

        Nats of the changes in units of their deviation; of quantiles, the pinball loss in these units.
        """
        parameters = forecast.parameters[counted]
        return self.head.loss(parameters, self.standardised(forecast, values)[counted].to(parameters)).sum()

    def losses(self, forecast: Forecast, values: Tensor) -> Tensor:
        """The loss [B, T, values] of each value, NaN where it is."""
        return self.head.loss(forecast.parameters, self.standardised(forecast, values).to(forecast.parameters))

    def mean(self, forecast: Forecast) -> Tensor:
        """The forecast [B, T, values] as one number: the mean; of quantiles, the median."""
        centre = forecast.centre + forecast.scale * self.head.centre(forecast.parameters).double()
        if not self.options.log:
            return centre
        spread = (forecast.scale * self.stretch).square() * self.head.spread(forecast.parameters).double()
        return (centre + spread / 2).exp()  # the mean of a log-normal distribution

    def quantile(self, forecast: Forecast, shares: Tensor) -> Tensor:
        """The value that lies above the next one with the probability shares [B, T, values]."""
        parameters = forecast.parameters.double()
        centre, numbers = self.head.centre(parameters), self.head.quantile(parameters, shares.double())
        found = forecast.centre + forecast.scale * (centre + self.stretch * (numbers - centre))
        return found.exp() if self.options.log else found

    def interval(self, forecast: Forecast) -> tuple[Tensor, Tensor]:
        """The ends [B, T, values] between which the next value lies with the probability INTERVAL."""
        shares = torch.full_like(forecast.centre, (1 - INTERVAL) / 2)
        return self.quantile(forecast, shares), self.quantile(forecast, 1 - shares)

    def misses(self, forecast: Forecast, values: Tensor) -> Tensor:
        """How far values [B, T, values] lie from the centre, in widths of the unstretched interval on their side."""
        parameters, numbers = forecast.parameters.double(), self.standardised(forecast, values)
        below, centre, above = (
            self.head.quantile(parameters, torch.full_like(numbers, share))
            for share in ((1 - INTERVAL) / 2, 0.5, (1 + INTERVAL) / 2)
        )
        return torch.maximum((centre - numbers) / (centre - below), (numbers - centre) / (above - centre))

    def calibrate(self, misses: Tensor, column: int) -> None:
        """Widen the intervals of a value until their share INTERVAL holds `misses` [N] seen out of training.

        Source: [Lei2018] section 2: the ceil((N + 1) INTERVAL)-th smallest of N scores, or the largest. Differs: never
        narrower than the head says, since what chooses the weights flatters them.
        """
        place = min(math.ceil((len(misses) + 1) * INTERVAL), len(misses))
        self.stretch[column] = misses.sort().values[place - 1].clamp_min(1.0) if len(misses) else 1.0

    def nats(self, forecast: Forecast, values: Tensor) -> Tensor:
        """The surprise [B, T, values] of values: minus the log of their density, in their own unit.

        Raises ConfigError if the head has no density.
        """
        parameters, numbers = forecast.parameters.double(), self.standardised(forecast, values)
        centre = self.head.centre(parameters)
        found = self.head.nats(parameters, centre + (numbers - centre) / self.stretch)
        found = found + (forecast.scale * self.stretch).log()
        return found + values.log() if self.options.log else found


def shifted(xs: Tensor, steps: int) -> Tensor:
    """`xs` [B, T, D] so many steps later, NaN in front."""
    if not steps:
        return xs
    front = torch.full_like(xs[:, :steps], torch.nan)
    return torch.cat([front, xs[:, :-steps]], 1)
