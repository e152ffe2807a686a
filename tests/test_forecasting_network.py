"""The forecaster network: laws of state, what it reads, and what its distributions are, by slow twins and by hand."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.core.config import build
from ostinato.core.errors import ConfigError
from ostinato.core.state import map_leaves
from ostinato.nn.forecast_heads import LEAST, Gaussian, Quantiles
from ostinato.nn.forecaster import INTERVAL, NEAR_ZERO, Forecast, Forecaster, ForecasterOptions, Inputs
from ostinato.nn.options import KINDS, RecurrentOptions
from references.forecasting import begin, change, features, normal_nats, pinball

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
RELATIVE = ("none", "last", "season", "both")


def network(kind: str = "gru", seed: int = 0, hidden: int = 6, **options: Any) -> Forecaster:
    """A network with weights that matter, the output layer's too."""
    torch.manual_seed(seed)
    cells = build(KINDS[kind], {"hidden": hidden, "dropout": 0.0}, "test")
    assert isinstance(cells, RecurrentOptions)
    made = Forecaster(kind, cells, build(ForecasterOptions, {"values": 2, **options}, "test"))
    torch.nn.init.normal_(made.output.weight, std=0.3)
    rows, columns = made.value_scale.shape[0], made.options.values
    scales = {"value_scale": [[20.0, 3.0], [4.0, 2.0]], "change_scale": [[0.5, -0.25], [2.0, 0.5]]}
    made.set_scales({name: torch.tensor([scale] * rows)[..., :columns] for name, scale in scales.items()})
    return made.double().eval()


def inputs(made: Forecaster, rows: int = 3, steps: int = 12, seed: int = 1) -> Inputs:
    random, options = torch.Generator().manual_seed(seed), made.options
    values = 15 + 10 * torch.rand(rows, steps, options.values, generator=random, dtype=torch.float64)
    covariates = torch.randn(rows, steps, options.covariates, generator=random, dtype=torch.float64)
    calendar = torch.randn(rows, steps, options.calendar, generator=random, dtype=torch.float64)
    return Inputs(values, covariates, calendar, torch.arange(rows) % (options.series + 1))


def part(given: Inputs, begin: int, end: int) -> Inputs:
    return Inputs(*(leaf[:, begin:end] for leaf in given[:3]), given.series)


def assert_near(found: Any, wanted: Any, atol: float = 1e-9) -> None:
    map_leaves(lambda a, b: torch.testing.assert_close(a, b, rtol=0, atol=atol, equal_nan=True), found, wanted)


shapes = st.fixed_dictionaries(
    {
        "relative": st.sampled_from(RELATIVE),
        "season": st.integers(2, 5),
        "lags": st.sampled_from([(), (2,), (3, 7), (20,)]),
        "log": st.booleans(),
        "covariates": st.integers(0, 2),
        "calendar": st.sampled_from([0, 2]),
        "series": st.just(2),
        "series_size": st.sampled_from([0, 3]),
        "direct": st.booleans(),
        "head": st.sampled_from(["gaussian", "quantile"]),
        "levels": st.just(LEVELS),
    }
)


@given(shapes, st.integers(1, 11), st.sampled_from(["gru", "lstm", "rnn", "min-gru", "gated-delta"]))
@settings(max_examples=40, deadline=None)
def test_a_series_may_be_cut_anywhere(shape: dict[str, Any], cut: int, kind: str) -> None:
    made = network(kind, **shape)
    given_inputs = inputs(made)
    with torch.no_grad():
        whole, end = made.scan(made.init_state(3), given_inputs)
        first, middle = made.scan(made.init_state(3), part(given_inputs, 0, cut))
        second, last = made.scan(middle, part(given_inputs, cut, 12))
        assert_near(map_leaves(lambda a, b: torch.cat([a, b], 1), first, second), whole)
        assert_near(last, end)
        state = made.init_state(3)
        for step in range(12):
            one, state = made.scan(state, part(given_inputs, step, step + 1))
            assert_near(one, Forecast(*(leaf[:, step : step + 1] for leaf in whole)))


