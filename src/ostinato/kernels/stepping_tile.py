"""The tile that steps are made of: a few rows times 64 packed columns, finished in registers.

The weights [N, K] of a product x W' lie in blocks of 64 columns of W', [N / 64][K / group][64][group] (`group` numbers
are multiplied at once, see `simd`), so that one row of x reads them as one stream. What leaves the registers
is float32: integer sums are scaled there, and what the result begins from (a bias, another product) is added.
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding, ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from ostinato.kernels.simd import HAS_BF16, HAS_VNNI, KINDS, WIDTH, has, multiply, place_of

BLOCK = 4 * WIDTH
"""Columns of a block."""

AHEAD = 2048
"""How many bytes ahead of their use weights are asked for."""

HAS_FMA = has("fma")

NATIVE = {"float32": HAS_FMA, "bfloat16": HAS_BF16, "int8": HAS_VNNI}
"""Whether this processor has the instruction of each kind of product."""

FORMS: dict[tuple[Any, Any], tuple[str, bool]] = {
    (types.float32, types.float32): ("float32", True),
    (types.float32, types.int32): ("float32", False),
    (types.uint16, types.uint16): ("bfloat16", True),
    (types.uint16, types.int16): ("bfloat16", False),
    (types.uint8, types.int8): ("int8", True),
    (types.uint8, types.uint8): ("int8", False),
}
"""What the types of rows and weights stand for: the kind, and whether its own instruction is used.

