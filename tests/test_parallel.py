"""Several processes train as one: the same weights, one voice, one end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from corpus import write
from ostinato.cli import app
from ostinato.core.errors import ConfigError
from ostinato.runs import RunDir
from ostinato.tasks.language import build
from ostinato.tasks.options import Config, ModelOptions
from ostinato.text.batch import Batch
from ostinato.train.ranks import Ranks, leads
from ostinato.train.signals import stopping

Process = subprocess.Popen[str]


def words(text: Path, run: Path, *more: str) -> list[str]:
    """A command that trains a tiny model; 7 rows do not divide by two."""
    return [
        *("train", "--text", str(text), "--run-dir", str(run), "--model.hidden", "12", "--train.rows", "7"),
        *("--train.bptt", "5", "--train.epochs", "2", "--train.checkpoint-every", "10", "--train.precision", "fp32"),
        *("--data.tokeniser", "blank", "--data.min-count", "1", "--train.threads", "1", "-q", *more),
    ]


SMOOTH = ["--train.optimiser", "sgd", "--train.momentum", "0.9", "--train.learning-rate", "0.3", "--model.dropout", "0"]
"""Rounding stays small: Adam divides by numbers near zero, and dropout draws by process."""


def free_port() -> str:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return str(made.getsockname()[1])


def start(count: int, arguments: list[str]) -> list[Process]:
    """So many processes that know of each other, as torchrun starts them."""
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "WORLD_SIZE": str(count)}
    places = ({"RANK": str(rank), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(count)} for rank in range(count))
    return [
        subprocess.Popen(
            [sys.executable, "-m", "ostinato", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", **address, **place},
        )
        for place in places
    ]


def finish(processes: list[Process], *codes: int) -> list[tuple[str, str]]:
    """What each wrote to standard output and error; they must end with these codes, and soon."""
    try:
        told = [process.communicate(timeout=120) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == list(codes), told
    return told


def wait_for(condition: Callable[[], bool], processes: list[Process]) -> None:
    end = time.monotonic() + 120
    while not condition():
        assert all(process.poll() is None for process in processes), [p.communicate() for p in processes]
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.002)


def state(run: Path) -> dict[str, Any]:
    """The last checkpoint without the random numbers."""
    arrays, about = RunDir(run).load_checkpoint() or ({}, {})
    assert about["position"]["ended"] == "epochs"
    return {name: array for name, array in arrays.items() if name != "random"}


def assert_close(run: Path, other: Path) -> None:
    ours, theirs = state(run), state(other)
    assert ours.keys() == theirs.keys()
    assert {name.split("/")[0] for name in ours} == {"network", "optimiser", "carried"}
    for name in ours:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=0, atol=1e-5, err_msg=name)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("text") / "text.txt", 300)


@pytest.fixture(scope="module")
def alone(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that one process has trained, the state carried over sentences."""
    run = tmp_path_factory.mktemp("alone") / "run"
    assert app.run(words(text, run, *SMOOTH, "--data.regime", "stream")) == 0
    return run


