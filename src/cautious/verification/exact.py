"""Exact arithmetic: every double is a whole number times a power of two, so tables become tables of whole numbers.

A table of doubles is held as Python integers (a NumPy array of objects) and a number of ``bits``: the integer n stands
for n / 2^bits. Sums and products of such tables are exact. Quotients are rounded down or up, as the caller asks.
Logarithms and exponentials are balls of python-flint (``arb``), which contain the true value.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cautious.errors import InputError, MissingExtraError

# exact, or an infinity
Number = Fraction | float
# an array of Python integers
Integers = NDArray[np.object_]
MANTISSA_BITS = 53
# precision of logarithms, in bits
PRECISION_BITS = 192


def _split(array: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Whole numbers and exponents: array = whole * 2^exponent."""
    fraction, exponent = np.frexp(np.asarray(array, dtype=np.float64))
    if not np.isfinite(fraction).all():
        raise InputError("the witness leads to numbers beyond double precision; it proves nothing")
    return np.ldexp(fraction, MANTISSA_BITS).astype(np.int64), exponent.astype(np.int64) - MANTISSA_BITS


def bits_of(*arrays: Any) -> int:
    """The least number of bits, at least 0, with which all entries of these arrays of doubles are whole."""
    most = 0
    for array in arrays:
        whole, exponent = _split(array)
        lowest = np.frexp((whole & -whole).astype(np.float64))[1] - 1
        most = max(most, int(np.max(np.where(whole == 0, 0, -(exponent + lowest)), initial=0)))
    return most


def integers(array: Any, bits: int) -> Integers:
    """The doubles as whole numbers of 2^-bits; exact if ``bits`` is at least ``bits_of`` them, else rounded down."""
    whole, exponent = _split(array)
    power = exponent + bits
    shifted = whole.astype(object) << np.maximum(power, 0).astype(object)
    return np.asarray(shifted >> np.maximum(-power, 0).astype(object), dtype=object)


def at_bits(numbers: Any, given: int, wanted: int) -> Any:
    """Whole numbers of 2^-given as whole numbers of 2^-wanted, rounded down."""
    return numbers << (wanted - given) if wanted >= given else numbers >> (given - wanted)


def ceil_ratio(numbers: Any, divisor: Any) -> Any:
    """Quotients of whole numbers, rounded up; the divisors are positive."""
    return -(-numbers // divisor)


def fraction(number: int, bits: int) -> Fraction:
    """One number of a table."""
    return Fraction(int(number), 1 << bits)


def dot(left: Integers, right: Integers) -> int:
    """Sum of products; exact."""
    return int(np.sum(left * right, initial=0))


def balls() -> Any:
    """The type of balls; logarithms and exponentials need it."""
    try:
        from flint import arb
    except ImportError:
        raise MissingExtraError(
            "verifying a risk with logarithms (SafeSet, TaskFloors, KL, Entropy) needs python-flint: "
            "pip install 'cautious[verify]'"
        ) from None
    return arb


@contextmanager
def working_precision() -> Iterator[None]:
    """While inside, balls have our precision; afterwards they have the caller's again."""
    try:
        from flint import ctx
    except ImportError:
        yield
        return
    with ctx.workprec(PRECISION_BITS):
        yield


def ball(number: Fraction) -> Any:
    """A ball that contains a fraction."""
    arb = balls()
    return arb(number.numerator) / arb(number.denominator)


def least(found: Any) -> Fraction:
    """The lower end of a ball."""
    end = found.lower().fmpq()
    return Fraction(int(end.p), int(end.q))


def log_below(number: Fraction) -> Fraction:
    """At most the natural logarithm of a positive fraction, and very close to it."""
    return least(ball(number).log())


def sum_of_balls(terms: Iterable[Any]) -> Any:
    """The sum of many balls."""
    return sum(terms, balls()(0))
