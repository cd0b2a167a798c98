"""Confidence bounds against exact enumeration, and the coverage of the whole statement on small random models."""

from itertools import product

import numpy as np
import pytest
from plain_simulators import Hidden
from scipy.special import rel_entr
from scipy.stats import binom, multinomial
from threadpoolctl import threadpool_limits

import cautious as ca
from cautious.certificate.policy_evaluation import evaluate_policy
from cautious.learning.draws import Draws
from cautious.learning.plug_in.plug_in import PlugIn
from cautious.learning.statements.affine_lower_bounds import sure_bound
from cautious.learning.statements.confidence import (
    _curvature,
    divergence_above,
    mean_above,
    mean_below,
    objective_at_least,
)
from cautious.learning.statements.trial import Trial
from cautious.learning.task import make_task

ALL = ("neutral", "KL", "KL states", "Entropy", "Peak", "SafeSet", "TV", "Quadratic", "W1", "Variance", "CVaR", "sum")
# how often each kind is run; the slow ones less
WEIGHTS = {"KL": 0.3, "Entropy": 0.5, "SafeSet": 0.5, "Variance": 0.1, "CVaR": 0.1, "sum": 0.04}


@pytest.mark.parametrize("with_variance", [True, False])
@pytest.mark.parametrize("n", [1, 2, 7, 40, 300])
def test_means_of_coins_are_covered(n, with_variance):
    k = np.arange(n + 1)
    mean = k / n
    variance = mean * (1 - mean) * n / max(n - 1, 1) if with_variance else None
    for delta, p in product((0.3, 0.05, 1e-3), (0.0, 0.001, 0.02, 0.3, 0.5, 0.9, 0.999, 1.0)):
        above = mean_above(
            3 * mean - 1, None if variance is None else 9 * variance, np.full(n + 1, n), -1.0, 2.0, delta
        )
        below = mean_below(
            3 * mean - 1, None if variance is None else 9 * variance, np.full(n + 1, n), -1.0, 2.0, delta
        )
        truth = 3 * p - 1
        chance = binom.pmf(k, n, p)
        assert chance[above < truth].sum() <= delta
        assert chance[below > truth].sum() <= delta


def test_means_of_three_values_are_covered():
    n, values, chances = 12, np.array([0.0, 0.1, 1.0]), np.array([0.5, 0.45, 0.05])
    splits = np.array([(i, j, n - i - j) for i in range(n + 1) for j in range(n + 1 - i)])
    mean = splits @ values / n
    variance = (splits * (values - mean[:, None]) ** 2).sum(axis=1) / (n - 1)
    chance = multinomial.pmf(splits, n, chances)
    for delta in (0.2, 0.02):
        above = mean_above(mean, variance, np.full(len(splits), n), 0.0, 1.0, delta)
        assert chance[above < values @ chances].sum() <= delta
        below = mean_below(mean, variance, np.full(len(splits), n), 0.0, 1.0, delta)
        assert chance[below > values @ chances].sum() <= delta


def test_bernstein_beats_chernoff_when_values_hardly_vary():
    plain = mean_above(np.array(0.5), None, np.array(10_000), 0.0, 1.0, 0.05)
    fine = mean_above(np.array(0.5), np.array(1e-6), np.array(10_000), 0.0, 1.0, 0.05)
    assert fine - 0.5 < 0.2 * (plain - 0.5)


def test_divergence_is_covered_by_enumeration():
    for n in (1, 4, 15, 60):
        k = np.arange(n + 1)
        for x, q in product((0.0, 0.02, 0.3, 0.5), (0.01, 0.25, 0.5, 0.97)):
            truth = rel_entr([x, 1 - x], [q, 1 - q]).sum()
            chance = binom.pmf(k, n, x)
            for delta in (0.5, 0.1, 0.01):
                found = np.array([divergence_above(np.array([i, n - i]), np.array([q, 1 - q]), delta) for i in k])
                assert chance[found < truth].sum() <= delta, (n, x, q, delta)


def test_divergence_of_three_states_is_covered():
    n, rng = 14, np.random.default_rng(0)
    splits = np.array([(i, j, n - i - j) for i in range(n + 1) for j in range(n + 1 - i)])
    for _ in range(20):
        x, q = rng.dirichlet(np.ones(3)), 0.95 * rng.dirichlet(np.ones(3)) + 0.05 / 3
        chance = multinomial.pmf(splits, n, x)
        found = np.array([divergence_above(split, q, 0.1) for split in splits])
        assert chance[found < rel_entr(x, q).sum()].sum() <= 0.1


def test_divergence_falls_with_the_number_of_samples():
    x = np.random.default_rng(1).dirichlet(np.ones(100))
    q = 0.98 * x + 0.02 / 100
    found = [divergence_above(np.round(n * x).astype(np.int64), q, 0.01) for n in (10**3, 10**4, 10**5, 10**6)]
    # second order: far below the 1/sqrt(n) of McDiarmid's inequality
    assert found[0] < 0.3
    assert found[3] < 1e-3


def test_constant_of_the_divergence_bound_grows_with_the_ratio():
    ratios = np.concatenate([np.linspace(1.001, 3, 5000), np.geomspace(3, 1e300, 5000)])
    assert np.all(np.diff([_curvature(ratio) for ratio in ratios]) >= -1e-6)
    assert _curvature(1.0) >= _curvature(1.0011)


