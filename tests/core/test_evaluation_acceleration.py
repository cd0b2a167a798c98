"""Corrections after passes over a policy's chain: their products and weights, and the rounds they save."""

import numpy as np
import pytest
import scipy.sparse as sp

import cautious as ca
from cautious._core import evaluation_acceleration as kernels
from cautious.models.chains import DeterministicChains
from cautious.models.encodings import read_only_view
from cautious.models.evaluation_acceleration import EvaluationAcceleration
from cautious.planning import plan
from cautious.runtime import threads


def one_policy(chain, gain, discount):
    """A model with one action, and its accelerated evaluation as a function of the starting values."""
    n = gain.size
    mdp = ca.MDP(sp.csr_array(chain), gain[:, None], discount)
    rows, paid = DeterministicChains(mdp, read_only_view(mdp.rewards).ravel()).chain(np.zeros(n, np.int64))
    acceleration = EvaluationAcceleration(mdp)
    return acceleration, lambda x, passes: acceleration.evaluate(rows, paid, x, passes, np.zeros(n, np.int64)).copy()


def off(found, exact):
    """How far values are from others but for a constant."""
    return float(np.ptp(found - exact))


def exact_values(chain, gain, discount):
    return np.linalg.solve(np.eye(gain.size) - discount * chain, gain)


@pytest.mark.parametrize("n", [5, 300, 5000])
def test_the_weights_leave_the_residual_of_least_variance(n):
    rng = np.random.default_rng(n)
    y, r = rng.normal(size=(5, n)), rng.normal(size=n)
    y[3] += 0.7 * r + 4.0
    count = threads.pieces(n)
    products = np.empty((count, 6, 7))
    kernels.correction_products(y, r, products, 0, count)
    found = kernels.best_weights(products, 5, n)
    centred = y - y.mean(axis=1, keepdims=True)
    if n > 5:
        np.testing.assert_allclose(found, np.linalg.lstsq(centred.T, r - r.mean())[0], rtol=1e-6, atol=1e-8)
    assert np.std(r - found @ y) < 1e-4 or n > 5


def test_a_correction_that_adds_nothing_does_not_spoil_the_others():
    rng = np.random.default_rng(0)
    r, first = rng.normal(size=(2, 50))
    y = np.stack([first, first, np.zeros(50), np.ones(50), np.full(50, np.inf)])
    products = np.empty((1, 6, 7))
    with np.errstate(all="ignore"):
        kernels.correction_products(y, r, products, 0, 1)
        found = kernels.best_weights(products, 5, 50)
    assert np.isfinite(found).all()
    assert np.all(found[2:] == 0)
    centred = first - first.mean()
    assert found[:2].sum() == pytest.approx(centred @ r / (centred @ centred), rel=1e-6)


@pytest.mark.parametrize("discount", [0.5, 0.95, 0.999])
def test_one_call_suffices_where_regions_do_not_meet(discount):
    """Two regions of two states, each with its own pay: one combination of steps gives their values."""
    chain, gain = np.kron(np.eye(2), np.full((2, 2), 0.5)), np.array([1.0, 1.0, -3.0, -3.0])
    _, nearer = one_policy(chain, gain, discount)
    exact = gain / (1 - discount)
    assert off(nearer(np.zeros(4), 4), exact) < 1e-6 * np.ptp(exact)


def test_alternating_steps_are_averaged():
    """Two states that are left for each other; pay that only sways gives values that sway."""
    chain, gain = np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([1.0, 0.0])
    _, nearer = one_policy(chain, gain, 0.95)
    exact = exact_values(chain, gain, 0.95)
    assert off(nearer(np.zeros(2), 4), exact) < 1e-6 * np.ptp(exact)


def corridor(n, slip):
    """Steps to the right, or now and then to the left; the last state stays."""
    chain = (1 - slip) * np.eye(n, k=1) + slip * np.eye(n, k=-1)
    chain[0, 0] += slip
    chain[-1] = np.eye(n)[-1]
    return chain


def test_likely_paths_propagate_values_all_the_way():
    """Ten passes alone would change the values of ten states of four hundred."""
    n, discount = 400, 0.999
    chain, gain = corridor(n, 0.1), np.eye(n)[-1]
    ahead, nearer = one_policy(chain, gain, discount)
    exact, x = exact_values(chain, gain, discount), np.zeros(n)
    assert ahead.has_paths
    assert off(nearer(x, 10), exact) < 0.3 * off(x, exact)
    for _ in range(6):
        x = nearer(x, 10)
    assert off(x, exact) < 1e-3 * np.ptp(exact)


def test_paths_are_left_out_where_no_outcome_is_likely_or_passes_converge_fast():
    rng = np.random.default_rng(0)
    assert not one_policy(rng.dirichlet(np.ones(5), size=5), np.ones(5), 0.9)[0].has_paths
    step = rng.normal(size=60)
    for share in (0.5, 0.99):
        products = np.empty((1, 3, 4))
        kernels.step_products(*(step * np.cumsum(share ** np.arange(4))[:, None]), products, 0, 1)
        assert kernels.passes_suffice(products, 60) == (share == 0.5)


