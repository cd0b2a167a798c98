"""The kernels of the small problem and of the model of a planner's returns against NumPy."""

import numpy as np
import pytest

from cautious._core import restricted_master as kernels


def random_columns(seed):
    """Returns (K,), features (m, K), floors (m,), groups (m,) and how many groups."""
    rng = np.random.default_rng([18, seed])
    n, barriers, worst = int(rng.integers(1, 40)), int(rng.integers(0, 4)), int(rng.integers(1, 7))
    groups = min(worst, int(rng.integers(1, 3)))
    group = np.concatenate([np.full(barriers, -1), np.arange(worst) % groups]).astype(np.int64)
    features = rng.random((group.size, n)) * 10.0 ** rng.uniform(-3, 3, size=(group.size, 1))
    return rng.normal(size=n), features, np.where(group < 0, 10.0, 0.0), group, groups


@pytest.mark.parametrize("seed", range(20))
def test_scaled_columns_match_numpy(seed):
    returns, features, floor, group, groups = random_columns(seed)
    unit, size = kernels.units(returns, features, floor, group, 0.1)
    expected = np.maximum(np.abs(features).max(axis=1), np.abs(floor))
    for g in range(groups):
        expected[group == g] = expected[group == g].max()
    np.testing.assert_array_equal(size, expected)
    assert unit == max(np.ptp(returns), 0.1)
    chosen = np.arange(0, returns.size, 2)
    p, a = kernels.scaled_columns(returns, features, chosen, unit, size, group)
    np.testing.assert_allclose(p, ((returns - returns.mean()) / unit)[chosen], atol=1e-15)
    np.testing.assert_allclose(a, (np.where(group < 0, 1, -1)[:, None] * features / size[:, None])[:, chosen])


def test_features_that_are_all_zero_have_unit_one():
    unit, size = kernels.units(np.zeros(3), np.zeros((2, 3)), np.zeros(2), np.array([-1, 0]), 0.0)
    assert (unit, size.tolist()) == (1e-300, [1.0, 1.0])


def test_prices_of_a_group_share_its_total():
    shared = kernels.normalised_prices(np.array([2.0, 1.0, 3.0, -1.0]), np.array([-1, 0, 0, 0]), np.array([8.0]))
    np.testing.assert_allclose(shared, [2.0, 2.0, 6.0, 0.0], atol=1e-299)


@pytest.mark.parametrize("seed", range(20))
def test_elimination_matches_numpy(seed):
    rng = np.random.default_rng([15, seed])
    n = int(rng.integers(1, 25))
    matrix, right = rng.normal(size=(n, n)), rng.normal(size=(n, 3) if seed % 2 else n)
    matrix[0, 0] = 0.0 if n > 1 else 1.0
    expected = np.linalg.solve(matrix, right)
    kernels.solve_linear(matrix, right)
    np.testing.assert_allclose(right, expected, rtol=1e-8)


def test_an_unknown_that_occurs_nowhere_is_zero():
    right = np.array([3.0, 4.0])
    kernels.solve_linear(np.array([[0.0, 1.0], [0.0, 0.0]]), right)
    assert right[0] == 0.0


@pytest.mark.parametrize("seed", range(10))
def test_the_newton_system_matches_numpy(seed):
    rng = np.random.default_rng([20, seed])
    m, n, groups = int(rng.integers(1, 6)), int(rng.integers(1, 40)), int(rng.integers(0, 3))
    group = rng.integers(-1, groups, size=m)
    a, own, d, pull = rng.normal(size=(m, n)), rng.random(m), rng.random(n), rng.normal(size=n)
    gaps, lacks, total = rng.normal(size=m), rng.normal(size=groups), 0.3
    matrix, right = np.empty((m + groups + 1, m + groups + 1)), np.empty(m + groups + 1)
    kernels.newton_system(a, group, own, d, pull, gaps, lacks, total, matrix, right)
    member = (group[:, None] == np.arange(groups)).astype(float)
    sums = -(a @ d)[:, None]
    expected = np.block(
        [
            [a @ np.diag(d) @ a.T + np.diag(own), member, sums],
            [member.T, np.zeros((groups, groups + 1))],
            [sums.T, np.zeros((1, groups)), d.sum()[None, None]],
        ]
    )
    np.testing.assert_allclose(matrix, expected, atol=1e-12)
    np.testing.assert_allclose(right, np.concatenate([gaps - a @ (d * pull), lacks, [d @ pull - total]]), atol=1e-12)


