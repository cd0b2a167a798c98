"""Quotients, maxima and shorter numbers of vectors, beside the operations of ``vectors``.

over(p, q) = p / q;  larger(p, q), entry by entry: q where p is not a number;  largest(p), of four;
store_short(a, i, p) and load_short(a, i) of eight, in an array of single precision;
rounded_once(a, b, c) = a b + c of single numbers
"""

from typing import Any

import llvmlite.ir as ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

from cautious.kernels.vectors import EIGHT, EIGHT_LANES, FOUR, LANES, operation, pointer

_NUMBERS = ir.IntType(32)


@intrinsic
def over(context: Any, p: Any, q: Any) -> Any:
    """p / q."""
    return operation(lambda builder, p, q: builder.fdiv(p, q), p, q)


@intrinsic
def larger(context: Any, p: Any, q: Any) -> Any:
    """The larger of two numbers in each place."""
    return operation(lambda builder, p, q: builder.select(builder.fcmp_ordered(">", p, q), p, q), p, q)


@intrinsic
def largest(context: Any, vector: Any) -> Any:
    """The largest of the four."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        found = builder.extract_element(args[0], ir.Constant(_NUMBERS, 0))
        for k in range(1, LANES):
            other = builder.extract_element(args[0], ir.Constant(_NUMBERS, k))
            found = builder.select(builder.fcmp_ordered(">", other, found), other, found)
        return found

    return types.float64(FOUR), generate


@intrinsic
def store_short(context: Any, array: Any, at: Any, vector: Any) -> Any:
    """Write eight numbers from ``at`` on, rounded to single precision."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        short = ir.VectorType(ir.FloatType(), EIGHT_LANES)
        place = pointer(context, builder, signature.args[0], args[0], args[1], short)
        builder.store(builder.fptrunc(args[2], short), place, align=4)
        return context.get_dummy_value()

    return types.void(array, types.intp, EIGHT), generate


@intrinsic
def load_short(context: Any, array: Any, at: Any) -> Any:
    """The eight numbers from ``at`` on of an array in single precision."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        short = ir.VectorType(ir.FloatType(), EIGHT_LANES)
        place = pointer(context, builder, signature.args[0], args[0], args[1], short)
        return builder.fpext(builder.load(place, align=4), EIGHT.vector)

    return EIGHT(array, types.intp), generate


@intrinsic
def rounded_once(context: Any, a: Any, b: Any, c: Any) -> Any:
    """a b + c as if the product were not rounded."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        number = ir.DoubleType()
        fused = builder.module.declare_intrinsic("llvm.fma", [number], ir.FunctionType(number, [number] * 3))
        return builder.call(fused, args)

    return types.float64(types.float64, types.float64, types.float64), generate