@pytest.mark.parametrize("n", [1, 60, 2 * threads.PIECE + 5])
def test_steps_are_combined_the_same_with_and_without_tables(n):
    rng = np.random.default_rng(n)
    iterates, count = rng.normal(size=(4, n)), threads.pieces(n)
    quick, gain, y = iterates.copy(), np.empty((2, n)), np.empty((2, n))
    products, by_tables = np.empty((2, count, 3, 4))
    kernels.step_products(*quick, products, 0, count)
    kernels.tabulate_steps(*iterates, products, gain, y, 0, count)
    np.testing.assert_allclose(iterates[1], np.diff(quick, axis=0)[2] - np.diff(quick, axis=0)[2].mean(), atol=1e-12)
    kernels.correction_products(y, iterates[1], by_tables, 0, count)
    weights = kernels.best_weights(products, 2, n)
    np.testing.assert_allclose(weights, kernels.best_weights(by_tables, 2, n), rtol=1e-9, atol=1e-12)
    kernels.add_steps(quick[1], quick[2], quick[3], weights, 0, count)
    kernels.add_corrections(iterates[3], gain, weights, 0, count)
    np.testing.assert_allclose(quick[3], iterates[3], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("has_paths", [True, False])
def test_any_number_of_threads_gives_the_same_bytes(has_paths, monkeypatch):
    n, rng = 3 * threads.PIECE + 77, np.random.default_rng(1)
    if has_paths:
        columns = np.stack([np.minimum(np.arange(n) + 1, n - 1), rng.integers(0, n, n)], axis=1)
        data = np.tile([0.9, 0.1], n)
    else:
        columns, data = rng.integers(0, n, (n, 2)), np.full(2 * n, 0.5)
    chain = sp.csr_array((data, columns.ravel(), np.arange(0, 2 * n + 1, 2)), shape=(n, n))
    chain.sum_duplicates()
    ahead, nearer = one_policy(chain, rng.random(n), 0.99)
    assert ahead.has_paths == has_paths
    one = nearer(np.zeros(n), 9)
    monkeypatch.setattr(threads, "ENTRIES_WORTH_A_THREAD", 1)
    for count in (2, 3):
        with threads.use_threads(count):
            assert nearer(np.zeros(n), 9).tobytes() == one.tobytes()


def test_numbers_too_large_to_be_squared_do_no_harm():
    chain, gain = corridor(50, 0.1), 1e200 * np.eye(50)[-1]
    _, nearer = one_policy(chain, gain, 0.9)
    assert np.isfinite(nearer(np.zeros(50), 5)).all()


def test_a_slippery_grid_takes_few_rounds_at_a_discount_near_one():
    """The error of the simpler world grows along the way to the prize; paths take it out in a few rounds."""
    side, discount = 40, 0.999
    cells = np.arange(side * side)
    row, column = np.divmod(cells, side)
    compass, steps = ((-1, 0), (0, 1), (1, 0), (0, -1)), []
    for action in range(4):
        chances = np.zeros((cells.size, cells.size))
        for turn, chance in ((0, 0.8), (1, 0.1), (3, 0.1)):
            down, right = compass[(action + turn) % 4]
            to = np.clip(row + down, 0, side - 1) * side + np.clip(column + right, 0, side - 1)
            np.add.at(chances, (cells, to), chance)
        steps.append(sp.csr_array(chances))
    pay = 0.3 * np.random.default_rng(0).random(cells.size)
    pay[-1] = 1.0
    rewards = np.repeat(pay[:, None], 4, axis=1)
    found = plan(ca.MDP(steps, rewards, discount), rewards, tolerance=1e-6)
    assert found.upper - found.lower <= 1e-6
    assert found.sweeps < 40


@pytest.mark.parametrize("follows", [False, True])
def test_corrections_against_least_squares(follows):
    """Likely paths are exact here: every row has one entry."""
    n, discount, gain = 300, 0.99, np.random.default_rng(0).normal(size=300)
    chain, iterates = np.roll(np.eye(n), 1, axis=1), [np.zeros(n)]
    acceleration, nearer = one_policy(chain, gain, discount)
    acceleration.follows = follows
    found = nearer(np.zeros(n), 6)
    exact = exact_values(chain, gain, discount)
    if follows:
        assert off(found, exact) < 1e-6 * np.ptp(exact)
        return
    for _ in range(6):
        iterates.append(gain + discount * chain @ iterates[-1])
    steps = np.diff(iterates[-4:], axis=0)
    y = steps[:2] - steps[1:]
    centred = y - y.mean(axis=1, keepdims=True)
    weights = np.linalg.lstsq(centred.T, steps[2] - steps[2].mean())[0]
    np.testing.assert_allclose(found, iterates[-1] + weights @ steps[1:], rtol=1e-6, atol=1e-8)


def test_wrong_arguments_of_the_parts_are_refused():
    v, products, table = np.ones(9), np.empty((1, 3, 4)), np.ones((2, 9))
    rows = np.arange(10, dtype=np.int32), np.arange(9, dtype=np.int32), np.ones(9)
    calls = {
        "step_products": [v, v, v, np.ones(8), products, 0, 1],
        "passes_suffice": [products, 0],
        "add_steps": [v, v, v.copy(), np.ones(3), 0, 1],
        "tabulate_steps": [v, v.copy(), v, v, products, table[:1], table, 0, 1],
        "apply_correction": [*rows, 0.9, v, v.copy(), np.ones(8), 0, 1],
        "correction_products": [np.ones((9, 9)), v, np.empty(110), 0, 1],
        "best_weights": [products, 2**62, 9],
        "add_corrections": [v.copy(), table, np.ones(3), 0, 1],
    }
    for name, arguments in calls.items():
        with pytest.raises(ValueError, match=f"{name} needs"):
            getattr(kernels, name)(*arguments)
    for first, last in ((-1, 1), (0, 2), (1, 0)):
        with pytest.raises(ValueError, match="step_products needs"):
            kernels.step_products(v, v, v, v, products, first, last)
    with pytest.raises(ValueError, match="best_weights needs"):
        kernels.best_weights(products, 5, 9)
