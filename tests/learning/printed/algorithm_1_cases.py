"""Small models, one risk of every kind, and runs of Algorithm 1 on them."""

import numpy as np

import cautious as ca
from cautious.learning.draws import Draws
from cautious.learning.printed.algorithm_1 import AlgorithmOne
from cautious.learning.task import make_task

N, A = 6, 3


def model(by_outcome=False, masked=False, discount=0.8, n=N):
    rng = np.random.default_rng(5)
    transitions = rng.dirichlet(np.full(n, 0.5), size=(n, A))
    rewards = rng.normal(size=(n, A, n) if by_outcome else (n, A)) * 3 - 1
    allowed = np.ones((n, A), dtype=bool)
    if masked:
        allowed[0, 1] = allowed[3, 2] = allowed[n - 1, 0] = False
    return ca.MDP(transitions, rewards, discount, rng.dirichlet(np.ones(n)), allowed=allowed)


def priors(mdp):
    rng = np.random.default_rng(1)
    pairs = np.where(mdp.allowed, rng.random(mdp.shape) + 0.1, 0.0)
    return pairs / pairs.sum(), rng.dirichlet(np.ones(mdp.n_states))


def risks(mdp):
    pairs, states = priors(mdp)
    tasks = np.random.default_rng(2).normal(size=(3, *mdp.shape))
    return {
        "none": None,
        "KL": ca.KL(pairs),
        "KL states": ca.KL(states),
        "Entropy": ca.Entropy(),
        "TotalVariation": ca.TotalVariation(pairs),
        "TotalVariation states": ca.TotalVariation(states),
        "Quadratic": ca.Quadratic(pairs),
        "Quadratic states": ca.Quadratic(states),
        "PeakExposure": ca.PeakExposure([[0, 1], [2, 3, 4]]),
        "WorstTask": ca.WorstTask(tasks),
        "SafeSet": ca.SafeSet([0, 1, 2], slack=0.6),
        "TaskFloors": ca.TaskFloors(tasks, [-3.0, -2.0, 1.0]),
        "sum": ca.KL(pairs) + 2.0 * ca.SafeSet([1, 2], slack=0.7) + 0.5 * ca.TotalVariation(states),
    }


def begun(simulator, risk, caution=0.5, samples=10_000, method=None, seed=3):
    task = make_task(simulator, risk, caution, samples, seed)
    method = AlgorithmOne() if method is None else method
    assert method.refusal(task) is None
    return method.begin(task, Draws(simulator, samples, seed), samples)


def finish(run):
    while not run.done:
        run.advance()
    return run


class Box:
    """A simulator that is not a table."""

    def __init__(self, mdp):
        table = mdp.simulator()
        self.n_states, self.n_actions, self.discount = table.n_states, table.n_actions, table.discount
        self.reward_range, self.start_states, self.sample = table.reward_range, table.start_states, table.sample