The bits are the same either way; only the type that the weights are called by tells the two apart.
"""

_I8, _I16, _I32, _I64, _F32 = (*(ir.IntType(bits) for bits in (8, 16, 32, 64)), ir.FloatType())
_INTS, _FLOATS = ir.VectorType(_I32, WIDTH), ir.VectorType(_F32, WIDTH)


def _spread(builder: Any, one: Any) -> Any:
    """A number in every lane of a vector."""
    vector = ir.VectorType(one.type, WIDTH)
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), one, _I32(0))
    return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), ir.Constant(_INTS, [0] * WIDTH))


def _plain(builder: Any, kind: str, total: Any, one: Any, panel: Any) -> Any:
    """total + one * panel without the instruction of this kind; `one` is a single 32-bit word."""
    if kind == "float32":
        return builder.fadd(total, builder.fmul(_spread(builder, one), panel))
    if kind == "bfloat16":
        for high in (False, True):
            left = builder.and_(one, _I32(0xFFFF0000)) if high else builder.shl(one, _I32(16))
            half = _spread(builder, _I32(0xFFFF0000 if high else 16))
            right = builder.and_(panel, half) if high else builder.shl(panel, half)
            factor = _spread(builder, builder.bitcast(left, _F32))
            total = builder.fadd(total, builder.fmul(factor, builder.bitcast(right, _FLOATS)))
        return total
    for byte in range(4):
        left = builder.and_(builder.lshr(one, _I32(8 * byte)), _I32(255))
        right = builder.shl(panel, _spread(builder, _I32(24 - 8 * byte)))
        right = builder.ashr(right, _spread(builder, _I32(24)))
        total = builder.add(total, builder.mul(_spread(builder, left), right))
    return total


def _ask(builder: Any, place: Any) -> None:
    """Begin to fetch what lies AHEAD bytes behind a place."""
    byte = _I8.as_pointer()
    name = "llvm.prefetch.p0" if binding.llvm_version_info[0] >= 15 else "llvm.prefetch.p0i8"
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(ir.VoidType(), [byte, _I32, _I32, _I32]), name
    )
    builder.call(function, [builder.gep(builder.bitcast(place, byte), [_I64(AHEAD)]), _I32(0), _I32(3), _I32(1)])


def _emit(context: Any, builder: Any, signature: Any, arguments: Any, form: tuple[str, bool], rows: int) -> Any:
    """The code of `make_step_tile`."""
    kind, native = form
    sums, word = KINDS[kind][1], _F32 if kind == "float32" else _I32
    times = multiply if native else _plain
    a, a_place, a_stride, b, b_place, length, numbers, scale, correction, *rest = arguments
    row_scale, start, start_place, start_stride, c, c_place, c_stride = rest
    kinds, panels = signature.args, BLOCK // WIDTH

    def row_of(array: int, value: Any, place: Any, stride: Any, row: int, element: Any) -> Any:
        return place_of(
            context, builder, kinds[array], value, builder.add(place, builder.mul(stride, _I64(row))), element
        )

    lefts = [row_of(0, a, a_place, a_stride, row, word) for row in range(rows)]
    right = place_of(context, builder, kinds[3], b, b_place, ir.VectorType(word, WIDTH))
    begin = builder.block
    loop, after = builder.append_basic_block("tile.loop"), builder.append_basic_block("tile.end")
    builder.branch(loop)

    builder.position_at_end(loop)
    step = builder.phi(_I64)
    step.add_incoming(_I64(0), begin)
    totals = [builder.phi(sums) for _ in range(rows * panels)]
    places = [builder.gep(right, [builder.add(builder.mul(step, _I64(panels)), _I64(p))]) for p in range(panels)]
    for place in places:
        _ask(builder, place)
    loaded = [builder.load(place, align=4) for place in places]
    results = []
    for row in range(rows):
        one = builder.load(builder.gep(lefts[row], [step]), align=1)
        results += [times(builder, kind, totals[row * panels + p], one, loaded[p]) for p in range(panels)]
    following = builder.add(step, _I64(1))
    step.add_incoming(following, loop)
    for total, result in zip(totals, results, strict=True):
        total.add_incoming(ir.Constant(sums, None), begin)
        total.add_incoming(result, loop)
    builder.cbranch(builder.icmp_signed("<", following, length), loop, after)

    builder.position_at_end(after)
    scales = place_of(context, builder, kinds[6], numbers, scale, _FLOATS)
    corrections = place_of(context, builder, kinds[6], numbers, correction, _INTS)
    finished = []
    for row in range(rows):
        bases = row_of(10, start, start_place, start_stride, row, _FLOATS)
        if kind == "int8":
            own = builder.load(builder.gep(row_of(9, row_scale, _I64(0), _I64(1), row, _F32), [_I64(0)]), align=4)
            factor = _spread(builder, own)
        for p in range(panels):
            value = results[row * panels + p]
            if kind == "int8":
                exact = builder.sub(value, builder.load(builder.gep(corrections, [_I64(p)]), align=4))
                scaled = builder.fmul(factor, builder.load(builder.gep(scales, [_I64(p)]), align=4))
                value = builder.fmul(builder.sitofp(exact, _FLOATS), scaled)
            finished.append(builder.fadd(value, builder.load(builder.gep(bases, [_I64(p)]), align=4)))
    for row in range(rows):
        outs = row_of(13, c, c_place, c_stride, row, _FLOATS)
        for p in range(panels):
            builder.store(finished[row * panels + p], builder.gep(outs, [_I64(p)]), align=4)
    return context.get_dummy_value()


def make_step_tile(rows: int) -> Any:
    """`tile(a, a_place, a_stride, b, b_place, length, numbers, scale, correction, row_scale, start, ..., c, ...)`.

    Fills 64 columns of `rows` rows of c (c_place, c_stride) with start (start_place, start_stride; 0 is one row for
    all) plus the product of rows of a with a block of b; `length` steps of the inner axis, at least 1. Places and
    strides count elements of the arrays' memory. For int8 the sums, less the int32 bits from numbers[correction]
    on, are multiplied by row_scale [rows] times those from numbers[scale] on; a holds numbers + 128.
    The types of a and b tell the kind (FORMS). Nothing is checked.
    """

    def tile(
        typing, a, a_place, a_stride, b, b_place, length, numbers, scale, correction,
        row_scale, start, start_place, start_stride, c, c_place, c_stride,
    ):  # fmt: skip
        n = types.int64
        signature = types.void(a, n, n, b, n, n, numbers, n, n, row_scale, start, n, n, c, n, n)

        def generate(context, builder, signature, arguments):
            return _emit(context, builder, signature, arguments, FORMS[a.dtype, b.dtype], rows)

        return signature, generate

    return intrinsic(tile)
