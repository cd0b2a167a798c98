"""The kernels of the interior points against dense algebra and their formulas."""

import numpy as np
import pytest
import scipy.sparse as sp

from cautious.kernels import interior_fours, interior_kinks, interior_steps
from cautious.solvers.interior_system import NONE, System, edges_of
from random_models import RawModel, random_model


def dense_operator(raw, extended):
    """B on the allowed pairs, with the columns of the potentials if asked for."""
    owner = np.repeat(np.arange(raw.n_states), raw.n_actions)
    flow = raw.discount * raw.kernel.reshape(-1, raw.n_states) - np.eye(raw.n_states)[owner]
    columns = [flow, -np.eye(raw.n_states)[owner]] if extended else [flow]
    return np.hstack(columns)[raw.allowed.ravel()], owner[raw.allowed.ravel()]


@pytest.mark.parametrize("seed", [5, 6, 7])
@pytest.mark.parametrize("extended", [False, True])
def test_kernels_match_dense_algebra(extended, seed):
    rng = np.random.default_rng(seed)
    compare_with_dense_algebra(random_model(rng, "small"), extended, rng)


def compare_with_dense_algebra(raw, extended, rng):
    mdp, n = raw.mdp(), raw.n_states
    path = sp.csr_array(sp.diags_array([np.ones(n - 1)] * 2, offsets=[-1, 1]))
    edges = edges_of(path) if extended else None
    system = System(mdp, mdp.allowed, edges)
    dense, owner = dense_operator(raw, extended)
    v, y, lift = rng.normal(size=system.size), rng.normal(size=owner.size), rng.normal(size=n)
    assert np.allclose(system.forward(y, lift, v), y + lift[owner] + dense @ v)
    sums, missing = system.backward(y)
    assert np.allclose(sums, np.bincount(owner, weights=y, minlength=n))
    assert np.allclose(missing, -dense.T @ y)
    stiffness, coupling = rng.exponential(size=owner.size) + 0.1, rng.exponential(size=n) * 10
    coupling[rng.random(n) < 0.3] = 0.0
    hessian = np.diag(stiffness) + coupling[owner][:, None] * (owner[:, None] == owner[None, :])
    right = rng.normal(size=system.size)
    response = np.empty(y.size)
    for x in (v, NONE):
        shift, missing = system.respond((1 / stiffness, coupling), y, lift, x, right, response)
        expected = np.linalg.solve(hessian, y + lift[owner] + (dense @ x if x.size else 0.0))
        assert np.allclose(response, expected)
        assert np.allclose(shift, coupling * np.bincount(owner, weights=expected, minlength=n))
        assert np.allclose(missing, right - dense.T @ expected)
    assert system.respond((1 / stiffness, coupling), y, lift, v, NONE, response)[1].size == 0
    assert np.allclose(response, np.linalg.solve(hessian, y + lift[owner] + dense @ v))
    matrix = dense.T @ np.linalg.solve(hessian, dense)
    conductance = None
    if extended:
        conductance = rng.exponential(size=n - 1)
        ends = np.eye(n)[:-1] - np.eye(n)[1:]
        matrix[n:, n:] += ends.T @ (conductance[:, None] * ends)
        matrix[n, n] *= 2
    assert np.allclose(matrix @ system.refactor((1 / stiffness, coupling), conductance, right), right, atol=1e-7)
    assert np.allclose(matrix @ system.factor.solve(right), right, atol=1e-7)


@pytest.mark.parametrize("extended", [False, True])
@pytest.mark.parametrize("seed", [1, 2])
def test_states_in_groups_match_dense_algebra(extended, seed):
    """Runs of states with four pairs, of different sizes, between states that have fewer."""
    rng = np.random.default_rng(seed)
    n, n_actions = 27, 4
    kernel = np.zeros((n, n_actions, n))
    for s in range(n):
        for a in range(n_actions):
            # one state reaches so many that it has no group
            reached = rng.choice(n, 25 if s == 13 else rng.integers(1, 4), replace=False)
            kernel[s, a, reached] = rng.dirichlet(np.ones(reached.size))
    allowed = np.ones((n, n_actions), bool)
    allowed[[5, 20], [1, 2]] = False
    raw = RawModel(kernel, rng.normal(size=(n, n_actions)), 0.9, np.full(n, 1 / n), allowed)
    compare_with_dense_algebra(raw, extended, rng)
    pairs, cliques = np.append(0, np.cumsum(allowed.sum(axis=1))), System(raw.mdp(), allowed, None).start
    first, _, others = interior_fours.groups(pairs, cliques)
    assert 8 <= 4 * first.size == n - others.size < n


def test_reach():
    assert interior_steps.reach(np.array([1.0, 2.0, 3.0]), np.array([-0.5, 1.0, -6.0])) == 0.5
    assert interior_steps.reach(np.array([1.0]), np.array([0.0])) == pytest.approx(1e30)


