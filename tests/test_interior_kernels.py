"""The kernels of the interior points against dense algebra and their formulas."""

import numpy as np
import pytest
import scipy.sparse as sp

from cautious.kernels import interior_steps
from cautious.solvers.interior_system import System, edges_of
from random_models import random_model


def dense_operator(raw, extended):
    """B on the allowed pairs, with the columns of the potentials if asked for."""
    owner = np.repeat(np.arange(raw.n_states), raw.n_actions)
    flow = raw.discount * raw.kernel.reshape(-1, raw.n_states) - np.eye(raw.n_states)[owner]
    columns = [flow, -np.eye(raw.n_states)[owner]] if extended else [flow]
    return np.hstack(columns)[raw.allowed.ravel()], owner[raw.allowed.ravel()]


@pytest.mark.parametrize("extended", [False, True])
def test_kernels_match_dense_algebra(extended):
    rng = np.random.default_rng(5)
    raw = random_model(rng, "small")
    mdp, n = raw.mdp(), raw.n_states
    path = sp.csr_array(sp.diags_array([np.ones(n - 1)] * 2, offsets=[-1, 1]))
    edges = edges_of(path) if extended else None
    system = System(mdp, mdp.allowed, edges)
    dense, owner = dense_operator(raw, extended)
    v, y = rng.normal(size=system.size), rng.normal(size=owner.size)
    assert np.allclose(system.forward(v), dense @ v)
    assert np.allclose(system.backward(y), dense.T @ y)
    stiffness, coupling = rng.exponential(size=owner.size) + 0.1, rng.exponential(size=n) * 10
    hessian = np.diag(stiffness) + coupling[owner][:, None] * (owner[:, None] == owner[None, :])
    assert np.allclose(system.sums(y), np.bincount(owner, weights=y, minlength=n))
    right = rng.normal(size=system.size)
    response = np.empty(y.size)
    shift, missing = system.respond(1 / stiffness, coupling, y, v, right, response)
    expected = np.linalg.solve(hessian, y + dense @ v)
    assert np.allclose(response, expected)
    assert np.allclose(shift, coupling * np.bincount(owner, weights=expected, minlength=n))
    assert np.allclose(missing, right - dense.T @ expected)
    collected = system.collect(1 / stiffness, coupling, y, right)
    assert np.allclose(collected, right - dense.T @ np.linalg.solve(hessian, y))
    matrix = dense.T @ np.linalg.solve(hessian, dense)
    conductance = None
    if extended:
        conductance = rng.exponential(size=n - 1)
        ends = np.eye(n)[:-1] - np.eye(n)[1:]
        matrix[n:, n:] += ends.T @ (conductance[:, None] * ends)
        matrix[n, n] *= 2
    system.refactor(1 / stiffness, coupling, conductance)
    assert np.allclose(matrix @ system.factor.solve(right), right, atol=1e-7)


def test_longest_step():
    assert interior_steps.longest_step(np.array([1.0, 2.0, 3.0]), np.array([-0.5, 1.0, -6.0])) == 0.5
    assert interior_steps.longest_step(np.array([1.0]), np.array([0.0])) == 1e30


def test_products_match_their_formulas():
    rng = np.random.default_rng(3)
    x, z = rng.exponential(size=(2, 30)) + 0.01
    dx, dz, wanted = rng.normal(size=(3, 30))
    targets = np.where(np.arange(30) >= 26, 2.0, 0.0)
    vanishing, aim, most = targets == 0, 0.3, 0.5
    then = (x + 0.4 * dx) * (z + 0.6 * dz)
    means = interior_steps.mean_product(x, z, dx, dz, 0.4, 0.6, targets)
    assert np.allclose(means, ((x * z)[vanishing].mean(), then[vanishing].mean()))
    assert np.allclose(interior_steps.straight(x, z, targets), targets - x * z)
    second = np.where(vanishing, np.clip(dx * dz, -most, most), 0.0)
    curved = interior_steps.curved(x, z, dx, dz, aim, most, targets)
    assert np.allclose(curved, np.where(vanishing, aim, targets) - x * z - second)
    drawn = np.maximum(np.clip(then, 0.1 * aim, 10 * aim) - then, -10 * aim)
    centred = interior_steps.centred(x, z, dx, dz, 0.4, 0.6, aim, targets, wanted)
    assert np.allclose(centred, wanted + np.where(vanishing, drawn, 0.0))


def test_pushed():
    residual, wanted, x = np.random.default_rng(4).uniform(1, 2, (3, 9))
    assert np.allclose(interior_steps.pushed(residual, wanted, x), residual + wanted / x)


def test_changes_make_the_products_change_as_wanted():
    rng = np.random.default_rng(4)
    x, z = rng.exponential(size=(2, 12)) + 0.1
    wanted, dx, dz = rng.normal(size=(3, 12))
    interior_steps.changes(x, z, wanted, dx, dz)
    assert np.allclose(x * dz + z * dx, wanted)
    slope = rng.normal(size=12)
    interior_steps.kink_changes(slope, x, z, wanted, -1.0, dx, dz)
    assert np.allclose(dz, -slope)
    assert np.allclose(x * dz + z * dx, wanted)


def test_kinks_balance_when_their_slope_moves_by_the_offset():
    rng = np.random.default_rng(6)
    entries, prior, t, s, of_t, of_s = rng.exponential(size=(6, 9)) + 0.1
    wanted_t, wanted_s = rng.normal(size=(2, 9))
    curvature = 1 / (t / of_t + s / of_s)
    du = interior_steps.kink_offset(entries, prior, t, s, wanted_t, wanted_s, of_t, of_s, curvature)
    dt, ds = (wanted_t + t * du) / of_t, (wanted_s - s * du) / of_s
    assert np.allclose((t + dt) - (s + ds), entries - prior)


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
