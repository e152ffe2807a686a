"""What a forecaster says of the next value, in units in which changes have deviation one: a distribution in numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ostinato.core.errors import ConfigError

LEAST = 1e-3
"""The smallest deviation, so that a series without noise does not ask for an infinite density."""


class ForecastHead(nn.Module):
    """A distribution over one number, made from `size` numbers of the output layer."""

    size: int
    has_density = False

    def begin(self) -> Tensor:
        """The `size` numbers that make a distribution near the standard normal."""
        raise NotImplementedError

    def loss(self, parameters: Tensor, values: Tensor) -> Tensor:
        """The loss [...] of values [...] under parameters [..., size]."""
        raise NotImplementedError

    def centre(self, parameters: Tensor) -> Tensor:
        """The forecast [...] as one number."""
        raise NotImplementedError

    def spread(self, parameters: Tensor) -> Tensor:
        """The variance [...], where the forecast of a logarithm needs it; 0 where the centre is a median."""
        raise NotImplementedError

    def quantile(self, parameters: Tensor, shares: Tensor) -> Tensor:
        """The number [...] that values lie below with the probability shares [...]."""
        raise NotImplementedError

    def nats(self, parameters: Tensor, values: Tensor) -> Tensor:
        """Minus the log of the density [...] of values [...], nats. Raises ConfigError if the head has none."""
        raise ConfigError(
            "quantiles have no density, so a value has no surprise in nats; leave --scores out, or train with "
            "model.head gaussian"
        )


class Gaussian(ForecastHead):
    """A normal distribution: its mean, and its deviation through softplus."""

    size = 2
    has_density = True

    def begin(self) -> Tensor:
        return torch.tensor([0.0, math.log(math.e - 1)])

    def loss(self, parameters: Tensor, values: Tensor) -> Tensor:
        return self.nats(parameters, values)

    def nats(self, parameters: Tensor, values: Tensor) -> Tensor:
        mean, deviation = self._split(parameters)
        return deviation.log() + ((values - mean) / deviation).square() / 2 + math.log(2 * math.pi) / 2

    def centre(self, parameters: Tensor) -> Tensor:
        return parameters[..., 0]

    def spread(self, parameters: Tensor) -> Tensor:
        return self._split(parameters)[1].square()

    def quantile(self, parameters: Tensor, shares: Tensor) -> Tensor:
        mean, deviation = self._split(parameters)
        found: Tensor = mean + deviation * torch.special.ndtri(shares)
        return found

    def _split(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        return parameters[..., 0], nn.functional.softplus(parameters[..., 1]) + LEAST


class Quantiles(ForecastHead):
    """Quantiles at rising levels, 0.5 among them, which cannot cross: the median and the steps away from it.

    The loss is twice the mean pinball loss over the levels [Koenker1978]; with many levels that is the CRPS. Between
    levels, and beyond the outermost ones, the quantile function is a line.
    """

    levels: Tensor

    def __init__(self, levels: Sequence[float]):
        super().__init__()
        self.size, self.middle = len(levels), list(levels).index(0.5)
        self.register_buffer("levels", torch.tensor(levels, dtype=torch.float32), persistent=False)

    def begin(self) -> Tensor:
        steps = torch.special.ndtri(self.levels).diff()
        raw = torch.log(torch.expm1(steps))
        return torch.cat([raw[: self.middle], torch.zeros(1), raw[self.middle :]])

    def quantiles(self, parameters: Tensor) -> Tensor:
        """The quantiles [..., size] at the levels."""
        centre = parameters[..., self.middle, None]
        down = nn.functional.softplus(parameters[..., : self.middle]).flip(-1).cumsum(-1).flip(-1)
        up = nn.functional.softplus(parameters[..., self.middle + 1 :]).cumsum(-1)
        return torch.cat([centre - down, centre, centre + up], -1)

    def loss(self, parameters: Tensor, values: Tensor) -> Tensor:
        errors = values[..., None] - self.quantiles(parameters)
        lost: Tensor = torch.maximum(self.levels * errors, (self.levels - 1) * errors)
        return 2 * lost.mean(-1)

    def centre(self, parameters: Tensor) -> Tensor:
        return parameters[..., self.middle]

    def spread(self, parameters: Tensor) -> Tensor:
        return torch.zeros_like(parameters[..., 0])

    def quantile(self, parameters: Tensor, shares: Tensor) -> Tensor:
        known = self.quantiles(parameters)
        levels = self.levels.to(shares)
        above = torch.searchsorted(levels, shares).clamp(1, self.size - 1)
        low, high = known.gather(-1, above[..., None] - 1)[..., 0], known.gather(-1, above[..., None])[..., 0]
        return low + (high - low) * (shares - levels[above - 1]) / (levels[above] - levels[above - 1])


def make_head(name: str, levels: Sequence[float]) -> ForecastHead:
    """The head of that name: gaussian or quantile."""
    return Gaussian() if name == "gaussian" else Quantiles(levels)
