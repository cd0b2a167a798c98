"""Sums of errors along paths: unbiased whatever is guessed, never below their floor, and covered."""

import numpy as np
import pytest

import cautious as ca
from cautious.learning.draws import Draws
from cautious.learning.scalar_risk_rewards import Payoff
from cautious.learning.statements.path_sums import PathSum
from cautious.learning.statements.trial import Trial
from cautious.learning.task import make_task
from cautious.occupancy import policy_values


def tried(mdp, one, samples, seed, policy):
    task = make_task(mdp.simulator(), None, 0.0, max(samples, 1000), seed)
    trial = Trial(task, Draws(mdp.simulator(), samples, seed), policy, samples, (one,))
    while not trial.done:
        trial.advance()
    return trial.sums[0], trial.closed[0]


def world(seed):
    rng = np.random.default_rng(seed)
    mdp = ca.MDP(rng.dirichlet(np.ones(5) * 0.5, size=(5, 2)), rng.random((5, 2)), 0.8)
    policy = rng.dirichlet(np.ones(2), size=5)
    return mdp, policy, policy_values(mdp, policy, mdp.rewards), rng


def guessed(mdp, guess, below, spread):
    payoff = Payoff((), (), mdp.discount)
    return PathSum(payoff, np.zeros(mdp.shape), mdp.discount, 0.0, guess, below, spread)


@pytest.mark.parametrize("seed", range(3))
def test_sums_are_unbiased_and_closing_only_lowers_them(seed):
    mdp, policy, values, rng = world(seed)
    guess = values + 0.3 * rng.normal(size=5)
    target = float(mdp.start @ (values - guess))
    sums, closed = tried(mdp, guessed(mdp, guess, np.zeros(5), 100.0), 400_000, seed, policy)
    assert not closed.any()
    assert abs(sums.mean() - target) <= 5 * sums.std() / np.sqrt(sums.size)
    narrow = guessed(mdp, guess, np.zeros(5), 0.1)
    sums, closed = tried(mdp, narrow, 400_000, seed, policy)
    assert closed.any()
    assert sums.min() >= narrow.floor
    assert sums.mean() < target


def test_the_right_guess_varies_far_less_than_none():
    mdp, policy, values, _ = world(0)
    right, _ = tried(mdp, guessed(mdp, values, np.zeros(5), 100.0), 100_000, 0, policy)
    none, _ = tried(mdp, guessed(mdp, np.zeros(5), np.zeros(5), 100.0), 100_000, 0, policy)
    assert right.var() < 0.2 * none.var()


@pytest.mark.parametrize("error", [0.0, 0.5])
def test_bounds_are_covered(error):
    mdp, policy, values, rng = world(1)
    guess, delta, failures, runs = values + error * rng.normal(size=5), 0.1, 0, 300
    one = guessed(mdp, guess, np.maximum(values - 0.2, 0.0), 0.5)
    target, found = float(mdp.start @ (values - guess)), []
    for seed in range(runs):
        sums, _ = tried(mdp, one, 2000, seed, policy)
        found.append(one.mean_below(sums, delta))
        failures += found[-1] > target
    assert failures <= delta * runs
    # bounds that say nothing would be covered too
    assert np.median(target - np.array(found)) < 0.35
