"""Chances from a half down to less than rounding: singular equations, and more steps than doubles can count."""

import numpy as np
import pytest

import cautious as ca

CHANCES = (0, 1e-9, 1e-12, 1e-15, 2.3e-16, 1e-16, 1e-17, 1e-3, 0.5, 1 - 1e-9, 1 - 1e-15, 1)
HORIZONS = ("average", "total", None, 3)
# models whose factors were singular, which was an error of SciPy's, and whose steps overflowed with a warning
FAILED = (47, 579, 716, 733, 984, 1222, 1297, 1336)


def rare_problem(seed):
    """Every pair leads to two states at random, one of them rarely."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(2, 7)), int(rng.integers(1, 4))
    transitions = np.zeros((n, m, n))
    for row in transitions.reshape(-1, n):
        chance = rng.choice(CHANCES)
        row[rng.integers(n)] += chance
        row[rng.integers(n)] += 1 - chance
    horizon = HORIZONS[rng.integers(4)]
    rewards = rng.normal(size=(n, m)) * 10.0 ** rng.integers(-3, 6)
    if horizon == "total":
        transitions[n - 1], rewards = np.eye(n)[n - 1], -abs(rewards)
        rewards[n - 1] = 0
    return ca.Problem(ca.MDP(transitions, rewards, 1.0 if horizon else 1 - 1e-9), horizon=horizon)


@pytest.mark.filterwarnings("ignore::cautious.CautiousWarning")
@pytest.mark.parametrize("seed", [*FAILED, *range(40)])
def test_rare_moves_end_in_an_answer_or_an_error_of_ours(seed):
    try:
        solution = ca.solve(rare_problem(seed))
    except ca.CautiousError:
        # such as two places that no policy leads between, and rewards that need not end
        return
    assert solution.gap >= 0
    if solution.status is ca.Status.SOLVED:
        assert ca.verify(solution).proved
