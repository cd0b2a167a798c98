"""Random models that end, and their linear programs by HiGHS."""

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

import cautious as ca


def random_total_model(seed, n_states=12, n_actions=3, loops=True):
    """The last two states are ends, which few pairs lead to; with ``loops`` some policies never end, at a cost."""
    rng = np.random.default_rng(seed)
    transitions = rng.dirichlet(np.ones(4), size=(n_states, n_actions))
    dense = np.zeros((n_states, n_actions, n_states))
    for s in range(n_states):
        for a in range(n_actions):
            to = rng.choice(n_states - 2, size=4, replace=False)
            dense[s, a, to] = transitions[s, a]
            if a == 0 or not loops:
                dense[s, a] *= 0.8
                dense[s, a, n_states - 2 + int(rng.random() < 0.5)] += 0.2
    dense[-2:] = 0.0
    dense[-2, :, -2] = dense[-1, :, -1] = 1.0
    rewards = -rng.uniform(0.2, 1.0, size=(n_states, n_actions)) if loops else rng.normal(size=(n_states, n_actions))
    rewards[:, 0] += rng.uniform(0, 0.2, n_states)
    rewards[-2:] = 0.0
    allowed = rng.random((n_states, n_actions)) < 0.9
    allowed[:, 0] = True
    start = np.zeros(n_states)
    start[:4] = rng.dirichlet(np.ones(4))
    return ca.MDP(dense, rewards, 1.0, start, allowed=allowed)


def flow_equations(mdp, ended):
    """Rows and right sides of  outflow - inflow = start  in the states that are not ended; other pairs are 0."""
    counted = np.flatnonzero(~np.isin(np.arange(mdp.n_states), ended))
    pairs = np.flatnonzero((mdp.allowed & np.isin(np.arange(mdp.n_states), counted)[:, None]).ravel())
    leaving = sp.csr_array(
        (np.ones(pairs.size), (pairs // mdp.n_actions, np.arange(pairs.size))), (mdp.n_states, pairs.size)
    )
    return pairs, (leaving - mdp.transitions[pairs].T)[counted], mdp.start[counted]


def best_by_lp(mdp, ended, rows=(), bounds=(), reward=None):
    """The best total with  row x <= bound  for all rows (S, A), and the prices of the bounds; None if infeasible."""
    pairs, equations, right = flow_equations(mdp, ended)
    table = np.array([np.ravel(row)[pairs] for row in rows]) if len(rows) else None
    paid = (mdp.rewards if reward is None else reward).ravel()[pairs]
    found = linprog(-paid, table, list(bounds) or None, equations, right, method="highs")
    if found.status == 2:
        return None
    assert found.status == 0, found.message
    return -found.fun, [] if table is None else list(-found.ineqlin.marginals)
