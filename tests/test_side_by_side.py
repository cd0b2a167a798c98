"""Entropic frontiers side by side: kernels against NumPy, points against single solves, lanes that fail."""

import numpy as np
import pytest
import scipy.sparse as sp
from numba import njit
from scipy.special import logsumexp

import cautious as ca
from cautious.kernels import eight_entropic, sixteen_chains, sixteen_gradients
from cautious.kernels.vector_logs import exp_eight, log_eight
from cautious.kernels.vector_ratios import load_short, rounded_once, store_short
from cautious.kernels.vectors import aligned, load_eight, load_sixteen, plus, spread_sixteen, store
from cautious.models.encodings import frozen
from cautious.solvers.base import Clock, Target, Workspace
from cautious.solvers.entropic import Entropic
from cautious.solvers.entropic_dual import Dual
from cautious.solvers.entropic_foresight import Known, groups
from cautious.solvers.entropic_sixteen import SixteenDuals
from cautious.solvers.entropic_start import Memory
from random_models import random_case

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


def test_order_of_cautions():
    for n in (1, 2, 4, 15, 16, 17, 30, 100):
        logs = np.linspace(0, 1, n)
        chosen = list(groups(logs))
        assert sorted(np.concatenate(chosen)) == list(range(n))
        assert all(group.size <= 16 for group in chosen)
        assert {0, n - 1} <= set(chosen[0])


def test_polynomials_through_what_is_known():
    known = Known()
    for log in (0.0, 0.4, 1.0, 1.5):
        known.add(log, np.array([log**3 - log, 2.0]))
    found = known.at(np.array([0.7, 0.4]))
    np.testing.assert_allclose(found, [[0.7**3 - 0.7, 0.4**3 - 0.4], [2.0, 2.0]], atol=1e-14)


KINDS = ("KL",), ("Entropy",), ("KL", "Entropy")


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kinds", KINDS, ids="+".join)
def test_points_are_those_of_single_solves(kinds, seed):
    """Models with masks, states nobody reaches and zero priors among them."""
    case = random_case(np.random.default_rng([19, len(kinds), seed]), kinds)
    problem = case.problem()
    cautions = [0.0, *(problem.caution * np.geomspace(0.01, 100, 4 + 5 * seed))]
    points = ca.frontier(problem.mdp, problem.recipe, cautions)
    assert points.cautions == sorted(cautions)
    for point in points:
        single = ca.solve(ca.Problem(problem.mdp, problem.recipe, point.caution))
        assert point.status is single.status
        if single.status is ca.Status.SOLVED:
            size = max(1.0, abs(single.objective))
            assert abs(point.objective - single.objective) <= 1e-6 * size
            assert point.upper_bound >= single.objective - 1e-9 * size


def test_masked_model_with_a_prior_that_forbids():
    rng = np.random.default_rng(2)
    garnet = ca.worlds.garnet(50, n_actions=3, n_successors=3, discount=0.9, seed=3)
    allowed = rng.random(garnet.shape) < 0.8
    allowed[:, 0] = True
    mdp = ca.MDP(garnet.transitions, garnet.rewards, 0.9, allowed=allowed)
    prior = rng.random(mdp.shape) * allowed * (rng.random(mdp.shape) < 0.9)
    prior[:, 0] += 0.01
    cautions = np.geomspace(0.01, 100, 20)
    points = ca.frontier(mdp, ca.KL(prior / prior.sum()), cautions)
    for point, caution in zip(points, cautions, strict=True):
        single = ca.solve(ca.Problem(mdp, ca.KL(prior / prior.sum()), caution))
        assert point.status is ca.Status.SOLVED
        assert point.objective == pytest.approx(single.objective, abs=1e-6 * max(1.0, abs(single.objective)))


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.999])
def test_extreme_cautions(discount):
    mdp = ca.worlds.garnet(40, n_actions=2, n_successors=3, discount=discount, seed=6)
    for point in ca.frontier(mdp, ca.Entropy(), [0.0, 1e-9, 1e-3, 1.0, 1e3, 1e9]):
        assert point.status is ca.Status.SOLVED


@pytest.fixture
def counted(monkeypatch):
    """Cautions at which a Newton step was taken the ordinary way."""
    steps, step = [], Dual.step
    monkeypatch.setattr(Dual, "step", lambda self, *given: (steps.append(self.caution), step(self, *given))[1])
    return steps


