"""The translation task on the command line: train, predict, evaluate --tune, plot --attention."""

from __future__ import annotations

import json
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from ostinato.cli.app import run as cli
from ostinato.runs import RunDir
from translation_toys import columns, config, parallel, reversed_pairs, sentences, trained, write

CONFIG = """task = "translation"

[data]
tokeniser = "word"

[model]
kind = "gru"
hidden = 16
embedding = 16
dropout = 0.0

[train]
epochs = 2
threads = 1
precision = "fp32"
learning_rate = 0.01
measure = "chrf"
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    folder = tmp_path_factory.mktemp("cli")
    return trained(config(parallel(folder, sentences(80)), {"tokeniser": "word"}, epochs=3), folder / "run")


def test_a_configuration_trains_from_two_files_and_judges(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan, files = write(tmp_path / "plan.toml", CONFIG), parallel(tmp_path, sentences(60))
    command = [
        "train",
        plan,
        "--data.train",
        *files,
        "--run-dir",
        str(tmp_path / "run"),
        "--search.beam",
        "2",
        "--json",
    ]
    assert cli([*command, "-q"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["measure"] == "chrF"
    assert {"bleu", "bleu_lc", "token_bleu_lc", "chrf", "length_ratio", "exact", "nats"} <= said["measures"].keys()
    assert "search:beam2+penalty0" in said["signature"]
    assert (tmp_path / "run" / "mistakes.jsonl").read_text("utf8")


def test_standard_input_is_answered_line_by_line(
    run: RunDir, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(b"the dog.\n\na house!\n")))
    assert cli(["predict", str(run), "--beam", "3", "--nbest", "2", "--length-penalty", "0.6"]) == 0
    out, err = capsys.readouterr()
    assert [line.count("\t") for line in out.split("\n")] == [1, 0, 1, 0]
    assert err == "lines without anything to translate, which are answered by empty ones: 1\n"


def test_tuning_is_said_and_kept(run: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["evaluate", str(run), "--tune"]) == 0
    out, err = capsys.readouterr()
    assert "is best on the validation data (BLEU 0: " in err
    assert json.loads((run.path / "tuned.json").read_text("utf8"))["measure"] == "bleu"
    assert "BLEU (8 judged) [data:t.en+1/held-out#" in out


def test_attention_is_drawn_beside_the_curves(run: RunDir, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["plot", str(run), "--attention", "the small dog.", "--out", str(tmp_path / "seen"), "--json"]) == 0
    files = [Path(path) for path in json.loads(capsys.readouterr().out)["files"]]
    assert [path.name for path in files] == ["seen.svg", "seen.png"]
    assert all(path.stat().st_size > 1000 for path in files)
    assert ">small<" in files[0].read_text("utf8").replace(" ", "")
    assert cli(["plot", str(run), "--out", str(tmp_path / "curves")]) == 0
    assert (tmp_path / "curves.svg").is_file()


def test_quality_by_length_is_drawn_from_the_last_evaluation(run: RunDir, tmp_path: Path) -> None:
    assert cli(["evaluate", str(run), "-q"]) == 0
    assert cli(["plot", str(run), "--by-length", "--out", str(tmp_path / "lengths"), "-q"]) == 0
    assert "by source length, in words" in (tmp_path / "lengths.svg").read_text("utf8")


def test_what_makes_no_sense_is_refused(
    run: RunDir, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    train = (write(tmp_path / "f", columns(reversed_pairs(40))),)
    greedy = trained(config(train, search={"beam": 1}, epochs=1), tmp_path / "greedy")
    for words, message in (
        (["plot", str(run), str(run), "--attention", "a"], "--attention draws one run, got 2"),
        (["plot", str(run), "--attention", " "], "there is no attention to draw"),
        (["plot", str(run), "--attention", "a", "--by-length"], "ask for one"),
        (["evaluate", str(greedy), "--tune"], "nothing to tune"),
        (["evaluate", str(run), "--max-ppl", "3"], "has no perplexity"),
        (["predict", str(run), "--precision", "fp8"], "precision"),
        (["predict", str(run), "--online"], "--online: an answer begins when"),
    ):
        assert cli(words) in (1, 2)
        assert message in capsys.readouterr().err.replace("\n", " ")
