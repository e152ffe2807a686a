"""Work in threads: kernels release the interpreter's lock, so plain threads use every core."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar

import numpy as np

from ostinato.core.progress import Progress, Watch

Task = TypeVar("Task")


class Meter:
    """Tells a watcher how much of `total` is done, from whatever thread."""

    def __init__(self, label: str, total: int, watch: Watch):
        self._label, self._total, self._watch = label, max(total, 1), watch
        self._done = 0
        self._lock = threading.Lock()

    def add(self, number: int) -> None:
        """So much more is done."""
        with self._lock:
            self._done += number
            self._watch(Progress(self._label, self._done, self._done / self._total))


def in_threads(work: Callable[[Iterator[Task]], None], tasks: Iterable[Task], threads: int | None = None) -> None:
    """Let each thread take tasks from one line until none is left; threads: None for one a core."""
    given = list(tasks)
    count = min(threads or os.cpu_count() or 1, len(given))
    waiting = iter(given)
    if count <= 1:
        work(waiting)
        return
    with ThreadPoolExecutor(count) as pool:
        working = [pool.submit(work, waiting) for _ in range(count)]
        try:
            wait(working, return_when=FIRST_EXCEPTION)
        finally:  # after an error, or Ctrl-C, nobody begins another task
            for _ in waiting:
                pass
    for done in working:
        done.result()


def slices(begin: int, end: int, parts: int) -> list[tuple[int, int]]:
    """A range cut into that many nearly equal ranges, none of them empty."""
    borders = np.unique(np.linspace(begin, end, parts + 1).astype(np.int64)).tolist()
    return list(itertools.pairwise(borders))
