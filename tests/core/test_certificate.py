"""The certificate's loops against plain NumPy, exact fractions and exact sums."""

import math
import os
import subprocess
import sys
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from sample_rows import GAMMA, KINDS, csr_of, random_rows

from cautious._core import LEVEL, certificate

EPS = np.finfo(float).eps


def model(seed, kind=np.int32, n=8, m=3):
    rng = np.random.default_rng(seed)
    dense = random_rows(rng, n, m, 0.5)
    return csr_of(dense, kind), dense, rng


def blocks(csr, edges, m=3):
    """The rows of neighbouring states, as a model hands them over that is not written down."""
    pointer, indices, data = csr
    for first, last in pairwise(edges):
        begin, end = pointer[m * first], pointer[m * last]
        yield first, pointer[m * first : m * last + 1] - begin, indices[begin:end], data[begin:end]


def numbers(rng, count):
    """Of very different sizes."""
    return rng.normal(size=count) * 10.0 ** rng.integers(-8, 8, size=count)


EXACT_ON_THIS_LEVEL = """
import numpy as np
from fractions import Fraction
from cautious._core import certificate
rng = np.random.default_rng(1)
x, y = rng.normal(size=(2, 1001)) * 10.0 ** rng.integers(-8, 8, size=(2, 1001))
# a start for which the flow balances but for rounding
pi, xi, out = np.ones(1001), (x - 0.9 * x[::-1]) / (1 - 0.9), np.empty(1001)
csr = np.arange(1002, dtype=np.int32), np.arange(1001, dtype=np.int32)[::-1].copy(), np.ones(1001)
inflow = np.zeros((1001, 2))
certificate.add_inflow(0, *csr, pi, x, inflow)
norm = certificate.flow_balance(inflow, x, xi, 0.9, out)
gamma = Fraction(0.9)
for left, mass, arrives, begins in zip(out, x, x[::-1], xi):
    exact = (1 - gamma) * Fraction(begins) + gamma * Fraction(arrives) - Fraction(mass)
    assert abs(exact) < 1e-14 * (abs(mass) + abs(arrives))
    assert abs(Fraction(left) - exact) <= 1e-12 * abs(exact)
print([number.hex() for number in (*certificate.compensated_dot(x, y), norm)])
"""


def test_every_level_of_the_processor_is_exact_and_agrees():
    levels = [str(level) for level in (2, 3, 4) if level <= LEVEL] or [""]
    said = []
    for level in levels:
        command = [sys.executable, "-c", EXACT_ON_THIS_LEVEL]
        done = subprocess.run(command, env={**os.environ, "CAUTIOUS_CPU_LEVEL": level}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        said.append(done.stdout)
    assert len(set(said)) == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(10))
