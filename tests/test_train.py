"""Training: what it learns, what it logs, and that stopping it in any way changes nothing."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from corpus import write
from ostinato.core.errors import ConfigError, DivergedError, FormatError, Interrupted, StorageError
from ostinato.runs import RunDir
from ostinato.tasks.language import build, learner
from ostinato.tasks.language.load import load
from ostinato.tasks.options import Config, ModelOptions
from ostinato.text.batch import Batch
from ostinato.text.options import DataOptions
from ostinato.train.average import Average
from ostinato.train.flat import Flat
from ostinato.train.loop import Trainer
from ostinato.train.options import TrainOptions


def config(text: Path, kind: str = "lstm", regime: Any = "sentence", model: Any = None, **train: Any) -> Config:
    options: dict[str, Any] = {"epochs": 2, "rows": 8, "bptt": 5, "threads": 1, "learning_rate": 0.02, **train}
    return Config(
        DataOptions(text=(str(text),), tokeniser="blank", min_count=1, regime=regime, holdout=0.1),
        ModelOptions(kind=kind, hidden=None if kind == "ngram" else 12, **(model or {})),  # type: ignore[arg-type]
        TrainOptions() if kind == "ngram" else TrainOptions(**options),
    )


@pytest.fixture
def text(tmp_path: Path) -> Path:
    return write(tmp_path / "text.txt")


@pytest.mark.parametrize("kind", ["rnn", "lstm", "gru", "nplm", "ngram"])
@pytest.mark.parametrize("regime", ["sentence", "stream"])
def test_every_kind_learns_the_small_language(kind: str, regime: str, text: Path, tmp_path: Path) -> None:
    """Knowing only how often each word occurs gives about 9; the sentences' structure brings it below 4."""
    plan = config(text, kind, regime, **({} if kind == "ngram" else {"epochs": 4}))
    run = build.train(plan, tmp_path / "run")
    score = build.keep_results(run)
    assert score.perplexity < 4
    assert json.loads((run.path / "score.json").read_text())["perplexity"] == score.perplexity
    assert ("fresh" if regime == "sentence" else "carried") in score.signature


def test_the_log_has_every_number(text: Path, tmp_path: Path) -> None:
    run = build.train(config(text, report_every=7), tmp_path / "run")
    reports = [event for event in run.events() if event["event"] == "report"]
    names = {
        *("step", "epoch", "tokens", "seconds", "loss", "perplexity", "valid_loss", "valid_perplexity"),
        *("gradient_norm", "clipped_norm", "learning_rate", "tokens_per_second"),
    }
    assert all(names < set(report) for report in reports)
    plain = [report["step"] for report in reports if report["valid_loss"] is None]
    assert plain
    assert all(step % 7 == 0 for step in plain)
    assert sum(report["valid_loss"] is not None for report in reports) == 2
    assert np.exp(reports[-1]["valid_loss"]) == pytest.approx(reports[-1]["valid_perplexity"])
    start = run.events()[0]
    assert reports[-1]["tokens"] == 2 * start["train_tokens"]
    assert start["engine"]
    assert start["engine_reason"]
    assert start["processes"] == 1
    assert run.events()[-1]["peak_memory"] > 1 << 20


def weights(run: RunDir) -> bytes:
    """The best model and the last checkpoint, byte for byte, without the clock."""
    arrays, _ = run.load_checkpoint() or ({}, {})
    body = b"".join(arrays[name].tobytes() for name in sorted(arrays))
    return (run.path / "model.safetensors").read_bytes() + body


@pytest.mark.parametrize("regime", ["sentence", "stream"])
@pytest.mark.parametrize("stop_at", [1, 30, "an epoch's end"])
def test_training_2n_steps_equals_n_stop_resume_n(regime: str, stop_at: int | str, text: Path, tmp_path: Path) -> None:
    plan = config(text, regime=regime, accumulate=2, warmup=5, checkpoint_every=1000, average="tail", average_after=1)
    whole = build.train(plan, tmp_path / "whole")

    def stop(self: Trainer, *rest: Any) -> None:
        original(self, *rest)
        ended = self.at.batch == len(self.learner.batches(self.at.epoch))
        self.stop_asked = ended if isinstance(stop_at, str) else self.at.step == stop_at

    original = Trainer._update
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "_update", stop)
        with pytest.raises(Interrupted, match="resume"):
            build.train(plan, tmp_path / "parts")
    parts = build.resume(tmp_path / "parts")
    assert weights(parts) == weights(whole)
    steps = [event["step"] for event in parts.events() if event["event"] == "report"]
    assert steps == [event["step"] for event in whole.events() if event["event"] == "report"]


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "ostinato", *words]


def arguments(text: Path, run: Path) -> list[str]:
    return command(
        *("train", "--text", str(text), "--run-dir", str(run), "--model.hidden", "12", "--train.epochs", "12"),
        *("--train.rows", "8", "--train.bptt", "5", "--train.threads", "1", "--train.checkpoint-every", "10", "-q"),
    )


