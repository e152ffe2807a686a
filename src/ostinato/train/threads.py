"""A range of work done in threads that stay: kernels release the interpreter's lock."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

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
    """A `Spread` over as many threads, the calling one among them; they end with the `with` block around it."""

    def __init__(self, threads: int):
        self.threads = threads
        self._pool = ThreadPoolExecutor(threads - 1, "update") if threads > 1 else None

    def __call__(self, work: Work, count: int, grain: int) -> None:
        parts = max(1, min(self.threads, count // max(1, grain)))
        if parts == 1 or self._pool is None:
            alone(work, count, grain)
            return
        borders = [count * part // parts for part in range(parts + 1)]
        waiting = [self._pool.submit(work, *borders[part : part + 2]) for part in range(1, parts)]
        work(0, borders[1])
        for done in waiting:
            done.result()

    def __enter__(self) -> Threads:
        return self

    def __exit__(self, *fault: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