def test_largest_advantage(seed, kind):
    csr, dense, rng = model(seed, kind)
    r, v, active = rng.normal(size=24), rng.normal(size=8), rng.random(24) < 0.6
    active[0] = True
    plain = (r + GAMMA * dense @ v - np.repeat(v, 3))[active].max()
    found = certificate.largest_advantage(0, *csr, r, np.abs(r), active, GAMMA, v, 0.0)
    assert found == pytest.approx(plain, rel=1e-13)
    # with its rounding it lies above the exact number, and not far
    raised = certificate.largest_advantage(0, *csr, r, np.abs(r), active, GAMMA, v, 2 * EPS)
    exact = [
        Fraction(r[row])
        + Fraction(GAMMA) * sum(Fraction(p) * Fraction(x) for p, x in zip(dense[row], v, strict=True))
        - Fraction(v[row // 3])
        for row in np.flatnonzero(active)
    ]
    assert Fraction(raised) >= max(exact)
    assert raised - found < 1e-13


def test_largest_advantage_of_no_pair_at_all():
    csr, _, rng = model(0)
    r = rng.normal(size=24)
    assert certificate.largest_advantage(0, *csr, r, r, np.zeros(24, bool), GAMMA, np.zeros(8), EPS) == -np.inf


def test_largest_advantage_never_hides_a_nan():
    csr, _, rng = model(0)
    r, v = rng.normal(size=24), rng.normal(size=8)
    everything = np.ones(24, dtype=bool)
    for place in range(24):
        bad = r.copy()
        bad[place] = np.nan
        assert math.isnan(certificate.largest_advantage(0, *csr, bad, np.abs(r), everything, GAMMA, v, 1e-16))
        assert math.isnan(certificate.largest_advantage(0, *csr, r, np.abs(bad), everything, GAMMA, v, 1e-16))
    assert math.isnan(certificate.largest_advantage(0, *csr, r, np.abs(r), everything, np.nan, v, 1e-16))
    assert math.isnan(certificate.largest_advantage(0, *csr, r, np.abs(r), everything, GAMMA, v, np.nan))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_largest_advantage_believes_finite_numbers_only(bad):
    """A reward or a multiplier that is not finite counts where it is active, and nowhere else."""
    csr, _, rng = model(0)
    r, v, everything = rng.normal(size=24), rng.normal(size=8), np.ones(24, dtype=bool)
    for table, place in ((r, 5), (v, 3)):
        kept, table[place] = table[place], bad
        assert math.isnan(certificate.largest_advantage(0, *csr, r, np.abs(r), everything, GAMMA, v, 1e-16))
        table[place] = kept
    r[5], others = bad, np.arange(24) != 5
    assert math.isfinite(certificate.largest_advantage(0, *csr, r, np.abs(r), others, GAMMA, v, 1e-16))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(10))
def test_policy_advantages_enclose_the_exact_ones(seed, kind):
    csr, dense, rng = model(seed, kind)
    r, v, counted = rng.normal(size=(8, 3)), rng.normal(size=8), rng.random(8) < 0.7
    policy = rng.dirichlet(np.ones(3), size=8)
    policy[0] = [0, 1, 0]
    counted[0] = True
    table = (r, policy, policy > 0, counted, GAMMA, v)
    least, largest = certificate.policy_advantages(0, *csr, *table, 2 * EPS)
    # and block by block; the precise loop knows more digits
    ends = [certificate.policy_advantages(*block, *table, 2 * EPS) for block in blocks(csr, [0, 3, 8])]
    assert (least, largest) == (min(low for low, _ in ends), max(high for _, high in ends))
    missing, precise = np.empty(8), []
    for block in blocks(csr, [0, 3, 8]):
        more = (r, r, 0.0, policy, policy > 0, counted, GAMMA, v, np.zeros(8), 2 * EPS, missing)
        precise.append(certificate.exact_policy_advantages(*block, *more))
    exact = []
    for s in np.flatnonzero(counted):
        total = -Fraction(v[s])
        for a in range(3):
            mean = sum(Fraction(p) * Fraction(x) for p, x in zip(dense[3 * s + a], v, strict=True))
            total += Fraction(policy[s, a]) * (Fraction(r[s, a]) + Fraction(GAMMA) * mean)
        exact.append(total)
    assert Fraction(least) <= min(exact) <= max(exact) <= Fraction(largest)
    assert max(float(min(exact)) - least, largest - float(max(exact))) < 1e-12
    np.testing.assert_allclose(missing[counted], [float(one) for one in exact], rtol=1e-15)
    assert min(low for low, _ in precise) <= min(exact) <= max(exact) <= max(high for _, high in precise)


def test_policy_advantages_never_hide_a_nan_or_a_forbidden_pair():
    csr, _, rng = model(1)
    r, v, policy = rng.normal(size=24), rng.normal(size=8), np.full(24, 1 / 3)
    everything, counted = np.ones(24, bool), np.ones(8, bool)
    assert np.isfinite(certificate.policy_advantages(0, *csr, r, policy, everything, counted, GAMMA, v, EPS)).all()
    bad = np.where(np.arange(8) == 3, np.nan, v)
    assert np.isnan(certificate.policy_advantages(0, *csr, r, policy, everything, counted, GAMMA, bad, EPS)).all()
    others = np.arange(24) != 7
    assert np.isnan(certificate.policy_advantages(0, *csr, r, policy, others, counted, GAMMA, v, EPS)).all()


def test_largest_sum_error_against_fractions():
    rng = np.random.default_rng(11)
    rows = sp.csr_array(rng.dirichlet(np.ones(40), 30))
    active = rng.random(30) < 0.7
    exact = [abs(sum(map(Fraction, rows[[i]].data.tolist())) - 1) for i in np.flatnonzero(active)]
    found = certificate.largest_sum_error(rows.indptr, rows.indices, rows.data, active)
    assert found == pytest.approx(float(max(exact)), rel=1e-12)
    assert max(exact) > 0
    assert certificate.largest_sum_error(rows.indptr, rows.indices, rows.data, np.zeros(30, bool)) == 0.0


def test_compensated_dot_keeps_what_plain_sums_lose():
    x = np.array([1e16, 1.0, -1e16, 1.0] * 1000)
    total, size = certificate.compensated_dot(x, np.ones(x.size))
    assert total == math.fsum(x)
    assert np.sum(x) != total
    assert size == pytest.approx(np.abs(x).sum())


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 100, 4001])
def test_compensated_dot_of_any_length(count):
    rng = np.random.default_rng(count)
    x, y = numbers(rng, count), rng.normal(size=count)
    total, size = certificate.compensated_dot(x, y)
    # only the products are rounded, and the sum once more
    assert total == pytest.approx(math.fsum(x * y), rel=3e-16, abs=1e-300)
    assert size == pytest.approx(math.fsum(np.abs(x * y)), rel=1e-13)


def test_compensated_dot_never_hides_a_nan():
    x = np.ones(20)
    for place in range(20):
        assert np.isnan(certificate.compensated_dot(np.where(np.arange(20) == place, np.nan, x), x)).all()


