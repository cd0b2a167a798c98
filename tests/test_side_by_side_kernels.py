"""The loops of entropic frontiers side by side against NumPy."""

import numpy as np
import pytest
import scipy.sparse as sp
from numba import njit
from scipy.special import logsumexp

from cautious.kernels import eight_entropic, sixteen_chains, sixteen_gradients
from cautious.kernels.vector_logs import exp_eight, log_eight
from cautious.kernels.vector_ratios import load_short, rounded_once, store_short
from cautious.kernels.vectors import aligned, load_eight, load_sixteen, plus, spread_sixteen, store
from cautious.models.encodings import frozen

GAMMA, STATES, ACTIONS = 0.9, 31, 3
PAIRS = STATES * ACTIONS


def table(values):
    """The same numbers, flat and on a boundary of 64 bytes."""
    room = aligned(values.size // 8) if values.dtype == np.float64 else aligned(values.size // 16).view(np.float32)
    room[:] = values.ravel()
    return room


@pytest.fixture
def parts():
    """A sparse model as CSR arrays, its rows and B as dense matrices, exponents of the prior, and a generator."""
    rng = np.random.default_rng(5)
    dense = rng.dirichlet(np.ones(STATES), size=PAIRS) * (rng.random((PAIRS, STATES)) < 0.2)
    dense[:, 0] += 0.01
    dense /= dense.sum(axis=1, keepdims=True)
    rows = sp.csr_array(dense)
    csr = frozen(rows.indptr.astype(np.uint64)), frozen(rows.indices.astype(np.uint64)), frozen(rows.data)
    log_mu = rng.normal(size=PAIRS)
    # one pair, and all pairs of one state, cannot be used
    log_mu[[4, 60, 61, 62]] = -np.inf
    return csr, dense, GAMMA * dense - np.repeat(np.eye(STATES), ACTIONS, axis=0), log_mu, rng


@njit
def exponential_and_logarithm(a, out):
    for at in range(0, a.size, 8):
        store(out, at, exp_eight(load_eight(a, at)))
        store(out, a.size + at, log_eight(exp_eight(load_eight(a, at))))


def test_exponentials_and_logarithms_of_eight():
    a = np.concatenate([np.linspace(-700, 700, 4000), np.linspace(-1e-8, 1e-8, 400)])
    out = np.empty(2 * a.size)
    exponential_and_logarithm(a, out)
    np.testing.assert_allclose(out[: a.size], np.exp(a), rtol=1e-15)
    np.testing.assert_allclose(out[a.size :], a, rtol=1e-14, atol=1e-15)
    exponential_and_logarithm(np.array([-np.inf, -1e300, -708.0, 0, 0, 0, 0, 0]), out)
    assert np.all(out[:3] == out[2])
    assert 0 < out[2] < 1e-307


@njit
def short_numbers(a, out):
    store_short(out, 3, load_eight(a, 1))
    store(a, 0, load_short(out, 3))
    store(out, 16, plus(load_sixteen(out, 0), spread_sixteen(out[4])))
    return rounded_once(a[8], a[8], -a[8] * a[8])


def test_short_numbers_of_vectors():
    rng = np.random.default_rng(1)
    a, out = rng.random(9), np.zeros(33, np.float32)
    short = a[1:9].astype(np.float32)
    rest = short_numbers(a, out)
    np.testing.assert_array_equal(out[3:11], short)
    np.testing.assert_array_equal(a[:8], short.astype(np.float64))
    np.testing.assert_array_equal(out[16:32], out[:16] + out[4])
    assert 0 < abs(rest) < 1e-16


def test_policies_and_masses(parts):
    csr, _, b, log_mu, rng = parts
    u, r, heat = rng.normal(size=(STATES, 8)), rng.normal(size=PAIRS), 0.5 + rng.random(8)
    policy, log_mass, mass, sums = aligned(PAIRS), aligned(STATES), aligned(STATES), np.empty(8)
    eight_entropic.soft_rows(*csr, GAMMA, log_mu, r, heat, table(u), policy, log_mass)
    with np.errstate(divide="ignore", invalid="ignore"):
        ell = (log_mu[:, None] + r[:, None] * heat + b @ u).reshape(STATES, ACTIONS, 8)
        expected = logsumexp(ell, axis=1)
        rows = np.where(np.isfinite(ell), np.exp(ell - expected[:, None]), 0.0)
    used = np.isfinite(expected).all(axis=1)
    assert used.sum() == STATES - 1
    np.testing.assert_allclose(policy.reshape(STATES, ACTIONS, 8), rows, rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(log_mass.reshape(STATES, 8)[used], expected[used], rtol=1e-12)
    alone = aligned(STATES)
    eight_entropic.soft_rows(*csr, GAMMA, log_mu, r, heat, table(u), aligned(ACTIONS), alone)
    np.testing.assert_array_equal(alone, log_mass)
    eight_entropic.set_sums(log_mass, mass, sums)
    np.testing.assert_allclose(sums, logsumexp(expected, axis=0), rtol=1e-12)
    np.testing.assert_allclose(mass.reshape(STATES, 8), np.exp(expected - sums), rtol=1e-11, atol=1e-300)
    y, xi, right = (rows * mass.reshape(STATES, 1, 8)).reshape(PAIRS, 8), rng.random(STATES), aligned(STATES)
    eight_entropic.downhill(*csr, GAMMA, policy, mass, xi, right)
    # a state without a usable pair has no mass at all
    np.testing.assert_allclose(right.reshape(STATES, 8), -(xi[:, None] + b.T @ y), rtol=1e-10, atol=1e-14)


def test_sweeps_rest_where_masses_are_even(parts):
    *_, rng = parts
    log_mass, log_mu, used = rng.normal(size=(STATES, 8)), rng.normal(size=STATES), rng.random(STATES) < 0.8
    log_mass[:, 2] = log_mu + 0.1
    u, live = table(np.zeros((STATES, 8))), np.ones(8, np.bool_)
    uneven = eight_entropic.soft_sweep(table(log_mass), log_mu, used, 1.0, live, u)
    rest = (log_mass - log_mu[:, None])[used]
    np.testing.assert_allclose(uneven, np.ptp(rest, axis=0), atol=1e-15)
    assert live.tolist() == [lane != 2 for lane in range(8)]
    np.testing.assert_allclose(u.reshape(STATES, 8)[used], np.where(live, rest, 0.0))
    assert not u.reshape(STATES, 8)[~used].any()


def test_weights_and_what_a_step_aims_at(parts):
    csr, _, b, _, rng = parts
    policy, mass = rng.random((PAIRS, 8)), rng.random((STATES, 8))
    wanted, mu, mean = rng.random((STATES, 8)), rng.random(STATES), aligned(STATES)
    wanted[0], wanted[1], wanted[2] = mass[0], 0.0, mass[2] * (1 + 1e-9)
    w = table(np.full((PAIRS, 16), 7.0, np.float32))
    eight_entropic.spread_weights(
        table(policy), table(np.log(mass)), table(mass), table(wanted), mu, 0.05, 1e-9, mean, 8, w
    )
    aim = np.maximum(wanted, np.maximum(0.05 * mass, 1e-9 * mu[:, None]))
    apart = np.log(mass / aim)
    near = np.abs(apart) < 1e-6
    expected = np.where(near, aim, (mass - aim) / np.where(near, 1.0, apart))
    np.testing.assert_allclose(mean.reshape(STATES, 8), expected, rtol=1e-6)
    weights = policy * np.repeat(expected, ACTIONS, axis=0)
    np.testing.assert_allclose(w.reshape(PAIRS, 16)[:, 8:], weights, rtol=1e-6)
    assert np.all(w.reshape(PAIRS, 16)[:, :8] == 7.0)
    x, out = rng.normal(size=(STATES, 8)), aligned(STATES)
    eight_entropic.aimed_mass(*csr, GAMMA, table(policy), mean, table(mass), table(x), out)
    np.testing.assert_allclose(
        out.reshape(STATES, 8), mass + (weights * (b @ x)).reshape(STATES, ACTIONS, 8).sum(axis=1), rtol=1e-5
    )


def test_newton_systems_in_single_precision(parts):
    csr, _, b, _, rng = parts
    csr = (*csr[:2], csr[2].astype(np.float32))
    w, right = rng.random((PAIRS, 16)).astype(np.float32), rng.normal(size=(STATES, 16)).astype(np.float32)
    x, out, sums = rng.normal(size=(STATES, 16)).astype(np.float32), table(right), np.empty(16)
    sixteen_gradients.normal_product(*csr, GAMMA, table(w), table(x), out, sums)
    matrices = [b.T @ (w[:, lane, None].astype(float) * b) for lane in range(16)]
    expected = np.stack([matrices[lane] @ x[:, lane] for lane in range(16)], axis=1)
    np.testing.assert_allclose(out.reshape(STATES, 16), expected, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(sums, np.sum(x * expected, axis=0), rtol=1e-4)
    inverse = aligned(STATES).view(np.float32)
    sixteen_gradients.inverse_diagonals(*csr, GAMMA, table(w), inverse)
    diagonals = np.stack([np.diag(matrix) for matrix in matrices], axis=1)
    np.testing.assert_allclose(inverse.reshape(STATES, 16), 1 / diagonals, rtol=1e-4)
    room, gained, reached = aligned(3 * STATES).view(np.float32).reshape(3, -1), np.empty(16), np.empty(16)
    room[0], live, found = right.ravel(), np.arange(16) != 5, aligned(STATES).view(np.float32)
    limits = np.full(16, 1e-10), np.full(16, 1e-12)
    steps = sixteen_gradients.conjugate_gradients(
        *csr, GAMMA, table(w), inverse, np.full(16, 2.0), *limits, live, 200, found, room, gained, reached
    )
    assert 8 <= steps < 200
    solution = np.stack([np.linalg.solve(matrices[lane], right[:, lane]) for lane in range(16)], axis=1)
    solution[:, 5] = 0.0
    np.testing.assert_allclose(found.reshape(STATES, 16), solution, atol=1e-3 * np.abs(solution).max())
    np.testing.assert_allclose(gained, 2 * np.sum(right * solution, axis=0), rtol=1e-3)


def test_flows_in_single_precision(parts):
    csr, dense, _, _, rng = parts
    csr = (*csr[:2], csr[2].astype(np.float32))
    policy = np.moveaxis(rng.dirichlet(np.ones(ACTIONS), size=(16, STATES)), 0, -1).reshape(PAIRS, 16)
    missing = rng.normal(size=(STATES, 16))
    w, inverse, x = table(policy.astype(np.float32)), aligned(STATES).view(np.float32), aligned(STATES).view(np.float32)
    room = aligned(7 * STATES).view(np.float32).reshape(7, -1)
    sizes = [sixteen_chains.measure(table(missing[:, first : first + 8]), first, room[0]) for first in (0, 8)]
    np.testing.assert_allclose(np.concatenate(sizes), np.abs(missing).sum(axis=0))
    sixteen_chains.diagonals(*csr, GAMMA, w, inverse)
    tolerance, left = np.where(np.arange(16) == 3, np.inf, 1e-5), np.empty(16)
    assert sixteen_chains.solve_flow(*csr, GAMMA, w, inverse, tolerance, 100, x, room, left) < 40
    assert np.all(left <= tolerance)
    marginals = np.full((STATES, 8), 10.0)
    there = table(marginals)
    sixteen_chains.correct(x, 0, sizes[0], there)
    for lane in range(8):
        chain = np.einsum("sa,sat->st", policy[:, lane].reshape(STATES, ACTIONS), dense.reshape(STATES, ACTIONS, -1))
        step = np.linalg.solve(np.eye(STATES) - GAMMA * chain.T, -missing[:, lane]) if lane != 3 else 0.0
        np.testing.assert_allclose(there.reshape(STATES, 8)[:, lane], np.maximum(10 + step, 0.0), atol=1e-2)
