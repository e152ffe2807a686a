"""A range of work done in threads that stay: kernels release the interpreter's lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ostinato.kernels.team import part, team_of

Work: TypeAlias = Callable[[int, int], None]
Spread: TypeAlias = Callable[[Work, int, int], None]
"""spread(work, count, grain): call work(begin, end) on ranges that together are 0..count; return when all are done.

A range is not smaller than `grain` unless it is the only one: handing out less costs more than doing it.
"""


def alone(work: Work, count: int, grain: int) -> None:
    """All in the calling thread."""
    if count:
        work(0, count)


class Threads:
    """A `Spread` over this process's team of so many threads, the calling one among them."""

    def __init__(self, threads: int):
        self._team = team_of(threads)

    def __call__(self, work: Work, count: int, grain: int) -> None:
        parts = max(1, min(self._team.threads, count // max(1, grain)))
        if parts == 1:
            alone(work, count, grain)
            return

        def mine(member: int) -> None:
            if member < parts:
                work(*part(0, count, member, parts))

        self._team.run(mine)
