"""The restricted master problem of column generation, against CVXPY and its own dual bound."""

import cvxpy as cp
import numpy as np
import pytest

from cautious.solvers.column_generation.restricted_master import RestrictedMaster, reduce_support
from cautious.solvers.feature_rows import Rows


def random_small_problem(rng, barriers=None, worst=None):
    """Columns, rows and a mixture that is clear of every floor by a known margin."""
    n = int(rng.integers(1, 40))
    barriers = int(rng.integers(0, 4)) if barriers is None else barriers
    worst = int(rng.integers(0 if barriers else 1, 7)) if worst is None else worst
    groups = min(worst, int(rng.integers(1, 3))) if worst else 0
    group = np.concatenate([np.full(barriers, -1), np.arange(worst) % max(groups, 1)]).astype(np.int64)
    features = rng.random((barriers + worst, n)) * 10.0 ** rng.uniform(-3, 3)
    returns = rng.normal(size=n) * 10.0 ** rng.uniform(-2, 2)
    margin = np.abs(features).max() * 10.0 ** rng.uniform(-5, 0, size=barriers)
    floor = np.zeros(group.size)
    floor[:barriers] = (features @ rng.dirichlet(np.ones(n)))[:barriers] - margin
    caution = np.zeros(group.size)
    caution[:barriers] = 10.0 ** rng.uniform(-3, 2, size=barriers)
    return returns, features, Rows(caution, floor, group, 10.0 ** rng.uniform(-3, 2, size=groups))


def dual_bound(returns, features, rows, prices):
    """What no mixture exceeds, for any prices."""
    prices = rows.normalised(prices)
    signed = np.where(rows.barrier, prices, -prices)
    return float((returns + signed @ features).max()) - rows.intercept(prices)


@pytest.mark.parametrize("seed", range(60))
def test_best_mixture_closes_its_own_dual_bound(seed):
    returns, features, rows = random_small_problem(np.random.default_rng([11, seed]))
    found = RestrictedMaster(returns, features, rows).best()
    assert found is not None
    assert found.weights.min() >= 0
    assert found.weights.sum() == pytest.approx(1)
    assert found.value == pytest.approx(rows.value(returns @ found.weights, features @ found.weights))
    gap = dual_bound(returns, features, rows, found.prices) - found.value
    assert -1e-9 * max(1, abs(found.value)) <= gap <= 1e-5 * max(1, abs(found.value))


@pytest.mark.parametrize("seed", range(12))
def test_best_mixture_is_the_one_cvxpy_finds(seed):
    returns, features, rows = random_small_problem(np.random.default_rng([12, seed]))
    scale = max(1.0, np.abs(returns).max(), rows.caution.max(), rows.group_caution.max(initial=0))
    size = np.maximum(np.abs(features).max(axis=1), np.abs(rows.floor))
    w = cp.Variable(returns.size, nonneg=True)
    total = returns @ w
    for j in np.flatnonzero(rows.barrier):
        total += rows.caution[j] * (cp.log((features[j] @ w - rows.floor[j]) / size[j]) + np.log(size[j]))
    for g, caution in enumerate(rows.group_caution):
        total -= caution * cp.max(features[rows.group == g] @ w)
    program = cp.Problem(cp.Maximize(total / scale), [cp.sum(w) == 1])
    program.solve(solver="CLARABEL")
    found = RestrictedMaster(returns, features, rows).best()
    assert found.value == pytest.approx(program.value * scale, rel=1e-5, abs=1e-6 * scale)


