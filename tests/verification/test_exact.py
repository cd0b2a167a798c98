"""Doubles as whole numbers, quotients that are rounded to the safe side, logarithms in balls."""

from fractions import Fraction

import numpy as np
import pytest

from cautious.verification.exact import at_bits, bits_of, ceil_ratio, integers, log_below, working_precision

ODD = [0.0, -0.0, 1.0, -3.0, 0.1, -1e-17, 2.0**60, 1e300, 5e-324, -2.2e-308, np.pi]


def test_integers_are_the_doubles_exactly():
    bits = bits_of(ODD)
    assert [Fraction(int(n), 2**bits) for n in integers(ODD, bits)] == [Fraction(x) for x in ODD]


@pytest.mark.parametrize("x", ODD)
def test_bits_are_as_few_as_possible(x):
    assert 2 ** bits_of(x) == Fraction(x).denominator


def test_too_few_bits_round_down():
    assert integers([0.75, -0.75, 0.25], 1).tolist() == [1, -2, 0]
    assert at_bits(integers([0.75, -0.75], 2), 2, 1).tolist() == [1, -2]


def test_random_doubles_of_every_size():
    rng = np.random.default_rng(0)
    x = rng.normal(size=500) * 10.0 ** rng.uniform(-300, 300, size=500)
    bits = bits_of(x)
    assert all(Fraction(int(n), 2**bits) == Fraction(y) for n, y in zip(integers(x, bits), x.tolist(), strict=True))


def test_quotients_are_rounded_up():
    assert ceil_ratio(np.array([7, -7, 8], dtype=object), 4).tolist() == [2, -1, 2]


def test_logarithms_are_below_and_close():
    pytest.importorskip("flint", reason="extra verify")
    with working_precision():
        found = log_below(Fraction(2))
    # 50 digits of log 2
    known = Fraction(69314718055994530941723212145817656807550013436025, 10**50)
    assert known - Fraction(1, 10**49) < found < known + Fraction(1, 10**49)
    assert log_below(Fraction(1, 10**400)) < -921
