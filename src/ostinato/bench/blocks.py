"""Blocks by turns: processes that stay, each asked for a few seconds of work while the others wait.

Work that fills all cores suffers from every other program, and thread pools in one process from each other. So each
side has a process of its own, they take turns, and blocks during which others used the processor are repeated.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from ostinato.bench.machine import busy_seconds, foreign_share
from ostinato.bench.measure import Note, Sample
from ostinato.core.errors import DataError

QUIET = 0.06
"""The share of the machine that other programs may have during a block that counts."""

POOLS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


@dataclass(frozen=True)
class Effort:
    """How much is measured: blocks a side that count, seconds of each, and how many more may be tried for quiet."""

    runs: int = 5
    seconds: float = 3.0
    more: int = 10

    @classmethod
    def of(cls, runs: int | None, quick: bool) -> Effort:
        """What the user asked for."""
        return cls(runs or 2, 0.5, 0) if quick else cls(runs or 5, 3.0, 2 * (runs or 5))


@dataclass(frozen=True)
class Block:
    """What a side said of a block, and the share of the machine that others had meanwhile."""

    answer: Mapping[str, Any]
    foreign: float


class Worker:
    """A process `python -m MODULE JSON` that speaks as serve.py does."""

    def __init__(
        self, module: str, spec: Mapping[str, Any], threads: int, spins: bool = False, python: str | None = None
    ):
        """spins: let threads that wait spin as long as their library likes; otherwise as our command line does.

        python: another interpreter, whose environment has the peer; it sees this package, but not what that needs.
        """
        environment = os.environ | dict.fromkeys(POOLS, str(threads))
        if python is not None:
            environment["PYTHONPATH"] = str(Path(__file__).parents[2])
        if spins:
            environment.pop("GOMP_SPINCOUNT", None)
        else:
            environment.setdefault("GOMP_SPINCOUNT", "10000")
        self.command = [python or sys.executable, "-m", f"ostinato.bench.{module}", json.dumps(spec)]
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115, closed with the process
        self._process = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
            text=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *fault: object) -> None:
        if kind is not None:
            self._process.kill()
        with suppress(BrokenPipeError):
            self._requests.close()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._answers.close()
        self._errors.close()

    def ask(self, **request: Any) -> dict[str, Any]:
        """The answer to a request. Raises DataError, with what it said, if the process has ended."""
        with suppress(BrokenPipeError):  # if it has ended, the empty answer tells
            print(json.dumps(request), file=self._requests, flush=True)
        line = self._answers.readline()
        if not line:
            code = self._process.wait()
            self._errors.seek(0)
            said = "\n".join(self._errors.read().strip().splitlines()[-5:])
            raise DataError(f"{' '.join(self.command)}\nended with exit code {code}: {said}")
        answer: dict[str, Any] = json.loads(line)
        return answer


def by_blocks(workers: Sequence[Worker], effort: Effort, note: Note, **request: Any) -> list[list[Block]]:
    """Of each side the least disturbed blocks; all take turns until each has enough quiet ones, or tries are used up.

    request: more that each is asked for beside `seconds`.
    """
    found: list[list[Block]] = [[] for _ in workers]
    for turn in range(effort.runs + effort.more):
        lacking = [mine for mine in found if sum(block.foreign < QUIET for block in mine) < effort.runs]
        if not lacking:
            break
        late = f", of {effort.runs} wanted: others use the processor" if turn >= effort.runs else ""
        note(f"block {turn + 1}{late}")
        for worker, mine in zip(workers, found, strict=True):
            if any(mine is one for one in lacking):
                mine.append(one_block(worker, seconds=effort.seconds, **request))
    kept = [sorted(mine, key=lambda block: block.foreign)[: effort.runs] for mine in found]
    if disturbance(*kept) > QUIET:
        note(f"others had up to {disturbance(*kept):.0%} of the processor: measure again when it is quiet")
    return kept


def is_quiet(seconds: float = 0.3) -> bool:
    """Whether others leave the processor alone now, while we sleep that long."""
    before = busy_seconds()
    time.sleep(seconds)
    return foreign_share(before, busy_seconds(), 0.0, seconds) < QUIET


def one_block(worker: Worker, **request: Any) -> Block:
    """A block, and how much others did during it."""
    before, began = busy_seconds(), time.perf_counter()
    answer = worker.ask(**request)
    wall, after = time.perf_counter() - began, busy_seconds()
    return Block(answer, foreign_share(before, after, answer["cpu"], wall))


def sample(blocks: Sequence[Block], key: str, factor: float = 1.0, cpu: str | None = None) -> Sample:
    """One number of each block, with the most memory; cpu: the name of its processor seconds."""
    answers = [block.answer for block in blocks]
    return Sample(
        tuple(factor * answer[key] for answer in answers),
        statistics.median(answer[cpu] for answer in answers) if cpu else None,
        max(answer["peak_bytes"] for answer in answers),
    )


def disturbance(*sides: Sequence[Block]) -> float:
    """The largest share of the machine that others had during a block that counts."""
    return round(max(block.foreign for side in sides for block in side), 4)
