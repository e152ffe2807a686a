"""Our side of the streaming benchmark: `python -m ostinato.bench.stream_ours SPEC`, driven as serve.py says."""

from __future__ import annotations

import json
import sys

from ostinato.bench.serve import Channel, time_steps
from ostinato.bench.stream_case import StreamCase, model, tokens
from ostinato.bench.stream_check import alone, loss
from ostinato.core import state as states
from ostinato.stream.matrix import Precision
from ostinato.stream.packed import Lane, PackedStepper


def stepper(case: StreamCase, precision: Precision, threads: int) -> PackedStepper:
    """The model as it is stepped."""
    whole = model(case)
    made = whole if precision == "fp32" else whole.encoded(precision)
    return PackedStepper(made.network, made.head, made.vocabulary, made.precision, threads)


def serve(case: StreamCase, precision: Precision, threads: int) -> None:
    """Step in blocks; `context`: words to read before."""
    channel, packed, words = Channel(), stepper(case, precision, threads), tokens(case)
    facts = {
        **loss(alone(case), packed.open(1).read),
        "read_bytes": packed.read_bytes,
        "packed_bytes": packed.nbytes,
        "state_bytes": states.nbytes(packed.init_state(1)),
    }
    for request in channel.requests():
        lane = packed.open(case.sessions)

        def step(number: int, lane: Lane = lane) -> object:
            return lane.read(words[number % len(words)])

        for number in range(request.get("context", 0)):
            step(number)
        channel.say(time_steps(step, request["seconds"]) | facts)


if __name__ == "__main__":
    spec = json.loads(sys.argv[1])
    serve(StreamCase(**spec["case"]), spec["engine"], spec["threads"])
