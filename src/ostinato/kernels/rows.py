"""Rows of float32 numbers that lie anywhere in a matrix, taken through vector registers of this processor's width.

Rows are padded with zeros to a multiple of 16 numbers. The same code is written for registers of 16, 8 or 4 numbers.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from ostinato.kernels.simd import HAS_AVX512, has, place_of
from ostinato.kernels.vectors import add_product, spread

ROW = 16
"""Rows hold a multiple of so many numbers."""

PLACES = 8
"""Numbers that `move` takes at once."""

_F32, _I32, _I64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)


NATIVE = 16 if HAS_AVX512 else 8 if has("avx2") else 4
"""Numbers of a register of this processor."""

_NAMED = os.environ.get("OSTINATO_LANES", "")
LANES = int(_NAMED) if _NAMED in ("16", "8", "4") else NATIVE
"""Numbers of a register in these kernels; OSTINATO_LANES (16, 8, 4) chooses others than NATIVE, to compare them."""

KEPT = LANES == NATIVE
"""Whether compiled kernels may be kept on disk, where nothing tells for which registers they were written."""


class Writer:
    """Writes vector instructions on registers of LANES float32 numbers."""

    def __init__(self, context: Any, builder: Any):
        self.context, self.builder = context, builder
        self.kind = ir.VectorType(_F32, LANES)
        self.zero = ir.Constant(self.kind, None)

    def row(self, array_type: Any, array: Any, rows_type: Any, rows: Any, number: Any) -> Any:
        """A pointer to the row whose place stands at rows[number]."""
        place = self.builder.load(place_of(self.context, self.builder, rows_type, rows, number, _I64))
        return place_of(self.context, self.builder, array_type, array, place, self.kind)

    def load(self, row: Any, chunk: Any) -> Any:
        return self.builder.load(self.builder.gep(row, [chunk]), align=4)

    def store(self, value: Any, row: Any, chunk: Any) -> None:
        self.builder.store(value, self.builder.gep(row, [chunk]), align=4)

    def weights(self, signature: Any, weights: Any, words: Any, at: Any, own: Any, chunk: int) -> Any:
        """A chunk of weights from number `at` on, 0 where the word is `own`."""
        builder, numbers = self.builder, ir.VectorType(_I32, LANES)
        row = place_of(self.context, builder, signature.args[weights[0]], weights[1], at, self.kind)
        named = place_of(self.context, builder, signature.args[words[0]], words[1], at, numbers)
        word = builder.load(builder.gep(named, [_I64(chunk)]), align=4)
        first = builder.insert_element(ir.Constant(numbers, ir.Undefined), own, _I32(0))
        same = builder.shuffle_vector(first, first, ir.Constant(numbers, [0] * LANES))
        return builder.select(builder.icmp_signed("==", word, same), self.zero, self.load(row, _I64(chunk)))

    def shuffle(self, x: Any, y: Any, places: list[int]) -> Any:
        return self.builder.shuffle_vector(x, y, ir.Constant(ir.VectorType(_I32, LANES), places))

    def paired(self, x: Any, y: Any, bit: int) -> Any:
        """Lanes without that bit: x[lane] + x[its partner]; with it: those of y (x if there is no y)."""
        y = x if y is None else y
        own = [lane + LANES * bool(lane & bit) for lane in range(LANES)]
        other = [(lane ^ bit) + LANES * bool(lane & bit) for lane in range(LANES)]
        return self.builder.fadd(self.shuffle(x, y, own), self.shuffle(x, y, other))

    def sums(self, vectors: list[Any]) -> Any:
        """The sum of each of LANES vectors, in its lane; where None stands, anything."""
        bit = 1
        while bit < LANES:
            vectors = [
                None if low is None else self.paired(low, high, bit)
                for low, high in zip(vectors[::2], vectors[1::2], strict=True)
            ]
            bit *= 2
        return vectors[0]

    def strips(self, blocks: Any, strip: Callable[[list[Any]], None]) -> None:
        """Call `strip` for all registers of a row of so many blocks: four of them at a time, then two, then one."""
        builder = self.builder
        chunks = builder.mul(blocks, _I64(ROW // LANES))
        fours = builder.sdiv(chunks, _I64(4))

        def some(begin: Any, width: int) -> None:
            strip([builder.add(begin, _I64(part)) for part in range(width)])

        def four(number: Any, _: list[Any]) -> list[Any]:
            some(builder.mul(number, _I64(4)), 4)
            return []

        with builder.if_then(builder.icmp_signed(">", fours, _I64(0))):
            self.loop(fours, [], four)
        for width in (2, 1) if LANES == ROW else (2,) if LANES == 8 else ():
            there = builder.and_(chunks, _I64(width))
            with builder.if_then(builder.icmp_signed("!=", there, _I64(0))):
                some(builder.sub(chunks, builder.and_(chunks, _I64(2 * width - 1))), width)

    def loop(self, count: Any, begins: list[Any], body: Callable[[Any, list[Any]], list[Any]]) -> list[Any]:
        """`values = body(number, values)` for number 0 .. count - 1, count at least 1; the last values."""
        builder = self.builder
        before, inside = builder.block, builder.append_basic_block("window")
        after = builder.append_basic_block("window.end")
        builder.branch(inside)
        builder.position_at_end(inside)
        number, values = builder.phi(_I64), [builder.phi(begin.type) for begin in begins]
        number.add_incoming(_I64(0), before)
        for value, begin in zip(values, begins, strict=True):
            value.add_incoming(begin, before)
        results = body(number, values)
        last = builder.block
        following = builder.add(number, _I64(1))
        number.add_incoming(following, last)
        for value, result in zip(values, results, strict=True):
            value.add_incoming(result, last)
        builder.cbranch(builder.icmp_signed("<", following, count), inside, after)
        builder.position_at_end(after)
        return results


def _gather(typing, matrix, rows, first, count, blocks, factor, at):
    """`gather(matrix, rows, first, count, blocks, factor, at)`: a row as the sum of others, times a factor.

    matrix[at:], blocks * 16 numbers, becomes factor * (the `count` rows, at least 1, that begin at rows[first:]).
    matrix: float32; rows: int64.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        matrix, rows, first, count, blocks, factor, at = arguments
        kinds, writer = signature.args, Writer(context, builder)
        target, times = place_of(context, builder, kinds[0], matrix, at, writer.kind), spread(builder, factor, LANES)

        def strip(chunks: list[Any]) -> None:
            def visit(number: Any, sums: list[Any]) -> list[Any]:
                row = writer.row(kinds[0], matrix, kinds[1], rows, builder.add(first, number))
                return [builder.fadd(sum_, writer.load(row, chunk)) for sum_, chunk in zip(sums, chunks, strict=True)]

            sums = writer.loop(count, [writer.zero] * len(chunks), visit)
            for sum_, chunk in zip(sums, chunks, strict=True):
                writer.store(builder.fmul(sum_, times), target, chunk)

        writer.strips(blocks, strip)
        return context.get_dummy_value()

    place = types.int64
    return types.void(matrix, rows, place, place, place, types.float32, place), generate


