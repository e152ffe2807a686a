"""What the benchmark of word vectors trains, and how both of its sides take requests. No Numba and no gensim here."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from ostinato.bench.serve import Channel, peak_bytes

Answer: TypeAlias = dict[str, Any]
Actions: TypeAlias = Mapping[str, Callable[..., Answer]]
Found = TypeVar("Found")

MIN_COUNT = 5
"""Words seen less often have no vector, on both sides."""

RESTRICT = 30_000
"""Analogies are asked and answered among so many words, as word2vec's compute-accuracy does."""

LEAST = 0.5
"""Seconds below which something is measured again, and the median of what it took counts."""


@dataclass(frozen=True)
class VectorCase:
    """A model that both sides train; everything else is as `VectorOptions` has it."""

    name: str
    what: str
    model: str = "skip-gram"
    loss: str = "negative-sampling"
    dimensions: int = 100

    def request(self) -> dict[str, Any]:
        """What a side is told of it."""
        return {"do": "train", "model": self.model, "loss": self.loss, "dimensions": self.dimensions}


CASES = {
    case.name: case
    for case in (
        VectorCase("skip-gram", "negative sampling, d = 100"),
        VectorCase("skip-gram-300", "negative sampling, d = 300", dimensions=300),
        VectorCase("cbow", "negative sampling, d = 100", model="cbow-mean"),
        VectorCase("tree", "skip-gram, hierarchical softmax, d = 100", loss="hierarchical-softmax"),
    )
}


def timed(work: Callable[[], Found]) -> tuple[Found, Answer]:
    """What the work returns, and what it took: seconds by the clock, and of processor."""
    cpu, began = time.process_time(), time.perf_counter()
    found = work()
    return found, {"s": time.perf_counter() - began, "cpu_s": time.process_time() - cpu}


def keep(path: str, words: Sequence[str], array: NDArray[np.float32]) -> None:
    """Write words and their vectors [V, D] where either side can read them."""
    np.save(f"{path}.npy", array, allow_pickle=False)
    Path(f"{path}.json").write_text(json.dumps(list(words)), "utf8")


def kept(path: str) -> tuple[list[str], NDArray[np.float32]]:
    """What `keep` wrote."""
    return json.loads(Path(f"{path}.json").read_text("utf8")), np.load(f"{path}.npy", allow_pickle=False)


def answer(actions: Actions, request: dict[str, Any]) -> Answer:
    """What the action that the request names says, with what the whole of it took of the processor and of memory.

    One that took less than LEAST seconds is done again until it has; the answer of the median time is given.
    """
    cpu, arguments = time.process_time(), {key: value for key, value in request.items() if key != "do"}
    said = [actions[request["do"]](**arguments)]
    while sum(one.get("s", LEAST) for one in said) < LEAST:
        said.append(actions[request["do"]](**arguments))
    usual = sorted(said, key=lambda one: one.get("s", LEAST))[len(said) // 2]
    return {**usual, "cpu": time.process_time() - cpu, "peak_bytes": peak_bytes()}


def main(actions: Actions) -> None:
    """Answer the one request on the command line, or those that come as serve.py says if it is empty."""
    if request := json.loads(sys.argv[1]):
        print(json.dumps(answer(actions, request)))
        return
    channel = Channel()
    for request in channel.requests():
        channel.say(answer(actions, request))