@given(shapes)
@settings(max_examples=20, deadline=None)
def test_padding_and_the_other_rows_change_nothing(shape: dict[str, Any]) -> None:
    made = network(**shape)
    given_inputs = inputs(made)
    longer = inputs(made, steps=20, seed=5)
    padded = Inputs(
        *(
            torch.cat([leaf, torch.full_like(more[:, :8], torch.nan if place == 0 else 0)], 1)
            for place, (leaf, more) in enumerate(zip(given_inputs[:3], longer[:3], strict=True))
        ),
        given_inputs.series,
    )
    with torch.no_grad():
        whole, _ = made.scan(made.init_state(3), given_inputs)
        behind, _ = made.scan(made.init_state(3), padded)
        assert_near(Forecast(*(leaf[:, :12] for leaf in behind)), whole)
        order = torch.tensor([2, 0])
        picked, _ = made.scan(made.init_state(2), Inputs(*(leaf[order] for leaf in given_inputs)))
        assert_near(picked, Forecast(*(leaf[order] for leaf in whole)))


@pytest.mark.parametrize("relative", RELATIVE)
@pytest.mark.parametrize("level", [True, False])
def test_what_is_read_is_what_the_slow_twin_reads(relative: str, level: bool) -> None:
    if relative == "none" and not level:
        return
    made = network(relative=relative, season=4, lags=(3, 6), level=level, values=1)
    made.set_scales(
        {"value_scale": torch.tensor([[[20.0], [4.0]]] * 2), "change_scale": torch.tensor([[[0.5], [2.0]]] * 2)}
    )
    read = inputs(made, rows=1, steps=15)
    values = read.values[0, :, 0].tolist()
    whole = torch.cat([made.init_state(1).past, read.values], 1)
    found = made.features(whole, made.begins(whole), read)[0]
    twin = [features(values, place, relative, 4, (3, 6), level, (20.0, 4.0), (0.5, 2.0)) for place in range(15)]
    np.testing.assert_allclose(found.numpy(), twin, atol=1e-5)
    forecast, _ = made.scan(made.init_state(1), read)
    begins = [begin(values, place, relative, 4) for place in range(15)]
    wanted = [values[place] if start is None else start for place, start in enumerate(begins)]
    np.testing.assert_allclose(forecast.centre[0, :, 0], np.array(wanted) + 0.5, atol=1e-9)
    standardised = made.standardised(Forecast(*(leaf[:, :-1] for leaf in forecast)), read.values[:, 1:])[0, :, 0]
    changes = [change(values, place, relative, 4) for place in range(1, 15)]
    for mine, other in zip(standardised.tolist(), changes, strict=True):
        assert other is None or mine == pytest.approx((other - 0.5) / 2.0, abs=1e-5)


@pytest.mark.parametrize("relative", RELATIVE)
def test_a_forecast_has_the_unit_of_its_series(relative: str) -> None:
    """Twice the numbers and a hundred more, its scales measured so: twice the forecasts and a hundred more."""
    made = network(relative=relative, season=3, lags=(4,))
    read = inputs(made)
    with torch.no_grad():
        forecast, _ = made.scan(made.init_state(3), read)
        mean, (low, _), nats = made.mean(forecast), made.interval(forecast), made.nats(forecast, read.values)
        scale = {name: getattr(made, name).clone() for name in ("value_scale", "change_scale")}
        for name, numbers in scale.items():
            numbers.mul_(2)
            if name == "value_scale" or relative == "none":
                numbers[:, 0] += 100
        made.set_scales(scale)
        other, _ = made.scan(made.init_state(3), read._replace(values=2 * read.values + 100))
        known = slice(4, None)
        torch.testing.assert_close(made.mean(other)[:, known], 2 * mean[:, known] + 100, rtol=0, atol=1e-4)
        torch.testing.assert_close(made.interval(other)[0][:, known], 2 * low[:, known] + 100, rtol=0, atol=1e-4)
        more = made.nats(other, 2 * read.values + 100) - nats
        torch.testing.assert_close(more[:, known], torch.full_like(more[:, known], math.log(2)), rtol=0, atol=1e-4)


