"""Arithmetic on vector registers of float32, written as instructions; a vector says itself how wide it is."""

from __future__ import annotations

from typing import Any, SupportsFloat

import numpy as np
from llvmlite import binding, ir
from numba.core import cgutils

from ostinato.kernels import maths
from ostinato.kernels.simd import has

_F32, _I32 = ir.FloatType(), ir.IntType(32)
FUSED = has("fma") or not binding.get_process_triple().startswith("x86")
"""Whether x * y + z is one instruction; else a call of a function would take its place."""

_ROOT_HALF = 0x3F3504F3  # the bits of sqrt(1/2)


def repeated(number: SupportsFloat, width: int) -> Any:
    """A vector of one number, which must be a float32."""
    return ir.Constant(ir.VectorType(_F32, width), [float(number)] * width)


def spread(builder: Any, number: Any, width: int) -> Any:
    """A number that is known only at run time in every lane of a vector."""
    first = builder.insert_element(ir.Constant(ir.VectorType(_F32, width), ir.Undefined), number, _I32(0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(_I32, width), [0] * width))


def add_product(builder: Any, x: Any, y: Any, z: Any) -> Any:
    """x * y + z, rounded once where the processor does that."""
    if not FUSED:
        return builder.fadd(builder.fmul(x, y), z)
    kind = ir.FunctionType(x.type, [x.type] * 3)
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.fma.v{x.type.count}f32"), [x, y, z])


def larger(builder: Any, x: Any, y: Any) -> Any:
    """The larger of two, y where one is NaN."""
    return builder.select(builder.fcmp_ordered(">", x, y), x, y)


def exponential(builder: Any, x: Any) -> Any:
    """e^x for x <= 88 as `maths.exp32` computes it: 2^n by its bits times a polynomial; NaN stays NaN."""
    width = x.type.count
    words = ir.VectorType(_I32, width)

    def same(number: SupportsFloat) -> Any:
        return repeated(number, width)

    x = larger(builder, same(maths.LEAST), x)
    shifted = add_product(builder, x, same(maths.LOG2_E), same(maths.ROUNDER))
    whole = builder.fsub(shifted, same(maths.ROUNDER))
    r = add_product(builder, whole, same(-maths.LN2_HIGH), x)
    r = add_product(builder, whole, same(-maths.LN2_LOW), r)
    tail = same(maths.C6)
    for coefficient in (maths.C5, maths.C4, maths.C3, maths.C2):
        tail = add_product(builder, tail, r, same(coefficient))
    value = builder.fadd(add_product(builder, builder.fmul(r, r), tail, r), same(1.0))
    power = builder.shl(builder.bitcast(shifted, words), ir.Constant(words, [23] * width))
    power = builder.add(power, ir.Constant(words, [0x3F800000] * width))
    return builder.fmul(value, builder.bitcast(power, x.type))


def logarithm(builder: Any, x: Any) -> Any:
    """ln x for normal x > 0, to 2e-7 absolute near 1 and relative elsewhere.

    x = 2^n m with m in [sqrt(1/2), sqrt(2)); ln m = 2 artanh(s) with s = (m - 1) / (m + 1), a series of five terms.
    """
    width = x.type.count
    words = ir.VectorType(_I32, width)
    shift = ir.Constant(words, [23] * width)
    bits = builder.bitcast(x, words)
    whole = builder.ashr(builder.sub(bits, ir.Constant(words, [_ROOT_HALF] * width)), shift)
    m = builder.bitcast(builder.sub(bits, builder.shl(whole, shift)), x.type)
    one = repeated(1.0, width)
    s = builder.fdiv(builder.fsub(m, one), builder.fadd(m, one))
    square = builder.fmul(s, s)
    series = repeated(np.float32(2 / 9), width)
    for number in (7, 5, 3):
        series = add_product(builder, series, square, repeated(np.float32(2 / number), width))
    twice = builder.fadd(s, s)
    value = add_product(builder, builder.fmul(square, s), series, twice)
    number = builder.sitofp(whole, x.type)
    value = add_product(builder, number, repeated(maths.LN2_LOW, width), value)
    value = add_product(builder, number, repeated(maths.LN2_HIGH, width), value)
    return builder.fadd(value, builder.fsub(x, x))  # NaN stays NaN


def total(builder: Any, x: Any) -> Any:
    """The sum of a vector's numbers, in order."""
    kind = ir.FunctionType(_F32, [_F32, x.type])
    name = f"llvm.vector.reduce.fadd.v{x.type.count}f32"
    function = cgutils.get_or_insert_function(builder.module, kind, name)
    return builder.call(function, [ir.Constant(_F32, 0.0), x], fastmath=("reassoc",))


def sigmoid(builder: Any, x: Any) -> Any:
    """1 / (1 + e^-x)."""
    one = repeated(1.0, x.type.count)
    negative = builder.fsub(repeated(-0.0, x.type.count), x)
    low = repeated(maths.MOST, x.type.count)
    cut = builder.select(builder.fcmp_ordered(">", negative, low), low, negative)
    return builder.fdiv(one, builder.fadd(one, exponential(builder, cut)))