@pytest.mark.parametrize("seed", range(20))
def test_held_back_prices_minimise_the_penalised_bound(seed):
    """Against CVXPY: min over prices of the columns' bound plus the penalty, for one worst case."""
    rng = np.random.default_rng([13, seed])
    returns, features, rows = random_small_problem(rng, barriers=0, worst=int(rng.integers(2, 6)))
    rows = Rows(rows.caution, rows.floor, np.zeros_like(rows.group), np.ones(1))
    small, centre = RestrictedMaster(returns, features, rows), rng.dirichlet(np.ones(rows.group.size))
    stiffness = 10.0 ** rng.uniform(-3, 1)
    held = rows.normalised(small.near(centre, stiffness).prices)
    u = cp.Variable(rows.group.size, nonneg=True)
    unit = small.size[0] / small.scale
    penalty = stiffness / 2 * cp.sum_squares(unit * (u - centre))
    total = cp.max((returns - returns.mean()) / small.scale - features.T / small.scale @ u) + penalty
    program = cp.Problem(cp.Minimize(total), [cp.sum(u) == 1])
    program.solve(solver="CLARABEL")
    cuts = (small.bound(held) - returns.mean()) / small.scale
    ours = cuts + stiffness / 2 * float(np.sum((unit * (held - centre)) ** 2))
    assert ours == pytest.approx(program.value, abs=1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_any_prices_bound_every_mixture(seed):
    rng = np.random.default_rng([16, seed])
    returns, features, rows = random_small_problem(rng)
    small = RestrictedMaster(returns, features, rows)
    prices = rows.normalised(10.0 ** rng.uniform(-3, 3, size=rows.group.size))
    assert small.bound(prices) >= small.best().value - 1e-9 * max(1, abs(small.best().value))
    assert small.bound(prices) == pytest.approx(dual_bound(returns, features, rows, prices))


@pytest.mark.parametrize("seed", range(30))
def test_few_columns_do_as_well_as_many(seed):
    rng = np.random.default_rng([14, seed])
    m, n = int(rng.integers(1, 6)), int(rng.integers(1, 40))
    features, returns, weights = rng.random((m, n)), rng.normal(size=n), rng.dirichlet(np.ones(n))
    if seed % 3 == 0:
        features = np.round(features, 1)
    fewer = reduce_support(returns, features, weights)
    assert np.count_nonzero(fewer) <= m + 1
    assert fewer.min() >= 0
    assert fewer.sum() == pytest.approx(1)
    np.testing.assert_allclose(features @ fewer, features @ weights, rtol=1e-9, atol=1e-10)
    assert returns @ fewer >= returns @ weights - 1e-9


def test_a_mixture_that_misses_a_floor_is_worth_nothing():
    rows = Rows(np.ones(1), np.array([2.0]), np.array([-1]), np.zeros(0))
    assert rows.value(1.0, np.array([2.0])) == -np.inf
    assert rows.value(1.0, np.array([3.0])) == 1.0


@pytest.mark.parametrize("seed", range(20))
def test_few_of_many_columns_find_the_same_mixture(seed):
    """Starting from prices that are right, a little off, or plainly wrong."""
    rng = np.random.default_rng([17, seed])
    returns, features, rows = random_small_problem(rng)
    copies = 1 + 200 // returns.size
    shift = rng.normal(size=(copies, 1)) * np.ptp(returns)
    returns = np.minimum(returns + shift - shift.max(), returns.max()).ravel()
    features = np.tile(features, copies)
    every = RestrictedMaster(returns, features, rows)
    best = every.best()
    for prices in (best.prices, 1.3 * best.prices, rng.permutation(best.prices)):
        chosen = RestrictedMaster(returns, features, rows, rows.normalised(prices))
        assert chosen.chosen.size < returns.size
        assert chosen.best().value == pytest.approx(best.value, rel=1e-6, abs=1e-6 * every.scale)


def test_columns_that_clear_no_floor_are_not_the_last_word():
    """The prices hide the one column that clears the floor."""
    returns, features = np.append(np.full(100, 5.0), 0.0), np.append(np.zeros(100), 1.0)[None]
    rows = Rows(np.ones(1), np.array([0.5]), np.array([-1]), np.zeros(0))
    small = RestrictedMaster(returns, features, rows, np.array([1e-3]))
    assert 100 not in small.chosen
    assert small.best().value == pytest.approx(RestrictedMaster(returns, features, rows).best().value)


def test_prices_of_a_worst_case_share_its_caution():
    rows = Rows(np.array([1.0, 0.0, 0.0, 0.0]), np.zeros(4), np.array([-1, 0, 0, 0]), np.array([8.0]))
    np.testing.assert_allclose(rows.normalised(np.array([2.0, 1.0, 3.0, -1.0])), [2.0, 2.0, 6.0, 0.0], atol=1e-299)


def test_units_of_the_master_problem():
    """The range of the returns or the largest caution, and the largest size of a feature; those of a group alike."""
    rows = Rows(np.array([3.0, 0.0, 0.0, 0.0]), np.array([-7.0, 0.0, 0.0, 0.0]), np.array([-1, 0, 0, 1]), np.ones(2))
    features = np.array([[1.0, 2.0], [1.0, 5.0], [-6.0, 0.0], [0.0, 0.0]])
    master = RestrictedMaster(np.array([0.0, 2.0]), features, rows)
    assert (master.scale, master.size.tolist()) == (3.0, [7.0, 6.0, 6.0, 1.0])


def test_the_first_weight_to_vanish_ends_a_change():
    """The only change that keeps sum and feature is (1, -2, 1); it is followed until a column is used up."""
    features = np.array([[0.0, 1.0, 2.0]])
    fewer = reduce_support(np.array([1.0, 0.0, 1.0]), features, np.array([0.25, 0.5, 0.25]))
    np.testing.assert_allclose(fewer, [0.5, 0.0, 0.5], atol=1e-15)
    fewer = reduce_support(np.array([0.0, 1.0, 0.0]), features, np.array([0.2, 0.5, 0.3]))
    np.testing.assert_allclose(fewer, [0.0, 0.9, 0.1], atol=1e-15)
