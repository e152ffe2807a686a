"""Forecasts of rows as they come and of more steps than one: the same as those that are judged, and a state to keep."""

from __future__ import annotations

import csv
import json
import math
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import numpy as np
import pytest

from forecasting_toys import answers, config, loaded, run_of_two, trained, wave, wave_run, write
from ostinato.core.errors import ConfigError, FormatError, MismatchError
from ostinato.core.progress import unwatched
from ostinato.runs import RunDir
from ostinato.tasks.task import PredictOptions


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("forecasting")


@pytest.fixture(scope="module")
def run(folder: Path) -> RunDir:
    return wave_run(folder)


@pytest.fixture(scope="module")
def many(folder: Path) -> RunDir:
    return run_of_two(folder)


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


def test_a_loaded_run_says_the_same_in_a_fresh_process(run: RunDir, tmp_path: Path) -> None:
    source = write(tmp_path / "x.csv", wave(9))
    here = "".join(f"{line}\n" for line in loaded(run).predict(str(source), PredictOptions(scores=True)))
    command = [sys.executable, "-m", "ostinato", "predict", str(run.path), "-", "--scores"]
    done = subprocess.run(command, input=source.read_text(), capture_output=True, check=True, text=True)
    assert done.stdout == here


def test_a_session_goes_on_where_it_was_left_and_looks_as_far_as_asked(run: RunDir, tmp_path: Path) -> None:
    """In two processes, or stopped after any row: the same answers as in one go."""
    whole = write(tmp_path / "x.csv", wave(12))
    session = tmp_path / "wave.session"
    asked = PredictOptions(json=True, scores=True, horizon=3, session=session)
    in_one = list(loaded(run).predict(str(whole), PredictOptions(json=True, scores=True, horizon=3)))
    assert [len(json.loads(line)["forecasts"]) for line in in_one] == [3] * 12
    assert [json.loads(line)["forecasts"][0] for line in in_one] == [one["forecasts"][0] for one in answers(run, whole)]
    stopped = loaded(run).predict(str(whole), asked)
    found = [next(stopped) for _ in range(5)]
    assert isinstance(stopped, Generator)
    stopped.close()
    found += loaded(run).predict(str(write(tmp_path / "rest.csv", wave(12)[5:], begin=5)), asked)
    assert found == in_one
    session.write_bytes(session.read_bytes()[:-3])
    with pytest.raises(FormatError, match=r"wave\.session: .*remove the file"):
        loaded(run).predict(str(whole), asked)


@pytest.mark.parametrize("horizon", [0, -1, 10_001])
def test_how_far_one_can_look_ahead(run: RunDir, horizon: int) -> None:
    with pytest.raises(ConfigError, match=f"--horizon {horizon}: steps ahead are 1 to 10,000"):
        loaded(run).predict("-", PredictOptions(horizon=horizon))
