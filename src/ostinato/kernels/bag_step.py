"""A whole step of a bag of rows against one tile of outputs: read once, written once, between them in registers.

The same arithmetic in the same order as `gather`, `scores`, `judge`, `updates` and `scatter`, of which each would store
what the next one loads.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from ostinato.kernels.rows import LANES, Writer
from ostinato.kernels.simd import place_of
from ostinato.kernels.vectors import add_product, logarithm, spread, total
from ostinato.kernels.window import GROUP, OUTPUTS, gradient, sure

_F32, _I64 = ir.FloatType(), ir.IntType(64)


def scored(writer: Writer, kinds: Any, arguments: Any, ys: list[Any], bag: Any) -> list[Any]:
    """Write factor * the sum of the rows to `bag`; its products with the outputs, GROUP lanes or a register."""
    left, lefts, count, blocks, factor = arguments
    builder = writer.builder
    sums = [cgutils.alloca_once_value(builder, writer.zero) for _ in ys]
    times = spread(builder, factor, LANES)

    def strip(chunks: list[Any]) -> None:
        def visit(number: Any, values: list[Any]) -> list[Any]:
            row = writer.row(kinds[0], left, kinds[1], lefts, number)
            return [builder.fadd(value, writer.load(row, at)) for value, at in zip(values, chunks, strict=True)]

        values = writer.loop(count, [writer.zero] * len(chunks), visit)
        for value, at in zip(values, chunks, strict=True):
            mean = builder.fmul(value, times)
            writer.store(mean, bag, at)
            for y, kept in zip(ys, sums, strict=True):
                builder.store(add_product(builder, mean, writer.load(y, at), builder.load(kept)), kept)

    writer.strips(blocks, strip)
    lanes = [builder.load(kept) for kept in sums]
    lanes += [None] * (-len(lanes) % max(LANES, GROUP))
    return [writer.sums(lanes[at : at + LANES]) for at in range(0, len(lanes), LANES)]


def judged(writer: Writer, signature: Any, arguments: Any, products: list[Any]) -> tuple[list[Any], Any]:
    """alpha times the gradient of each product, see `window.judge`, and the loss: the sum of -weight * ln p."""
    signs, sign, weights, words, lane, own, alpha = arguments
    builder = writer.builder
    side_row = place_of(writer.context, builder, signature.args[7], signs, sign, writer.kind)
    rate, loss = spread(builder, alpha, LANES), writer.zero
    changes = []
    for chunk, x in enumerate(products):
        side = writer.load(side_row, _I64(chunk))
        times = writer.weights(signature, (9, weights), (10, words), lane, own, chunk)
        p, change = gradient(builder, x, side, times, rate)
        changes.append(change)
        loss = builder.fsub(loss, builder.fmul(times, logarithm(builder, sure(builder, p))))
    if LANES > GROUP:  # the other half has the weights of a second context
        loss = writer.shuffle(loss, writer.zero, [*range(GROUP), *range(LANES + GROUP, 2 * LANES)])
    return changes, total(builder, loss)


def changed(writer: Writer, kinds: Any, arguments: Any, ys: list[Any], bag: Any, changes: list[Any]) -> None:
    """Add to each output its change times the bag, and to each row of the bag the outputs times theirs, times share."""
    left, lefts, count, blocks, share = arguments
    builder = writer.builder
    factors = [writer.shuffle(changes[t // LANES], changes[t // LANES], [t % LANES] * LANES) for t in range(OUTPUTS)]
    times = spread(builder, share, LANES)

    def strip(parts: list[Any]) -> None:
        errors = []
        for at in parts:
            mean, error = writer.load(bag, at), writer.zero
            old = [writer.load(y, at) for y in ys]
            for factor, y in zip(factors, old, strict=True):
                error = add_product(builder, factor, y, error)
            for t in reversed(range(OUTPUTS)):  # of an output that comes twice, the first writing stays
                writer.store(add_product(builder, factors[t], mean, old[t]), ys[t], at)
            errors.append(error)

        def visit(number: Any, _: list[Any]) -> list[Any]:
            row = writer.row(kinds[0], left, kinds[1], lefts, number)
            for at, error in zip(parts, errors, strict=True):
                writer.store(add_product(builder, times, error, writer.load(row, at)), row, at)
            return []

        writer.loop(count, [], visit)

    writer.strips(blocks, strip)


def _step(
    typing, left, lefts, count, right, rights, begin, blocks, signs, sign, weights, words, lane, own, alpha, factor,
    share, bag,
):  # fmt: skip
    """`step(...)`: one step of a bag, the `count` (at least 1) rows of `left` at lefts, times factor; its loss in nats.

    Against the rows of `right` at rights[begin:], a tile of OUTPUTS; signs, weights, words, own, alpha: see
    `window.judge`. share: what the change of the bag is multiplied by before each of its rows gets it. bag: scratch for
    a row.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        left, lefts, count, right, rights, begin, blocks, signs, sign, weights, words, lane, own, alpha = arguments[:14]
        factor, share, bag = arguments[14:]
        kinds, writer = signature.args, Writer(context, builder)
        ys = [writer.row(kinds[3], right, kinds[4], rights, builder.add(begin, _I64(t))) for t in range(OUTPUTS)]
        mean = place_of(context, builder, kinds[16], bag, _I64(0), writer.kind)
        products = scored(writer, kinds, (left, lefts, count, blocks, factor), ys, mean)
        judging = signs, sign, weights, words, lane, own, alpha
        changes, loss = judged(writer, signature, judging, products)
        changed(writer, kinds, (left, lefts, count, blocks, share), ys, mean, changes)
        return loss

    place, number = types.int64, types.float32
    arrays = left, lefts, place, right, rights, place, place, signs, place, weights, words, place, types.int32
    return number(*arrays, number, number, number, bag), generate


step: Any = intrinsic(_step)
