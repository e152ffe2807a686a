"""Vector instructions that Numba does not write of itself: a tile of a matrix product, kept in registers.

A tile is rows x 16·panels sums that stay in vector registers while the loop runs over the inner axis [Goto2008]. The
left matrix is read number by number (each spread over a whole register), the right one comes packed (`packing`). Three
kinds: float32 by fused multiply-add; bfloat16 in pairs and int8 in fours by the processor's dot-product instructions
(AVX512-BF16, AVX512-VNNI), with float32 and int32 sums.
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding, ir
from numba.core import cgutils, types
from numba.extending import intrinsic

WIDTH = 16
"""Columns of a packed panel: the float32 numbers of one 512-bit register."""

PAIR = 2
"""How many bfloat16 numbers of the inner axis are multiplied and added at once."""

FOUR = 4
"""How many int8 numbers of the inner axis are multiplied and added at once."""


def _asked(name: str) -> str | None:
    """What the environment asks Numba to compile for, if anything."""
    from numba.core import config

    found: str | None = getattr(config, name)
    return found


def has(*names: str) -> bool:
    """Whether the processor that Numba compiles for has all of these (LLVM's names).

    It is this one, unless NUMBA_CPU_NAME or NUMBA_CPU_FEATURES name another; of a mere name nothing is known.
    """
    features_asked = _asked("CPU_FEATURES")
    if features_asked is not None:
        named = set(features_asked.split(","))
        return all(f"+{name}" in named for name in names)
    if _asked("CPU_NAME") not in (None, binding.get_host_cpu_name()):
        return False
    features = binding.get_host_cpu_features()
    return all(features.get(name, False) for name in names)


HAS_AVX512 = has("avx512f", "avx512bw", "avx512vl")
"""Whether 512-bit registers are there; without them float32 tiles still work, in pieces."""

HAS_BF16 = HAS_AVX512 and has("avx512bf16")
"""Whether this processor multiplies bfloat16 natively."""

HAS_VNNI = HAS_AVX512 and has("avx512vnni")
"""Whether this processor multiplies int8 natively."""


class _BFloat(ir.Type):  # type: ignore[misc]
    """bfloat16, which llvmlite has no name for."""

    def _to_string(self) -> str:
        return "bfloat"


_BFLOAT = _BFloat()
_I8, _I32, _I64, _F32 = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.FloatType()
_INTS, _FLOATS = ir.VectorType(_I32, WIDTH), ir.VectorType(_F32, WIDTH)

KINDS: dict[str, tuple[int, Any]] = {"float32": (1, _FLOATS), "bfloat16": (PAIR, _FLOATS), "int8": (FOUR, _INTS)}
"""Of each kind of product: numbers of the inner axis taken at once, and the type of its sums."""


def multiply(builder: Any, kind: str, total: Any, one: Any, panel: Any) -> Any:
    """total + one * panel, the instruction of this kind; `one` is a single 32-bit word."""
    vector = ir.VectorType(_F32 if kind == "float32" else _I32, WIDTH)
    spread = builder.insert_element(ir.Constant(vector, ir.Undefined), one, ir.Constant(_I32, 0))
    mask = ir.Constant(ir.VectorType(_I32, WIDTH), [0] * WIDTH)
    spread = builder.shuffle_vector(spread, ir.Constant(vector, ir.Undefined), mask)
    if kind == "float32":
        name, inner = "llvm.fma.v16f32", vector
    elif kind == "bfloat16":
        new = binding.llvm_version_info[0] >= 17
        name = "llvm.x86.avx512bf16.dpbf16ps.512"
        inner = ir.VectorType(_BFLOAT, 32) if new else vector
    else:
        new = binding.llvm_version_info[0] >= 22
        name = "llvm.x86.avx512.vpdpbusd.512"
        inner = ir.VectorType(_I8, 64) if new else vector
    if kind == "float32":
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(inner, [inner] * 3), name)
        return builder.call(function, [spread, panel, total])
    signature = ir.FunctionType(total.type, [total.type, inner, inner])
    function = cgutils.get_or_insert_function(builder.module, signature, name)
    if inner is not vector:
        spread, panel = builder.bitcast(spread, inner), builder.bitcast(panel, inner)
    return builder.call(function, [total, spread, panel])


def place_of(context: Any, builder: Any, array_type: Any, array: Any, place: Any, kind: Any) -> Any:
    """Where element number `place` of an array stands, as a pointer to `kind`."""
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [place]), kind.as_pointer())


def _emit(
    context: Any, builder: Any, signature: Any, arguments: Any, kind: str, rows: int, panels: int, cut: bool
) -> Any:
    group, sums = KINDS[kind]
    a, a_place, a_stride, a_step, b, b_place, b_stride, length, c, c_place, c_stride, add, *kept = arguments
    word = _F32 if kind == "float32" else _I32
    a_step = builder.sdiv(a_step, _I64(group))
    vector = ir.VectorType(word, WIDTH)
    lefts = []
    for row in range(rows):
        place = builder.add(a_place, builder.mul(a_stride, _I64(row)))
        lefts.append(place_of(context, builder, signature.args[0], a, place, word))
    rights = []
    for panel in range(panels):
        place = builder.add(b_place, builder.mul(b_stride, _I64(panel)))
        rights.append(place_of(context, builder, signature.args[4], b, place, vector))
    outs = []
    for row in range(rows):
        place = builder.add(c_place, builder.mul(c_stride, _I64(row)))
        first = place_of(context, builder, signature.args[8], c, place, sums)
        outs += [builder.gep(first, [_I64(panel)]) for panel in range(panels)]

    last = _mask(builder, kept[0]) if cut else None
    start = builder.block
    keep, loop, after = (builder.append_basic_block(name) for name in ("tile.keep", "tile.loop", "tile.end"))
    ready = builder.append_basic_block("tile.ready")
    builder.cbranch(builder.icmp_signed("!=", add, _I64(0)), keep, ready)
    builder.position_at_end(keep)
    old = [_load(builder, out, last if number % panels == panels - 1 else None) for number, out in enumerate(outs)]
    builder.branch(ready)
    builder.position_at_end(ready)
    zero = ir.Constant(sums, None)
    begins = []
    for value in old:
        begin = builder.phi(sums)
        begin.add_incoming(zero, start)
        begin.add_incoming(value, keep)
        begins.append(begin)
    builder.branch(loop)

    builder.position_at_end(loop)
    step = builder.phi(_I64)
    step.add_incoming(_I64(0), ready)
    totals = [builder.phi(sums) for _ in outs]
    for total, begin in zip(totals, begins, strict=True):
        total.add_incoming(begin, ready)
    loaded = [builder.load(builder.gep(right, [step]), align=4) for right in rights]
    left = builder.mul(step, a_step)
    results = []
    for row in range(rows):
        one = builder.load(builder.gep(lefts[row], [left]), align=1)
        for panel in range(panels):
            results.append(multiply(builder, kind, totals[row * panels + panel], one, loaded[panel]))
    following = builder.add(step, _I64(1))
    step.add_incoming(following, loop)
    for total, result in zip(totals, results, strict=True):
        total.add_incoming(result, loop)
    builder.cbranch(builder.icmp_signed("<", following, length), loop, after)

    builder.position_at_end(after)
    for number, (out, result) in enumerate(zip(outs, results, strict=True)):
        _store(builder, result, out, last if number % panels == panels - 1 else None)
    return context.get_dummy_value()


def _mask(builder: Any, kept: Any) -> Any:
    """Which of WIDTH columns are among the first `kept`."""
    numbers = ir.Constant(ir.VectorType(_I64, WIDTH), list(range(WIDTH)))
    limit = builder.insert_element(ir.Constant(numbers.type, ir.Undefined), kept, ir.Constant(_I32, 0))
    zeros = ir.Constant(ir.VectorType(_I32, WIDTH), [0] * WIDTH)
    return builder.icmp_signed("<", numbers, builder.shuffle_vector(limit, limit, zeros))


def _load(builder: Any, place: Any, mask: Any) -> Any:
    """A vector from memory; where a mask is given, zeros outside it and nothing is read there."""
    vector = place.type.pointee
    if mask is None:
        return builder.load(place, align=4)
    name = f"llvm.masked.load.v{WIDTH}{'f32' if vector.element == _F32 else 'i32'}.p0"
    zero = ir.Constant(vector, None)
    if binding.llvm_version_info[0] >= 22:
        kind, arguments = ir.FunctionType(vector, [place.type, mask.type, vector]), [place, mask, zero]
    else:
        kind = ir.FunctionType(vector, [place.type, _I32, mask.type, vector])
        arguments = [place, _I32(4), mask, zero]
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)


def _store(builder: Any, value: Any, place: Any, mask: Any) -> None:
    """A vector to memory; where a mask is given, only inside it."""
    if mask is None:
        builder.store(value, place, align=4)
        return
    name = f"llvm.masked.store.v{WIDTH}{'f32' if value.type.element == _F32 else 'i32'}.p0"
    if binding.llvm_version_info[0] >= 22:
        kind, arguments = ir.FunctionType(ir.VoidType(), [value.type, place.type, mask.type]), [value, place, mask]
    else:
        kind = ir.FunctionType(ir.VoidType(), [value.type, place.type, _I32, mask.type])
        arguments = [value, place, _I32(4), mask]
    builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)


def make_strided_tile(kind: str, rows: int, panels: int, cut: bool = False) -> Any:
    """`tile(a, a_place, a_stride, a_step, b, b_place, b_stride, length, c, c_place, c_stride, add)` for kernels.

    Writes (add = 0) or adds (add = 1) to c the product of `rows` rows of a, which may lie any way, with `panels` packed
    panels of b. Places are element numbers in the arrays' memory; strides are elements between rows of a and c, and
    between panels of b; a_step: elements of a from one step of the inner axis to the next. length: steps of the inner
    axis, at least 1, each of 1 (float32), 2 (bfloat16, arrays of uint16) or 4 (int8; a uint8, b int8, c int32) numbers,
    of which a_step is a multiple. cut: one argument more, how many of the last panel's columns are read and written in
    c (1 to 16). Nothing is checked.
    """

    def tile(typing, a, a_place, a_stride, a_step, b, b_place, b_stride, length, c, c_place, c_stride, add):
        place = types.int64
        signature = types.void(a, place, place, place, b, place, place, place, c, place, place, place)

        def generate(context, builder, signature, arguments):
            return _emit(context, builder, signature, arguments, kind, rows, panels, False)

        return signature, generate

    def cut_tile(typing, a, a_place, a_stride, a_step, b, b_place, b_stride, length, c, c_place, c_stride, add, kept):
        place = types.int64
        signature = types.void(a, place, place, place, b, place, place, place, c, place, place, place, place)

        def generate(context, builder, signature, arguments):
            return _emit(context, builder, signature, arguments, kind, rows, panels, True)

        return signature, generate

    return intrinsic(cut_tile if cut else tile)


def _bits(typing, value):
    """The 32 bits of a float32 as an int32, or of an int32 as a float32."""
    result, value = (types.float32, types.int32) if isinstance(value, types.Integer) else (types.int32, types.float32)

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], context.get_value_type(signature.return_type))

    return result(value), generate


bits: Any = intrinsic(_bits)
"""`bits(x)`: a float32's 32 bits as an int32, an int32's as a float32."""