def wait_for(condition: Any, process: subprocess.Popen[str], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.002)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -9), (signal.SIGINT, 130), (signal.SIGTERM, 130)])
def test_a_killed_run_resumes_bit_for_bit(number: signal.Signals, code: int, text: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    subprocess.run(arguments(text, whole), check=True, capture_output=True)
    parts = RunDir(tmp_path / "parts")
    process = subprocess.Popen(arguments(text, parts.path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: len(parts.checkpoints()) == 2, process)
    os.kill(process.pid, number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    assert "Traceback" not in err
    assert number == signal.SIGKILL or f"ostinato resume {parts}" in err
    subprocess.run(command("resume", str(parts), "-q"), check=True, capture_output=True)
    assert weights(parts) == weights(RunDir(whole))


def test_a_resumed_run_tells_its_engine_again(text: Path, tmp_path: Path) -> None:
    run = build.train(config(text, epochs=2), tmp_path / "run")
    newest = run.checkpoints()[-1] / "state.safetensors"
    newest.write_bytes(newest.read_bytes()[:-9])
    build.resume(run.path)
    (start,) = (event for event in run.events() if event["event"] == "start")
    (resume,) = (event for event in run.events() if event["event"] == "resume")
    assert {key: resume[key] for key in ("engine", "engine_reason")} == {
        key: start[key] for key in ("engine", "engine_reason")
    }


def test_a_damaged_checkpoint_is_passed_over_and_told(text: Path, tmp_path: Path) -> None:
    plan = config(text, epochs=3)
    whole = build.train(plan, tmp_path / "whole")
    run = build.train(plan, tmp_path / "run")
    newest = run.checkpoints()[-1] / "state.safetensors"
    newest.write_bytes(newest.read_bytes()[:-9])
    told: list[str] = []
    build.resume(run.path, build.Callbacks(warn=lambda diagnosis: told.append(diagnosis.name)))
    assert told[0] == "damaged-checkpoint"
    assert weights(run) == weights(whole)


def test_resuming_a_finished_run_changes_nothing(text: Path, tmp_path: Path) -> None:
    run = build.train(config(text), tmp_path / "run")
    before, log = weights(run), (run.path / "log.jsonl").read_bytes()
    assert weights(build.resume(run.path)) == before
    assert (run.path / "log.jsonl").read_bytes() == log


def test_a_checkpoint_of_an_older_version_is_refused(text: Path, tmp_path: Path) -> None:
    run = build.train(config(text), tmp_path / "run")
    arrays, about = run.load_checkpoint() or ({}, {})
    run.save_checkpoint(about["position"]["step"], arrays, {"config": about["config"], "carried": about["carried"]})
    with pytest.raises(FormatError, match="older Ostinato"):
        build.resume(run.path)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_here_is_refused_in_one_line(text: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no CUDA device here; give --train\.device cpu or auto"):
        build.train(config(text, device="cuda"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_an_average_of_the_tail_is_what_is_validated_and_saved(text: Path, tmp_path: Path) -> None:
    """With SGD at a constant rate, one mean over the last two epochs; the weights themselves go on from their own."""
    seen: list[torch.Tensor] = []

    def watch(self: Average) -> None:
        seen.append(self.flat.values.clone())
        original(self)

    plan = config(text, epochs=3, average="tail", average_after=1, schedule="constant", precision="fp32")
    original = Average.add
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Average, "add", watch)
        run = build.train(plan, tmp_path / "run")
    arrays, about = run.load_checkpoint() or ({}, {})
    per_epoch = about["position"]["step"] // 3
    assert about["averaged"] == len(seen) == 2 * per_epoch
    network = learner.make_network(plan, build.Corpus.open(run.path / "data"))
    mean = Flat(network).views(torch.stack(seen).double().mean(dim=0))
    saved, last = run.load_model()[0], Flat(network).views(seen[-1])
    for name, expected in mean.items():
        np.testing.assert_allclose(arrays[f"average/{name}"], expected, atol=1e-6)
        np.testing.assert_array_equal(arrays[f"network/{name}"], last[name])
        np.testing.assert_array_equal(saved[name], arrays[f"average/{name}"])
    valid = [event["valid_loss"] for event in run.events() if event.get("valid_loss") is not None]
    assert min(valid) == valid[-1]  # or the model saved last would be an earlier mean


def test_a_changed_configuration_is_refused_and_named(text: Path, tmp_path: Path) -> None:
    run = build.train(config(text), tmp_path / "run")
    file = run.path / "config.toml"
    file.write_text(file.read_text().replace("rows = 8", "rows = 9"))
    with pytest.raises(ConfigError, match=r"train\.rows 8 -> 9"):
        build.resume(run.path)


def test_a_run_is_never_overwritten_and_two_processes_do_not_share_one(text: Path, tmp_path: Path) -> None:
    run = build.train(config(text), tmp_path / "run")
    with pytest.raises(StorageError, match="already exists"):
        build.train(config(text), run.path)
    with run.lock(), pytest.raises(StorageError, match="another process"):
        build.resume(run.path)
    assert not list(tmp_path.glob(".run*"))


def test_a_not_finite_loss_stops_the_run_at_the_last_good_checkpoint(text: Path, tmp_path: Path) -> None:
    original = Trainer._update

    def poison(self: Trainer, *rest: Any) -> None:
        if self.at.step == 20:
            with torch.no_grad():
                self.network.get_parameter("head.bias")[0] = float("nan")
        original(self, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "_update", poison)
        with pytest.raises(DivergedError, match=r"step 21 .*head.bias.*checkpoint 000015"):
            build.train(config(text, checkpoint_every=15), tmp_path / "run")
    event = next(event for event in RunDir(tmp_path / "run").events() if event["event"] == "diverged")
    assert (event["step"], event["parameter"], event["value"]) == (20, "head.bias", "nan")
    assert build.resume(tmp_path / "run")  # the checkpoint is sound: it goes on from there


def test_early_stopping_keeps_the_best_weights(text: Path, tmp_path: Path) -> None:
    plan = config(text, epochs=60, patience=2, learning_rate=0.05, schedule="constant", validate_every=11)
    run = build.train(plan, tmp_path / "run")
    valid = [event["valid_loss"] for event in run.events() if event.get("valid_loss") is not None]
    assert run.events()[-1]["reason"] == "patience"
    assert run.events()[-1]["step"] % 11 == 0
    assert np.argmin(valid) == len(valid) - 3
    found = learner.LanguageLearner(  # the saved model is the one of the lowest validation loss
        load(run.path).model.network,
        build.Corpus.open(run.path / "data"),
        plan,  # type: ignore[attr-defined]
    ).validate()
    assert found.loss == pytest.approx(min(valid), abs=1e-6)


def test_the_plateau_schedule_lowers_the_rate(text: Path, tmp_path: Path) -> None:
    plan = config(text, epochs=25, learning_rate=0.05, schedule="plateau", decay=0.5)
    run = build.train(plan, tmp_path / "run")
    reports = [event for event in run.events() if event.get("valid_loss") is not None]
    best, factor = float("inf"), 1.0
    for before, after in itertools.pairwise(reports):
        if before["valid_loss"] < best:
            best = before["valid_loss"]
        else:
            factor *= 0.5
        assert after["learning_rate"] == pytest.approx(0.05 * factor)
    assert factor < 1


def summed_loss(network: Any, batch: Batch) -> torch.Tensor:
    arrays = (torch.from_numpy(np.ascontiguousarray(a)) for a in (batch.inputs, batch.targets, batch.weight))
    return network.loss(network.init_state(len(batch.fresh)), *arrays)[0]


def test_accumulated_gradients_are_those_of_one_large_batch(text: Path, tmp_path: Path) -> None:
    """The gradient of two batches together is weighted by their tokens, not the mean of their means."""
    plan = config(text, model={"dropout": 0.0}, precision="fp32")
    run = build.train(replace(plan, train=replace(plan.train, epochs=1)), tmp_path / "run")
    corpus = build.Corpus.open(run.path / "data")
    network = load(run.path).model.network  # type: ignore[attr-defined]
    learning = learner.LanguageLearner(network, corpus, plan)
    batches = [learning.batches(0)[0], learning.batches(0)[1]]
    total = sum(int(batch.weight.sum()) for batch in batches)
    loss = sum(summed_loss(network, batch) for batch in batches if batch.fresh.all())
    expected = torch.autograd.grad(loss / total, network.head.bias)[0]  # type: ignore[call-overload]
    trainer = Trainer(learning, run, replace(plan.train, clip="off", learning_rate=1e-12))
    assert all(batch.fresh.all() for batch in batches)
    trainer._update(batches, 0.0)
    torch.testing.assert_close(network.head.bias.grad, expected)


@pytest.mark.parametrize("damage", ["truncate", "edit", "newer"])
def test_a_damaged_model_is_refused_in_one_line(damage: str, text: Path, tmp_path: Path) -> None:
    run = build.train(config(text), tmp_path / "run")
    file = run.path / "model.safetensors"
    content = file.read_bytes()
    if damage == "truncate":
        file.write_bytes(content[: len(content) // 2])
    elif damage == "edit":
        file.write_bytes(content[:-4] + b"\x00\x00\x80\x3f")
    else:
        file.write_bytes(content.replace(b'\\"format\\": 1,', b'\\"format\\": 9,'))
    with pytest.raises(FormatError, match="newer" if damage == "newer" else "model.safetensors"):
        load(run.path)


def test_tensorboard_gets_the_same_numbers(text: Path, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    plan = config(text)
    run = build.train(plan, tmp_path / "run", build.Callbacks(tensorboard=True))
    board = EventAccumulator(str(run.path / "tensorboard"))
    board.Reload()
    logged = [event["loss"] for event in run.events() if event["event"] == "report"]
    assert [scalar.value for scalar in board.Scalars("report/loss")] == pytest.approx(logged)
