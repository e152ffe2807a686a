"""The forecasting task: what it learns and says, that it is exact, and what it refuses."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forecasting_toys import answers, config, loaded, run_of_two, trained, wave, wave_run, write
from ostinato.core.errors import ConfigError, DataError, FormatError, MismatchError, OstinatoError
from ostinato.core.progress import unwatched
from ostinato.runs import TASK, RunDir
from ostinato.tasks import working
from ostinato.tasks.forecasting.answers import one_step
from ostinato.tasks.forecasting.task import TASK as FORECASTING
from ostinato.tasks.language.build import Callbacks
from ostinato.tasks.metrics.forecasts import naive_scale
from ostinato.tasks.task import PredictOptions
from stopping import stopped_at


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("forecasting")


@pytest.fixture(scope="module")
def run(folder: Path) -> RunDir:
    return wave_run(folder)


@pytest.fixture(scope="module")
def many(folder: Path) -> RunDir:
    return run_of_two(folder)


def test_it_is_better_than_persistence_and_seasonal_naive_in_one_table(run: RunDir) -> None:
    report = loaded(run).evaluate((), unwatched)
    assert report.measure == "RMSE"
    assert report.count == 50
    rows = {row[0]: row[1:] for row in report.tables[0].rows}
    ours = float(rows["this run"][0])
    assert ours == pytest.approx(report.value, rel=1e-3)
    assert ours < 0.6 * min(float(rows[name][0]) for name in ("persistence", "seasonal-naive"))
    assert report.signature.startswith("data:wave.csv/last-50#")
    assert "|season:24|horizon:1|past:true" in report.signature
    assert len(report.mistakes) == 50


def test_the_naive_forecasts_and_mase_are_those_of_the_definition(run: RunDir) -> None:
    values = np.array([float(f"{value:.6f}") for value in wave()])
    measures = loaded(run).evaluate((), unwatched).measures
    last, season = values[249:299], values[226:276]
    for name, naive in (("persistence", last), ("seasonal-naive", season)):
        error = values[250:] - naive
        assert measures[f"{name}_rmse"] == pytest.approx(math.sqrt((error**2).mean()))
        assert measures[f"{name}_mae"] == pytest.approx(np.abs(error).mean())
        assert measures[f"{name}_mase"] == pytest.approx(np.abs(error).mean() / naive_scale(values[:200], 24))


def test_a_series_that_training_lacks_is_counted_and_named(many: RunDir, tmp_path: Path) -> None:
    source = write(tmp_path / "x.csv", wave(60), name="other")
    report = loaded(many).evaluate([str(source)], unwatched)
    assert report.measures["unknown_series"] == 1
    assert any(table.rows == (("other",),) for table in report.tables)
    assert "mase" not in report.measures
    assert answers(many, source)[0]["known"] is False


def weights(run: RunDir) -> bytes:
    """The best model and the last checkpoint, byte for byte."""
    arrays, _ = run.load_checkpoint() or ({}, {})
    return (run.path / "model.safetensors").read_bytes() + b"".join(arrays[name].tobytes() for name in sorted(arrays))


@pytest.mark.parametrize("stop_at", [1, 3, 5])
def test_training_stopped_and_resumed_is_training_uninterrupted(stop_at: int, tmp_path: Path) -> None:
    """The files it was made from are gone by then."""
    plan = config(write(tmp_path / "x.csv", wave()), model={"dropout": 0.3}, epochs=3, accumulate=2)
    whole = trained(plan, tmp_path / "whole")
    again = trained(plan, tmp_path / "again")
    assert weights(again) == weights(whole)
    with stopped_at(stop_at):
        trained(plan, tmp_path / "parts")
    (tmp_path / "x.csv").unlink()
    assert weights(working.resume(tmp_path / "parts", Callbacks())) == weights(whole)


@pytest.mark.parametrize("model", [{"relative": "season", "log": True}, {"relative": "both", "head": "quantile"}, {}])
def test_the_loss_of_windows_is_that_of_reading_the_whole_past(model: dict[str, Any], tmp_path: Path) -> None:
    """Of a window from the first step on, whose state is that of the whole; and a batch is the sum of its rows."""
    run = trained(config(write(tmp_path / "x.csv", wave()), model=model, epochs=1), tmp_path / "run")
    learner = FORECASTING.learner(loaded(run).config, run.path / "data")
    learner.network.load_state_dict(loaded(run).model.network.state_dict())
    learner.network.eval()
    said = one_step(learner.network, learner.reading, learner.corpus.series)[0]
    rows = np.array([[0, 0, 30], [0, 0, 60], [0, 90, 120], [0, 45, 52]])
    for _, _, end in rows[:2].tolist():
        wanted = said.losses[1 : end + 1][learner.counted[0][1 : end + 1]].sum()
        assert learner.loss(np.array([[0, 0, end]])).item() == pytest.approx(wanted, rel=1e-5)
    alone = sum(learner.loss(row[None]).item() for row in rows)
    assert learner.loss(rows).item() == pytest.approx(alone, rel=1e-5)
    long = learner.loss(np.array([[0, 0, 120]])).item() - learner.loss(np.array([[0, 0, 90]])).item()
    assert learner.loss(rows[2:3]).item() == pytest.approx(long, abs=0.2 * abs(long) + 3)  # the state begins anew


def test_pieces_and_neighbours_change_no_forecast(many: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    from ostinato.tasks.forecasting import answers as module

    model, series = loaded(many).model, loaded(many).corpus.series
    whole = module.one_step(model.network, model.reading, series)
    alone = [module.one_step(model.network, model.reading, [one])[0] for one in series]
    monkeypatch.setattr(module, "PIECE", 7)
    pieces = module.one_step(model.network, model.reading, series[::-1])[::-1]
    for one, *others in zip(whole, alone, pieces, strict=True):
        for other in others:
            for part, same in zip(one, other, strict=True):
                np.testing.assert_allclose(part, same, rtol=1e-4, atol=1e-4)


def test_every_step_of_training_is_learnt_once_an_epoch(tmp_path: Path) -> None:
    run = trained(config(write(tmp_path / "x.csv", wave()), epochs=1), tmp_path / "run")
    learner = FORECASTING.learner(loaded(run).config, run.path / "data")
    for epoch in (0, 1):
        seen = np.zeros(300, np.int64)
        for number in range(len(learner.batches(epoch))):
            batch = learner.batches(epoch)[number]
            for _, begin, end in batch.rows.tolist():
                seen[begin + 1 : end + 1] += 1
                assert end - begin <= 24
            assert len(batch.weight) == sum(end - begin for _, begin, end in batch.rows.tolist())
        assert seen.tolist() == [0, *[1] * 199, *[0] * 100]
    first, second = (learner.batches(epoch)[0].rows for epoch in (0, 1))
    assert first.tolist() != second.tolist()


def test_values_before_the_first_season_are_not_learnt_as_changes_from_it(tmp_path: Path) -> None:
    plan = config(write(tmp_path / "x.csv", wave()), model={"relative": "season"}, epochs=1)
    learner = FORECASTING.learner(plan, trained(plan, tmp_path / "run").path / "data")
    batches = learner.batches(0)
    assert sum(len(batches[number].weight) for number in range(len(batches))) == 200 - 24


def test_scales_are_those_of_the_training_part_alone(tmp_path: Path) -> None:
    values = [*np.linspace(1, 3, 200), *[900.0] * 100]
    run = trained(config(write(tmp_path / "x.csv", values), epochs=1), tmp_path / "run")
    scale = loaded(run).model.network.value_scale[1, :, 0].tolist()
    assert scale == pytest.approx([np.mean(values[:200]), np.std(values[:200])], rel=1e-5)


def test_missing_values_are_read_again_and_neither_learnt_nor_judged(tmp_path: Path) -> None:
    lines = write(tmp_path / "x.csv", wave()).read_text().splitlines()
    for number in (60, 280, 281):
        lines[number] = lines[number].rpartition(",")[0] + ",NA"
    del lines[150]
    (tmp_path / "x.csv").write_text("\n".join(lines))
    with pytest.raises(DataError, match=r"x.csv:61: a value is missing"):
        trained(config(tmp_path / "x.csv", {"irregular": "keep"}), tmp_path / "none")
    with pytest.raises(
        DataError, match=r"x.csv:151: from 2020-01-07 04:00 to 2020-01-07 06:00 is not one step of 1 hour"
    ):
        trained(config(tmp_path / "x.csv", {"missing": "last"}), tmp_path / "none")
    notes: list[str] = []
    plan = config(tmp_path / "x.csv", {"missing": "last", "irregular": "fill"}, epochs=1)
    run = trained(plan, tmp_path / "run", notes)
    assert any(note.startswith("3 rows lack a value, the first at") and "x.csv:61" in note for note in notes)
    assert any("1 rows do not come at their time" in note and "x.csv:151" in note for note in notes)
    series = loaded(run).corpus.series[0]
    assert len(series) == 300
    assert np.flatnonzero(~series.came[:, 0]).tolist() == [59, 149, 279, 280]
    assert series.values[149, 0] == series.values[148, 0]
    assert loaded(run).evaluate((), unwatched).count == 48
    found = answers(run, tmp_path / "x.csv")
    assert found[59]["surprise"]["x"] is None
    nats = one_step(loaded(run).model.network, loaded(run).model.reading, [series])[0].nats[:, 0]
    assert found[149]["surprise"]["x"] == pytest.approx(nats[150], abs=1e-3)  # expected after the step filled in
    assert len(found) == 299


def test_a_run_without_validation_keeps_what_fits_training_best(tmp_path: Path) -> None:
    notes: list[str] = []
    plan = config(write(tmp_path / "x.csv", wave()), {"valid_part": 0})
    run = trained(plan, tmp_path / "run", notes)
    assert any("no rows are kept for validation" in note for note in notes)
    assert loaded(run).model.network.stretch.tolist() == [1.0]
    assert loaded(run).evaluate((), unwatched).count == 50


def test_files_of_their_own_are_the_parts(tmp_path: Path) -> None:
    values = wave()
    names = ("train", "valid", "test")
    files = [
        write(tmp_path / name, values[100 * place : 100 * place + 100], 100 * place) for place, name in enumerate(names)
    ]
    data = {"valid": (str(files[1]),), "test": (str(files[2]),), "test_part": 0}
    run = trained(config(files[0], data, epochs=1), tmp_path / "run")
    assert loaded(run).corpus.series[0].ends == (100, 200)
    assert loaded(run).evaluate((), unwatched).signature.startswith("data:test#")


def test_covariates_and_several_values_are_read_together(tmp_path: Path) -> None:
    """x is the covariate that came before it, which nothing else tells."""
    rng = np.random.default_rng(0)
    told = rng.normal(size=400)
    rows = [f"{hour},{told[hour - 1] if hour else 0:.4f},{hour % 7},{told[hour]:.4f}\n" for hour in range(400)]
    (tmp_path / "x.csv").write_text("time,x,y,told\n" + "".join(rows))
    plan = config(tmp_path / "x.csv", {"covariates": ("told",), "values": ("x", "y")}, {"relative": "none"}, epochs=20)
    run = trained(plan, tmp_path / "run")
    report = loaded(run).evaluate((), unwatched)
    rows_of = {row[0]: row for row in next(table for table in report.tables if "series and value" in table.title).rows}
    assert float(rows_of["x"][1]) < 0.3 < 1.0 < float(rows_of["x"][-1])
    line = next(loaded(run).predict(str(tmp_path / "x.csv"), PredictOptions(scores=True)))
    assert line == "time,x surprise,y surprise,next,x,x low,x high,y,y low,y high"


@pytest.mark.parametrize(
    ("data", "model", "message"),
    [
        ({"train": ()}, {}, "data.train names no file"),
        ({"train": ("nowhere",)}, {}, "nowhere: no such file"),
        ({"valid_part": 0.5, "test_part": 299}, {}, "too few to train on"),
        ({"season": 250}, {}, "200 training rows are not more than a season of 250"),
        ({}, {"lags": (400,)}, "200 training rows are not more than"),
        ({}, {"activation": "relu"}, "model.activation does not apply to gru; it is for rnn"),
        ({}, {"hidden": 0}, "hidden"),
        ({"season": 1}, {"relative": "season"}, "needs a season, and this data has none"),
        ({"time": "none", "values": ("x",)}, {"calendar": ("hour",)}, "this data has no dates"),
        ({"values": ("z",)}, {}, "unknown column 'z'"),
        ({"series": "time"}, {}, "no series has two rows|too few"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_anything_is_left(
    data: dict[str, Any], model: dict[str, Any], message: str, tmp_path: Path
) -> None:
    plan = config(write(tmp_path / "x.csv", wave()), data, model)
    with pytest.raises(OstinatoError, match=message):
        trained(plan, tmp_path / "run")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.csv"]


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"model": {"bidirectional": True}}, "would read what it must forecast"),
        ({"model": {"embedding": 5}}, "embedding is of words"),
        ({"model": {"level": False, "relative": "none"}}, "level false reads changes only"),
        ({"model": {"levels": [0.1, 0.5, 0.9]}}, "levels rise from 0.05"),
        ({"data": {"valid_part": 1.5}}, "valid_part is a share below 1 or a whole number"),
        ({"data": {"test": ["x"], "test_part": 5}}, "leave one of them out"),
        ({"model": {"relatve": "last"}}, "relative"),
    ],
)
def test_options_that_cannot_be_are_refused_by_name(tables: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        working.config_from("forecasting", tables, "x")


def test_values_without_a_logarithm_are_named(tmp_path: Path) -> None:
    values = wave()
    values[7] = 0.0
    with pytest.raises(DataError, match=r"x.csv:9: 0 has no logarithm; leave model.log out"):
        trained(config(write(tmp_path / "x.csv", values), model={"log": True}), tmp_path / "run")


def test_options_without_meaning_are_refused(run: RunDir, folder: Path, tmp_path: Path) -> None:
    for name in ("beam", "nbest", "rows"):
        with pytest.raises(ConfigError, match=f"--{name} means nothing for forecasting"):
            loaded(run).predict("-", PredictOptions(**{name: 2}))
    quantile = trained(
        config(write(tmp_path / "x.csv", wave()), model={"head": "quantile"}, epochs=1), tmp_path / "run"
    )
    with pytest.raises(ConfigError, match="quantiles have no density"):
        loaded(quantile).predict("-", PredictOptions(scores=True))
    report = loaded(quantile).evaluate((), unwatched)
    assert "nats" not in report.measures
    assert report.measures["coverage"] > 50


def test_a_damaged_run_and_one_of_other_data_are_refused(run: RunDir, many: RunDir, tmp_path: Path) -> None:
    copy = RunDir.open(shutil.copytree(run.path, tmp_path / "copy"), TASK)
    shutil.copy(many.path / "data" / "series.safetensors", copy.path / "data")
    with pytest.raises(MismatchError, match="made for data"):
        working.load(copy.path)
    (copy.path / "data" / "series.safetensors").write_bytes(b"x")
    with pytest.raises(FormatError):
        working.load(copy.path)


def test_an_empty_or_wrong_file_to_judge_is_named(run: RunDir, tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("")
    with pytest.raises(DataError, match="empty: no rows"):
        loaded(run).evaluate([str(tmp_path / "empty")], unwatched)
    with pytest.raises(DataError, match="no step to judge"):
        loaded(run).evaluate([str(write(tmp_path / "x.csv", wave(5)))], unwatched)
    (tmp_path / "bad").write_text("time,x\n2020-01-01 00:00,\xff\n", "latin-1")
    with pytest.raises(DataError, match=r"bad:2: byte \d+ \(0xff\) is not UTF-8"):
        list(loaded(run).predict(str(tmp_path / "bad"), PredictOptions()))


# persistence and seasonal-naive on real data, as SOURCES.md has them
@pytest.mark.parametrize(
    ("name", "data", "persistence"),
    [
        ("ts-brownlee/airline-passengers.csv", {"test_part": 48, "valid_part": 24}, 48.04),
        ("ts-vega/seattle-temps.csv", {"test_part": 0.2, "irregular": "keep"}, 0.646),
        ("ts-brownlee/daily-min-temperatures.csv", {"test_part": 365, "irregular": "keep"}, 2.582),
    ],
)
def test_persistence_on_real_series(
    name: str, data: dict[str, Any], persistence: float, shared: Path, tmp_path: Path
) -> None:
    run = trained(config(shared / name, data, epochs=1, window=200), tmp_path / "run")
    found = loaded(run).evaluate((), unwatched).measures
    assert found["persistence_rmse"] == pytest.approx(persistence, abs=6e-3)