def test_subtract_slope():
    rng = np.random.default_rng(4)
    r, slope, active = rng.normal(size=24), rng.normal(size=24), rng.random(24) < 0.5
    paid, size = r.copy(), np.abs(r)
    steepest = certificate.subtract_slope(slope, 0.3, active, paid, size)
    np.testing.assert_allclose(paid, r - 0.3 * slope, rtol=1e-15)
    np.testing.assert_allclose(size, np.abs(r) + np.abs(0.3 * slope), rtol=1e-15)
    assert steepest == np.abs(slope[active]).max()
    assert certificate.subtract_slope(slope, 0.3, np.zeros(24, bool), paid, size) == 0.0
    slope[np.argmax(active)] = np.nan
    assert math.isnan(certificate.subtract_slope(slope, 0.3, active, paid, size))


def test_largest_reward_is_of_pairs_that_are_taken():
    rng = np.random.default_rng(4)
    r, policy, reached = rng.normal(size=(8, 3)), rng.random((8, 3)) * (rng.random((8, 3)) < 0.5), rng.random(8) < 0.5
    used = reached[:, None] & (policy > 0)
    assert certificate.largest_reward_taken(r, policy, reached) == np.abs(r[used]).max()
    assert certificate.largest_reward_taken(r, policy, np.zeros(8, bool)) == 0.0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(5))
def test_flow_balance_is_the_exact_residual(seed, kind):
    """Against fractions, where the residual is far below the rounding of its terms."""
    csr, dense, rng = model(seed, kind, 9)
    policy, start = rng.dirichlet(np.ones(3), size=9), rng.dirichlet(np.ones(9))
    chain = np.einsum("sa,sat->st", policy, dense.reshape(9, 3, 9))
    x = np.linalg.solve(np.eye(9) - GAMMA * chain.T, (1 - GAMMA) * start)
    found = np.empty(9)
    inflow = np.zeros((9, 2))
    for block in blocks(csr, [0, 4, 9]):
        certificate.add_inflow(*block, policy, x, inflow)
    norm = certificate.flow_balance(inflow, x, start, GAMMA, found)
    gamma = Fraction(GAMMA)
    exact = [(1 - gamma) * Fraction(start[j]) - Fraction(x[j]) for j in range(9)]
    for s, a, j in np.ndindex(9, 3, 9):
        exact[j] += gamma * Fraction(policy[s, a]) * Fraction(x[s]) * Fraction(dense[3 * s + a, j])
    expected = np.array([float(number) for number in exact])
    assert np.abs(expected).sum() < 1e-14
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-28)
    assert norm == pytest.approx(np.abs(expected).sum(), rel=1e-10)


def test_pair_occupancy_spreads_by_the_policy():
    rng = np.random.default_rng(3)
    policy, x, found = rng.dirichlet(np.ones(3), size=9), rng.random(9), np.empty((9, 3))
    certificate.pair_occupancy(policy, x, 2.5, found)
    np.testing.assert_array_equal(found, policy * (x / 2.5)[:, None])


def test_bad_arguments_are_refused():
    csr, _, rng = model(0)
    r, v, active, policy = rng.normal(size=24), rng.normal(size=8), np.ones(24, bool), np.full(24, 1 / 3)
    refused = {
        "states": lambda: certificate.largest_advantage(0, *csr, r, r, active, GAMMA, v[:7], EPS),
        "no states": lambda: certificate.largest_advantage(0, *csr, r, r, active, GAMMA, v[:0], EPS),
        "sizes": lambda: certificate.largest_advantage(0, *csr, r, r[:3], active, GAMMA, v, EPS),
        "counted": lambda: certificate.policy_advantages(0, *csr, r, policy, active, active, GAMMA, v, EPS),
        "dot": lambda: certificate.compensated_dot(r, v),
        "slope": lambda: certificate.subtract_slope(r, 1.0, active, r.copy(), v),
        "reward": lambda: certificate.largest_reward_taken(r, policy, active[:7]),
        "inflow": lambda: certificate.flow_balance(np.empty(15), v, v, GAMMA, np.empty(8)),
        "out": lambda: certificate.flow_balance(np.empty(16), v, v, GAMMA, np.empty(7)),
        "room": lambda: certificate.add_inflow(0, *csr, policy, v, np.empty(15)),
        "other states": lambda: certificate.add_inflow(1, *csr, policy, v, np.empty(16)),
        "states before the first": lambda: certificate.add_inflow(-1, *csr, policy, v, np.empty(16)),
        "pairs": lambda: certificate.pair_occupancy(policy, v, 1.0, np.empty(3)),
    }
    for call in refused.values():
        with pytest.raises(ValueError, match="needs"):
            call()
    with pytest.raises(TypeError, match="contiguous"):
        certificate.compensated_dot(r[::2], r[::2])
    frozen = r.copy()
    frozen.flags.writeable = False
    with pytest.raises(TypeError, match="writable"):
        certificate.subtract_slope(r, 1.0, active, frozen, np.abs(r))
