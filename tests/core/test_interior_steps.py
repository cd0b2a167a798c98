"""The entry-by-entry kernels of the interior point method against their formulas."""

import numpy as np
import pytest

from cautious._core import interior_steps

# shorter and longer than the vectors of every processor
SIZES = [0, 1, 3, 9, 30, 67]


def test_reach():
    assert interior_steps.reach(np.array([1.0, 2.0, 3.0]), np.array([-0.5, 1.0, -6.0])) == 0.5
    assert interior_steps.reach(np.array([1.0]), np.array([0.0])) == pytest.approx(1e30)


@pytest.mark.parametrize("size", SIZES[1:])
def test_reaches_of_mixtures(size):
    rng = np.random.default_rng(size)
    x, (change, other) = rng.exponential(size=size) + 0.1, rng.normal(size=(2, size))
    change[0] = other[0] = -0.5
    for k, found in enumerate(interior_steps.reaches(x, change, other)):
        mixture = change + (k + 1) / 4 * (other - change)
        assert found == pytest.approx(np.min(-x[mixture < 0] / mixture[mixture < 0]))
        assert found == pytest.approx(interior_steps.reach(x, mixture))


@pytest.mark.parametrize("n_free", [0, 5, 24, 61])
def test_products_match_their_formulas(n_free):
    rng, size = np.random.default_rng(3), n_free + 6
    x, z = rng.exponential(size=(2, size)) + 0.01
    dx, dz = rng.normal(size=(2, size))
    # the last six may belong to features, two of them to barriers
    rest = n_free, np.where(np.arange(size) >= size - 2, 2.0, 0.0)
    vanishing, aim, most, wanted = rest[1] == 0, 0.3, 0.5, np.empty(size)
    then = (x + 0.4 * dx) * (z + 0.6 * dz)
    means = interior_steps.mean_product(x, z, dx, dz, 0.4, 0.6, *rest)
    assert np.allclose(means, ((x * z)[vanishing].mean(), then[vanishing].mean()))
    interior_steps.straight(x, z, rest[1], wanted)
    assert np.allclose(wanted, rest[1] - x * z)
    second = np.where(vanishing, np.clip(dx * dz, -most, most), 0.0)
    interior_steps.curved(x, z, dx, dz, aim, most, *rest, wanted)
    assert np.allclose(wanted, np.where(vanishing, aim, rest[1]) - x * z - second)
    drawn = np.maximum(np.clip(then, 0.1 * aim, 10 * aim) - then, -10 * aim)
    interior_steps.centred(x, z, dx, dz, 0.4, 0.6, aim, *rest, wanted)
    assert np.allclose(wanted, x * dz + z * dx + np.where(vanishing, drawn, 0.0))


@pytest.mark.parametrize("size", SIZES)
def test_small_formulas(size):
    residual, wanted, x = np.random.default_rng(4).uniform(1, 2, (3, size))
    out = np.empty(size)
    interior_steps.pushed(residual, wanted, x, out)
    assert np.allclose(out, residual + wanted / x)
    further = out.copy()
    interior_steps.draw(x, further, 0.25)
    assert np.allclose(further, 0.75 * x + 0.25 * out)
    interior_steps.moved(x, wanted, 0.3, out)
    assert np.array_equal(out, x + 0.3 * wanted)
    curvature = residual.copy()
    interior_steps.soften(x, wanted, curvature)
    assert np.allclose(curvature, 1 / (wanted / x + residual))
    far, other = np.random.default_rng(size).normal(size=(2, size))
    assert interior_steps.furthest(far) == np.abs(far).max(initial=0.0)
    assert interior_steps.excess(far, other) == (far - other).max(initial=0.0)
    assert interior_steps.excess(far, far + 1) == 0.0


@pytest.mark.parametrize("size", SIZES)
def test_opposite_variables_cancel(size):
    x, other, z, of_other = np.random.default_rng(5).uniform(1, 2, (4, size))
    common = np.minimum(x, other)
    expected = (x - common) @ z + (other - common) @ of_other
    assert interior_steps.opposed(x, other, z, of_other) == pytest.approx(expected)


@pytest.mark.parametrize("size", SIZES)
def test_changes_make_the_products_change_as_wanted(size):
    rng = np.random.default_rng(4)
    x, z = rng.exponential(size=(2, size)) + 0.1
    wanted, dx, dz = rng.normal(size=(3, size))
    reach = interior_steps.changes(x, z, wanted, dx, dz)
    assert np.allclose(x * dz + z * dx, wanted)
    assert np.allclose(reach, (interior_steps.reach(x, dx), interior_steps.reach(z, dz)))


