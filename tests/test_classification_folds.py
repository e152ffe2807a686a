"""Sharing examples out, cross-validation, and input that comes bit by bit."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from classification_toys import config, examples, write
from ostinato.cli.app import run as command
from ostinato.core.errors import ConfigError, DataError
from ostinato.tasks.arriving import grouped
from ostinato.tasks.cross_validation import cross_validate, summed
from ostinato.tasks.examples import digest, read_examples, write_examples
from ostinato.tasks.language.build import Callbacks
from ostinato.tasks.splitting import SplitOptions, split
from ostinato.tasks.tables import by_class
from ostinato.tasks.task import Report


@given(count=st.integers(12, 200), folds=st.integers(2, 10), seed=st.integers(0, 5))
def test_every_example_is_tested_once_and_never_trained_on_then(count: int, folds: int, seed: int) -> None:
    parts = [split(count, SplitOptions(folds=folds, fold=fold, split_seed=seed), "x") for fold in range(1, folds + 1)]
    assert sorted(np.concatenate([part["test"] for part in parts]).tolist()) == list(range(count))
    for part in parts:
        assert sorted(np.concatenate(list(part.values())).tolist()) == list(range(count))
    sizes = {len(part["test"]) for part in parts}
    assert max(sizes) - min(sizes) <= 1


def test_what_is_held_out_is_the_share_asked_for_and_the_same_every_time() -> None:
    parts = split(200, SplitOptions(holdout=0.1), "x")
    assert {part: len(places) for part, places in parts.items()} == {"valid": 20, "train": 180}
    again = split(200, SplitOptions(holdout=0.1), "x")
    assert all(np.array_equal(parts[part], again[part]) for part in parts)
    assert set(split(200, SplitOptions(valid=("file",)), "x")) == {"train"}
    other = split(200, SplitOptions(holdout=0.1, split_seed=2), "x")
    assert not np.array_equal(parts["valid"], other["valid"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"folds": 1}, "one fold leaves nothing"),
        ({"folds": 3, "test": ("x",)}, "leave test out"),
        ({"folds": 3, "fold": 4}, "fold 4 of 3"),
    ],
)
def test_folds_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        SplitOptions(**options)


def test_too_few_examples_are_refused_with_their_name() -> None:
    with pytest.raises(DataError, match="questions: 2 examples are too few"):
        split(2, SplitOptions(folds=2), "questions")


def report(value: float, count: int = 10) -> Report:
    return Report("accuracy", value, count, "data:x", {"accuracy": value, "nats": value / 10})


def test_mean_and_spread_by_hand() -> None:
    """Two seeds, three folds; deviations from the mean over n - 1."""
    found = summed([[report(80), report(90), report(85, 9)], [report(84), report(86), report(91, 9)]], (1, 2))
    assert found.by_seed == [85, 87]
    assert found.by_fold == [82, 88, 88]
    assert found.mean == 86
    content = found.to_json()
    assert content["spread_folds"] == pytest.approx((((82 - 86) ** 2 + 2 * (88 - 86) ** 2) / 2) ** 0.5)
    assert content["spread_seeds"] == pytest.approx(2**0.5)
    assert content["measures"] == {"accuracy": 86, "nats": pytest.approx(8.6)}
    assert "86.00 accuracy, standard deviation 3.46 over 3 folds, 1.41 over 2 seeds (29 judged)" in str(found)
    assert found.table().rows[0] == ("1", "10", "80.00", "84.00")
    assert found.table().rows[-1] == ("mean", "29", "85.00", "87.00")


def test_cross_validation_judges_every_example_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
    plan = config(write(tmp_path / "train", examples(90)), epochs=8)
    folder = tmp_path / "folds"
    notes: list[str] = []

    def stop(text: str) -> None:
        notes.append(text)
        if text.startswith("fold 2"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cross_validate("classification", plan, folder, 3, (1,), Callbacks(note=stop))
    times = {path.name: (path / "model.safetensors").stat().st_mtime_ns for path in folder.iterdir()}
    assert set(times) == {"seed-1-fold-01", "seed-1-fold-02"}
    found = cross_validate("classification", plan, folder, 3, (1,), Callbacks())
    assert all((folder / name / "model.safetensors").stat().st_mtime_ns == then for name, then in times.items())
    assert found.counts == (30, 30, 30)
    assert found.mean > 60
    assert json.loads((folder / "crossvalidation.json").read_text())["mean"] == found.mean
    for fold in (1, 2, 3):
        data = folder / f"seed-1-fold-0{fold}" / "data"
        where = [{row["where"] for row in read_examples(data / f"{part}.jsonl")} for part in ("train", "valid", "test")]
        assert not where[2] & (where[0] | where[1])
        assert len(set.union(*where)) == 90
    with pytest.raises(ConfigError, match=r"made with other options \(train.epochs\)"):
        cross_validate("classification", config(tmp_path / "train", epochs=2), folder, 3, (1,), Callbacks())


def test_cross_validation_refuses_test_files_and_repeated_seeds(tmp_path: Path) -> None:
    plan = config(write(tmp_path / "train"), {"test": (str(tmp_path / "train"),)})
    with pytest.raises(ConfigError, match="leave test out"):
        cross_validate("classification", plan, tmp_path / "folds", 3, (1,), Callbacks())
    with pytest.raises(ConfigError, match="different seeds"):
        cross_validate("classification", config(tmp_path / "train"), tmp_path / "folds", 3, (1, 1), Callbacks())


def toml(folder: Path) -> Path:
    path = folder / "toy.toml"
    path.write_text(
        'task = "classification"\n[data]\nmin_count = 1\n[model]\nhidden = 12\n'
        "[train]\nepochs = 3\nrows = 8\nlearning_rate = 0.02\nthreads = 1\n"
    )
    return path


def test_the_commands_train_predict_evaluate_and_cross_validate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train, plan, run = write(tmp_path / "train", examples(60)), str(toml(tmp_path)), str(tmp_path / "run")
    given = ["--data.train", str(train), "-q"]
    assert command(["train", plan, *given, "--model.kind", "gru", "--run-dir", run]) == 0
    assert "accuracy (6 judged) [data:train/held-out#" in capsys.readouterr().out
    assert command(["evaluate", run, str(train), "--json", "-q"]) == 0
    judged = json.loads(capsys.readouterr().out)
    assert judged["count"] == 60
    assert (tmp_path / "run" / "mistakes.jsonl").is_file()
    assert command(["predict", run, str(train), "--nbest", "2", "--scores", "-q"]) == 0
    assert [line.count("\t") for line in capsys.readouterr().out.splitlines()] == [3] * 60
    assert command(["resume", run, "-q"]) == 0
    capsys.readouterr()
    folds = ["crossvalidate", plan, *given, "--folds", "2", "--seeds", "1", "2", "--run-dir", str(tmp_path / "folds")]
    assert command([*folds, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["seeds"] == [1, 2]
    assert found["counts"] == [30, 30]


def test_a_configuration_without_a_task_is_not_cross_validated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lm.toml").write_text("[model]\nhidden = 8\n")
    assert command(["crossvalidate", str(tmp_path / "lm.toml"), "--run-dir", str(tmp_path / "x")]) == 2
    assert "names no task" in capsys.readouterr().err
    path = toml(tmp_path)
    path.write_text(path.read_text().replace("hidden", "hiden"))
    assert command(["train", str(path), "--run-dir", str(tmp_path / "x")]) == 2
    assert "did you mean 'model.hidden'?" in capsys.readouterr().err


def test_slow_input_is_answered_as_it_comes_and_fast_input_in_groups() -> None:
    asked = threading.Semaphore(0)

    def slow() -> Iterator[int]:
        for number in range(3):
            asked.acquire(timeout=10)
            yield number

    groups = grouped(slow(), 100, "-")
    for number in range(3):
        asked.release()
        assert next(groups) == [number]
    assert list(groups) == []
    fast = list(grouped(iter(range(250)), 100, "-"))
    assert [number for group in fast for number in group] == list(range(250))
    assert max(map(len, fast)) <= 100
    assert [len(group) for group in grouped(range(250), 100, "file")] == [100, 100, 50]


@pytest.mark.parametrize("source", ["-", "file"])
def test_a_fault_in_the_input_comes_after_what_stood_before_it(source: str) -> None:
    def broken() -> Iterator[int]:
        yield from (1, 2)
        raise DataError("line 3")

    found: list[int] = []
    with pytest.raises(DataError, match="line 3"):
        found.extend(number for group in grouped(broken(), 10, source) for number in group)
    assert found == [1, 2]


def test_a_reader_nobody_listens_to_ends() -> None:
    before = threading.active_count()
    groups = grouped(iter(range(10**9)), 2, "-")
    next(groups)
    groups.close()  # type: ignore[attr-defined]
    for _ in range(100):
        if threading.active_count() == before:
            break
        time.sleep(0.05)
    assert threading.active_count() == before


def test_examples_come_back_as_they_were_and_their_digest_tells_them_apart(tmp_path: Path) -> None:
    rows = [{"text": "a\u2028b\x85 \ud800", "label": "é"}, {"text": "", "label": "x"}]
    write_examples(tmp_path / "x.jsonl", rows)
    assert read_examples(tmp_path / "x.jsonl", "text", "label") == rows
    assert read_examples(tmp_path / "none.jsonl") == []
    assert digest(rows, "text") != digest(rows[::-1], "text")
    assert digest(rows, "label") == digest([{**row, "text": "y"} for row in rows], "label")


def test_classes_of_examples_by_hand() -> None:
    values, right = np.array([0, 1, 5, 6, 50]), np.array([True, False, True, True, False])
    table = by_class("by length", "words", values, right, (0, 1, 6, 11, 21, 41))
    assert table.rows == (
        ("0", "1", "100.00"),
        ("1-5", "2", "50.00"),
        ("6-10", "1", "100.00"),
        ("41+", "1", "0.00"),
    )
