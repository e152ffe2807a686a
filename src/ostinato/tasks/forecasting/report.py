"""How good forecasts are, one or more steps ahead, with persistence and the seasonal-naive forecast beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ostinato.core.errors import DataError
from ostinato.core.state import map_leaves
from ostinato.nn.forecaster import INTERVAL, Inputs
from ostinato.nn.lm import evaluating
from ostinato.tasks.forecasting.ahead import Standing, look_ahead
from ostinato.tasks.forecasting.answers import Stretches, one_step
from ostinato.tasks.forecasting.data import Corpus, Series, digest
from ostinato.tasks.forecasting.stream import Model
from ostinato.tasks.metrics.forecasts import ForecastScore, forecast_score, naive_scale
from ostinato.tasks.task import Report, Table
from ostinato.text.times import Numbers

OURS, PERSISTENCE, SEASONAL = "this run", "persistence", "seasonal-naive"

MISTAKES = 100
"""Values that are kept, those furthest from their forecast first, by the width of the interval."""


@dataclass(frozen=True, eq=False)
class Judged:
    """Values [M] and what was forecast of each. actual: NaN where none came. scale: what divides errors in MASE.

    lead: steps ahead. series, value, time: which it was, and when.
    """

    actual: Numbers
    said: dict[str, Numbers]
    low: Numbers
    high: Numbers
    nats: Numbers
    scale: Numbers
    lead: NDArray[np.int64]
    series: NDArray[np.str_]
    value: NDArray[np.int64]
    time: Numbers

    def where(self, chosen: NDArray[np.bool_]) -> Judged:
        """Those that are chosen [M]."""
        arrays = {name: part[chosen] for name, part in vars(self).items() if name != "said"}
        return Judged(said={name: part[chosen] for name, part in self.said.items()}, **arrays)

    def score(self, name: str = OURS, **facts: object) -> ForecastScore:
        """How far the forecasts of that name are from the values."""
        known = name == OURS and not np.isnan(self.low).any()
        scale = None if np.isnan(self.scale).any() else self.scale
        return forecast_score(self.actual, self.said[name], scale, (self.low, self.high) if known else None, **facts)


def judged(model: Model, corpus: Corpus, series: Sequence[Series], begins: Sequence[int]) -> Judged:
    """Forecasts of the steps of series from `begins` on, each from all true steps before it.

    Steps before which there is no season are left out. Raises DataError if none is left.
    """
    horizon, season = model.options.horizon, corpus.season
    scales = {one.name: _scales(one, season) for one in corpus.series}
    parts = []
    for one, begin, said in zip(series, begins, one_step(model.network, model.reading, series), strict=True):
        first = max(begin, 1, season, model.network.options.back)
        targets = np.arange(first, len(one) - horizon + 1)[:, None] + np.arange(horizon)  # [R, H]
        if not len(targets):
            continue
        mean, low, high = (part[targets] for part in said[:3])
        if horizon > 1:
            mean, low, high = _ahead(model, one, targets[:, 0] - 1)
        nats = np.full(mean.shape, np.nan)
        nats[:, 0] = said.nats[targets[:, 0]]
        naive = {PERSISTENCE: np.broadcast_to(one.values[targets[:, :1] - 1], mean.shape)}
        if season > 1:
            naive[SEASONAL] = one.values[targets - season * (1 + np.arange(horizon) // season)]
        actual = np.where(one.came[targets], one.values[targets], np.nan)
        scale = scales.get(one.name, np.full(mean.shape[2], np.nan))
        parts.append(_flat(one, targets, actual, {OURS: mean, **naive}, low, high, nats, scale))
    if not parts:
        raise DataError(
            f"no step to judge: a forecast of {horizon} steps is judged when a season of {season} has been read; give "
            "more rows"
        )
    return _joined(parts)


def _flat(
    one: Series,
    targets: NDArray[np.int64],
    actual: Numbers,
    said: dict[str, Numbers],
    low: Numbers,
    high: Numbers,
    nats: Numbers,
    scale: Numbers,
) -> Judged:
    shape = actual.shape
    places = np.indices(shape)
    return Judged(
        actual.ravel(),
        {name: part.ravel() for name, part in said.items()},
        low.ravel(),
        high.ravel(),
        nats.ravel(),
        np.broadcast_to(scale, shape).ravel(),
        1 + places[1].ravel(),
        np.full(actual.size, one.name),
        places[2].ravel(),
        np.broadcast_to(one.times[targets][:, :, None], shape).ravel(),
    )


def _joined(parts: Sequence[Judged]) -> Judged:
    arrays = {
        name: np.concatenate([getattr(part, name) for part in parts]) for name in vars(parts[0]) if name != "said"
    }
    said = {name: np.concatenate([part.said[name] for part in parts]) for name in parts[0].said}
    return Judged(said=said, **arrays)


def _scales(one: Series, season: int) -> Numbers:
    """The mean change [D] over a season in the training part."""
    end = one.ends[0]
    training = np.where(one.came, one.values, np.nan)[:end]
    return np.array([naive_scale(column, season) for column in training.T])


def _ahead(model: Model, one: Series, origins: NDArray[np.int64]) -> tuple[Numbers, Numbers, Numbers]:
    """Forecasts [R, H, D] after each of the steps `origins` [R] of a series."""
    network, stretches = model.network, Stretches(model.reading, [one])
    device, state = network.value_scale.device, network.init_state(1)
    kept: list[Standing] = []
    with evaluating(network):
        for step in range(int(origins[-1]) + 1):
            inputs: Inputs = stretches.inputs(np.array([[0, step, step + 1]]), device)
            forecast, state = network.scan(state, inputs)
            if step >= origins[0]:
                time = torch.from_numpy(one.times[step : step + 1]).to(device)
                kept.append(Standing(state, forecast, inputs.values[:, 0], inputs.covariates[:, 0], time))
        standing: Standing = map_leaves(lambda *leaves: torch.cat(leaves), *kept)
        names = [one.name] * len(origins)
        return look_ahead(network, model.reading, names, standing, model.options, model.seed)


def report(model: Model, corpus: Corpus, series: Sequence[Series], begins: Sequence[int], name: str) -> Report:
    """The report on steps of series from `begins` on."""
    found = judged(model, corpus, series, begins)
    options = model.options
    facts: dict[str, object] = {"data": f"{name}#{digest(series)}", "season": corpus.season, "horizon": options.horizon}
    facts["past"] = "true"
    if options.horizon > 1:
        facts["ahead"] = f"{options.paths}-paths" if options.paths else "mean-fed"
    score = found.score(OURS, **facts)
    unknown = sorted({one.name for one in series} - {one.name for one in corpus.series})
    several = len({(one, value) for one, value in zip(found.series.tolist(), found.value.tolist(), strict=True)}) > 1
    main = "mase" if several and score.mase is not None else "rmse"
    measures = _measures(found, score)
    measures["unknown_series"] = float(len(unknown))
    tables = [_table(f"{options.horizon} steps ahead" if options.horizon > 1 else "one step ahead", found)]
    if options.horizon > 1:
        tables.append(_by_lead(found))
    if several:
        tables.append(_by_series(found, corpus))
    if unknown:
        rows = tuple((one,) for one in unknown)
        tables.append(Table("series that training lacks, read with the scale of all together", ("series",), rows))
    value = measures[main]
    mistakes = _mistakes(found, corpus)
    return Report(main.upper(), value, score.count, score.signature, measures, tuple(tables), mistakes)


def _measures(found: Judged, score: ForecastScore) -> dict[str, float]:
    measures = {"rmse": score.rmse, "mae": score.mae, "mase": score.mase, "width": score.width}
    measures["coverage"] = None if score.coverage is None else 100 * score.coverage
    nats = found.nats[~np.isnan(found.nats) & ~np.isnan(found.actual)]
    measures["nats"] = float(nats.mean()) if nats.size else None
    for name in found.said.keys() - {OURS}:
        naive = found.score(name)
        measures |= {f"{name}_{kind}": getattr(naive, kind) for kind in ("rmse", "mae", "mase")}
    return {name: value for name, value in measures.items() if value is not None}


COLUMNS = ("RMSE", "MAE", "MASE", f"in their {100 * INTERVAL:.0f}% interval", "its width")


def _row(score: ForecastScore) -> tuple[str, ...]:
    inside = ("", "") if score.coverage is None else (f"{100 * score.coverage:.1f}%", f"{score.width:.4g}")
    return (f"{score.rmse:.4g}", f"{score.mae:.4g}", "" if score.mase is None else f"{score.mase:.3f}", *inside)


def _table(title: str, found: Judged) -> Table:
    rows = tuple((name, *_row(found.score(name))) for name in found.said)
    return Table(title, ("forecast", *COLUMNS), rows)


def _by_lead(found: Judged) -> Table:
    rows = []
    for lead in range(1, int(found.lead.max()) + 1):
        part = found.where(found.lead == lead)
        naive = [f"{part.score(name).rmse:.4g}" for name in part.said if name != OURS]
        rows.append((f"{lead}", *_row(part.score()), *naive))
    naive = [f"RMSE of {name}" for name in found.said if name != OURS]
    return Table("by steps ahead", ("steps", *COLUMNS, *naive), tuple(rows))


def _by_series(found: Judged, corpus: Corpus) -> Table:
    rows = []
    for name in dict.fromkeys(found.series.tolist()):
        for number, value in enumerate(corpus.columns.values):
            part = found.where((found.series == name) & (found.value == number))
            if not np.isnan(part.actual).all():
                naive = [f"{part.score(other).rmse:.4g}" for other in part.said if other != OURS]
                rows.append((" ".join(filter(None, (name, value))), *_row(part.score()), *naive))
    naive = [f"RMSE of {name}" for name in found.said if name != OURS]
    return Table("by series and value", ("", *COLUMNS, *naive), tuple(rows))


def _mistakes(found: Judged, corpus: Corpus) -> tuple[dict[str, Any], ...]:
    """The values furthest from their forecast one step ahead."""
    first = found.where((found.lead == 1) & ~np.isnan(found.actual))
    error = np.abs(first.actual - first.said[OURS])
    order = np.argsort(-error / np.maximum(first.high - first.low, 1e-300), kind="stable")[:MISTAKES]
    clock = corpus.columns.clock
    return tuple(
        {
            "time": clock.show(float(first.time[place])),
            **({"series": str(first.series[place])} if first.series[place] else {}),
            "value": corpus.columns.values[first.value[place]],
            "came": float(first.actual[place]),
            "forecast": float(f"{first.said[OURS][place]:.6g}"),
            "low": float(f"{first.low[place]:.6g}"),
            "high": float(f"{first.high[place]:.6g}"),
        }
        for place in order.tolist()
    )