def test_most_points_need_no_ordinary_step(counted):
    mdp = ca.worlds.garnet(300, n_actions=3, n_successors=4, discount=0.95, seed=4)
    points = ca.frontier(mdp, ca.Entropy(), np.geomspace(0.1, 10, 40))
    assert all(point.status is ca.Status.SOLVED for point in points)
    assert len(counted) <= 4


@pytest.mark.parametrize("limits", [{"time_limit_seconds": 60.0}, {"memory_limit": 1e9}])
def test_limits_of_single_points_go_without(counted, limits):
    mdp = ca.worlds.garnet(60, n_actions=3, n_successors=4, discount=0.9, seed=4)
    points = ca.frontier(mdp, ca.Entropy(), np.geomspace(0.5, 2, 6), **limits)
    assert all(point.status is ca.Status.SOLVED for point in points)
    assert len(counted) >= 6


def test_duals_that_fail_do_no_harm(counted, monkeypatch):
    mdp = ca.worlds.garnet(60, n_actions=3, n_successors=4, discount=0.9, seed=4)
    cautions, newton = np.geomspace(0.1, 10, 20), SixteenDuals.newton

    def sometimes(self, allowed, steps, clock):
        left = newton(self, allowed, steps, clock)
        self.halves[0].u.reshape(-1, 8)[:, 3] = np.nan
        left[4] = np.inf
        return left

    monkeypatch.setattr(SixteenDuals, "newton", sometimes)
    points = ca.frontier(mdp, ca.Entropy(), cautions)
    assert 2 <= len(set(counted)) <= 6
    for point, caution in zip(points, cautions, strict=True):
        assert point.status is ca.Status.SOLVED
        single = ca.solve(ca.Problem(mdp, ca.Entropy(), caution))
        assert point.objective == pytest.approx(single.objective, abs=1e-6 * max(1.0, abs(single.objective)))


def test_a_wrong_start_is_found_out():
    """The certificate judges what was left in the workspace, and ordinary steps go on from there."""
    mdp = ca.worlds.garnet(60, n_actions=3, n_successors=4, discount=0.9, seed=4)
    problems = [ca.Problem(mdp, ca.Entropy()).with_caution(caution) for caution in (0.5, 1.0, 1.5, 2.0)]
    workspace = Workspace()
    target = Target(1e-6, Clock(None), workspace=workspace)
    Entropic().foresee(problems, target)
    memory = workspace.of(Entropic.name, Memory)
    assert sorted(memory.foreseen) == [0.5, 1.0, 1.5, 2.0]
    memory.foreseen[1.0].log_states[:] += np.random.default_rng(0).normal(size=60)
    memory.foreseen[1.0].policy[:] = 1 / 3
    candidates = Entropic().steps(problems[1], target)
    first = next(candidates)
    assert np.allclose(first.policy, 1 / 3)
    second = next(candidates)
    answer = ca.solve(problems[1])
    assert np.abs(second.policy - answer.policy).max() < 1e-3


def test_nothing_is_foreseen_for_few_cautions_or_huge_models(monkeypatch):
    mdp = ca.worlds.garnet(60, n_actions=3, n_successors=4, discount=0.9, seed=4)
    problems = [ca.Problem(mdp, ca.Entropy()).with_caution(caution) for caution in (0.5, 1.0, 1.5, 2.0)]
    workspace = Workspace()
    target = Target(1e-6, Clock(None), workspace=workspace)
    Entropic().foresee(problems[:3], target)
    monkeypatch.setattr("cautious.solvers.entropic_foresight.MOST_BYTES", 1e5)
    Entropic().foresee(problems, target)
    assert not workspace.of(Entropic.name, Memory).foreseen


def test_a_request_to_stop_ends_it():
    mdp = ca.worlds.garnet(60, n_actions=3, n_successors=4, discount=0.9, seed=4)
    problems = [ca.Problem(mdp, ca.Entropy()).with_caution(caution) for caution in np.geomspace(0.5, 2, 20)]
    workspace, clock = Workspace(), Clock(None)
    clock.stop_requested = True
    Entropic().foresee(problems, Target(1e-6, clock, workspace=workspace))
    assert not workspace.of(Entropic.name, Memory).foreseen


def test_same_bytes_for_any_number_of_threads():
    mdp = ca.worlds.garnet(200, n_actions=3, n_successors=4, discount=0.95, seed=4)
    one, two = (ca.frontier(mdp, ca.Entropy(), np.geomspace(0.1, 10, 12), threads=n) for n in (1, 2))
    for a, b in zip(one, two, strict=True):
        assert a.policy.tobytes() == b.policy.tobytes()
        assert a.objective == b.objective
