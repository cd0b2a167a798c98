"""Quotients and maxima of vectors, beside the operations of ``vectors``.

over(p, q) = p / q;  larger(p, q), entry by entry: q where p is not a number;  largest(p), of four
"""

from typing import Any

import llvmlite.ir as ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

from cautious.kernels.vectors import FOUR, LANES, operation

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
