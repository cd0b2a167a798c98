"""Priors given as policies."""

import numpy as np
import pytest
import scipy.sparse as sp

import cautious as ca


def long_line(n_states, discount):
    """States in a row, begun at one end; actions go back or on, and slip with one chance in ten."""
    here = np.arange(n_states)
    rows, columns, chances = [], [], []
    for action, step in enumerate((-1, 1)):
        for chance, way in ((0.9, step), (0.1, -step)):
            rows.append(2 * here + action)
            columns.append(np.clip(here + way, 0, n_states - 1))
            chances.append(np.full(n_states, chance))
    entries = np.concatenate(chances), (np.concatenate(rows), np.concatenate(columns))
    transitions = sp.coo_array(entries, shape=(2 * n_states, n_states))
    rewards = np.random.default_rng(0).random((n_states, 2))
    return ca.MDP(transitions, rewards, discount, start=np.eye(n_states)[0])


@pytest.mark.parametrize("discount", [0.5, 0.99])
@pytest.mark.parametrize("chance", [0.5, 1e-6])
def test_a_policy_as_prior_does_not_forbid_states_that_it_hardly_ever_visits(discount, chance):
    mdp = long_line(3000, discount)
    prior = np.tile([1 - chance, chance], (3000, 1))
    earned = ca.evaluate(mdp, prior, episodes=2).exact_mean
    for risk in (ca.KL(prior), ca.KL(prior) + 0.5 * ca.Entropy()):
        solution = ca.solve(ca.Problem(mdp, risk)).require()
        # the prior itself is a policy, with a divergence of zero and an entropy of zero or more
        assert solution.upper_bound >= earned
        assert ca.verify(solution).proved
