"""The page of runs: what it reads from disk, and how it follows a run that is training."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ostinato.lab import runs as lab
from ostinato.lab.shelf import Shelf
from ostinato.runs import RunDir


def report(step: int, loss: float, valid_loss: float | None = None, **more: Any) -> dict[str, Any]:
    """An event of log.jsonl, as far as the page needs it."""
    return {
        "event": "report", "step": step, "epoch": 1, "tokens": 100 * step, "seconds": step / 10, "loss": loss,
        "perplexity": 2.718281828**loss, "valid_loss": valid_loss, "valid_perplexity": None, "gradient_norm": 3.0,
        "clipped_norm": 1.0, "learning_rate": 0.01, "tokens_per_second": 1000.0, **more,
    }  # fmt: skip


@pytest.fixture
def going(lab_runs: Path) -> Iterator[Path]:
    """A run in the lab's folder that has begun and not ended."""
    path = lab_runs / "going"
    path.mkdir()
    (path / "config.toml").write_text('[model]\nkind = "gru"\nhidden = 9\n[data]\ntext = ["a.txt", "b.txt"]\n')
    (path / "environment.json").write_text('{"format": 1}')
    start = {"event": "start", "step": 0, "outputs": 50, "parameters": 1234, "frozen": [], "train_tokens": 500}
    write(path, start, report(10, 3.5), report(20, 3.0, 3.25))
    yield path
    shutil.rmtree(path)


def write(path: Path, *events: dict[str, Any]) -> None:
    with (path / "log.jsonl").open("a") as log:
        log.write("".join(json.dumps(event) + "\n" for event in events))


def test_a_run_is_described_as_its_files_say(going: Path, lab_runs: Path) -> None:
    shelf = Shelf([lab_runs])
    found = lab.describe(shelf, "going")
    assert (found["state"], found["step"], found["parameters"], found["outputs"]) == ("going", 20, 1234, 50)
    assert found["config"] == {"model.kind": "gru", "model.hidden": "9", "data.text": "a.txt, b.txt"}
    assert found["curves"]["loss"] == [3.5, 3.0]
    assert found["curves"]["valid_loss"] == [None, 3.25]
    write(going, report(30, 2.5), {"event": "stop", "step": 30, "reason": "epochs", "seconds": 3.0})
    assert lab.describe(shelf, "going")["state"] == "epochs"
    trained = lab.describe(shelf, "lstm")
    events = RunDir.open(lab_runs / "lstm").events()
    assert trained["curves"]["valid_loss"] == [e["valid_loss"] for e in events if e["event"] == "report"]
    assert [sample["step"] for sample in trained["samples"]] == [e["step"] for e in events if e["event"] == "sample"]
    assert lab.describe(shelf, "kn")["state"] == "estimated"


def test_a_run_that_has_gone_quiet_counts_as_stopped(going: Path, lab_runs: Path) -> None:
    old = time.time() - lab.QUIET - 5
    os.utime(going / "log.jsonl", (old, old))
    assert lab.describe(Shelf([lab_runs]), "going")["state"] == "stopped"


def test_a_damaged_run_says_so_and_hides_no_other(going: Path, lab_runs: Path) -> None:
    with (going / "log.jsonl").open("a") as log:
        log.write("{broken\n")
    found = lab.describe(Shelf([lab_runs]), "going")
    assert "log.jsonl:4: not a line of JSON" in found["error"]
    assert found["config"]["model.kind"] == "gru"


def test_long_logs_are_thinned_but_keep_ends_and_validations() -> None:
    reports = [report(step, 3.0, 2.0 if step % 997 == 0 else None, valid={"bleu": 1.0}) for step in range(1, 9001)]
    found = lab.curves_of(reports)
    assert found["total"] == 9000
    assert len(found["step"]) <= lab.MOST_POINTS + 10
    assert {1, 9000, 997, 997 * 9} <= set(found["step"])
    assert set(found["measures"]) == {"bleu"}