def test_an_untrained_network_says_the_last_value_and_how_it_changes() -> None:
    torch.manual_seed(0)
    made = Forecaster("gru", build(KINDS["gru"], {"hidden": 4}, "test"), ForecasterOptions(values=1))  # type: ignore[arg-type]
    made.eval().set_scales({"change_scale": torch.tensor([[[1.0], [3.0]]] * 2)})
    assert made.output.weight.abs().max() <= NEAR_ZERO
    torch.nn.init.zeros_(made.output.weight)
    read = Inputs(
        torch.tensor([[[5.0], [9.0]]], dtype=torch.float64),
        torch.zeros(1, 2, 0),
        torch.zeros(1, 2, 0),
        torch.ones(1, dtype=torch.int64),
    )
    with torch.no_grad():
        forecast, _ = made.scan(made.init_state(1), read)
    assert made.mean(forecast)[0, :, 0].tolist() == pytest.approx([5 + 1, 9 + 1])
    low, high = made.interval(forecast)
    width = 2 * 3 * (1 + LEAST) * NormalDist().inv_cdf(0.95)
    assert float(high[0, 0, 0] - low[0, 0, 0]) == pytest.approx(width, rel=1e-6)


def test_a_normal_distribution_is_the_library_s() -> None:
    head, parameters = Gaussian(), torch.tensor([[0.3, -0.7], [-2.0, 1.5]], dtype=torch.float64)
    values = torch.tensor([0.5, -4.0], dtype=torch.float64)
    for row in range(2):
        mean, deviation = float(parameters[row, 0]), math.log1p(math.exp(parameters[row, 1])) + LEAST
        assert float(head.nats(parameters, values)[row]) == pytest.approx(
            normal_nats(float(values[row]), mean, deviation)
        )
        shares = torch.tensor([0.05, 0.05], dtype=torch.float64)
        assert float(head.quantile(parameters, shares)[row]) == pytest.approx(NormalDist(mean, deviation).inv_cdf(0.05))
    assert head.begin().tolist() == pytest.approx([0.0, math.log(math.e - 1)])


# by hand: steps of softplus 1, 2 below and 3, 4 above the median 10
def test_quantiles_are_steps_away_from_the_median() -> None:
    head = Quantiles(LEVELS)
    raw = [math.log(math.expm1(step)) for step in (1.0, 2.0, 3.0, 4.0)]
    parameters = torch.tensor([[*raw[:2], 10.0, *raw[2:]]], dtype=torch.float64)
    np.testing.assert_allclose(head.quantiles(parameters)[0], [10 - 2 - 1, 10 - 2, 10, 10 + 3, 10 + 3 + 4], rtol=1e-6)
    for value in (5.0, 9.0, 20.0):
        wanted = pinball(value, [7, 8, 10, 13, 17], LEVELS)
        assert float(head.loss(parameters, torch.tensor([value]))) == pytest.approx(wanted, rel=1e-6)
    shares = {0.05: 7.0, 0.15: 7.5, 0.5: 10.0, 0.85: 15.0, 0.95: 17.0, 0.97: 17 + 4 * 0.02 / 0.2}
    for share, value in shares.items():
        found = head.quantile(parameters, torch.tensor([share], dtype=torch.float64))
        assert float(found) == pytest.approx(value, abs=1e-5)
    np.testing.assert_allclose(
        head.quantiles(head.begin()[None])[0], [NormalDist().inv_cdf(level) for level in LEVELS], atol=1e-5
    )
    with pytest.raises(ConfigError, match="quantiles have no density"):
        head.nats(parameters, torch.zeros(1))


