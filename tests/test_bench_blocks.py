"""Blocks by turns: processes that stay, foreign load, and what is done when a side fails."""

from __future__ import annotations

import json
import os
import sys
import time

import pytest

from ostinato.bench import blocks as module
from ostinato.bench.blocks import Effort, Worker, by_blocks, disturbance, sample
from ostinato.bench.machine import busy_seconds, foreign_share
from ostinato.bench.serve import Ended, Pace, time_steps
from ostinato.core.errors import DataError


class Side:
    """A worker that answers what it is asked, without a process."""

    def __init__(self, name, calls):
        self.name, self.calls = name, calls

    def ask(self, **request):
        self.calls.append(self.name)
        return {"cpu": 0.0, "peak_bytes": 7, "rate": float(len(self.calls)), **request}


def loads(monkeypatch, shares):
    """Let the machine's foreign load be these shares, one a block."""
    given = iter(shares)
    monkeypatch.setattr(module, "foreign_share", lambda *measured: next(given))


def test_sides_take_turns_until_each_has_enough_quiet_blocks(monkeypatch):
    calls, said = [], []
    loads(monkeypatch, [0.0, 0.5, 0.0, 0.01, 0.02])
    ours, theirs = by_blocks([Side("ours", calls), Side("theirs", calls)], Effort(2, 1.0, 3), said.append, warm=3)
    assert calls == ["ours", "theirs", "ours", "theirs", "theirs"]
    assert [block.foreign for block in ours] == [0.0, 0.0]
    assert [block.foreign for block in theirs] == [0.01, 0.02]
    assert ours[0].answer["seconds"] == 1.0
    assert ours[0].answer["warm"] == 3
    assert disturbance(ours, theirs) == 0.02


def test_when_it_is_never_quiet_the_least_disturbed_blocks_count_and_this_is_said(monkeypatch):
    said = []
    loads(monkeypatch, [0.9, 0.3, 0.5, 0.2])
    (only,) = by_blocks([Side("ours", [])], Effort(2, 1.0, 2), said.append)
    assert [block.foreign for block in only] == [0.2, 0.3]
    assert "30%" in said[-1]
    assert sample(only, "rate").values == (4.0, 2.0)


def test_foreign_load_is_what_is_neither_ours_nor_idle():
    cores = os.cpu_count() or 1
    assert foreign_share(10.0, 13.0, 2.0, 2.0) == pytest.approx((13 - 10 - 2) / (2 * cores))
    assert foreign_share(10.0, 11.0, 2.0, 1.0) == 0.0
    assert foreign_share(None, None, 2.0, 1.0) == 0.0


@pytest.mark.skipif(busy_seconds() is None, reason="this system does not tell")
def test_busy_seconds_count_our_own_work():
    before, end = busy_seconds(), time.process_time() + 0.3
    while time.process_time() < end:
        pass
    assert busy_seconds() - before >= 0.2


def test_a_worker_that_ends_is_named_with_what_it_said():
    with Worker("peaks", {"no": "threads"}, 1) as worker, pytest.raises(DataError, match=r"(?s)exit code 1: .*threads"):
        worker.ask(read=1000, seconds=0.0)


def test_a_worker_has_as_many_threads_as_it_is_told_and_a_peer_its_own_way_to_wait(monkeypatch):
    monkeypatch.setenv("GOMP_SPINCOUNT", "10000")
    seen = []

    class Popen:
        stdin = stdout = sys.stdin

        def __init__(self, command, env, **more):
            seen.append(env)

    monkeypatch.setattr("subprocess.Popen", Popen)
    for spins in (False, True):
        Worker("peaks", {}, 3, spins)._errors.close()
    assert [env["OMP_NUM_THREADS"] for env in seen] == ["3", "3"]
    assert ["GOMP_SPINCOUNT" in env for env in seen] == [True, False]


def test_reading_and_products_are_timed_in_a_process_that_stays():
    with Worker("peaks", {"threads": 1}, 1) as worker:
        small, large = (worker.ask(read=size, seconds=0.0)["rate"] for size in (500_000, 64_000_000))
        assert 1e9 < large < 1e13
        assert 1e9 < small < 1e13
        assert worker.ask(product="fp32", seconds=0.0)["rate"] > 1e9


class Lines:
    """A channel with requests that were written before."""

    def __init__(self, *requests):
        self.waiting, self.said = [json.dumps(request) for request in requests], []

    def requests(self):
        return (json.loads(line) for line in self.waiting)

    def say(self, answer):
        self.said.append(answer)


def test_a_block_of_training_is_so_many_updates_or_seconds(monkeypatch):
    """Four updates of 1, 2, 3 and 4 s; then a block of 3 s whose first update is warm-up."""
    now = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    lines = Lines({"updates": 4}, {"seconds": 3.0, "warm": 1})
    pace = Pace(lines, {"engine": "e"})
    for took, loss in ((1, 9.0), (2, 8.0), (3, 7.0), (4, 5.0)):
        now[0] += took
        pace.update(loss, 700)
    assert len(lines.said) == 1
    assert lines.said[0]["tokens/s"] == 700 / 2.5
    assert lines.said[0]["best"] == 700 / 1
    assert lines.said[0]["loss"] == (7.0 + 5.0) / 2
    assert lines.said[0]["engine"] == "e"
    now[0] += 2
    pace.update(5.0, 700)
    now[0] += 1
    with pytest.raises(Ended):
        pace.update(5.0, 700)
    assert lines.said[1]["updates"] == 2
    assert lines.said[1]["tokens/s"] == 700 / 1


def test_steps_are_timed_one_by_one():
    calls = []

    def step(number):
        calls.append(number)
        time.sleep(0.002 if number % 10 == 9 else 0.0)

    said = time_steps(step, 0.0, warm=2, least=50)
    assert calls == [0, 1, *range(50)]
    assert said["steps"] == 50
    assert said["p50"] < 2000 <= said["p99"]
    assert said["best"] <= said["p50"]
