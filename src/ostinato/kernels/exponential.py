"""A softmax between its products, in registers: the exponentials of logits, and later the errors made of them."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from ostinato.kernels.shuffle import rounded
from ostinato.kernels.simd import WIDTH, place_of
from ostinato.kernels.vectors import exponential, larger, repeated, spread

_F32, _I16, _I32, _I64 = ir.FloatType(), ir.IntType(16), ir.IntType(32), ir.IntType(64)
_FLOATS, _WORDS, _HALVES = (ir.VectorType(kind, WIDTH) for kind in (_F32, _I32, _I16))

TOKENS = 4 * WIDTH
"""Columns of a tile: four registers."""


def _loop(builder: Any, count: Any, begins: list[Any], body: Any) -> list[Any]:
    """`values = body(number, values)` for number 0 .. count - 1, count at least 1; the last values."""
    before, loop, after = builder.block, builder.append_basic_block("rows"), builder.append_basic_block("rows.end")
    builder.branch(loop)
    builder.position_at_end(loop)
    number, values = builder.phi(_I64), [builder.phi(_FLOATS) for _ in begins]
    number.add_incoming(_I64(0), before)
    for value, begin in zip(values, begins, strict=True):
        value.add_incoming(begin, before)
    results = body(number, values)
    following = builder.add(number, _I64(1))
    number.add_incoming(following, loop)
    for value, result in zip(values, results, strict=True):
        value.add_incoming(result, loop)
    builder.cbranch(builder.icmp_signed("<", following, count), loop, after)
    builder.position_at_end(after)
    last: list[Any] = results
    return last


def _exponentials(typing, z, words, bias, first, kept, place, stride, largest, total, at):
    """`exponentials(z, words, bias, first, kept, place, stride, largest, total, at)`, of logits [words, TOKENS].

    z: float32, TOKENS numbers a row; bias[first + word] is added to row `word`. m, the largest of each column, goes to
    largest[at:], the sum of exp(z - m) to total[at:], and exp(z - m) as bfloat16 to kept, row `word` from number
    place + word * stride of its memory on. All but kept (uint16) are float32.
    """
    number = types.int64
    signature = types.void(z, number, bias, number, kept, number, number, largest, total, number)

    def generate(context, builder, signature, arguments):
        z, words, bias, first, kept, place, stride, largest, total, at = arguments

        def found(which, array, place, kind):
            return place_of(context, builder, signature.args[which], array, place, kind)

        def logits(word):
            shift = builder.load(found(2, bias, builder.add(first, word), _F32))
            same = spread(builder, shift, WIDTH)
            row = found(0, z, builder.mul(word, _I64(TOKENS)), _FLOATS)
            parts = [builder.load(builder.gep(row, [_I64(part)]), align=4) for part in range(4)]
            return [builder.fadd(part, same) for part in parts]

        def look(word, values):
            return [larger(builder, z, most) for z, most in zip(logits(word), values, strict=True)]

        most = _loop(builder, words, [repeated(float("-inf"), WIDTH)] * 4, look)

        def keep(word, values):
            row = found(4, kept, builder.add(place, builder.mul(word, stride)), _HALVES)
            results = []
            for part, (z, top, sums) in enumerate(zip(logits(word), most, values, strict=True)):
                value = exponential(builder, builder.fsub(z, top))
                results.append(builder.fadd(sums, value))
                half = builder.lshr(rounded(builder, builder.bitcast(value, _WORDS)), ir.Constant(_WORDS, [16] * WIDTH))
                builder.store(builder.trunc(half, _HALVES), builder.gep(row, [_I64(part)]), align=2)
            return results

        sums = _loop(builder, words, [repeated(0.0, WIDTH)] * 4, keep)
        for which, array, values in ((7, largest, most), (8, total, sums)):
            row = found(which, array, at, _FLOATS)
            for part, value in enumerate(values):
                builder.store(value, builder.gep(row, [_I64(part)]), align=4)
        return context.get_dummy_value()

    return signature, generate


exponentials: Any = intrinsic(_exponentials)


def _sum(builder: Any, vector: Any) -> Any:
    """The sum of a vector's numbers."""
    kind = ir.FunctionType(_F32, [_F32, _FLOATS])
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.vector.reduce.fadd.v{WIDTH}f32")
    return builder.call(function, [ir.Constant(_F32, 0.0), vector])


def _paired_errors(typing, kept, low, high, factors, factor, errors, first, second, pairs, pair, tokens, sums, at):
    """`paired_errors(kept, low, high, factors, factor, errors, first, second, pairs, pair, tokens, sums, at)`.

    kept: exponentials of two words as bfloat16, from numbers `low` and `high` of its memory on, `tokens` each, which is
    a multiple of 16. Times factors[factor:] they are errors: as bfloat16 from errors[first:] and errors[second:] on,
    both words' as pairs (uint32) from pairs[pair:] on. What each word's add up to goes to sums[at] and sums[at + 1].
    """
    number = types.int64
    places = kept, number, number, factors, number, errors, number, number, pairs, number, number, sums, number
    signature = types.void(*places)

    def generate(context, builder, signature, arguments):
        kept, low, high, factors, factor, errors, first, second, pairs, pair, tokens, sums, at = arguments
        upper = ir.Constant(_WORDS, [16] * WIDTH)

        def found(which, array, place, vector, kind):
            return place_of(context, builder, signature.args[which], array, builder.add(place, vector), kind)

        def step(number, totals):
            token = builder.mul(number, _I64(WIDTH))
            factor_now = builder.load(found(3, factors, factor, token, _FLOATS), align=4)
            halves, results = [], []
            for source, target, total in zip((low, high), (first, second), totals, strict=True):
                half = builder.load(found(0, kept, source, token, _HALVES), align=2)
                value = builder.bitcast(builder.shl(builder.zext(half, _WORDS), upper), _FLOATS)
                error = builder.fmul(value, factor_now)
                results.append(builder.fadd(total, error))
                halves.append(builder.lshr(rounded(builder, builder.bitcast(error, _WORDS)), upper))
                builder.store(builder.trunc(halves[-1], _HALVES), found(5, errors, target, token, _HALVES), align=2)
            word = builder.or_(halves[0], builder.shl(halves[1], upper))
            builder.store(word, found(8, pairs, pair, token, _WORDS), align=4)
            return results

        totals = _loop(builder, builder.sdiv(tokens, _I64(WIDTH)), [repeated(0.0, WIDTH)] * 2, step)
        for which, total in enumerate(totals):
            builder.store(_sum(builder, total), found(11, sums, at, _I64(which), _F32))
        return context.get_dummy_value()

    return signature, generate


paired_errors: Any = intrinsic(_paired_errors)
