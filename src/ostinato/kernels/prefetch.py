"""Hints to the processor: memory that a kernel will need soon is fetched while it works on something else."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic


def _hint(array: Any, write: int) -> Any:
    def generate(context, builder, signature, arguments):
        array_type = signature.args[0]
        data = context.make_array(array_type)(context, builder, arguments[0]).data
        pointer = builder.gep(data, [builder.sext(arguments[1], ir.IntType(64))])
        byte = ir.IntType(8).as_pointer()
        number = ir.IntType(32)
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.VoidType(), [byte, number, number, number]),
            "llvm.prefetch.p0" if context.call_conv is not None and _opaque() else "llvm.prefetch.p0i8",
        )
        builder.call(function, [builder.bitcast(pointer, byte), number(write), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


def _prefetch(typing, array, place):
    return _hint(array, 0)


def _prefetch_to_write(typing, array, place):
    return _hint(array, 1)


prefetch: Any = intrinsic(_prefetch)
"""`prefetch(array, place)` begins to fetch array[place]. Any place is allowed, even outside: it is only a hint."""

prefetch_to_write: Any = intrinsic(_prefetch_to_write)
"""The same for a place that will be written, which other cores then have to give up."""


def _opaque() -> bool:
    """Whether this LLVM has opaque pointers (since 15), whose intrinsics are spelled without the type."""
    from llvmlite import binding

    return bool(binding.llvm_version_info[0] >= 15)