@pytest.mark.parametrize("size", [1, 4, 9, 30])
def test_reaches_of_mixtures(size):
    rng = np.random.default_rng(size)
    x, (change, other) = rng.exponential(size=size) + 0.1, rng.normal(size=(2, size))
    change[0] = other[0] = -0.5
    for k, found in enumerate(interior_steps.reaches(x, change, other)):
        mixture = change + (k + 1) / 4 * (other - change)
        assert found == pytest.approx(np.min(-x[mixture < 0] / mixture[mixture < 0]))
        assert found == pytest.approx(interior_steps.reach(x, mixture))


def test_products_match_their_formulas():
    rng = np.random.default_rng(3)
    x, z = rng.exponential(size=(2, 30)) + 0.01
    dx, dz = rng.normal(size=(2, 30))
    # the last six may belong to features, two of them to barriers
    rest = 24, np.where(np.arange(30) >= 28, 2.0, 0.0)
    vanishing, aim, most, wanted = rest[1] == 0, 0.3, 0.5, np.empty(30)
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


def test_small_formulas():
    residual, wanted, x = np.random.default_rng(4).uniform(1, 2, (3, 9))
    out = np.empty(9)
    interior_steps.pushed(residual, wanted, x, out)
    assert np.allclose(out, residual + wanted / x)
    assert np.allclose(interior_steps.moved(x, wanted, 0.3), x + 0.3 * wanted)
    interior_steps.draw(x, out, 0.25)
    assert np.allclose(out, 0.75 * x + 0.25 * (residual + wanted / x))
    curvature = residual.copy()
    interior_steps.soften(x, wanted, curvature)
    assert np.allclose(curvature, 1 / (wanted / x + residual))
    for size in (3, 9):
        far, other = np.random.default_rng(size).normal(size=(2, size))
        assert interior_steps.furthest(far) == np.abs(far).max()
        assert interior_steps.excess(far, other) == max((far - other).max(), 0.0)
        assert interior_steps.excess(far, far + 1) == 0.0


def test_opposite_variables_cancel():
    x, other, z, of_other = np.random.default_rng(5).uniform(1, 2, (4, 9))
    common = np.minimum(x, other)
    expected = (x - common) @ z + (other - common) @ of_other
    assert interior_steps.opposed(x, other, z, of_other) == pytest.approx(expected)


def test_changes_make_the_products_change_as_wanted():
    rng = np.random.default_rng(4)
    x, z = rng.exponential(size=(2, 12)) + 0.1
    wanted, dx, dz = rng.normal(size=(3, 12))
    reach = interior_steps.changes(x, z, wanted, dx, dz)
    assert np.allclose(x * dz + z * dx, wanted)
    assert np.allclose(reach, (interior_steps.reach(x, dx), interior_steps.reach(z, dz)))


@pytest.mark.parametrize("size", [3, 12, 13])
def test_kinks_change_as_wanted(size):
    rng = np.random.default_rng(size)
    t, s, of_t, of_s, bend = rng.exponential(size=(5, size)) + 0.1
    wanted_t, wanted_s, offset, change, dt, ds, dof_t, dof_s = rng.normal(size=(8, size))
    vectors = (t, s, of_t, of_s, wanted_t, wanted_s, dt, ds, dof_t, dof_s)
    reach = interior_kinks.changes(*vectors, offset, bend, change)
    assert np.allclose(dof_s, offset + bend * change)
    assert np.allclose(dof_t, -dof_s)
    assert np.allclose(t * dof_t + of_t * dt, wanted_t)
    assert np.allclose(s * dof_s + of_s * ds, wanted_s)
    assert np.isclose(reach[0], min(interior_steps.reach(t, dt), interior_steps.reach(s, ds)))
    assert np.isclose(reach[1], min(interior_steps.reach(of_t, dof_t), interior_steps.reach(of_s, dof_s)))


def test_kinks_balance_when_their_slope_moves_by_the_offset():
    rng = np.random.default_rng(6)
    away, t, s, of_t, of_s = rng.exponential(size=(5, 9)) + 0.1
    (wanted_t, wanted_s), curvature, du = rng.normal(size=(2, 9)), np.empty(9), np.empty(9)
    interior_kinks.curvature(t, s, of_t, of_s, curvature)
    assert np.allclose(curvature, 1 / (t / of_t + s / of_s))
    less = np.ones(9)
    for subtracted_from in (less, NONE):
        vectors = (away, t, s, of_t, of_s, wanted_t, wanted_s)
        interior_kinks.offset(*vectors, curvature, du, subtracted_from)
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
    interior_kinks.curvature(t, s, np.full(2, 1e-200), np.full(2, 2e-200), out)
    assert out == pytest.approx(1e-200 / (t + s / 2), rel=1e-14)
