"""Quotients and maxima of vectors of four numbers, beside the operations of ``vectors``.

over(p, q) = p / q;  larger(p, q), entry by entry: q where p is not a number;  largest(p), of the four
"""

from typing import Any

import llvmlite.ir as ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

from cautious.kernels.vectors import FOUR, LANES

_NUMBERS = ir.IntType(32)


@intrinsic
def over(context: Any, p: Any, q: Any) -> Any:
    """p / q."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fdiv(args[0], args[1])

    return FOUR(FOUR, FOUR), generate


@intrinsic
def larger(context: Any, p: Any, q: Any) -> Any:
    """The larger of two numbers in each of the four places."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", args[0], args[1]), args[0], args[1])

    return FOUR(FOUR, FOUR), generate


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
