"""What the machine can do, timed: `python -m ostinato.bench.peaks SPEC`, driven as serve.py says.

Requests: {"product": "bf16" or "fp32", "seconds"} for a large square matrix product of torch, {"read": bytes,
"seconds"} for reading an array again and again, each thread its own part. Answers: operations or bytes a second.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable

import numpy as np

from ostinato.bench.serve import Channel, peak_bytes
from ostinato.kernels.reading import read_again

SIDE = 2048
"""Rows and columns of the product."""

ENOUGH = 1_000_000_000
"""Bytes to read at once, so that starting threads does not count."""


def best(work: Callable[[], object], amount: float, seconds: float) -> float:
    """`amount` by the time of the fastest call in so many seconds, after one that does not count."""
    work()
    fastest, end, now = float("inf"), time.perf_counter() + seconds, 0.0
    while now < end:
        begin = time.perf_counter()
        work()
        now = time.perf_counter()
        fastest = min(fastest, now - begin)
    return amount / fastest


def product(name: str, seconds: float, threads: int) -> float:
    """Operations a second of a large product."""
    import torch

    torch.set_num_threads(threads)
    kind = torch.bfloat16 if name == "bf16" else torch.float32
    left, right = (torch.randn(SIDE, SIDE).to(kind) for _ in range(2))
    return best(lambda: torch.mm(left, right), 2 * SIDE**3, seconds)


def reading(size: int, seconds: float, threads: int) -> float:
    """Bytes a second of reading an array of so many bytes in all."""
    parts = [np.arange(max(8, size // 8 // threads), dtype=np.int64) for _ in range(threads)]
    times = max(1, ENOUGH // size)

    def work() -> None:
        others = [threading.Thread(target=read_again, args=(part, times)) for part in parts[1:]]
        for other in others:
            other.start()
        read_again(parts[0], times)
        for other in others:
            other.join()

    return best(work, float(times * sum(part.nbytes for part in parts)), seconds)


def serve(threads: int) -> None:
    """Answer until there are no more requests."""
    channel = Channel()
    for request in channel.requests():
        cpu, seconds = time.process_time(), request["seconds"]
        if "product" in request:
            rate = product(request["product"], seconds, threads)
        else:
            rate = reading(request["read"], seconds, threads)
        channel.say({"rate": rate, "cpu": time.process_time() - cpu, "peak_bytes": peak_bytes()})


if __name__ == "__main__":
    serve(json.loads(sys.argv[1])["threads"])
