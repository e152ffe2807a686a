"""Measuring: whole processes and what processes say of themselves, ours and the peer's by turns, medians."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from ostinato.core.errors import DataError

Command: TypeAlias = list[str]
Note: TypeAlias = Callable[[str], None]
Found = TypeVar("Found")
Name = TypeVar("Name", bound=str)

TOUCHED = 2 << 30
"""Bytes of memory that are made ready before each measurement."""

QUICK_SECONDS = 25.0
"""After which --quick begins no other case."""

CLOCK = Path(__file__).with_name("clock.py")


@dataclass(frozen=True)
class Usage:
    """What a process took: seconds by the clock, seconds of processor, most bytes of memory."""

    wall: float
    cpu: float
    memory: int


@dataclass(frozen=True)
class Sample:
    """Repeated measurements of one thing; cpu and memory where whole processes were measured."""

    values: tuple[float, ...]
    cpu: float | None = None
    memory: float | None = None

    @classmethod
    def of(cls, usages: Sequence[Usage]) -> Sample:
        """The times of whole processes, with the medians of the rest."""
        cpu, memory = (statistics.median(column) for column in zip(*((u.cpu, u.memory) for u in usages), strict=True))
        return cls(tuple(usage.wall for usage in usages), cpu, memory)

    @property
    def median(self) -> float:
        """The middle one."""
        return statistics.median(self.values)


@dataclass(frozen=True)
class Row:
    """One line of a report: what was measured, in which unit, of ours and of the peer if it is there.

    peer: its name, whether it is there or not. facts: what a reader of the JSON should know beside.
    """

    case: str
    what: str
    unit: str
    ours: Sample
    theirs: Sample | None = None
    peer: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        """How many times better ours is than the peer: faster or smaller; below 1 is worse."""
        if self.theirs is None:
            return None
        ours, theirs = self.ours.median, self.theirs.median
        return ours / theirs if self.unit.endswith("/s") else theirs / ours

    def to_json(self, bench: str) -> dict[str, Any]:
        """Plain values: medians first, then every run."""
        theirs = self.theirs
        return {
            "bench": bench,
            "case": self.case,
            "ours": self.ours.median,
            "peer": theirs and theirs.median,
            "peer_name": self.peer,
            "unit": self.unit,
            "ratio": self.ratio,
            "what": self.what,
            "ours_runs": self.ours.values,
            "peer_runs": theirs and theirs.values,
            "ours_cpu_seconds": self.ours.cpu,
            "peer_cpu_seconds": theirs and theirs.cpu,
            "ours_peak_bytes": self.ours.memory,
            "peer_peak_bytes": theirs and theirs.memory,
            **self.facts,
        }


Rows: TypeAlias = Iterator[Row]


@dataclass(frozen=True)
class Process:
    """Commands that run one after another, what is changed in their environment, and the files they make."""

    commands: tuple[Command, ...]
    changes: dict[str, str] = field(default_factory=dict)
    makes: tuple[Path, ...] = ()

    def timed(self) -> Usage:
        """What running them took, all together. Raises DataError if one fails."""
        for path in self.makes:
            path.unlink(missing_ok=True)  # to free the space of an old file takes time, too
        return Usage(**self._said([sys.executable, "-I", str(CLOCK), json.dumps(self.commands)]))

    def asked(self) -> dict[str, float]:
        """The numbers that the one command prints as JSON. Raises DataError if it fails."""
        (command,) = self.commands
        said: dict[str, float] = self._said(command)
        return said

    def _said(self, command: Command) -> Any:
        environment = os.environ | self.changes
        done = subprocess.run(command, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode:
            said = "\n".join(done.stderr.strip().splitlines()[-5:])
            ran = "; ".join(" ".join(words) for words in self.commands)
            raise DataError(f"{ran}\nfailed with exit code {done.returncode}: {said}")
        return json.loads(done.stdout)


def in_time(names: Iterable[Name], quick: bool, note: Note) -> Iterator[Name]:
    """The names, each when what the one before names is done; if it must be quick, none after `QUICK_SECONDS`."""
    began = time.monotonic()
    for name in names:
        if quick and time.monotonic() - began > QUICK_SECONDS:
            note(f"{name}: left out, since this machine is too slow or too busy for it to be quick")
        else:
            yield name


def settle(touched: int = TOUCHED) -> None:
    """Wait until nothing is being written any more, then use memory and give it back.

    What the process before wrote would be taken to the disk during the next one. And in a virtual machine memory
    that nobody used for a while must first be had from the host, which can cost more than what is measured.
    """
    os.sync()
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    size = min(touched, free // 2)
    subprocess.run([sys.executable, "-I", "-c", f"bytes(b'1') * {size}"], check=False, stdin=subprocess.DEVNULL)


def by_turns(
    runs: int,
    note: Note,
    ours: Callable[[], Found],
    theirs: Callable[[], Found] | None,
    touched: int = TOUCHED,
) -> tuple[list[Found], list[Found]]:
    """What `runs` calls of each return, one of ours, one of theirs and so on, after one of each that does not count.

    Before each the machine is settled, for both alike; touched: bytes of memory made ready.
    """
    found: tuple[list[Found], list[Found]] = ([], [])
    for run in range(runs + 1):
        note(f"run {run} of {runs}" if run else "warming up")
        for mine, measure in zip(found, (ours, theirs), strict=True):
            if measure is not None:
                settle(touched)
                mine.append(measure())
    return found[0][1:], found[1][1:]
