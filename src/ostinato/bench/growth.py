"""How our training grows with length, batch and size, and how near it comes to what the machine can do."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ostinato.bench.blocks import Worker, by_blocks, sample
from ostinato.bench.measure import Row, Rows, Sample
from ostinato.bench.train_case import TrainCase

if TYPE_CHECKING:
    from ostinato.bench.train import Bench

LENGTHS, ROWS, SIZES = (35, 70, 140, 280, 560), (10, 20, 40, 80), (128, 256, 512, 1024)
READ = (500_000, 8_000_000, 256_000_000)
"""Bytes whose reading is timed: in a core's own cache, in the shared one, in memory."""

UPDATE_BYTES = 24
"""Bytes an update moves at least for a parameter in float32: its weight read forward, backward and for the update,
and written; its gradient written and read."""

PRODUCTS = {"bf16": "bf16 product of torch", "fp32": "float32 product of torch"}


def rows(bench: Bench, quick: bool) -> Rows:
    """The peaks; tokens a second over length, batch and size; FLOP/s and bytes/s of a layer and of a whole update."""
    with Worker("peaks", {"threads": bench.threads}, bench.threads) as worker:
        peaks = yield from peak_rows(bench, worker)
    start = TrainCase("growth", 256)
    for length in LENGTHS[::2] if quick else LENGTHS:
        yield speed(bench, replace(start, bptt=length), f"length {length}")
    for batch in () if quick else ROWS:
        yield speed(bench, replace(start, rows=batch), f"{batch} rows")
    for size in SIZES[1:2] if quick else SIZES:
        yield from reached(bench, replace(start, hidden=size), peaks)


def peak_rows(bench: Bench, worker: Worker) -> Any:
    """The rows of the peaks; returns their medians by name."""
    found: dict[Any, Sample] = {}
    for name in PRODUCTS:
        (blocks,) = by_blocks([worker], bench.effort, bench.note, product=name)
        found[name] = sample(blocks, "rate", 1e-9)
        yield Row("peak", f"{PRODUCTS[name]}, {bench.threads} threads", "GFLOP/s", found[name])
    for size in READ:
        (blocks,) = by_blocks([worker], bench.effort, bench.note, read=size)
        found[size] = sample(blocks, "rate", 1e-9)
        yield Row("peak", f"reading {size / 1e6:g} MB again and again, {bench.threads} threads", "GB/s", found[size])
    return found


def speed(bench: Bench, case: TrainCase, what: str) -> Row:
    """Tokens a second of one size."""
    (ours,) = measured(bench, what, case)
    return Row("growth", what, "tokens/s", ours, facts={"threads": bench.threads})


def measured(bench: Bench, what: str, *cases: TrainCase) -> list[Sample]:
    """Tokens a second of each, by turns."""
    with ExitStack() as stack:
        workers = [stack.enter_context(bench.ours(case)) for case in cases]
        bench.note(f"growth, {what}: warming up")
        for worker in workers:
            worker.ask(updates=3)
        blocks = by_blocks(workers, bench.effort, lambda text: bench.note(f"growth, {what}: {text}"))
    return [sample(side, "tokens/s", cpu="cpu_update") for side in blocks]


def reached(bench: Bench, case: TrainCase, peaks: dict[Any, Sample]) -> Rows:
    """Tokens a second, and the rates of one size beside the peaks.

    A layer's time is half of what two layers more take: forward, backward, and the update of its weights.
    """
    size, what = case.hidden, f"hidden {case.hidden}"
    whole, fewer, more = measured(bench, what, case, replace(case, layers=1), replace(case, layers=3))
    yield Row("growth", what, "tokens/s", whole, facts={"threads": bench.threads})
    update = case.tokens / whole.median
    layer = max(1e-9, (case.tokens / more.median - case.tokens / fewer.median) / 2)
    product = max(("bf16", "fp32"), key=lambda name: peaks[name].median)
    layer_flops = 6 * case.tokens * 8 * size**2
    recurrence = 2 * case.bptt * 8 * size**2  # the hidden matrix in bfloat16, each step, there and back
    weights = (case.vocabulary + 8 * size * case.layers) * size
    for name, amount, seconds, peak in (
        ("update: products", case.flops, update, product),
        ("layer: products", layer_flops, layer, product),
        ("update: weights", UPDATE_BYTES * weights, update, nearest(4 * weights)),
        ("layer: hidden matrix", recurrence, layer, nearest(8 * size**2)),
    ):
        unit = "GFLOP/s" if "products" in name else "GB/s"
        peer = PRODUCTS[peak] if isinstance(peak, str) else f"reading {peak / 1e6:g} MB"
        yield Row("growth", f"{what}, {name}", unit, Sample((amount / seconds / 1e9,)), peaks[peak], peer)


def nearest(size: int) -> int:
    """Of the sizes whose reading was timed the one that is nearest in ratio."""
    return min(READ, key=lambda read: max(read / size, size / read))
