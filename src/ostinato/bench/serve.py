"""The measured side of a benchmark: a process that waits, runs a block when it is told to, and says what it took.

Requests come as lines of JSON on standard input, answers go to standard output, one each. Imports nothing heavy.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any


class Channel:
    """Requests and answers. What others print while it is open goes to standard error."""

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)

    def requests(self) -> Iterator[dict[str, Any]]:
        """One after another, until there will be none."""
        return (json.loads(line) for line in sys.stdin)

    def say(self, answer: dict[str, Any]) -> None:
        """Answer the last request."""
        print(json.dumps(answer), file=self._out, flush=True)


def peak_bytes() -> int:
    """The most memory that this process has used."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


class Ended(Exception):
    """There are no more requests."""


class Pace:
    """Told after every update of a training, it returns when the next one should begin.

    A block is so many updates, or those of so many seconds after `warm` that do not count. Waits for the first
    request when it is made. Raises Ended instead of waiting for one that never comes.
    """

    def __init__(self, channel: Channel, facts: dict[str, Any]):
        self.channel, self.facts = channel, facts
        self._requests = channel.requests()
        self._next()

    def _next(self) -> None:
        request = next(self._requests, None)
        if request is None:
            raise Ended
        self.updates, self.seconds = request.get("updates"), request.get("seconds", 0.0)
        self.warm = 0 if self.updates else request.get("warm", 3)
        self.took: list[float] = []
        self.losses: list[float] = []
        self.tokens: list[int] = []
        self.cpu = time.process_time()
        self.began = self.last = time.perf_counter()

    def update(self, loss: float, tokens: int) -> None:
        """An update is done; its loss in nats a token, and how many tokens it read."""
        now = time.perf_counter()
        self.took.append(now - self.last)
        self.losses.append(loss)
        self.tokens.append(tokens)
        enough = len(self.took) > self.warm and now - self.began >= self.seconds
        if len(self.took) == self.updates or (self.updates is None and enough):
            self.channel.say(self._answer())
            self._next()
            return
        self.last = time.perf_counter()

    def _answer(self) -> dict[str, Any]:
        cpu, counted = time.process_time() - self.cpu, slice(self.warm, None)
        each = [took / tokens for took, tokens in zip(self.took[counted], self.tokens[counted], strict=True)]
        half = self.losses[len(self.losses) // 2 :]
        return {
            "tokens/s": 1 / statistics.median(each),
            "best": 1 / min(each),
            "loss": statistics.median(half),  # gradient descent at this rate begins with leaps
            "updates": len(self.took),
            "cpu": cpu,
            "cpu_update": cpu / len(self.took),
            "peak_bytes": peak_bytes(),
            **self.facts,
        }


def time_steps(step: Callable[[int], object], seconds: float, warm: int = 20, least: int = 50) -> dict[str, Any]:
    """Microseconds that a call of step(number) takes, p50, p99 and best, over some seconds of calls."""
    cpu, clock = time.process_time(), time.perf_counter_ns
    for number in range(warm):
        step(number)
    took: list[int] = []
    end = clock() + int(1e9 * seconds)
    while len(took) < least or clock() < end:
        begin = clock()
        step(len(took))
        took.append(clock() - begin)
    took.sort()
    return {
        "p50": statistics.median(took) / 1e3,
        "p99": took[min(len(took) - 1, int(0.99 * len(took)))] / 1e3,
        "best": took[0] / 1e3,
        "steps": len(took),
        "cpu": time.process_time() - cpu,
        "peak_bytes": peak_bytes(),
    }
