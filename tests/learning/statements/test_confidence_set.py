"""The set holds the true model as often as it says, and its worst model is the worst."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import rel_entr
from scipy.stats import binom

import cautious as ca
from cautious.learning.statements.confidence_set import ConfidenceSet, Transitions, means_below
from cautious.occupancy import policy_values


def counted(counts, discount=0.9, start=None, real=None):
    """A set of counts (S, A, S)."""
    n_states, n_actions, _ = counts.shape
    states, actions, targets = np.nonzero(counts)
    return Transitions(
        shape=(n_states, n_actions),
        discount=discount,
        start=np.full(n_states, 1 / n_states) if start is None else start,
        pairs=states * n_actions + actions,
        targets=targets,
        count=counts[states, actions, targets].astype(np.float64),
        known=np.zeros(n_states, dtype=bool),
        real=np.ones(n_states, dtype=bool) if real is None else real,
    )


def drawn(rng, transitions, n):
    return np.array([[rng.multinomial(n, row) for row in rows] for rows in transitions])


def test_the_true_laws_are_within_the_radius_at_all_times():
    """Counts are looked at after every draw, and the worst moment counts."""
    rng, failures = np.random.default_rng(0), 0
    for _ in range(400):
        truth = rng.dirichlet(np.ones(3))
        counts = np.zeros((3, 1, 3))
        outside = False
        for target in rng.choice(3, size=60, p=truth):
            counts[0, 0, target] += 1
            one = ConfidenceSet(counted(counts), delta=0.3)
            q = counts[0, 0] / counts[0, 0].sum()
            outside |= bool(rel_entr(q, truth).sum() > one.radius[0])
        failures += outside
    # the union over three pairs leaves a tenth for the one that was tried
    assert failures <= 0.1 * 400 + 3 * np.sqrt(400 * 0.09)


def test_a_sparse_law_has_a_smaller_radius_than_a_dense_one():
    dense, sparse = np.zeros((40, 1, 40)), np.zeros((40, 1, 40))
    dense[0, 0] = 5
    sparse[0, 0, :2] = 100
    assert ConfidenceSet(counted(sparse), 0.05).radius[0] < 0.5 * ConfidenceSet(counted(dense), 0.05).radius[0]


@pytest.mark.parametrize("seed", range(6))
def test_the_worst_law_is_that_of_a_general_solver(seed):
    rng = np.random.default_rng(seed)
    counts = np.zeros((5, 1, 5))
    counts[0, 0, : 2 + seed % 4] = rng.integers(1, 30, size=2 + seed % 4)
    one, v = ConfidenceSet(counted(counts), 0.05), rng.normal(size=5)
    q = counts[0, 0] / counts[0, 0].sum()
    allowance = one.radius[0]

    def spare(p):
        return allowance - float(rel_entr(q, np.maximum(p, 1e-15)).sum())

    limits = [{"type": "eq", "fun": lambda p: p.sum() - 1}, {"type": "ineq", "fun": spare}]
    starts = rng.dirichlet(np.ones(5) * 5, size=8)
    tries = [minimize(lambda p: p @ v, start, bounds=[(1e-12, 1)] * 5, constraints=limits).x for start in starts]
    found = min(float(p @ v) for p in tries if abs(p.sum() - 1) < 1e-7 and spare(p) > -1e-7)
    worst = one.worst_next(v)[0]
    assert worst <= found + 1e-6
    assert worst == pytest.approx(found, abs=2e-3)
    row = one.worst_matrix(v).toarray()[0]
    assert row.sum() == pytest.approx(1.0, abs=1e-12)
    assert row @ v == pytest.approx(worst, abs=1e-9)


def test_untried_pairs_lead_to_the_worst_state():
    counts = np.zeros((3, 2, 3))
    counts[:, 0] = np.eye(3) * 50
    one = ConfidenceSet(counted(counts), 0.05)
    v = np.array([1.0, 2.0, 3.0])
    assert one.worst_next(v).reshape(3, 2)[:, 1].tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("seed", range(4))
def test_bounds_hold_in_every_model_of_the_set(seed):
    """Whatever v was chosen: its excess makes it a lower bound, in the true model and in others of the set."""
    rng = np.random.default_rng(seed)
    truth, paid = rng.dirichlet(np.ones(4), size=(4, 2)), rng.random(8)
    one = ConfidenceSet(counted(drawn(rng, truth, 200)), 0.001)
    policy = rng.dirichlet(np.ones(2), size=4)
    mdp = ca.MDP(truth, np.zeros((4, 2)), 0.9)
    true = policy_values(mdp, policy, paid.reshape(4, 2))
    for v in (one.evaluate(policy, paid), rng.random(4), np.zeros(4)):
        assert np.all(v + one.excess(policy, paid, v) <= true)
    worst = one.evaluate(policy, paid)
    assert one.excess(policy, paid, worst) > -1e-6
    # the best robust policy is at least as good in its worst model as any deterministic one
    best = one.counted.start @ one.plan(paid, np.ones((4, 2), dtype=bool))
    for choice in np.ndindex(2, 2, 2, 2):
        assert one.counted.start @ one.evaluate(np.eye(2)[list(choice)], paid) <= best + 1e-7


@pytest.mark.parametrize("p", [0.0, 0.02, 0.3, 0.9, 1.0])
def test_mean_payments_are_covered(p):
    n, delta = 40, 0.1
    k = np.arange(n + 1)
    pairs, values = np.tile(k, 2), np.repeat([1.0, -1.0], n + 1)
    count = np.concatenate([k, n - k]).astype(np.float64)
    below = means_below(n + 1, pairs, values, count, (-1.0, 1.0), delta * (n + 1))
    assert binom.pmf(k, n, p)[below > 2 * p - 1].sum() <= delta
    # pairs that pay the same every time are known far better than by their range
    assert below[n] > 1 - 2 * 2 * np.log(n / delta) / n


def test_constant_payments_are_known_to_order_one_over_n():
    n = np.array([10.0, 100.0, 1000.0])
    below = means_below(3, np.arange(3), np.full(3, 0.6), n, (0.0, 1.0), 0.05)
    assert np.all(below < 0.6)
    assert np.all(0.6 - below < 10 / n)
