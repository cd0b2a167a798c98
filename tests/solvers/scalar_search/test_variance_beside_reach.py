"""Variance beside a limit on the chance to enter states, which needs a model that remembers whether they were."""

import numpy as np
import pytest
import scipy.optimize

import cautious as ca

STEPS, BOUND, CAUTION = 3, 0.2, 0.5
ROWS = np.zeros((4, 2, 4))
ROWS[0] = [[0.5, 0.5, 0, 0], [0.2, 0.5, 0.3, 0]]
ROWS[1] = [[0, 0.6, 0, 0.4], [0.1, 0, 0.1, 0.8]]
ROWS[2] = [[1, 0, 0, 0], [0, 0.5, 0, 0.5]]
ROWS[3, :, 3] = 1
REWARDS = np.array([[-2.0, -1.0], [-3.0, -1.0], [-1.0, -1.0], [0.0, 0.0]])


def best_for(mean):
    """The best objective if the variance is taken about this mean: HiGHS, with state 2 entered or not as memory."""
    lifted, rewards = np.zeros((8, 2, 8)), np.vstack([REWARDS, REWARDS])
    for state in range(4):
        for after in range(4):
            lifted[state, :, after + 4 * (after == 2)] += ROWS[state, :, after]
            lifted[state + 4, :, after + 4] += ROWS[state, :, after]
    size, leaving = 16 * STEPS, np.repeat(np.eye(8), 2, axis=1)
    left = np.kron(np.eye(STEPS), leaving) - np.kron(np.eye(STEPS, k=-1), lifted.reshape(16, 8).T)
    right = np.zeros(8 * STEPS)
    right[0] = 1
    entering = np.tile((lifted[:, :, 4:].sum(axis=2) * (np.arange(8) < 4)[:, None]).ravel(), STEPS)
    gain = np.tile((rewards - CAUTION / STEPS * (rewards - mean) ** 2).ravel(), STEPS)
    found = scipy.optimize.linprog(-gain, entering[None], [BOUND], left, right, [(0, None)] * size, method="highs")
    return -found.fun


def test_the_best_of_all_means():
    means = np.linspace(-3, 0, 61)
    near = means[int(np.argmax([best_for(mean) for mean in means]))]
    fine = scipy.optimize.minimize_scalar(lambda mean: -best_for(mean), bounds=(near - 0.05, near + 0.05))
    mdp = ca.MDP(ROWS, REWARDS, 1.0, [1, 0, 0, 0])
    problem = ca.Problem(mdp, ca.Variance(), CAUTION, constraints=[ca.Reach([2]) <= BOUND], horizon=STEPS)
    solution = ca.solve(problem).require()
    assert solution.certificate.kind == "global"
    assert solution.objective == pytest.approx(-fine.fun, abs=1e-6)
    assert solution.constraints[0].value <= BOUND


def test_what_is_not_available_is_said():
    mdp = ca.MDP(ROWS, REWARDS, 1.0, [1, 0, 0, 0])
    with pytest.raises(ca.IncompatibleError, match=r"KL is not available there; .* ca\.Variance and ca\.CVaR are"):
        ca.Problem(mdp, ca.KL(np.full((4, 2), 1 / 8)), constraints=[ca.Reach([2]) <= BOUND], horizon=STEPS)
