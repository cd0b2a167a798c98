"""Exponentials and logarithms of eight numbers at once, of the operations of ``vectors``.

exp_eight(p), entries below -708 taken as -708;  log_eight(p) of positive normal numbers.  Both to a few units of the
last digit: numba's own take one number after the other, and four times as long.
"""

from typing import Any

import llvmlite.ir as ir  # type: ignore[import-untyped]
from numba import njit
from numba.extending import intrinsic

from cautious.kernels.vector_ratios import larger, over
from cautious.kernels.vectors import EIGHT_LANES, minus_product, operation, plus, plus_product, spread_eight, times

_WORDS = ir.VectorType(ir.IntType(64), EIGHT_LANES)
_NUMBERS = ir.VectorType(ir.DoubleType(), EIGHT_LANES)
# the bits of a double before its fraction begins, and those of sqrt(1/2), where fractions of a logarithm begin
_FRACTION, _HALF_ROOT = 52, 0x3FE6A09E667F3BCD
# adding it leaves the nearest integer in the last bits
_ROUNDING = 1.5 * 2.0**52
_LOWEST = -708.0
_PER_OCTAVE = 1.4426950408889634
# log 2 in two parts, the first with zeros at its end, so that its product with an integer is exact
_OCTAVE, _OCTAVE_REST = 6.93147180369123816490e-01, 1.90821492927058770002e-10


def _all(word: int) -> Any:
    return ir.Constant(_WORDS, [word] * EIGHT_LANES)


def _scaled(builder: Any, p: Any, n: Any) -> Any:
    shift = builder.shl(builder.bitcast(n, _WORDS), _all(_FRACTION))
    return builder.bitcast(builder.add(builder.bitcast(p, _WORDS), shift), _NUMBERS)


def _octave(builder: Any, p: Any) -> Any:
    above = builder.sub(builder.bitcast(p, _WORDS), _all(_HALF_ROOT))
    return builder.sitofp(builder.ashr(above, _all(_FRACTION)), _NUMBERS)


def _within(builder: Any, p: Any) -> Any:
    bits = builder.bitcast(p, _WORDS)
    octaves = builder.ashr(builder.sub(bits, _all(_HALF_ROOT)), _all(_FRACTION))
    return builder.bitcast(builder.sub(bits, builder.shl(octaves, _all(_FRACTION))), _NUMBERS)


@intrinsic
def scaled(context: Any, p: Any, n: Any) -> Any:
    """p 2^k, where ``n`` is an integer k plus the rounding constant."""
    return operation(_scaled, p, n)


@intrinsic
def octave(context: Any, p: Any) -> Any:
    """The integers k with p / 2^k between sqrt(1/2) and sqrt(2)."""
    return operation(_octave, p)


@intrinsic
def within(context: Any, p: Any) -> Any:
    """Those p / 2^k."""
    return operation(_within, p)


@njit(cache=True, nogil=True)
def exp_eight(p: Any) -> Any:
    """2^k times the power series of what is left of p."""
    p = larger(p, spread_eight(_LOWEST))
    n = plus_product(spread_eight(_ROUNDING), p, spread_eight(_PER_OCTAVE))
    k = plus(n, spread_eight(-_ROUNDING))
    x = minus_product(minus_product(p, k, spread_eight(_OCTAVE)), k, spread_eight(_OCTAVE_REST))
    total = spread_eight(1 / 479001600)
    total = plus_product(spread_eight(1 / 39916800), total, x)
    total = plus_product(spread_eight(1 / 3628800), total, x)
    total = plus_product(spread_eight(1 / 362880), total, x)
    total = plus_product(spread_eight(1 / 40320), total, x)
    total = plus_product(spread_eight(1 / 5040), total, x)
    total = plus_product(spread_eight(1 / 720), total, x)
    total = plus_product(spread_eight(1 / 120), total, x)
    total = plus_product(spread_eight(1 / 24), total, x)
    total = plus_product(spread_eight(1 / 6), total, x)
    total = plus_product(spread_eight(0.5), total, x)
    total = plus_product(spread_eight(1.0), total, x)
    return scaled(plus_product(spread_eight(1.0), total, x), n)


@njit(cache=True, nogil=True)
def log_eight(p: Any) -> Any:
    """k log 2 plus twice the inverse hyperbolic tangent of (m - 1) / (m + 1), where p = 2^k m."""
    k, m = octave(p), within(p)
    x = over(plus(m, spread_eight(-1.0)), plus(m, spread_eight(1.0)))
    y = times(x, x)
    total = spread_eight(2 / 21)
    total = plus_product(spread_eight(2 / 19), total, y)
    total = plus_product(spread_eight(2 / 17), total, y)
    total = plus_product(spread_eight(2 / 15), total, y)
    total = plus_product(spread_eight(2 / 13), total, y)
    total = plus_product(spread_eight(2 / 11), total, y)
    total = plus_product(spread_eight(2 / 9), total, y)
    total = plus_product(spread_eight(2 / 7), total, y)
    total = plus_product(spread_eight(2 / 5), total, y)
    total = plus_product(spread_eight(2 / 3), total, y)
    total = plus_product(spread_eight(2.0), total, y)
    return plus_product(plus_product(times(x, total), k, spread_eight(_OCTAVE_REST)), k, spread_eight(_OCTAVE))