def random_mdp(rng):
    n, m = int(rng.integers(3, 7)), int(rng.integers(2, 4))
    transitions = rng.dirichlet(np.ones(n) * rng.choice([0.3, 1.0]), size=(n, m))
    by_outcome = rng.random() < 0.5
    rewards = rng.random((n, m, n) if by_outcome else (n, m))
    return ca.MDP(transitions, rewards, float(rng.choice([0.5, 0.8, 0.9])), rng.dirichlet(np.ones(n)))


def random_risk(rng, mdp, kind):
    n = mdp.n_states
    pairs, states = rng.dirichlet(np.ones(mdp.rewards.size)).reshape(mdp.shape), rng.dirichlet(np.ones(n))
    sets = [rng.choice(n, size=2, replace=False) for _ in range(2)]
    points = rng.random((n, 2))
    makers = {
        "neutral": lambda: None,
        "KL": lambda: ca.KL(pairs),
        "KL states": lambda: ca.KL(states),
        "Entropy": ca.Entropy,
        "Peak": lambda: ca.PeakExposure(sets),
        "SafeSet": lambda: ca.SafeSet(np.arange(n - 1), slack=0.9),
        "TV": lambda: ca.TotalVariation(pairs),
        "Quadratic": lambda: ca.Quadratic(states),
        "W1": lambda: ca.Wasserstein(states, np.linalg.norm(points[:, None] - points[None], axis=2)),
        "Variance": ca.Variance,
        "CVaR": lambda: ca.CVaR(0.7),
        "sum": lambda: ca.Variance() + 0.5 * ca.KL(pairs) + ca.PeakExposure(sets),
    }
    return makers[kind]()


def statement(seed, kind):
    """(x holds, y holds, x is finite, the sure bound was beaten) in one run on a random model."""
    rng = np.random.default_rng([seed, ALL.index(kind)])
    mdp = random_mdp(rng)
    risk, caution = random_risk(rng, mdp, kind), float(rng.choice([0.3, 2.0]))
    problem = ca.Problem(mdp, risk, caution)
    samples = int(rng.choice([300, 1000, 6000]))
    hidden = kind not in ("Variance", "CVaR", "sum") and rng.random() < 0.5
    simulator = Hidden(mdp, 0.2) if hidden else mdp.simulator()
    task = make_task(simulator, risk, caution, samples, seed)
    draws = Draws(simulator, samples, seed)
    run = PlugIn().begin(task, draws, samples - samples // 4)
    while not run.done:
        run.advance()
    result = run.result()
    trial = Trial(task, draws, result.policy, samples // 4)
    while not trial.done:
        trial.advance()
    x = objective_at_least(task, result, trial)
    truth = evaluate_policy(problem, result.policy).objective
    best = ca.solve(problem).objective
    y = result.optimum_below - x
    return x <= truth + 1e-9, best - truth <= y + 1e-9, np.isfinite(x), result.optimum_below < sure_bound(task)


def covered(runs):
    kinds = [kind for kind in ALL for _ in range(round(runs * WEIGHTS.get(kind, 1.0)))]
    with threadpool_limits(limits=1):
        found = np.array([statement(seed, kind) for seed, kind in enumerate(kinds)])
    both = found[:, 0] & found[:, 1]
    assert both.mean() >= 0.95, both.mean()
    # lower bounds that never say anything would be covered too
    assert found[:, 2].mean() >= 0.8
    assert found[:, 3].mean() >= 0.1
    return len(kinds)


def test_statement_is_covered_in_200_runs():
    assert covered(28) >= 200


@pytest.mark.slow
def test_statement_is_covered_in_2000_runs():
    assert covered(270) >= 2000


def test_nothing_is_claimed_without_a_bound():
    class Spread(ca.Risk):
        def value(self, d):
            return 0.5 * float(np.sum(d**2))

        def gradient(self, d):
            return d

    mdp = random_mdp(np.random.default_rng(0))
    forbidding = np.ones(mdp.shape)
    forbidding[0, 0] = 0
    policy = np.full(mdp.shape, 1 / mdp.n_actions)
    for risk in (Spread(), ca.KL(forbidding / forbidding.sum()), ca.TotalVariation(policy)):
        task = make_task(mdp.simulator(), risk, 1.0, 5000, 0)
        draws = Draws(mdp.simulator(), 5000, 0)
        run = PlugIn().begin(task, draws, 1000)
        while not run.done:
            run.advance()
        result = run.result()
        trial = Trial(task, draws, policy, 2000)
        while not trial.done:
            trial.advance()
        assert objective_at_least(task, result, trial) == -np.inf
        assert result.optimum_below >= ca.solve(ca.Problem(mdp, risk, 1.0)).objective
    assert task.known_terms == ((1.0, None),)


@pytest.mark.parametrize("chance", [1e-2, 2e-3, 3e-4])
def test_rare_disasters_are_covered(chance):
    """Most runs never see what happens once in a while: the statement must leave room for it."""
    transitions = np.array([[[1 - chance, chance]], [[0.0, 1.0]]])
    mdp = ca.MDP(transitions, np.array([[1.0], [0.0]]), 0.9, np.array([1.0, 0.0]))
    true = 1 / (1 - 0.9 * (1 - chance))
    claimed, stress = [], []
    for seed in range(200):
        facts = ca.learn(mdp.simulator(), samples=1000, seed=seed).certificate.facts
        claimed.append(facts["objective_at_least"])
        stress.append(facts["stress"])
    # 2.5 % and 5 % on average; three standard deviations more
    assert np.mean(np.array(claimed) > true) <= 0.025 + 3 * np.sqrt(0.025 / 200)
    assert np.mean(np.array(stress) > true) <= 0.05 + 3 * np.sqrt(0.05 / 200)
    assert np.median(claimed) > 0.4 * true