def _scatter(typing, matrix, rows, first, count, blocks, source, at, step, factor):
    """`scatter(matrix, rows, first, count, blocks, source, at, step, factor)`: factor * source added to rows.

    Row number n of the `count` that begin at rows[first:] gets what begins at source[at + n * step]; step 0 gives the
    same to all. Types as in `gather`.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        matrix, rows, first, count, blocks, source, at, step, factor = arguments
        kinds, writer = signature.args, Writer(context, builder)
        times = spread(builder, factor, LANES)

        def visit(number: Any, _: list[Any]) -> list[Any]:
            row = writer.row(kinds[0], matrix, kinds[1], rows, builder.add(first, number))
            place = builder.add(at, builder.mul(number, step))
            given = place_of(context, builder, kinds[5], source, place, writer.kind)

            def strip(chunks: list[Any]) -> None:
                sums = [add_product(builder, times, writer.load(given, at), writer.load(row, at)) for at in chunks]
                for value, chunk in zip(sums, chunks, strict=True):
                    writer.store(value, row, chunk)

            writer.strips(blocks, strip)
            return []

        writer.loop(count, [], visit)
        return context.get_dummy_value()

    place = types.int64
    return types.void(matrix, rows, place, place, place, source, place, place, types.float32), generate


def _move(typing, source, begin, target, at):
    """`move(source, begin, target, at)`: target[at : at + 8] = source[begin : begin + 8], of int64 arrays."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, begin, target, at = arguments
        kind = ir.VectorType(_I64, PLACES)
        value = builder.load(place_of(context, builder, signature.args[0], source, begin, kind), align=8)
        builder.store(value, place_of(context, builder, signature.args[2], target, at, kind), align=8)
        return context.get_dummy_value()

    return types.void(source, types.int64, target, types.int64), generate


gather: Any = intrinsic(_gather)
scatter: Any = intrinsic(_scatter)
move: Any = intrinsic(_move)
