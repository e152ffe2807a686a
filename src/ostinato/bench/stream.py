"""One token at a time beside the engines people use: onnxruntime, PyTorch, and a transformer with its cache.

An LSTM language model of two layers, a vocabulary of 10,000, log-probs of all words after every token; the same drawn
weights on all sides, which is checked. Every engine has a process of its own, and they take turns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any, get_args

from ostinato.bench.blocks import Block, Effort, Worker, by_blocks, disturbance, sample
from ostinato.bench.measure import Note, Row, Rows, Sample, in_time
from ostinato.bench.names import StreamCaseName as CaseName
from ostinato.bench.stream_case import StreamCase
from ostinato.core.errors import MismatchError

QUICK: tuple[CaseName, ...] = ("lstm-256", "sessions-16", "transformer")
OURS = ("int8", "bf16", "fp32")
PEERS = {
    "onnxruntime-int8": "onnxruntime int8",
    "onnxruntime-fp32": "onnxruntime float32",
    "torch": "PyTorch eager",
}
PAIRS = {"int8": "onnxruntime-int8", "bf16": "onnxruntime-fp32", "fp32": "onnxruntime-fp32"}
"""Which peer each of ours stands beside: a runtime user who wants bfloat16 on a processor has float32."""

FAR = {"int8": 0.05, "bf16": 0.005, "fp32": 1e-4}
"""The divergence from the float32 model, in nats, that is rounding; more is another model."""

CONTEXTS = (1, 1000, 8000)


@dataclass(frozen=True)
class Bench:
    """With how many threads, how much."""

    threads: int
    effort: Effort
    quick: bool
    note: Note

    def ours(self, case: StreamCase, precision: str) -> Worker:
        """Our side, started."""
        spec = {"case": asdict(case), "engine": precision, "threads": self.threads}
        return Worker("stream_ours", spec, self.threads)

    def theirs(self, case: StreamCase, engine: str) -> Worker | None:
        """A peer, started; None if it is not installed."""
        if not installed(engine):
            return None
        spec = {"case": asdict(case), "engine": engine, "threads": self.threads}
        return Worker("stream_peers", spec, self.threads, spins=True)

    def blocks(self, name: str, workers: Mapping[str, Worker | None], **request: Any) -> dict[str, list[Block]]:
        """The blocks of each side that there is, by its name."""
        there = {side: worker for side, worker in workers.items() if worker is not None}
        self.note(f"{name}: starting and warming up")
        for worker in there.values():  # so that none starts while another is measured
            worker.ask(seconds=0.0, **request)
        found = by_blocks(list(there.values()), self.effort, lambda text: self.note(f"{name}: {text}"), **request)
        return dict(zip(there, found, strict=True))


def installed(engine: str) -> bool:
    """Whether a peer can be measured here."""
    return engine == "torch" or all(find_spec(module) for module in ("onnx", "onnxruntime"))


def run(
    cases: tuple[CaseName, ...] = (),
    threads: int = 1,
    runs: int | None = None,
    quick: bool = False,
    note: Note = lambda text: None,
) -> Rows:
    """The rows of the named cases as they come; of all if none is named, or of some small ones if it must be quick.

    Raises DataError, MismatchError if an engine does not step the model that it is said to.
    """
    bench = Bench(threads, Effort.of(runs, quick), quick, note)
    if not installed("onnxruntime-int8"):
        note("onnx or onnxruntime is not installed (pip install 'ostinato[bench]'): ours alone is measured")
    for name in in_time(cases or (QUICK if quick else get_args(CaseName)), quick, note):
        yield from CASES[name](bench, name)


def one_session(bench: Bench, name: str) -> Rows:
    """A token at a time."""
    case = StreamCase(int(name.removeprefix("lstm-")))
    with ExitStack() as stack:
        sides = started(bench, stack, case, () if bench.quick else ("torch",))
        reading = stack.enter_context(Worker("peaks", {"threads": bench.threads}, bench.threads))
        found = bench.blocks(name, sides)
        check(name, found)
        for precision in OURS:
            yield from latencies(bench, f"{name}-{precision}", found, precision, PAIRS[precision])
        if "torch" in found:
            yield from latencies(bench, f"{name}-eager", found, "fp32", "torch", ("p50",))
        for precision in OURS[:2]:
            yield near_limit(bench, f"{name}-{precision}-limit", found[precision], reading)


def started(
    bench: Bench, stack: ExitStack, case: StreamCase, more: Sequence[str] = (), ours: Sequence[str] = OURS
) -> dict[str, Worker | None]:
    """All sides by name: ours, and the peers that belong to them."""
    sides: dict[str, Worker | None] = {}
    for precision in ours:
        sides[precision] = stack.enter_context(bench.ours(case, precision))
    for engine in dict.fromkeys([*(PAIRS[precision] for precision in ours), *more]):
        worker = bench.theirs(case, engine)
        sides[engine] = worker and stack.enter_context(worker)
    return sides


def latencies(
    bench: Bench,
    case: str,
    found: Mapping[str, list[Block]],
    mine: str,
    peer: str,
    keys: Sequence[str] = ("p50", "p99"),
    what: str = "a token",
) -> Rows:
    """Microseconds of a step, in the middle and at the slow end."""
    ours, theirs = found[mine], found.get(peer)
    facts = {"threads": bench.threads, "ours_kl": ours[0].answer["kl"]}
    facts |= {"ours_perplexity_factor": ours[0].answer["perplexity_factor"], "steps": ours[0].answer["steps"]}
    if theirs:
        facts |= {"peer_kl": theirs[0].answer["kl"], "foreign": disturbance(ours, theirs)}
    for key in keys:
        row = f"{case}-{key}" if key != "p50" else case
        sides = [sample(blocks, key).values if blocks else None for blocks in (ours, theirs)]
        yield row_of(row, f"{key} of {what}, {mine}", "us", sides, PEERS[peer], facts)


def row_of(
    case: str, what: str, unit: str, sides: Sequence[tuple[float, ...] | None], peer: str, facts: Mapping[str, Any]
) -> Row:
    """A row without processor time and memory, which say nothing here."""
    assert sides[0] is not None
    return Row(case, what, unit, Sample(sides[0]), Sample(sides[1]) if sides[1] else None, peer, facts)


def near_limit(bench: Bench, case: str, blocks: list[Block], reading: Worker) -> Row:
    """The rate at which weights are read, beside that of reading as many bytes and doing nothing with them."""
    size = int(blocks[0].answer["read_bytes"])
    peak = bench.blocks(case, {"reading": reading}, read=size)["reading"]
    ours = tuple(size / block.answer["p50"] / 1e3 for block in blocks)
    what, peer = f"weights read, {size / 1e6:.1f} MB a token", "reading alone"
    return row_of(case, what, "GB/s", (ours, sample(peak, "rate", 1e-9).values), peer, {"read_bytes": size})


def sessions(bench: Bench, name: str) -> Rows:
    """Many sessions that read a token each at once, beside the peers and beside one session."""
    case = StreamCase(512, int(name.removeprefix("sessions-")))
    gaining, beside = (OURS[:1], OURS[:2]) if bench.quick else (OURS, OURS)
    with ExitStack() as stack:
        sides = started(bench, stack, case, ours=beside)
        for precision in gaining:
            sides[f"alone-{precision}"] = stack.enter_context(bench.ours(StreamCase(case.hidden), precision))
        found = bench.blocks(name, sides)
        check(name, found)
        for precision in beside:
            what = f"a step of {case.sessions} sessions of 2 x 512"
            yield from latencies(bench, f"{name}-{precision}", found, precision, PAIRS[precision], what=what)
        for precision in gaining:
            rates = [
                tuple(1e6 * count / block.answer["p50"] for block in found[side])
                for side, count in ((precision, case.sessions), (f"alone-{precision}", 1))
            ]
            what = f"{case.sessions} sessions together, {precision}"
            yield row_of(f"{name}-{precision}-gain", what, "tokens/s", rates, "one session", {"threads": bench.threads})


def transformer(bench: Bench, name: str) -> Rows:
    """Beside a transformer of as many parameters: microseconds a token, and bytes a session."""
    from ostinato.bench.transformer import TransformerCase

    case, other, contexts = StreamCase(512), TransformerCase(), CONTEXTS[:2] if bench.quick else CONTEXTS
    with ExitStack() as stack:
        sides: dict[str, Worker | None] = {}
        for precision in ("fp32", "bf16"):
            sides[precision] = stack.enter_context(bench.ours(case, precision))
            spec = {"case": asdict(other), "engine": precision, "threads": bench.threads, "longest": max(contexts)}
            worker = Worker("transformer", spec, bench.threads, spins=True)
            sides[f"transformer-{precision}"] = stack.enter_context(worker)
        for context in contexts:
            found = bench.blocks(f"{name}, {context:,} words before", sides, context=context)
            yield from beside_transformer(bench, found, context, case, other)


def beside_transformer(bench: Bench, found: Mapping[str, list[Block]], context: int, case: Any, other: Any) -> Rows:
    """The rows of one length of context."""
    facts = {"threads": bench.threads, "ours_parameters": case.parameters, "peer_parameters": other.parameters}
    for precision, size in (("fp32", 4), ("bf16", 2)):
        ours, theirs = found[precision], found[f"transformer-{precision}"]
        name, peer = f"transformer-{context}-{precision}", f"PyTorch transformer {precision}"
        times = [sample(side, "p50").values for side in (ours, theirs)]
        what = f"p50 of a token after {context:,}, 2 x 512, {precision}"
        yield row_of(name, what, "us", times, peer, facts | {"foreign": disturbance(ours, theirs)})
        kept = (float(ours[0].answer["state_bytes"]),), (float(other.cache_bytes(context, size)),)
        yield row_of(f"{name}-bytes", f"a session after {context:,} tokens, {precision}", "bytes", kept, peer, facts)


def check(name: str, found: Mapping[str, list[Block]]) -> None:
    """Raise MismatchError for an engine whose distributions are not those of the model."""
    for side, blocks in found.items():
        precision = side.rpartition("-")[2] if side != "torch" else "fp32"
        divergence = blocks[0].answer["kl"]
        if not divergence < FAR[precision]:
            raise MismatchError(
                f"{name}: {PEERS.get(side, f'ours in {side}')} is {divergence:.3g} nats a token from the float32 "
                "model; it does not step the same one"
            )


CASES: dict[CaseName, Callable[[Bench, str], Rows]] = {
    "lstm-256": one_session,
    "lstm-512": one_session,
    "lstm-1024": one_session,
    "sessions-16": sessions,
    "sessions-256": sessions,
    "transformer": transformer,
}
