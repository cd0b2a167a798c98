"""The kernels of the restricted master problem against NumPy."""

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


@pytest.mark.parametrize("mu", [1e-12, 0.3])
@pytest.mark.parametrize("seed", range(10))
def test_points_of_the_central_path_satisfy_its_equations(seed, mu):
    """The first one is the slack, its product and the stationarity of the columns, with x and nu from w x = mu."""
    returns, features, floor, group, groups = random_columns(seed)
    size = np.maximum(np.abs(features).max(axis=1), np.abs(floor))
    for g in range(groups):
        size[group == g] = size[group == g].max()
    p = (returns - returns.mean()) / max(np.ptp(returns), 1.0)
    a = np.where(group < 0, 1, -1)[:, None] * features / size[:, None]
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


def test_a_group_without_rows_changes_nothing():
    """The column of its top is zero, and so is the pivot."""
    p, a, group, nothing = np.array([0.3, 0.0, -0.2]), -np.eye(3), np.zeros(3, np.int64), np.zeros(3)
    alone = kernels.central_point(p, np.array([0.7]), a, nothing, nothing, group, nothing, nothing, 1e-9)
    beside = kernels.central_point(p, np.array([0.7, 0.0]), a, nothing, nothing, group, nothing, nothing, 1e-9)
    for expected, found in zip(alone, beside, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_numbers_that_are_none_are_reported():
    nothing, group = np.zeros(1), np.array([-1])
    for bad in (np.nan, np.inf):
        amiss = kernels.central_point(
            np.array([0.0, bad]), np.zeros(0), np.ones((1, 2)), nothing, np.ones(1), group, nothing, nothing, 1e-9
        )[2]
        assert not np.isfinite(amiss)


def test_arrays_that_do_not_fit_are_refused():
    ones, group = np.ones(2), np.array([-1, 5])
    with pytest.raises(ValueError, match="central_point needs"):
        kernels.central_point(ones, np.zeros(5), np.ones((2, 2)), ones, ones, group, ones, ones, 1e-9)