def test_the_page_shows_curves_options_samples_and_follows(open_page: Any, going: Path) -> None:
    page = open_page("#runs?runs=lstm|going&along=step")
    overview = page.get_by_role("region", name="Overview")
    row = overview.get_by_role("row", name="going")
    row.wait_for()
    assert row.inner_text().split("\t")[1:] == ["training", "20", "2,000", "1,234", "25.79"]  # e^3.25
    assert page.get_by_text("1 training now").is_visible()
    options = page.get_by_role("region", name="Options side by side")
    assert options.get_by_role("row", name="model.hidden").inner_text().split("\t") == ["model.hidden", "8", "9"]
    figure = page.get_by_role("figure").filter(has_text="Learning curves")
    figure.get_by_text("Table").click()
    rows = figure.get_by_role("row")
    rows.filter(has_text="20.09").wait_for()  # e^3
    write(going, report(40, 2.0, 2.25), {"event": "stop", "step": 40, "reason": "epochs", "seconds": 4.0})
    rows.filter(has_text="7.389").wait_for(timeout=9000)  # e^2
    assert row.inner_text().split("\t")[1:] == ["finished", "40", "4,000", "1,234", "9.488"]  # e^2.25
    page.get_by_role("combobox", name="show").select_option("bits")
    rows.filter(has_text="2.885").wait_for()  # 2 / ln 2


def test_the_doctor_speaks_the_language_of_the_page(open_page: Any, going: Path) -> None:
    write(going, {"event": "diverged", "step": 20, "epoch": 0, "batch": 1, "what": "loss", "value": "nan"})
    page = open_page("#runs?runs=going")
    page.locator(".diagnoses").wait_for()
    assert page.locator(".diagnoses").inner_text() == (
        "Fault: not finite – the loss became nan in update 21 (epoch 1, batch 2); training stopped; train again with a "
        "smaller --train.learning-rate, --train.clip norm or a smaller --train.clip-at."
    )
    page.get_by_role("button", name="中文").click()
    page.get_by_text("故障：出现非有限数").wait_for()
    said = page.locator(".diagnoses").inner_text()
    assert "损失在第 21 次更新（第 1 轮，第 2 批）变成了 nan；训练已停止。用更小的" in said
    assert page.locator("main").get_by_text("training stopped").count() == 0


def test_runs_are_chosen_by_keyboard_and_kept_in_the_address(open_page: Any) -> None:
    page = open_page("#runs")
    page.get_by_role("region", name="Overview").get_by_role("row", name="kn").wait_for()
    box = page.get_by_role("checkbox", name="kn")
    assert box.is_checked()  # what is shown is ticked, also before anything was chosen
    box.focus()
    page.keyboard.press("Space")
    page.get_by_role("region", name="Overview").get_by_role("row", name="kn").wait_for(state="detached")
    page.wait_for_url("**runs=*lstm**")
    page.reload()
    page.get_by_role("region", name="Overview").get_by_role("row", name="lstm").wait_for()
    assert page.get_by_role("checkbox", name="lstm").is_checked()
    assert not page.get_by_role("checkbox", name="kn").is_checked()
    assert "Healthy" in page.locator("main").inner_text() or page.locator(".diagnoses").count()


def test_without_runs_the_page_says_what_to_do(browser: Any) -> None:
    import subprocess
    import sys

    words = [sys.executable, "-m", "ostinato", "lab", "--port", "0", "--no-browser", "-q"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        page = browser.new_page(locale="en-GB")
        page.goto(process.stdout.readline().strip() + "#runs")
        page.get_by_text("No run is open. Train one").wait_for()
        page.close()
        process.terminate()


def test_a_run_that_comes_later_is_shown_without_reloading(open_page: Any, lab_runs: Path) -> None:
    page = open_page("#runs", viewport={"width": 1200, "height": 800})
    found = page.get_by_role("checkbox", name="late")
    page.wait_for_timeout(3500)  # it has looked once
    assert found.count() == 0
    try:
        shutil.copytree(lab_runs / "lstm", lab_runs / "late")
        found.wait_for(timeout=15000)
    finally:
        shutil.rmtree(lab_runs / "late")
