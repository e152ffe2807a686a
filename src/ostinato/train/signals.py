"""Ctrl-C and SIGTERM as a wish to stop after the update at hand."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SAME = 5.0
"""Seconds within which a second signal to one of several processes is the first one, passed on by torchrun."""


@contextmanager
def stopping(stop: Callable[[], None], several: bool) -> Iterator[None]:
    """The first Ctrl-C or SIGTERM inside the block calls `stop`; a second one breaks off.

    several: this is one of several processes, which may be told twice of the same Ctrl-C.
    """
    first: list[float] = []

    def ask(number: int, frame: FrameType | None) -> None:
        if first and not (several and time.monotonic() - first[0] < SAME):
            raise KeyboardInterrupt
        first.append(time.monotonic())
        stop()

    try:
        before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not in the main thread: no signals to catch
        before = {}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
