"""Payoffs against the definitions of the risks."""

import numpy as np
import pytest

import cautious as ca
from cautious.learning.scalar_risk_rewards import Payoff, RewardLaw


@pytest.mark.parametrize("seed", range(20))
def test_the_range_is_that_of_a_fine_grid(seed):
    rng = np.random.default_rng(seed)
    low, high = np.sort(rng.normal(size=2) * 3)
    terms = tuple(
        (float(rng.exponential() * 5), ca.Variance() if rng.random() < 0.5 else ca.CVaR(float(rng.random())))
        for _ in range(rng.integers(1, 4))
    )
    payoff = Payoff(terms, tuple(float(t) for t in rng.uniform(-high, -low, size=len(terms))), discount=0.9)
    grid = payoff(np.linspace(low, high, 200_001))
    smallest, largest = payoff.range(low, high)
    assert smallest == pytest.approx(grid.min(), abs=1e-9)
    assert largest >= grid.max() - 1e-12
    assert largest == pytest.approx(grid.max(), abs=1e-6)


@pytest.mark.parametrize("risk", [ca.Variance(), ca.CVaR(0.0), ca.CVaR(0.7)])
def test_payoffs_add_up_to_the_objective(risk):
    """On a one-state model the occupancy is the law of the reward: compare with the exact risk."""
    rng = np.random.default_rng(3)
    rewards, chances = rng.normal(size=4), rng.dirichlet(np.ones(4))
    start = np.eye(5)[4]
    transitions = np.zeros((5, 1, 5))
    transitions[4, 0, :4] = chances
    transitions[:4, 0] = np.eye(5)[:4]
    paid = np.zeros((5, 1, 5))
    paid[4, 0, :4] = rewards
    mdp = ca.MDP(transitions, paid, discount=0.0, start=start)
    problem = ca.Problem(mdp, risk, caution=3.0)
    d = np.zeros((5, 1))
    d[4] = 1
    t = problem.risk.best(d)
    payoff = Payoff(((3.0, risk),), (t,), discount=0.0)
    assert chances @ payoff(rewards) - payoff.offset == pytest.approx(problem.objective(d), abs=1e-12)


def law(rewards, reward_range):
    found = RewardLaw(reward_range)
    for part in np.array_split(rewards, 3):
        found.add(part)
    return found


def test_scalar_risks_of_few_values_are_exact():
    rewards = np.array([3.0, -1.0, 0.0, 2.0])
    found = law(rewards, (-1.0, 3.0))
    assert found.scalar_risk(ca.Variance()) == pytest.approx(rewards.var())
    assert found.scalar_risk(ca.CVaR(0.5)) == pytest.approx(0.5)
    assert found.scalar_risk(ca.CVaR(0.75)) == pytest.approx(1.0)
    assert found.best_scalar(ca.CVaR(0.0)) == -3.0
    assert law(np.full(5, 2.0), (2.0, 2.0)).scalar_risk(ca.CVaR(0.3)) == pytest.approx(-2.0)


@pytest.mark.parametrize("level", [0.0, 0.5, 0.9])
def test_scalar_risks_of_many_values_are_right_to_a_bin(level):
    rewards = np.random.default_rng(0).normal(size=20_000).clip(-4, 4)
    found = law(rewards, (-4.0, 4.0))
    worst = np.sort(-rewards)[int(level * rewards.size) :]
    assert found.scalar_risk(ca.CVaR(level)) == pytest.approx(worst.mean(), abs=8 / 4096)
    assert found.scalar_risk(ca.Variance()) == pytest.approx(rewards.var(), abs=1e-5)
