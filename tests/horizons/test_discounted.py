"""Discounted returns of tiny models against every deterministic policy, in exact fractions."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from long_runs import solved

import cautious as ca


def a_model(rng):
    """Up to three states; rows of eighths, so that doubles are exact; absorbing, periodic and unreachable ones too."""
    n, m = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    rows = rng.multinomial(8, np.ones(n) / n, size=(n, m)) / 8
    fixed = rng.random((n, m)) < 0.3
    rows[fixed] = np.eye(n)[rng.integers(n, size=int(fixed.sum()))]
    allowed = rng.random((n, m)) < 0.8
    allowed[np.arange(n), rng.integers(m, size=n)] = True
    rewards = rng.integers(-4, 5, (n, m)).astype(float)
    start = rng.multinomial(8, np.ones(n) / n) / 8
    return ca.MDP(rows, rewards, float(rng.choice([0, 0.5, 0.875, 0.984375])), start, allowed=allowed)


def best_return(mdp):
    """Over all deterministic policies."""
    n, gamma = mdp.n_states, Fraction(mdp.discount)
    rows = mdp.transitions.toarray().reshape(*mdp.shape, n)
    returns = []
    for actions in itertools.product(*(np.flatnonzero(row) for row in mdp.allowed)):
        chain = [[int(i == j) - gamma * Fraction(rows[i, actions[i], j]) for j in range(n)] for i in range(n)]
        values = solved(chain, [Fraction(mdp.rewards[i, actions[i]]) for i in range(n)])
        returns.append(sum(Fraction(p) * v for p, v in zip(mdp.start, values, strict=True)))
    return max(returns)


@pytest.mark.parametrize("block", range(5))
def test_every_deterministic_policy(block):
    for seed in range(100 * block, 100 * (block + 1)):
        mdp = a_model(np.random.default_rng([12, seed]))
        solution, best = ca.solve(ca.Problem(mdp)).require(), best_return(mdp)
        assert abs(Fraction(solution.objective) - best) <= 1e-9 * max(1, abs(best)), seed
        assert Fraction(solution.upper_bound) >= best, seed