@pytest.mark.parametrize("mu", [1e-12, 0.3])
@pytest.mark.parametrize("seed", range(10))
def test_points_of_the_central_path_satisfy_its_equations(seed, mu):
    """The first one is the slack, its product and the stationarity of the columns, with x and nu from w x = mu."""
    returns, features, floor, group, groups = random_columns(seed)
    unit, size = kernels.units(returns, features, floor, group, 1.0)
    p, a = kernels.scaled_columns(returns, features, np.arange(returns.size), unit, size, group)
    c, h, f = np.full(groups, 0.7), np.where(group < 0, -0.5, 0.0), np.where(group < 0, 0.2, 0.0)
    nothing = np.zeros(group.size)
    w, u, amiss = kernels.central_point(p, c, a, h, f, group, nothing, nothing, mu)
    assert amiss < max(1e-10, 0.1 * mu)
    assert w.min() > 0
    assert w.sum() == pytest.approx(1.0, abs=1e-10)
    for g in range(groups):
        assert u[group == g].sum() == pytest.approx(c[g], abs=1e-9)
        slack = (f[group == g] + mu) / u[group == g] - (a @ w - h)[group == g]
        np.testing.assert_allclose(slack, slack[0], rtol=0.2, atol=1e-6)
    worth = p + u @ a + mu / w
    if mu > 1e-3:
        np.testing.assert_allclose(worth, worth[0], rtol=0.2)
    else:
        assert (w @ (worth.max() - worth)) < 1e-6


def test_numbers_that_are_none_are_reported():
    nothing, group = np.zeros(1), np.array([-1])
    for bad in (np.nan, np.inf):
        amiss = kernels.central_point(
            np.array([0.0, bad]), np.zeros(0), np.ones((1, 2)), nothing, np.ones(1), group, nothing, nothing, 1e-9
        )[2]
        assert not np.isfinite(amiss)


@pytest.mark.parametrize("seed", range(20))
def test_a_null_vector_is_one(seed):
    rng = np.random.default_rng([19, seed])
    n = int(rng.integers(1, 20))
    matrix = rng.normal(size=(n, n + 1)) * 10.0 ** rng.uniform(-3, 3, size=(1, n + 1))
    if seed % 3 == 0:
        matrix[-1] = matrix[0]
    x = np.empty(n + 1)
    kernels.null_vector(matrix.copy(), np.empty(n + 1, np.int64), x)
    assert np.abs(x).max() == 1
    np.testing.assert_allclose(matrix @ x, 0, atol=1e-13 * n * np.abs(matrix).max())


def test_the_first_weight_to_vanish_ends_a_change():
    """The only change that keeps sum and feature is (1, -2, 1); it is followed until the middle column is used up."""
    system, weights = np.array([[0.0, 1.0, 2.0], [1.0, 1.0, 1.0]]), np.array([0.25, 0.5, 0.25])
    kernels.reduce_support(np.array([1.0, 0.0, 1.0]), system, weights)
    np.testing.assert_allclose(weights, [0.5, 0.0, 0.5])
    weights = np.array([0.2, 0.5, 0.3])
    kernels.reduce_support(np.array([0.0, 1.0, 0.0]), system, weights)
    np.testing.assert_allclose(weights, [0.0, 0.9, 0.1])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0])
def test_support_shrinks_whatever_the_weights(bad):
    rng = np.random.default_rng(1)
    weights = np.append(rng.random(30), bad)
    kernels.reduce_support(rng.random(31), np.vstack([rng.random(31), np.ones(31)]), weights)
    assert np.count_nonzero(weights) <= 2


@pytest.mark.parametrize("kind", [np.uint8, np.int32, np.int64])
def test_what_a_behaviour_is_paid(kind):
    rng = np.random.default_rng(0)
    reward, states = rng.normal(size=(50, 4)), rng.dirichlet(np.ones(50))
    actions = rng.integers(4, size=50).astype(kind)
    expected = states @ reward[np.arange(50), actions]
    assert kernels.expected_reward(reward, actions, states) == pytest.approx(expected, rel=1e-12)
    assert kernels.expected_reward(np.empty((0, 4)), actions[:0], states[:0]) == 0.0


def test_the_nearest_plans_come_first_and_the_older_of_two():
    asked = np.array([[3.0], [1.0], [-1.0], [np.nan], [0.5], [9.0]])
    assert kernels.nearest(asked, np.zeros(1), 4).tolist() == [4, 1, 2, 0]
    assert kernels.nearest(asked, np.zeros(1), 100).tolist() == [4, 1, 2, 0, 5, 3]


