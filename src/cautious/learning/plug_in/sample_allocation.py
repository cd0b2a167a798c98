"""Where the next samples help the policy most."""

import numpy as np

from cautious.arrays import Array
from cautious.learning.plug_in.transition_counts import Counts, next_moments
from cautious.learning.scalar_risk_rewards import Payoff, scalars_of
from cautious.learning.task import Task
from cautious.problem import Problem
from cautious.solution import Solution


def directed(task: Task, problem: Problem, counts: Counts, solution: Solution, even: float) -> Array:
    """Where to draw next, (S*A,): even everywhere, and more on pairs that a nearly best policy uses.

    A pair counts by the root of its state's occupancy, by the standard deviation of reward plus next value, and by how
    little worse it seems than the best action, compared with what the samples leave open.
    """
    v, allowed = solution.multipliers, task.allowed
    payoff = Payoff(task.scalars, scalars_of(problem, solution.occupancy), task.discount)
    variance = next_moments(counts, payoff, v)[1]
    square = np.ones(task.shape) if variance is None else variance.reshape(task.shape)
    # few samples may show no variance at all: every pair keeps a tenth of the average
    square = np.maximum(square, 0.1 * float(square[allowed].mean()) + 1e-300)
    open_square = square / np.maximum(counts.per_pair, 1).reshape(task.shape)
    advantage = np.where(allowed, solution.adjusted_reward + task.discount * problem.mdp.expect_next(v), -np.inf)
    loss = advantage.max(axis=1, keepdims=True) - advantage
    doubt = open_square + np.where(allowed, open_square, np.inf).min(axis=1, keepdims=True)
    share = np.sqrt(solution.occupancy.sum(axis=1)[:, None] * square) / (1 + loss**2 / doubt)
    share = np.where(allowed, share, 0.0).ravel()
    flat = allowed.ravel() / task.pairs
    return flat if not share.sum() > 0 else even * flat + (1 - even) * share / share.sum()
