"""Tiles of a window's products with rows that lie anywhere, kept in vector registers.

Word vectors are trained window by window: a few rows of one matrix (the contexts) meet a few rows of another (a word
and its negatives, or the nodes of a path). `scores` makes their products, `updates` adds rows of each side, times
numbers, to those of the other.

Source: [Ji2016], who share the outputs of a window among its contexts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from ostinato.kernels.rows import LANES, ROW, Writer
from ostinato.kernels.simd import place_of
from ostinato.kernels.vectors import add_product, larger, logarithm, repeated, sigmoid, spread, total

GROUP = 8
"""Numbers kept for each context of a tile: one for each output it may have."""

OUTPUTS = 6
"""Outputs of a tile: two contexts' sums, the rows being read and a few to work with fill the registers."""

NARROW = 4
"""Outputs of a narrow tile, where OUTPUTS would be filled up with nothing."""

_F32, _I32, _I64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)


_CHUNKS = 1 if LANES == 8 else 2  # registers of a row that are updated together: AVX2 has only 16


def make_scores(contexts: int, outputs: int) -> Any:
    """`scores(left, lefts, first, right, rights, begin, blocks, out, at)` for kernels.

    Writes the products of the `contexts` (1 or 2) rows of `left` at lefts[first:] with the `outputs` (1 to 8) rows of
    `right` at rights[begin:]: those of a context to out[at + 8 * context:], 8 numbers, of which those beyond `outputs`
    mean nothing. left, right, out: float32; lefts, rights: int64, where rows begin in their memory. blocks: a row's
    numbers / 16.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        left, lefts, first, right, rights, begin, blocks, out, at = arguments
        kinds, writer = signature.args, Writer(context, builder)
        xs = [writer.row(kinds[0], left, kinds[1], lefts, builder.add(first, _I64(c))) for c in range(contexts)]
        ys = [writer.row(kinds[3], right, kinds[4], rights, builder.add(begin, _I64(t))) for t in range(outputs)]

        def body(chunk: Any, values: list[Any]) -> list[Any]:
            loaded = [writer.load(x, chunk) for x in xs]
            results = list(values)
            for t, y in enumerate(ys):
                other = writer.load(y, chunk)
                for c, own in enumerate(loaded):
                    results[c * outputs + t] = add_product(builder, own, other, values[c * outputs + t])
            return results

        chunks = builder.mul(blocks, _I64(ROW // LANES))
        totals: list[Any] = writer.loop(chunks, [writer.zero] * (contexts * outputs), body)
        lanes: list[Any] = []
        for c in range(contexts):
            lanes += totals[c * outputs : (c + 1) * outputs] + [None] * (GROUP - outputs)
        lanes += [None] * (-len(lanes) % LANES)
        target = place_of(context, builder, kinds[7], out, at, writer.kind)
        for number in range(0, len(lanes), LANES):
            part = lanes[number : number + LANES]
            if part[0] is not None:
                writer.store(writer.sums(part), target, _I64(number // LANES))
        return context.get_dummy_value()

    def scores(typing, left, lefts, first, right, rights, begin, blocks, out, at):
        place = types.int64
        return types.void(left, lefts, place, right, rights, place, place, out, place), generate

    return intrinsic(scores)


def make_updates(outputs: int, apart: bool) -> Any:
    """`updates(left, lefts, first, count, right, rights, begin, blocks, factors, at, errors)` for kernels.

    With x the `count` (at least 1) rows of `left` at lefts[first:], y the `outputs` rows of `right` at rights[begin:]
    and g = factors[at + 8 * context + output]: x += g y and y += g x, both from what they were before (a context that
    comes twice is read anew the second time). Of an output that comes twice, the first writing stays. apart: x stays,
    and g y is added to the rows of `errors`, one after another. Types as in `make_scores`.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        left, lefts, first, count, right, rights, begin, blocks, factors, at, errors = arguments
        kinds, writer = signature.args, Writer(context, builder)
        ys = [writer.row(kinds[4], right, kinds[5], rights, builder.add(begin, _I64(t))) for t in range(outputs)]
        table = place_of(context, builder, kinds[8], factors, at, _F32)
        chunks = builder.mul(blocks, _I64(ROW // LANES))

        def strip(chunk: Any, width: int) -> None:
            """Update `width` registers of every row, beginning with number `chunk`."""
            parts = [builder.add(chunk, _I64(part)) for part in range(width)]
            old = [writer.load(y, part) for y in ys for part in parts]

            def visit(m: Any, new: list[Any]) -> list[Any]:
                row = target = writer.row(kinds[0], left, kinds[1], lefts, builder.add(first, m))
                before = [writer.load(row, part) for part in parts]
                if apart:
                    place = builder.mul(m, builder.mul(blocks, _I64(ROW)))
                    target = place_of(context, builder, kinds[10], errors, place, writer.kind)
                after, results = [writer.load(target, part) for part in parts] if apart else list(before), list(new)
                for t in range(outputs):
                    place = builder.add(builder.mul(m, _I64(GROUP)), _I64(t))
                    factor = spread(builder, builder.load(builder.gep(table, [place]), align=4), LANES)
                    for part in range(width):
                        after[part] = add_product(builder, factor, old[t * width + part], after[part])
                        results[t * width + part] = add_product(builder, factor, before[part], new[t * width + part])
                for part, value in zip(parts, after, strict=True):
                    writer.store(value, target, part)
                return results

            results = writer.loop(count, old, visit)
            for t in reversed(range(outputs)):
                for part in range(width):
                    writer.store(results[t * width + part], ys[t], parts[part])

        strips = builder.sdiv(chunks, _I64(_CHUNKS))
        with builder.if_then(builder.icmp_signed(">", strips, _I64(0))):

            def body(number: Any, values: list[Any]) -> list[Any]:
                strip(builder.mul(number, _I64(_CHUNKS)), _CHUNKS)
                return []

            writer.loop(strips, [], body)
        if _CHUNKS == 2 and LANES == ROW:  # narrower registers always come in pairs
            with builder.if_then(builder.icmp_signed("<", builder.mul(strips, _I64(2)), chunks)):
                strip(builder.sub(chunks, _I64(1)), 1)
        return context.get_dummy_value()

    def updates(typing, left, lefts, first, count, right, rights, begin, blocks, factors, at, errors):
        place = types.int64
        places = left, lefts, place, place, right, rights, place, place, factors, place, errors
        return types.void(*places), generate

    return intrinsic(updates)


SURE = np.float32(1e-6)
"""The least probability that a loss is taken of; the product of six of them is a normal float32."""


def gradient(builder: Any, x: Any, side: Any, times: Any, rate: Any) -> tuple[Any, Any]:
    """p = sigmoid(side * x), and rate times the gradient of times * ln p by x; vectors, side is 1 or -1."""
    p = sigmoid(builder, builder.fmul(side, x))
    return p, builder.fmul(builder.fmul(rate, times), builder.fsub(side, builder.fmul(side, p)))


def sure(builder: Any, p: Any) -> Any:
    """p, or the least that a loss is taken of."""
    return larger(builder, repeated(SURE, LANES), p)


def _judge(typing, products, at, signs, sign, weights, words, weight, own, alpha, sureness):
    """`judge(products, at, signs, sign, weights, words, weight, own, alpha, sureness)`: gradients of 16 products.

    With p = sigmoid(sign * product), each of products[at : at + 16] becomes alpha * weight * sign * (1 - p), which is
    alpha times the gradient of weight * ln p, and sureness [16] is multiplied by p. signs, and weights and words, are
    read from numbers `sign` and `weight` of their memory on; where a word is `own` the weight is 0. own and words are
    int32, everything else float32.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        products, at, signs, sign, weights, words, weight, own, alpha, sureness = arguments
        kinds, writer = signature.args, Writer(context, builder)
        tables = (0, products, at), (2, signs, sign), (9, sureness, _I64(0))
        rows = [place_of(context, builder, kinds[which], array, place, writer.kind) for which, array, place in tables]
        rate = spread(builder, alpha, LANES)
        for chunk in range(ROW // LANES):
            x, side, kept = (writer.load(row, _I64(chunk)) for row in rows)
            times = writer.weights(signature, (4, weights), (5, words), weight, own, chunk)
            p, change = gradient(builder, x, side, times, rate)
            writer.store(change, rows[0], _I64(chunk))
            writer.store(builder.fmul(kept, sure(builder, p)), rows[2], _I64(chunk))
        return context.get_dummy_value()

    place = types.int64
    arrays = types.void(products, place, signs, place, weights, words, place, types.int32, types.float32, sureness)
    return arrays, generate


def _surprise(typing, sureness, weights, words, weight, own):
    """`surprise(sureness, weights, words, weight, own)`: the sum of -weight * ln(sureness), 16 of each; see `judge`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        sureness, weights, words, weight, own = arguments
        writer = Writer(context, builder)
        row = place_of(context, builder, signature.args[0], sureness, _I64(0), writer.kind)
        sums = writer.zero
        for chunk in range(ROW // LANES):
            times = writer.weights(signature, (1, weights), (2, words), weight, own, chunk)
            sums = builder.fsub(sums, builder.fmul(times, logarithm(builder, writer.load(row, _I64(chunk)))))
        return total(builder, sums)

    return types.float32(sureness, weights, words, types.int64, types.int32), generate


judge: Any = intrinsic(_judge)
surprise: Any = intrinsic(_surprise)

scores_2, scores_1 = make_scores(2, OUTPUTS), make_scores(1, OUTPUTS)
narrow_scores_2, narrow_scores_1 = make_scores(2, NARROW), make_scores(1, NARROW)
updates_6, updates_apart_6 = make_updates(OUTPUTS, False), make_updates(OUTPUTS, True)
narrow_updates_apart = make_updates(NARROW, True)