@given(st.lists(st.floats(-20, 20), min_size=5, max_size=5))
def test_quantiles_never_cross(numbers: list[float]) -> None:
    found = Quantiles(LEVELS).quantiles(torch.tensor(numbers))
    assert (found.diff() >= 0).all()


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("stretch", [1.0, 1.7])
def test_surprise_is_minus_the_log_of_a_density(log: bool, stretch: float) -> None:
    """It integrates to one, and its integral up to an end of the interval is what the interval says."""
    made = network(values=1, log=log, relative="last")
    made.set_scales({"value_scale": torch.ones(2, 2, 1), "change_scale": torch.tensor([[[0.1], [0.4]]] * 2)})
    made.stretch.fill_(stretch)
    read = inputs(made, rows=1, steps=3)._replace(values=torch.tensor([[[2.0], [3.0], [2.5]]], dtype=torch.float64))
    with torch.no_grad():
        forecast, _ = made.scan(made.init_state(1), read)
        last = Forecast(*(leaf[:, -1:] for leaf in forecast))
        grid = torch.linspace(1e-3 if log else -20.0, 60.0, 400_001, dtype=torch.float64)
        many = Forecast(*(leaf.expand(1, len(grid), *leaf.shape[2:]) for leaf in last))
        density = (-made.nats(many, grid[None, :, None]))[0, :, 0].exp()
        width = float(grid[1] - grid[0])
        assert float(density.sum() * width) == pytest.approx(1, abs=1e-3)
        low, high = (float(end) for end in made.interval(last))
        assert float(density[grid <= low].sum() * width) == pytest.approx((1 - INTERVAL) / 2, abs=1e-3)
        assert float(density[grid <= high].sum() * width) == pytest.approx((1 + INTERVAL) / 2, abs=1e-3)
        assert float((density * grid).sum() * width) == pytest.approx(float(made.mean(last)), rel=1e-3)


@pytest.mark.parametrize("head", ["gaussian", "quantile"])
@pytest.mark.parametrize(("count", "deviation"), [(3, 0.3), (24, 3.0), (400, 0.3), (400, 99.0)])
def test_calibrated_intervals_hold_as_many_as_conformal_prediction_says(
    head: str, count: int, deviation: float
) -> None:
    """Of the values they were calibrated on: ceil((N + 1) 0.9) of N, or all; and never fewer than before."""
    made = network(values=1, relative="last", head=head, levels=LEVELS if head == "quantile" else ())
    made.set_scales({"change_scale": torch.tensor([[[0.0], [deviation]]] * 2)})
    read = inputs(made, rows=1, steps=count + 1)
    with torch.no_grad():
        forecast, _ = made.scan(made.init_state(1), part(read, 0, count))
        values = read.values[:, 1:]
        low, high = made.interval(forecast)
        misses = made.misses(forecast, values)[0, :, 0]
        before = ((low <= values) & (values <= high))[0, :, 0]
        assert (misses <= 1).tolist() == before.tolist()
        made.calibrate(misses, 0)
        low, high = made.interval(forecast)
        inside = int(((low - 1e-6 <= values) & (values <= high + 1e-6)).sum())
        assert inside == max(int(before.sum()), min(count, math.ceil((count + 1) * INTERVAL)))
        assert (float(made.stretch) > 1) == (inside > int(before.sum()))


def test_the_loss_is_the_sum_over_the_values_that_count_and_padding_has_no_gradient() -> None:
    made = network(values=1, relative="last")
    read = inputs(made, rows=1, steps=6)
    following = torch.cat([read.values[:, 1:], torch.full((1, 1, 1), torch.nan, dtype=torch.float64)], 1)
    counted = torch.tensor([[[True], [False], [True], [True], [False], [False]]])
    forecast, _ = made.scan(made.init_state(1), read)
    loss = made.loss(forecast, following, counted)
    parts = made.losses(forecast, following)[0, :, 0]
    assert loss.item() == pytest.approx((parts[0] + parts[2] + parts[3]).item(), rel=1e-6)
    loss.backward()  # type: ignore[no-untyped-call]
    assert all(torch.isfinite(parameter.grad).all() for parameter in made.parameters() if parameter.grad is not None)


def test_series_have_vectors_of_their_own_and_an_unknown_one_has_none() -> None:
    made = network(series=2, series_size=3)
    read = inputs(made, rows=3)
    same = read._replace(values=read.values[:1].expand(3, -1, -1))
    with torch.no_grad():
        forecast, _ = made.scan(made.init_state(3), same)
        assert made.series is not None
        assert made.series.weight[0].abs().sum() == 0
    rows = forecast.parameters[:, -1].flatten(1)
    assert not torch.allclose(rows[1], rows[2])
    assert not torch.allclose(rows[0], rows[1])
