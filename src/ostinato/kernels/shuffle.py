"""Vector instructions that pack float32 numbers as bfloat16 pairs: rounding, pairing, and a 16 x 16 transpose."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from ostinato.kernels.simd import WIDTH, place_of

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_WORDS = ir.VectorType(_I32, WIDTH)


def _all(number: int) -> Any:
    """A vector of one number."""
    return ir.Constant(_WORDS, [number] * WIDTH)


def rounded(builder: Any, words: Any) -> Any:
    """The bits of float32 numbers, with those of the nearest bfloat16 (ties to even) in the upper half."""
    odd = builder.and_(builder.lshr(words, _all(16)), _all(1))
    return builder.add(builder.add(words, _all(0x7FFF)), odd)


def _paired(builder: Any, low: Any, high: Any) -> Any:
    """Pairs of bfloat16 of two vectors of float32 bits."""
    upper = builder.and_(rounded(builder, high), _all(0xFFFF0000))
    return builder.or_(builder.lshr(rounded(builder, low), _all(16)), upper)


def _pair16(typing, x, low, high, out, place):
    """`pair16(x, low, high, out, place)`: x[low + j] and x[high + j] as a pair in out[place + j], j < 16.

    x: float32, out: uint32; places count elements of their memory.
    """
    signature = types.void(x, types.int64, types.int64, out, types.int64)

    def generate(context, builder, signature, arguments):
        array, low, high, target, place = arguments
        kind, into = signature.args[0], signature.args[3]
        parts = [builder.load(place_of(context, builder, kind, array, at, _WORDS), align=4) for at in (low, high)]
        builder.store(_paired(builder, *parts), place_of(context, builder, into, target, place, _WORDS), align=4)
        return context.get_dummy_value()

    return signature, generate


pair16: Any = intrinsic(_pair16)


def _transposed(builder: Any, rows: list[Any]) -> list[Any]:
    """The transpose of 16 vectors of 16 words, in four rounds of exchanging blocks of 1, 2, 4 and 8."""
    for block in (1, 2, 4, 8):
        first = [j + (WIDTH - block if j & block else 0) for j in range(WIDTH)]
        second = [j + (WIDTH if j & block else block) for j in range(WIDTH)]
        masks = [ir.Constant(_WORDS, places) for places in (first, second)]
        mixed = list(rows)
        for row in (row for row in range(WIDTH) if not row & block):
            pair = rows[row], rows[row + block]
            mixed[row], mixed[row + block] = (builder.shuffle_vector(*pair, mask) for mask in masks)
        rows = mixed
    return rows


def _turn16(typing, x, place, stride, out, target):
    """`turn16(x, place, stride, out, target)`: pair k of row j goes to out[target + 16 k + j].

    Of 16 rows 16 pairs each. x: float32, row j's numbers from place + j * stride in its memory; out: uint32.
    """
    signature = types.void(x, types.int64, types.int64, out, types.int64)

    def generate(context, builder, signature, arguments):
        array, place, stride, into, target = arguments
        even = ir.Constant(_WORDS, [2 * j for j in range(WIDTH)])
        odd = ir.Constant(_WORDS, [2 * j + 1 for j in range(WIDTH)])
        rows = []
        for row in range(WIDTH):
            at = builder.add(place, builder.mul(stride, _I64(row)))
            first = place_of(context, builder, signature.args[0], array, at, _WORDS)
            halves = [builder.load(builder.gep(first, [_I64(half)]), align=4) for half in (0, 1)]
            parts = [builder.shuffle_vector(*halves, mask) for mask in (even, odd)]
            rows.append(_paired(builder, *parts))
        first = place_of(context, builder, signature.args[3], into, target, _WORDS)
        for pair, words in enumerate(_transposed(builder, rows)):
            builder.store(words, builder.gep(first, [_I64(pair)]), align=4)
        return context.get_dummy_value()

    return signature, generate


turn16: Any = intrinsic(_turn16)