@pytest.mark.parametrize("seed", range(10))
def test_the_curvature_of_a_quadratic_is_found(seed):
    """Slopes rise by  H step  plus noise of a hundredth; directions without curvature get a little."""
    rng = np.random.default_rng(seed)
    m = int(rng.integers(1, 5))
    root = rng.normal(size=(m, m))
    truth = root @ root.T + 0.5 * np.eye(m)
    steps = rng.normal(size=(30 * m, m))
    rises = steps @ truth * (1 + 0.01 * rng.normal(size=(30 * m, 1)))
    found = kernels.curvature(steps, rises, np.sum(steps**2, axis=1))
    np.testing.assert_allclose(found, truth, atol=0.1 * np.abs(truth).max())
    np.testing.assert_allclose(found, found.T, rtol=1e-12)
    flat = kernels.curvature(steps, np.zeros_like(rises), np.sum(steps**2, axis=1))
    assert np.linalg.eigvalsh(flat).min() >= 0


@pytest.mark.parametrize("seed", range(20))
def test_curvature_matches_numpys_eigenvalues(seed):
    rng = np.random.default_rng([21, seed])
    m, n = int(rng.integers(1, 20)), int(rng.integers(1, 60))
    steps, rises = rng.normal(size=(n, m)), rng.normal(size=(n, m)) * 10.0 ** rng.uniform(-200, 200)
    lengths = np.sum(steps**2, axis=1)
    typical = max(np.median(np.sum(steps * rises, axis=1) / lengths), 1e-300)
    weighted = steps / lengths[:, None]
    fitted = np.linalg.solve(weighted.T @ steps + 1e-2 * np.eye(m), weighted.T @ rises + 1e-2 * typical * np.eye(m))
    values, vectors = np.linalg.eigh(0.5 * (fitted + fitted.T))
    expected = vectors * np.maximum(values, 1e-3 * typical) @ vectors.T
    found = kernels.curvature(steps, rises, lengths)
    np.testing.assert_allclose(found, expected, atol=1e-11 * np.abs(fitted).max())


def test_plans_that_are_no_numbers_say_nothing():
    asked, slopes = np.array([[1.0], [2.0], [np.nan]]), np.array([[1.0], [np.nan], [2.0]])
    near, ones = np.ones(1), np.ones(1)
    found, curvature = kernels.least_by_plans(asked, slopes, near, 4, 3.0, ones, ones, np.array([-1]), np.zeros(0))
    assert (found.tolist(), curvature) == ([1.0], 0.0)


def test_arrays_that_do_not_fit_are_refused():
    ones, group = np.ones(2), np.array([-1, 5])
    with pytest.raises(ValueError, match="units needs"):
        kernels.units(np.empty(0), np.empty((2, 0)), ones, group, 1.0)
    with pytest.raises(ValueError, match="normalised_prices needs"):
        kernels.normalised_prices(ones, group, np.ones(5))
    with pytest.raises(ValueError, match="scaled_columns needs all_within"):
        kernels.scaled_columns(ones, np.ones((2, 2)), np.array([2]), 1.0, ones, group)
    with pytest.raises(ValueError, match="solve_linear needs"):
        kernels.solve_linear(np.ones((2, 2)), np.ones(3))
    with pytest.raises(ValueError, match="central_point needs"):
        kernels.central_point(ones, np.zeros(5), np.ones((2, 2)), ones, ones, group, ones, ones, 1e-9)
    with pytest.raises(ValueError, match="null_vector needs"):
        kernels.null_vector(np.ones((2, 2)), np.arange(2), ones)
    with pytest.raises(ValueError, match="reduce_support needs"):
        kernels.reduce_support(ones, np.ones((0, 2)), ones)
    with pytest.raises(ValueError, match="expected_reward needs"):
        kernels.expected_reward(np.ones((2, 2)), np.zeros(1, np.uint8), ones)
    with pytest.raises(ValueError, match="nearest needs"):
        kernels.nearest(np.ones((2, 2)), ones, -1)
    with pytest.raises(ValueError, match="curvature needs"):
        kernels.curvature(np.ones((0, 2)), np.ones((0, 2)), np.ones(0))
    with pytest.raises(ValueError, match="least_by_plans needs"):
        kernels.least_by_plans(np.ones((3, 2)), np.ones((3, 2)), ones, 0, 3.0, ones, ones, np.array([-1, -1]), ones)