@pytest.mark.parametrize("size", SIZES[1:])
def test_kinks_change_as_wanted(size):
    rng = np.random.default_rng(size)
    t, s, of_t, of_s, bend = rng.exponential(size=(5, size)) + 0.1
    wanted_t, wanted_s, offset, change, dt, ds, dof_t, dof_s = rng.normal(size=(8, size))
    vectors = (t, s, of_t, of_s, wanted_t, wanted_s, dt, ds, dof_t, dof_s)
    reach = interior_steps.kink_changes(*vectors, offset, bend, change)
    assert np.allclose(dof_s, offset + bend * change)
    assert np.allclose(dof_t, -dof_s)
    assert np.allclose(t * dof_t + of_t * dt, wanted_t)
    assert np.allclose(s * dof_s + of_s * ds, wanted_s)
    assert np.isclose(reach[0], min(interior_steps.reach(t, dt), interior_steps.reach(s, ds)))
    assert np.isclose(reach[1], min(interior_steps.reach(of_t, dof_t), interior_steps.reach(of_s, dof_s)))


@pytest.mark.parametrize("size", SIZES)
def test_kinks_balance_when_their_slope_moves_by_the_offset(size):
    rng = np.random.default_rng(6)
    away, t, s, of_t, of_s = rng.exponential(size=(5, size)) + 0.1
    (wanted_t, wanted_s), curvature, du = rng.normal(size=(2, size)), np.empty(size), np.empty(size)
    interior_steps.kink_curvature(t, s, of_t, of_s, curvature)
    assert np.allclose(curvature, 1 / (t / of_t + s / of_s))
    less = np.ones(size)
    for subtracted_from in (less, np.zeros(0)):
        vectors = (away, t, s, of_t, of_s, wanted_t, wanted_s)
        interior_steps.kink_offset(*vectors, curvature, du, subtracted_from)
    assert np.allclose(less, 1 - du)
    dt, ds = (wanted_t + t * du) / of_t, (wanted_s - s * du) / of_s
    assert np.allclose((t + dt) - (s + ds), away)


def test_flows_follow_the_potentials():
    rng = np.random.default_rng(7)
    tail, head = np.array([0, 1, 0]), np.array([1, 2, 2])
    x, z = rng.exponential(size=(2, 6)) + 0.1
    wanted, dx, dz = rng.normal(size=(3, 6))
    potentials, missing = rng.normal(size=(2, 3))
    before = missing.copy()
    interior_steps.flow_changes(tail, head, potentials, x, z, wanted, dx, dz, missing)
    difference = potentials[tail] - potentials[head]
    assert np.allclose(dz, np.concatenate([-difference, difference]))
    assert np.allclose(x * dz + z * dx, wanted)
    incidence = np.eye(3)[:, tail] - np.eye(3)[:, head]
    assert np.allclose(before - missing, incidence @ (dx[:3] - dx[3:]))


def test_curvature_of_a_kink_between_tiny_multipliers():
    """Their product would vanish."""
    t, s, out = np.array([1.0, 2.0]), np.array([3.0, 0.5]), np.empty(2)
    interior_steps.kink_curvature(t, s, np.full(2, 1e-200), np.full(2, 2e-200), out)
    assert out == pytest.approx(1e-200 / (t + s / 2), rel=1e-14)


def test_entries_that_are_no_numbers_are_overlooked():
    x = np.arange(1.0, 20.0)
    x[[3, 17]] = np.nan
    assert interior_steps.furthest(x) == 19.0
    assert interior_steps.reach(x, -np.ones(19)) == 1.0


def test_wrong_lengths_are_refused():
    x, short = np.ones(5), np.ones(4)
    with pytest.raises(ValueError, match="reach needs"):
        interior_steps.reach(x, short)
    with pytest.raises(ValueError, match="n_free"):
        interior_steps.mean_product(x, x, x, x, 1.0, 1.0, 6, x)
    with pytest.raises(ValueError, match="n_free"):
        interior_steps.curved(x, x, x, x, 1.0, 1.0, -1, x, x.copy())
    with pytest.raises(ValueError, match="less.size"):
        interior_steps.kink_offset(x, x, x, x, x, x, x, x, x.copy(), short)
    edges = np.zeros(2, np.int64)
    with pytest.raises(ValueError, match="n_edges"):
        interior_steps.flow_changes(edges, edges, x, short, short, short, short, x, x)
    with pytest.raises(TypeError, match="contiguous"):
        interior_steps.furthest(np.ones(10)[::2])
