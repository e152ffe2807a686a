"""Series as their rows come: after each the forecast of the next steps, and a state of fixed size between them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from ostinato.core import state as states
from ostinato.core.errors import FormatError, MismatchError
from ostinato.core.state import map_leaves
from ostinato.nn.forecaster import Forecaster, Inputs
from ostinato.nn.lm import evaluating
from ostinato.tasks.forecasting.ahead import Future, Standing, look_ahead
from ostinato.tasks.forecasting.answers import PIECE, Reading, Stretches
from ostinato.tasks.forecasting.data import Series
from ostinato.tasks.forecasting.options import ForecastOptions
from ostinato.tasks.forecasting.rows import MOST, Even, Evenness, Follower
from ostinato.text.series import Row
from ostinato.text.times import Numbers

FORMAT = 1
"""Version of saved streams; a newer one is refused."""


@dataclass(frozen=True)
class Model:
    """What answers: a network, how it reads, what rows must be like, and how far it looks ahead.

    fingerprint: of the weights, which saved streams belong to. pasts: the rows of the run by series.
    """

    network: Forecaster
    reading: Reading
    rule: Evenness
    options: ForecastOptions
    seed: int
    fingerprint: str
    pasts: Mapping[str, Series] = field(default_factory=dict)

    def past_of(self, row: Row) -> Series | None:
        """The rows of the run that come before a row of the same series, if it goes on from them; else None."""
        past = self.pasts.get(row.series)
        if past is None or self.rule.clock.kind == "row":
            return None
        past = past.before(int(np.searchsorted(past.times, row.time)))
        if not len(past):
            return None
        steps = self.rule.step.between(float(past.times[-1]), row.time)
        fills = self.rule.irregular == "fill" and steps is not None and steps <= MOST
        return past if steps == 1 or fills or self.rule.irregular == "keep" else None


@dataclass(frozen=True)
class Answer:
    """What is said after a row: the time and the values [D] it was read as, how surprising these were (nats, NaN where
    none was expected or came), and the times and forecasts [H, D] of the next steps."""

    series: str
    time: float
    surprise: Numbers
    times: tuple[float, ...]
    mean: Numbers
    low: Numbers
    high: Numbers


class Stream:
    """Reads rows of any series one after another; each series has its own state of fixed size.

    Of a series that goes on from the rows of the run, these are read first.
    """

    def __init__(self, model: Model):
        self.model = model
        model.network.eval()
        self._followers: dict[str, Follower] = {}
        self._standings: dict[str, Standing] = {}

    def __len__(self) -> int:
        """How many series have been read."""
        return len(self._standings)

    def read(self, row: Row, scored: bool = True) -> Answer:
        """Read a row and forecast what comes; scored: with the surprise of its values.

        Raises DataError, with file and line, for a row that is missing or out of step, as the run's options say, and
        ConfigError if surprise is asked for and the head has none.
        """
        with torch.inference_mode():
            if row.series not in self._followers:
                self._begin(row)
            follower, standing = self._followers[row.series], self._standings.get(row.series)
            before = standing
            for even in follower.follow(row):
                before, standing = standing, self._step(row.series, standing, even)
            assert standing is not None
            assert follower.last is not None
            self._standings[row.series] = standing
            surprise = self._surprise(before, follower.last, scored)
            future = self._ahead(row.series, standing)
            return self._answer(row.series, follower.last, surprise, future)

    def _begin(self, row: Row) -> None:
        past = self.model.past_of(row)
        self._followers[row.series] = Follower(self.model.rule, None if past is None else past.last)
        if past is not None:
            self._standings[row.series] = stood(self.model, past)

    def _step(self, name: str, standing: Standing | None, even: Even) -> Standing:
        network, reading = self.model.network, self.model.reading
        device = network.value_scale.device
        state = network.init_state(1) if standing is None else standing.state

        def tensor(numbers: Sequence[float]) -> Tensor:
            return torch.tensor([numbers], dtype=torch.float64, device=device)

        values, covariates = tensor(even.values), tensor(even.covariates)
        ahead = torch.from_numpy(reading.calendar(np.array([even.time]))).to(device)
        number = torch.tensor([reading.number(name)], device=device)
        forecast, state = network.scan(state, Inputs(values[:, None], covariates[:, None], ahead[:, None], number))
        return Standing(state, forecast, values, covariates, tensor([even.time])[0])

    def _surprise(self, before: Standing | None, even: Even, scored: bool) -> Numbers:
        unknown = np.full(len(even.values), np.nan)
        if before is None or not scored:
            return unknown
        network = self.model.network
        values = torch.tensor([[even.values]], dtype=torch.float64, device=before.values.device)
        nats = network.nats(before.forecast, values)[0, 0].cpu().numpy()
        return np.where(even.came, nats, unknown)

    def _ahead(self, name: str, standing: Standing) -> Future:
        model = self.model
        return look_ahead(model.network, model.reading, [name], standing, model.options, model.seed)

    def _answer(self, name: str, even: Even, surprise: Numbers, future: Future) -> Answer:
        step = self.model.rule.step
        times = tuple(step.after(even.time, count) for count in range(1, self.model.options.horizon + 1))
        return Answer(name, even.time, surprise, times, future.mean[0], future.low[0], future.high[0])

    def to_bytes(self) -> bytes:
        """All that must be kept to go on: a header, then the states of all series."""
        names = list(self._standings)
        body = states.to_bytes(states.stack([_to_numpy(self._standings[name]) for name in names])) if names else b""
        came = [self._came(name) for name in names]
        header = {"ostinato": "forecasts", "format": FORMAT, "model": self.model.fingerprint, "series": names}
        kept = {**header, "came": came, "digest": _digest(names, body)}
        return json.dumps(kept, ensure_ascii=True).encode() + b"\n" + body

    def _came(self, name: str) -> list[bool]:
        last = self._followers[name].last
        assert last is not None
        return list(last.came)

    @classmethod
    def from_bytes(cls, model: Model, data: bytes) -> Stream:
        """The stream that `to_bytes` wrote. Raises FormatError if it is damaged, MismatchError if of another model."""
        head, _, body = data.partition(b"\n")
        try:
            header = json.loads(head)
            names, made_by, version = list(header["series"]), str(header["model"]), int(header["format"])
            came, digest = [tuple(map(bool, row)) for row in header["came"]], str(header["digest"])
        except (ValueError, TypeError, KeyError):
            raise FormatError(f"these {len(data)} bytes are not a saved stream of forecasts; begin a new one") from None
        if version > FORMAT:
            raise FormatError(f"a stream of format {version}, this version reads up to {FORMAT}; upgrade Ostinato")
        if made_by != model.fingerprint:
            raise MismatchError(
                f"the stream belongs to model {made_by[:12]}, this one is {model.fingerprint[:12]}; go on with the run "
                "that it was made with, or begin a new one"
            )
        if digest != _digest(names, body):
            raise FormatError("the stream was cut short or changed after saving; begin a new one")
        stream = cls(model)
        if names:
            stream._restore(names, came, states.from_bytes(body, _to_numpy(stream._like())))
        return stream

    def _restore(self, names: list[str], came: list[tuple[bool, ...]], state: states.State) -> None:
        device = self.model.network.value_scale.device
        for row, name in enumerate(names):
            one = states.take(state, np.array([row]))
            standing: Standing = map_leaves(lambda leaf: torch.from_numpy(leaf.copy()).to(device), one)
            values, covariates = tuple(standing.values[0].tolist()), tuple(standing.covariates[0].tolist())
            last = Even(float(standing.times[0]), values, came[row], covariates, "")
            self._standings[name], self._followers[name] = standing, Follower(self.model.rule, last)

    def _like(self) -> Standing:
        """A standing of any series, for its structure."""
        options = self.model.network.options
        with torch.inference_mode():
            nothing = Even(0.0, (1.0,) * options.values, (True,) * options.values, (0.0,) * options.covariates, "")
            return self._step("", None, nothing)


def stood(model: Model, series: Series) -> Standing:
    """Where a series stands when all of it has been read."""
    network, stretches = model.network, Stretches(model.reading, [series])
    device, state = network.value_scale.device, network.init_state(1)
    with evaluating(network):
        for begin in range(0, len(series), PIECE):
            span = np.array([[0, begin, min(begin + PIECE, len(series))]], np.int64)
            forecast, state = network.scan(state, stretches.inputs(span, device))
    return Standing(
        state,
        map_leaves(lambda leaf: leaf[:, -1:], forecast),
        torch.from_numpy(series.values[-1:]).to(device),
        torch.from_numpy(series.covariates[-1:]).to(device),
        torch.from_numpy(series.times[-1:]).to(device),
    )


def _to_numpy(standing: Standing) -> states.State:
    arrays: states.State = map_leaves(lambda leaf: leaf.detach().cpu().numpy(), standing)
    return arrays


def _digest(names: Sequence[str], body: bytes) -> str:
    return hashlib.sha256(json.dumps(list(names)).encode() + body).hexdigest()[:16]