def test_torchrun_trains_as_one_process_does_and_one_voice_speaks(alone: Path, text: Path, tmp_path: Path) -> None:
    """The same weights, momentum and carried state after two epochs, from rows split 3 and 4."""
    run = tmp_path / "run"
    launch = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", free_port(), "-m", "ostinato"]
    done = subprocess.run(
        [sys.executable, *launch, *words(text, run, *SMOOTH, "--data.regime", "stream")],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("perplexity per word") == 1
    assert_close(run, alone)
    events, single = RunDir(run).events(), RunDir(alone).events()
    assert events[0]["processes"] == 2
    assert [(event["event"], event["step"]) for event in events] == [(e["event"], e["step"]) for e in single]
    for event, other in zip(events, single, strict=True):
        for key in ("loss", "valid_loss", "gradient_norm", "tokens"):
            assert event.get(key) == (None if other.get(key) is None else pytest.approx(other[key], rel=1e-4)), key


def test_our_kernels_train_in_two_processes_as_in_one(text: Path, tmp_path: Path) -> None:
    """In bfloat16 rounding differs with how rows are grouped, by some 1e-4 here; the engine is ours in both."""
    more = [*SMOOTH, "--data.regime", "stream"]
    one, two = ([*words(text, tmp_path / name, *more)] for name in ("one", "two"))
    for command in (one, two):
        command[command.index("fp32")] = "bf16"
    assert app.run(one) == 0
    if not RunDir(tmp_path / "one").events()[0]["engine"].startswith("own kernels"):
        pytest.skip("this processor has no bfloat16 products")
    finish(start(2, two), 0, 0)
    alone, both = state(tmp_path / "one"), state(tmp_path / "two")
    for name in alone:
        if name.startswith("network"):
            np.testing.assert_allclose(both[name], alone[name], rtol=0, atol=2e-3, err_msg=name)
    events, single = RunDir(tmp_path / "two").events(), RunDir(tmp_path / "one").events()
    assert events[0]["engine"] == single[0]["engine"]
    losses = [[event["loss"] for event in run if event.get("loss")] for run in (events, single)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


def test_stopping_one_process_stops_all_and_one_alone_may_go_on(alone: Path, text: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    processes = start(2, words(text, run, *SMOOTH, "--data.regime", "stream"))
    wait_for(lambda: bool(RunDir(run).checkpoints()), processes)
    os.kill(processes[1].pid, signal.SIGTERM)
    for _, told in finish(processes, 130, 130):
        assert f"ostinato resume {run}" in told
        assert "Traceback" not in told
    assert RunDir(run).events()[-1]["reason"] == "interrupted"
    assert app.run(["resume", str(run), "-q"]) == 0
    assert_close(run, alone)


def test_a_killed_process_ends_the_others_and_resume_goes_on_bit_for_bit(text: Path, tmp_path: Path) -> None:
    whole, run = tmp_path / "whole", tmp_path / "run"
    finish(start(2, words(text, whole)), 0, 0)  # AdamW, with dropout
    processes = start(2, words(text, run))
    wait_for(lambda: len(RunDir(run).checkpoints()) == 2, processes)
    os.kill(processes[1].pid, signal.SIGKILL)
    (_, told), _ = finish(processes, 1, -9)
    assert "process 0 of 2: another process of this training has ended" in told
    assert "Traceback" not in told
    finish(start(2, ["resume", str(run), "-q"]), 0, 0)
    for name, array in state(run).items():
        assert array.tobytes() == state(whole)[name].tobytes(), name


def test_an_error_while_preparing_ends_all(tmp_path: Path) -> None:
    (_, first), (_, second) = finish(start(2, words(tmp_path / "missing.txt", tmp_path / "run")), 1, 1)
    assert "missing.txt" in first
    assert "process 1 of 2: another process of this training has ended" in second
    assert not (tmp_path / "run").exists()


# --- Without processes ----------------------------------------------------------------------------------


@given(st.integers(0, 50), st.integers(1, 9))
def test_every_row_belongs_to_one_process_and_shares_are_even(total: int, size: int) -> None:
    shares = [range(total)[Ranks(rank, size).rows(total)] for rank in range(size)]
    assert [row for share in shares for row in share] == list(range(total))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_fewer_rows_than_processes_are_refused() -> None:
    ids = np.zeros((2, 3), np.int64)
    batch = Batch(ids, ids, np.ones((2, 3), np.float32), np.ones(2, np.bool_))
    assert Ranks(1, 2).part(batch).inputs.shape == (1, 3)
    with pytest.raises(ConfigError, match="2 rows, which 3 processes cannot share"):
        Ranks(0, 3).part(batch)


def test_one_process_exchanges_nothing() -> None:
    ranks, tensor = Ranks(), torch.arange(3.0)
    ranks.add(tensor)
    ranks.follow(tensor)
    assert tensor.tolist() == [0, 1, 2]
    assert ranks.whole(tensor, 3) is tensor
    assert (ranks.told(2.5), ranks.any(True), ranks.any(False)) == (2.5, True, False)


def test_only_the_first_process_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    assert leads()
    for name, value in {"WORLD_SIZE": "2", "MASTER_ADDR": "here", "MASTER_PORT": "1", "RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    assert not leads()
    monkeypatch.setenv("RANK", "0")
    assert leads()


def test_an_ngram_model_is_made_by_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"WORLD_SIZE": "2", "MASTER_ADDR": "here", "MASTER_PORT": "1", "RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match="without torchrun"):
        build.train(Config(model=ModelOptions(kind="ngram")), tmp_path / "run")


def test_a_second_signal_breaks_off_unless_it_may_be_the_first_passed_on() -> None:
    asked: list[int] = []
    with stopping(lambda: asked.append(1), several=True):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
    assert len(asked) == 2
    with pytest.raises(KeyboardInterrupt):
        interrupt_twice()


def interrupt_twice() -> None:
    with stopping(lambda: None, several=False):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
