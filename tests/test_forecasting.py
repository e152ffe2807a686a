"""The forecasting task: what it learns and says, that it is exact, and what it refuses."""

from __future__ import annotations

import csv
import json
import math
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forecasting_toys import config, wave, write
from ostinato.core.errors import ConfigError, DataError, FormatError, Interrupted, MismatchError, OstinatoError
from ostinato.core.progress import unwatched
from ostinato.runs import TASK, RunDir
from ostinato.tasks import working
from ostinato.tasks.forecasting.options import Config
from ostinato.tasks.forecasting.predict import ForecastPredictor
from ostinato.tasks.forecasting.task import TASK as FORECASTING
from ostinato.tasks.language.build import Callbacks
from ostinato.tasks.metrics.forecasts import naive_scale
from ostinato.tasks.task import PredictOptions
from ostinato.train.loop import Trainer


def trained(plan: Config, path: Path, notes: list[str] | None = None) -> RunDir:
    return working.train("forecasting", plan, path, Callbacks(note=[].append if notes is None else notes.append))


def loaded(run: RunDir) -> ForecastPredictor:
    found = working.load(run.path)
    assert isinstance(found, ForecastPredictor)
    return found


def answers(run: RunDir, source: Path, scores: bool = True) -> list[dict[str, Any]]:
    return [json.loads(line) for line in loaded(run).predict(str(source), PredictOptions(json=True, scores=scores))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("forecasting")


@pytest.fixture(scope="module")
def run(folder: Path) -> RunDir:
    """Trained well enough to beat both naive forecasts."""
    return trained(config(write(folder / "wave.csv", wave()), epochs=20), folder / "run")


@pytest.fixture(scope="module")
def many(folder: Path) -> RunDir:
    """Two series of very different size in one file, a vector for each."""
    one, other = wave(200, seed=1), [1000 * value for value in wave(150, seed=2)]
    lines = write(folder / "a", one, name="small").read_text().splitlines(True)
    lines += write(folder / "b", other, name="large").read_text().splitlines(True)[1:]
    (folder / "many.csv").write_text(lines[0] + "".join(sorted(lines[1:], key=lambda line: line.split(",")[1])))
    return trained(config(folder / "many.csv", {"series": "where"}, {"series_size": 2}), folder / "many")


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


def test_rows_answered_as_they_come_are_the_forecasts_that_are_judged(run: RunDir, tmp_path: Path) -> None:
    """The test rows alone, after which the state is that of having read the whole series."""
    source = write(tmp_path / "test.csv", wave()[250:], begin=250)
    found = answers(run, source)
    values = np.array(wave()[250:])
    means = np.array([answer["forecasts"][0]["x"]["mean"] for answer in found])
    ends = [np.array([answer["forecasts"][0]["x"][end] for answer in found]) for end in ("low", "high")]
    own, report = loaded(run).evaluate((), unwatched), loaded(run).evaluate([str(source)], unwatched)
    assert report.measures == pytest.approx(own.measures, rel=1e-6)
    surprises = [answer["surprise"]["x"] for answer in found]
    assert np.mean(surprises) == pytest.approx(own.measures["nats"], rel=1e-5)
    errors = values[1:] - means[:-1]
    first = next(mistake for mistake in own.mistakes if mistake["time"] == "2020-01-11 10:00")
    errors = np.append(errors, first["came"] - first["forecast"])
    assert math.sqrt((errors**2).mean()) == pytest.approx(own.value, rel=1e-4)
    inside = (ends[0][:-1] <= values[1:]) & (values[1:] <= ends[1][:-1])
    wanted = 50 * own.measures["coverage"] / 100 - (first["low"] <= first["came"] <= first["high"])
    assert inside.sum() == wanted


def test_lines_have_the_form_of_what_came(run: RunDir, tmp_path: Path) -> None:
    source = write(tmp_path / "x.csv", wave(3))
    lines = list(csv.reader(loaded(run).predict(str(source), PredictOptions(scores=True))))
    assert lines[0] == ["time", "surprise", "next", "x", "x low", "x high"]
    assert [line[:3:2] for line in lines[1:]] == [
        ["2020-01-01 00:00", "2020-01-01 01:00"],
        ["2020-01-01 01:00", "2020-01-01 02:00"],
        ["2020-01-01 02:00", "2020-01-01 03:00"],
    ]
    assert lines[1][1] == ""  # nothing was expected of the first
    assert float(lines[2][1]) == pytest.approx(answers(run, source)[1]["surprise"]["x"])
    write(source, wave(3), header=False)
    assert list(csv.reader(loaded(run).predict(str(source), PredictOptions(scores=True)))) == lines[1:]


def test_a_stream_saved_and_continued_says_the_same_as_in_one_pass(many: RunDir, folder: Path) -> None:
    from ostinato.tasks.forecasting.stream import Stream
    from ostinato.text.series import Table, rows_of

    model = loaded(many).model
    rows = list(rows_of(Table(str(folder / "many.csv")), loaded(many).corpus.columns))[:40]
    whole = Stream(model)
    wanted = [whole.read(row) for row in rows]
    stream, sizes = Stream(model), set()
    for place, row in enumerate(rows):
        answer = stream.read(row)
        assert str(answer) == str(wanted[place])
        if place >= 2:
            sizes.add(len(stream.to_bytes().partition(b"\n")[2]))
        stream = Stream.from_bytes(loaded(many).model, stream.to_bytes())
    assert len(sizes) == 1  # what is kept does not grow
    data = stream.to_bytes()
    with pytest.raises(FormatError, match="cut short or changed"):
        Stream.from_bytes(model, data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(FormatError, match="not a saved stream"):
        Stream.from_bytes(model, b"nothing")


def test_a_stream_of_another_run_is_refused(run: RunDir, many: RunDir) -> None:
    from ostinato.tasks.forecasting.stream import Stream

    with pytest.raises(MismatchError, match="the stream belongs to model"):
        Stream.from_bytes(loaded(run).model, loaded(many).stream().to_bytes())


def test_series_in_one_file_do_not_see_each_other(many: RunDir, folder: Path, tmp_path: Path) -> None:
    mixed = answers(many, folder / "many.csv")
    for name in ("small", "large"):
        lines = (folder / "many.csv").read_text().splitlines(True)
        (tmp_path / name).write_text(lines[0] + "".join(line for line in lines if line.startswith(name)))
        alone = answers(many, tmp_path / name)
        assert alone == [answer for answer in mixed if answer["series"] == name]
    report = loaded(many).evaluate((), unwatched)
    assert report.measure == "MASE"
    table = next(table for table in report.tables if table.title == "by series and value")
    assert {row[0] for row in table.rows} == {"small x", "large x"}
    assert float(next(row[1] for row in table.rows if row[0] == "large x")) > 100


def test_a_series_that_training_lacks_is_counted_and_named(many: RunDir, tmp_path: Path) -> None:
    source = write(tmp_path / "x.csv", wave(60), name="other")
    report = loaded(many).evaluate([str(source)], unwatched)
    assert report.measures["unknown_series"] == 1
    assert any(table.rows == (("other",),) for table in report.tables)
    assert "mase" not in report.measures
    assert answers(many, source)[0]["known"] is False


@pytest.mark.parametrize("paths", [0, 40])
def test_steps_ahead_are_made_one_from_another(paths: int, folder: Path, tmp_path: Path) -> None:
    """The first is that of horizon 1; with the mean fed, the next are those of a stream that reads the mean."""
    plan = config(folder / "wave.csv", forecast={"horizon": 4, "paths": paths}, epochs=2)
    write(folder / "wave.csv", wave())
    run = trained(plan, tmp_path / "run")
    source = write(tmp_path / "x.csv", wave(30))
    found = answers(run, source)
    assert [ahead["time"] for ahead in found[0]["forecasts"]] == [f"2020-01-01 0{hour}:00" for hour in (1, 2, 3, 4)]
    assert answers(run, source) == found
    assert answers(run, write(tmp_path / "y.csv", wave(29))) == found[:29]
    if not paths:
        last = found[-1]["forecasts"]
        assert last[1]["x"]["low"] is None
        longer = [*wave(30), *(ahead["x"]["mean"] for ahead in last[:3])]
        again = answers(run, write(tmp_path / "z.csv", longer))
        means = [answer["forecasts"][0]["x"]["mean"] for answer in again[-4:]]
        assert means == pytest.approx([ahead["x"]["mean"] for ahead in last], rel=1e-4)
    else:
        widths = [ahead["x"]["high"] - ahead["x"]["low"] for ahead in found[-1]["forecasts"]]
        assert all(width > 0 for width in widths)
    report = loaded(run).evaluate((), unwatched)
    assert f"|ahead:{'40-paths' if paths else 'mean-fed'}" in report.signature
    assert report.count == 4 * 47
    leads = next(table for table in report.tables if table.title == "by steps ahead")
    assert [row[0] for row in leads.rows] == ["1", "2", "3", "4"]
    values = np.array([float(f"{value:.6f}") for value in wave()])
    naive = math.sqrt(np.mean((values[252:299] - values[249:296]) ** 2))
    assert float(leads.rows[2][-2]) == pytest.approx(naive, rel=1e-3)


def test_drawn_futures_have_the_spread_of_a_random_walk(tmp_path: Path) -> None:
    """An untrained network says that changes are normal: h of them have h times the mean and the variance of one."""
    import torch

    rng = np.random.default_rng(0)
    walk = np.cumsum(rng.normal(0.5, 2.0, 400))
    write(tmp_path / "walk.csv", walk.tolist())
    model = {"calendar": ("none",), "lags": (), "calibrate": False}
    run = trained(
        config(tmp_path / "walk.csv", model=model, forecast={"horizon": 9, "paths": 4000}, epochs=1), tmp_path / "r"
    )
    predictor = loaded(run)
    torch.nn.init.zeros_(predictor.model.network.output.weight)
    predictor.model.network.output.bias.data = predictor.model.network.head.begin()
    *_, line = predictor.predict(str(write(tmp_path / "x.csv", [7.0])), PredictOptions(json=True))
    mean, deviation = predictor.model.network.change_scale[1, :, 0].tolist()
    for steps, ahead in enumerate(json.loads(line)["forecasts"], 1):
        said = ahead["x"]
        assert said["mean"] == pytest.approx(7 + steps * mean, abs=0.3)
        assert said["high"] - said["low"] == pytest.approx(2 * 1.645 * deviation * math.sqrt(steps), rel=0.08)


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

    def stop(self: Trainer, *rest: Any) -> None:
        original(self, *rest)
        self.stop_asked = self.at.step == stop_at

    original = Trainer._update
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "_update", stop)
        with pytest.raises(Interrupted, match="resume"):
            trained(plan, tmp_path / "parts")
    (tmp_path / "x.csv").unlink()
    assert weights(working.resume(tmp_path / "parts", Callbacks())) == weights(whole)


def test_a_loaded_run_says_the_same_in_a_fresh_process(run: RunDir, tmp_path: Path) -> None:
    source = write(tmp_path / "x.csv", wave(9))
    here = "".join(f"{line}\n" for line in loaded(run).predict(str(source), PredictOptions(scores=True)))
    command = [sys.executable, "-m", "ostinato", "predict", str(run.path), "-", "--scores"]
    done = subprocess.run(command, input=source.read_text(), capture_output=True, check=True, text=True)
    assert done.stdout == here


@pytest.mark.parametrize("model", [{"relative": "season", "log": True}, {"relative": "both", "head": "quantile"}, {}])
def test_the_loss_of_windows_is_that_of_reading_the_whole_past(model: dict[str, Any], tmp_path: Path) -> None:
    """Of a window from the first step on, whose state is that of the whole; and a batch is the sum of its rows."""
    from ostinato.tasks.forecasting.answers import one_step

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
