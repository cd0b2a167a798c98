"""The trial's paths follow the true occupancy, cost what was promised, and resume bit for bit."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy.stats import nbinom

import cautious as ca
from cautious.learning.draws import Draws
from cautious.learning.statements.trial import OVERSHOOT_PROBABILITY, Trial, affordable_paths
from cautious.learning.task import make_task
from cautious.occupancy import policy_occupancy, uniform_policy


def random_mdp(seed, n_states=6, n_actions=3, discount=0.8):
    rng = np.random.default_rng(seed)
    transitions = rng.dirichlet(np.ones(n_states) * 0.5, size=(n_states, n_actions))
    return ca.MDP(transitions, rng.normal(size=(n_states, n_actions)), discount, rng.dirichlet(np.ones(n_states)))


def tried(mdp, policy, samples, seed):
    task = make_task(mdp.simulator(), None, 0.0, max(samples, 1000), seed)
    draws = Draws(mdp.simulator(), samples, seed)
    trial = Trial(task, draws, policy, samples)
    while not trial.done:
        trial.advance()
    return trial, draws


@pytest.mark.parametrize("seed", range(4))
def test_ends_follow_the_exact_occupancy(seed):
    mdp = random_mdp(seed)
    rng = np.random.default_rng(seed)
    policy = rng.dirichlet(np.ones(3), size=6)
    trial, draws = tried(mdp, policy, 200_000, seed)
    d = policy_occupancy(mdp, policy).occupancy
    n = trial.paths
    # |empirical - truth|_1 exceeds this with probability at most 1e-6 (Weissman et al. 2003)
    limit = np.sqrt(2 * (d.size * np.log(2) + np.log(1e6)) / n)
    ends = np.bincount(trial.end_states, minlength=6)
    assert np.abs(ends / n - d.sum(axis=1)).sum() <= limit
    assert draws.used == trial.visits.sum() <= 200_000
    # lengths are geometric, so all visits together are n times a return's worth of steps
    assert abs(trial.visits.sum() / n - 1 / (1 - mdp.discount)) <= 6 * np.sqrt(mdp.discount / n) / (1 - mdp.discount)
    assert np.abs(trial.visits / trial.visits.sum() - d).sum() <= 5 * limit
    expected = float(np.sum(d * mdp.rewards))
    spread = np.ptp(mdp.rewards)
    assert abs(trial.end_rewards.mean() - expected) <= spread * np.sqrt(np.log(2e6) / (2 * n))
    # the sum of rewards of a path is at most its length times the largest reward
    total = trial.total_reward / n
    assert abs(total - expected / (1 - mdp.discount)) <= 6 * np.abs(mdp.rewards).max() * np.sqrt(2 / n) / (1 - 0.8)


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.9, 0.999])
def test_number_of_paths_is_the_largest_that_fits(discount):
    for samples in (0, 1, 10, 1000, 54321):
        n = affordable_paths(samples, discount)
        assert n == 0 or nbinom.sf(samples - n, n, 1 - discount) <= OVERSHOOT_PROBABILITY
        assert n == samples or nbinom.sf(samples - n - 1, n + 1, 1 - discount) > OVERSHOOT_PROBABILITY


def test_no_samples_no_paths():
    trial, draws = tried(random_mdp(0), uniform_policy(np.ones((6, 3), dtype=bool)), 2, 0)
    assert trial.paths == 0
    assert trial.done
    assert draws.used == 0


@pytest.mark.parametrize("stop", [0, 1, 2, 9])
def test_resume_is_bit_identical(stop):
    mdp = random_mdp(5)
    policy = uniform_policy(mdp.allowed)
    whole, _ = tried(mdp, policy, 5000, 3)
    task = make_task(mdp.simulator(), None, 0.0, 5000, 3)
    draws = Draws(mdp.simulator(), 5000, 3)
    trial = Trial(task, draws, policy, 5000)
    for _ in range(stop):
        trial.advance()
    again_draws = Draws(mdp.simulator(), 5000, 3)
    again_draws.used, again_draws.calls = draws.used, draws.calls
    again = Trial(task, again_draws, policy, 5000)
    again.restore(*trial.storage())
    while not again.done:
        again.advance()
    assert again.total_reward == whole.total_reward
    for name in ("visits", "lengths", "end_states", "end_rewards"):
        assert np.array_equal(getattr(again, name), getattr(whole, name))


class Steps:
    """The simulator of a model without its tables, with calls of three draws; it notes the sizes of its calls."""

    draws_per_seed = 3

    def __init__(self, mdp):
        self.inner, self.sizes = mdp.simulator(), []
        self.n_states, self.n_actions, self.discount = mdp.n_states, mdp.n_actions, mdp.discount
        self.reward_range = self.inner.reward_range

    def start_states(self, n, rng):
        return self.inner.start_states(n, rng)

    def sample(self, states, actions, rng):
        self.sizes.append(len(states))
        return self.inner.sample(states, actions, rng)


ESTIMATES = ("visits", "lengths", "end_states", "end_rewards", "starts", "first_call", "total_reward")


def walked(executor, stop=None, task_seconds=None, monkeypatch=None):
    """A trial by calls; with ``stop`` it is stored after so many advances and continued by another one."""
    mdp = random_mdp(1)
    if task_seconds is not None:
        monkeypatch.setattr("cautious.learning.draws.TASK_SECONDS", task_seconds)
    simulator, policy = Steps(mdp), uniform_policy(mdp.allowed)
    task = make_task(simulator, None, 0.0, 1000, 7)
    draws = Draws(simulator, 1000, 7, executor=executor)
    trial = Trial(task, draws, policy, 600)
    for _ in range(stop or 0):
        trial.advance()
    if stop is not None:
        again = Draws(simulator, 1000, 7, executor=executor)
        again.used, again.calls = draws.used, draws.calls
        header, arrays = trial.storage()
        trial = Trial(task, again, policy, 600)
        trial.restore(header, arrays)
        draws = again
    while not trial.done:
        trial.advance()
    assert draws.used == trial.visits.sum() == (trial.lengths + 1).sum()
    return trial, draws, simulator


def test_paths_do_not_depend_on_workers_or_on_the_length_of_tasks(monkeypatch):
    whole, draws, simulator = walked(None)
    # every step of a block is a call of its own: as many as the longest path of the block has steps
    assert draws.calls == whole.first_call + (whole.lengths[::3] + 1).sum() == whole.first_call + len(simulator.sizes)
    assert max(simulator.sizes) == 3
    for workers in (1, 4):
        with ThreadPoolExecutor(workers) as pool:
            for task_seconds in (1e-6, 0.5):
                trial, other, _ = walked(pool, task_seconds=task_seconds, monkeypatch=monkeypatch)
                assert other.calls == draws.calls
                for name in ESTIMATES:
                    np.testing.assert_array_equal(getattr(trial, name), getattr(whole, name))
                np.testing.assert_array_equal(trial.rewards.bins, whole.rewards.bins)


@pytest.mark.parametrize("stop", [0, 1, 2, 5, 30, 100])
def test_paths_under_way_are_kept(stop, monkeypatch):
    whole, _, _ = walked(None)
    with ThreadPoolExecutor(3) as pool:
        trial, _, _ = walked(pool, stop, 1e-6, monkeypatch)
    for name in ESTIMATES:
        np.testing.assert_array_equal(getattr(trial, name), getattr(whole, name))
    np.testing.assert_array_equal(trial.rewards.bins, whole.rewards.bins)
