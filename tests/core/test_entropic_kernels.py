"""The loops of the entropic dual against NumPy."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import logsumexp

from cautious._core import entropic as kernels

GAMMA = 0.9


@pytest.fixture(params=[np.int32, np.int64])
def parts(request):
    """The flow of a sparse model of 30 states and 3 actions, B as a dense matrix, and some vectors."""
    rng = np.random.default_rng(5)
    dense = rng.dirichlet(np.ones(30), size=90) * (rng.random((90, 30)) < 0.2)
    dense[:, 0] += 0.01
    dense /= dense.sum(axis=1, keepdims=True)
    rows = sp.csr_array(dense)
    b = GAMMA * dense - np.repeat(np.eye(30), 3, axis=0)
    base = rng.normal(size=90)
    base[[4, 60, 61, 62]] = -np.inf
    first, kind = np.arange(0, 91, 3), request.param
    return (first, rows.indptr.astype(kind), rows.indices.astype(kind), rows.data, GAMMA), b, base, rng


@pytest.mark.parametrize("span", [(-1e-9, 1e-9), (-1, 1), (-700, 700), (-746, -700), (700, 709.7)])
def test_exponentials_over_the_whole_range(span):
    """Within two units of the last place, also where results are smaller than normal numbers."""
    x = np.random.default_rng(1).uniform(*span, size=50_003)
    found, exact = x.copy(), np.exp(x)
    kernels.exponentials(found)
    assert np.all(np.abs(found - exact) <= 2 * np.spacing(exact))


@pytest.mark.parametrize("size", range(0, 70))
def test_exponentials_of_any_number_of_numbers(size):
    room = np.full(size + 2, 3.0)
    kernels.exponentials(room[1 : size + 1])
    np.testing.assert_allclose(room[1 : size + 1], np.exp(3.0), rtol=4e-16)
    # nothing beside them is written
    assert room[0] == room[-1] == 3.0


def test_exponentials_at_the_ends():
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -745.2, 709.79, 1e300, -1e300])
    kernels.exponentials(x)
    np.testing.assert_array_equal(x, [1, 1, np.inf, 0, np.nan, 0, np.inf, np.inf, 0])


def test_sums_by_state(parts):
    _, _, ell, _ = parts
    states, policy = np.empty(30), np.empty(90)
    kernels.by_state(ell, states, policy)
    table = ell.reshape(30, 3)
    with np.errstate(divide="ignore", invalid="ignore"):
        assert np.allclose(states, logsumexp(table, axis=1), rtol=1e-14)
        rows = np.where(np.isfinite(table), np.exp(table - logsumexp(table, axis=1)[:, None]), 0.0)
    assert np.allclose(policy.reshape(30, 3), rows, atol=1e-15)
    # zeros are exact where a pair, or a whole state, cannot be used
    assert np.all(policy[[4, 60, 61, 62]] == 0)
    assert states[20] == -np.inf


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (5, 1), (3, 700), (900, 4)])
def test_sums_by_state_of_any_shape(shape):
    """Also where one state has more actions than are worked on together."""
    ell = 30 * np.random.default_rng(2).normal(size=shape)
    states, policy = np.empty(shape[0]), np.empty(ell.size)
    kernels.by_state(ell, states, policy)
    np.testing.assert_allclose(states, logsumexp(ell, axis=1), rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(policy.reshape(shape), np.exp(ell - states[:, None]), rtol=1e-12)


def test_exponents_that_are_no_numbers_are_not_hidden():
    states, policy = np.empty(2), np.empty(4)
    kernels.by_state(np.array([0.0, np.nan, 1.0, 1.0]), states, policy)
    assert np.isnan(states[0])
    assert np.isnan(policy[:2]).all()
    assert policy[2:].tolist() == [0.5, 0.5]


def test_logarithmic_mean_of_masses():
    policy = np.array([0.25, 0.75, 1.0, 0.0, 0.5, 0.5])
    mass, wanted, out = np.array([1e-3, 2.0, 0.1]), np.array([1.0, 1.0, 0.1]), np.empty(6)
    kernels.spread_weights(policy, np.log(mass), wanted, out)
    mean = np.array([(1 - 1e-3) / np.log(1e3), 1 / np.log(2), 0.1])
    assert np.allclose(out, policy * np.repeat(mean, 2))
    kernels.spread_weights(policy, np.array([-2000.0, 0, 0]), wanted, out)
    assert out[1] == pytest.approx(0.75 / 2000)


@pytest.mark.parametrize("shift", [0.0, 1e4, -1e4])
@pytest.mark.parametrize("length", [0.0, 0.5, 1e4])
def test_log_sum_along_a_line(parts, length, shift):
    _, _, base, rng = parts
    base, p = base + shift, rng.normal(size=90)
    finite = np.isfinite(base)
    value, first, second = kernels.along(base, p, length)
    exponents = base[finite] + length * p[finite]
    y = np.exp(exponents - logsumexp(exponents))
    assert value == pytest.approx(logsumexp(exponents), rel=1e-12)
    assert first == pytest.approx(y @ p[finite], rel=1e-10)
    assert second == pytest.approx(y @ p[finite] ** 2 - (y @ p[finite]) ** 2, abs=1e-9)


@pytest.mark.parametrize("size", [1, 15, 16, 17, 33])
def test_log_sum_of_any_number_of_exponents(size):
    ell, p = np.linspace(-2, 1, size), np.linspace(1, 3, size)
    assert kernels.along(ell, p, 0.3)[0] == pytest.approx(logsumexp(ell + 0.3 * p), rel=1e-14)


def test_a_line_without_finite_exponents():
    value, first, _ = kernels.along(np.full(5, -np.inf), np.ones(5), 1.0)
    assert value == -np.inf
    assert np.isnan(first)


@pytest.mark.parametrize("features", [0, 2])
def test_bordered_system(parts, features):
    flow, b, _, rng = parts
    y = rng.random(90) * (rng.random(90) < 0.8)
    joint = np.hstack([b, rng.normal(size=(features, 90)).T])
    matrix = joint.T @ (y[:, None] * joint) + np.diag(np.r_[np.zeros(30), [0.3, 0.2][:features]])
    size = 30 + features
    border, block = np.ascontiguousarray(matrix[:30, 30:]), np.ascontiguousarray(matrix[30:, 30:])
    inverse, corner, right = 1 / np.diag(matrix)[:30].copy(), np.linalg.inv(block), rng.normal(size=size)
    x, residual, direction, gains = np.zeros(size), right.copy(), np.empty(size), np.zeros(9)
    squared = kernels.precondition(inverse, corner, residual, direction)
    assert np.allclose(direction, np.r_[inverse * right[:30], corner @ right[30:]])
    assert squared == pytest.approx(right @ direction)
    arrays = (*flow, y, border, block, inverse, corner, x, residual, direction, gains)
    # the residual after one step is that of the matrix
    assert kernels.conjugate_gradients(*arrays, 0.0, 1) == 1
    assert np.allclose(residual, right - matrix @ x, rtol=1e-12)
    assert gains[-1] == pytest.approx(right @ x)
    # going on after an interruption is the same as not being interrupted
    for _ in range(20):
        if kernels.conjugate_gradients(*arrays, 1e-24, 8) < 8:
            break
    solution = np.linalg.solve(matrix, right)
    assert np.allclose(x, solution, rtol=1e-6, atol=1e-8 * np.abs(solution).max())
    assert gains[-1] == pytest.approx(right @ solution, rel=1e-9)


def test_nothing_left_to_do_is_said(parts):
    flow, _, _, _ = parts
    none, empty, zeros = np.zeros((30, 0)), np.zeros((0, 0)), np.zeros(30)
    arrays = (np.ones(90), none, empty, np.ones(30), empty, zeros.copy(), zeros.copy(), zeros.copy(), np.zeros(9))
    assert kernels.conjugate_gradients(*flow, *arrays, 0.1, 5) == -1


def test_arrays_that_do_not_fit_are_refused():
    ell, states = np.empty(90), np.empty(30)
    refused = [
        lambda: kernels.by_state(ell, states[:0], ell),
        lambda: kernels.by_state(ell, states, ell[1:]),
        lambda: kernels.spread_weights(ell, states[1:], states, ell),
        lambda: kernels.along(ell, ell[1:], 1.0),
        lambda: kernels.precondition(states, np.zeros((2, 2)), states, states),
    ]
    for call in refused:
        with pytest.raises(ValueError, match="needs"):
            call()
    with pytest.raises(TypeError, match="float64"):
        kernels.exponentials(np.zeros(3, np.float32))


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        (0, np.arange(0, 88, 3)),
        (5, np.zeros(89)),
        (6, np.zeros((29, 0))),
        (7, np.zeros((1, 1))),
        (8, np.zeros(29)),
        (9, np.zeros((0, 1))),
        (10, np.zeros(31)),
        (11, np.zeros(29)),
        (12, np.zeros(29)),
        (13, np.zeros(1)),
        (15, -1),
    ],
)
def test_linear_systems_that_do_not_fit_are_refused(parts, place, wrong):
    flow, _, _, _ = parts
    none, empty, zeros = np.zeros((30, 0)), np.zeros((0, 0)), np.zeros(30)
    given = [*flow, np.ones(90), none, empty, zeros, empty, zeros.copy(), zeros.copy(), zeros.copy()]
    given += [np.zeros(9), 0.1, 5]
    given[place] = wrong
    with pytest.raises(ValueError, match="conjugate_gradients needs"):
        kernels.conjugate_gradients(*given)
