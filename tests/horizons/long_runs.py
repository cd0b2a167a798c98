"""The independent truth about long-run averages of small models: exact fractions, and linear programs by HiGHS."""

import itertools
from fractions import Fraction

import numpy as np
from scipy.optimize import linprog
from scipy.sparse.csgraph import connected_components

import cautious as ca


def random_model(rng, largest=5, staying=0.0):
    """Few states, periodic chains, transient states, forbidden actions; ``staying``: how often action 0 stays."""
    n_states, n_actions = int(rng.integers(1, largest + 1)), int(rng.integers(1, 4))
    transitions = np.zeros((n_states, n_actions, n_states))
    for s, a in itertools.product(range(n_states), range(n_actions)):
        count = min(n_states, int(rng.choice([1, 1, 2, 3])))
        successors = rng.choice(n_states, count, replace=False)
        transitions[s, a, successors] = rng.dirichlet(np.ones(count)) if rng.random() < 0.5 else 1 / count
    for s in np.flatnonzero(rng.random(n_states) < staying):
        transitions[s, 0] = np.eye(n_states)[s]
    allowed = rng.random((n_states, n_actions)) < 0.8
    allowed[np.arange(n_states), rng.integers(n_actions, size=n_states)] = True
    rewards = rng.integers(-3, 4, (n_states, n_actions)).astype(float)
    start = np.eye(n_states)[rng.integers(n_states)]
    return ca.MDP(transitions, rewards, discount=1, start=start, allowed=allowed)


def solved(matrix, right):
    """The solution of a square system of fractions."""
    n = len(matrix)
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for c in range(n):
        pivot = next(i for i in range(c, n) if rows[i][c] != 0)
        rows[c], rows[pivot] = rows[pivot], rows[c]
        rows[c] = [x / rows[c][c] for x in rows[c]]
        for i in range(n):
            if i != c and rows[i][c] != 0:
                rows[i] = [x - rows[i][c] * y for x, y in zip(rows[i], rows[c], strict=True)]
    return [row[n] for row in rows]


def exact_occupancy(chain, start):
    """Long-run shares of time (n,) of a chain, whose rows are divided by their exact sums."""
    n = len(chain)
    rows = [[Fraction(float(x)) for x in row] for row in chain]
    rows = [[x / sum(row) for x in row] for row in rows]
    start = [Fraction(float(x)) for x in start]
    count, label = connected_components(np.asarray(chain) > 0, directed=True, connection="strong")
    leaves = {int(label[i]) for i in range(n) for j in range(n) if rows[i][j] > 0 and label[i] != label[j]}
    transient = [i for i in range(n) if label[i] in leaves]
    system = [[Fraction(int(i == j)) - rows[j][i] for j in transient] for i in transient]
    visits = solved(system, [start[i] for i in transient]) if transient else []
    shares = [Fraction(0)] * n
    for number in set(range(count)) - leaves:
        inside = [i for i in range(n) if label[i] == number]
        mass = sum(start[i] for i in inside)
        mass += sum(visit * rows[t][i] for visit, t in zip(visits, transient, strict=True) for i in inside)
        balance = [[rows[j][i] - Fraction(int(i == j)) for j in inside] for i in inside]
        balance[0] = [Fraction(1)] * len(inside)
        own = solved(balance, [Fraction(1)] + [Fraction(0)] * (len(inside) - 1))
        for i, share in zip(inside, own, strict=True):
            shares[i] = mass * share
    return shares


def best_gain(mdp):
    """Over all deterministic policies, exactly."""
    kernel = mdp.transitions.toarray().reshape(*mdp.shape, mdp.n_states)
    states, gains = np.arange(mdp.n_states), []
    for actions in itertools.product(*(np.flatnonzero(row) for row in mdp.allowed)):
        shares = exact_occupancy(kernel[states, list(actions)], mdp.start)
        paid = [Fraction(float(x)) for x in mdp.rewards[states, list(actions)]]
        gains.append(sum(share * x for share, x in zip(shares, paid, strict=True)))
    return max(gains)


def linear_optimum(mdp, features=(), bounds=()):
    """The best reward of a stationary occupancy with features at most these bounds; None if there is none."""
    n_states, n_actions = mdp.shape
    usable = (mdp.allowed & mdp.visitable[:, None]).ravel()
    leaving = np.repeat(np.eye(n_states), n_actions, axis=1)
    rows = np.vstack([leaving - mdp.transitions.toarray().T, np.ones(n_states * n_actions)])[:, usable]
    limits = {"A_ub": np.array(features)[:, usable], "b_ub": bounds} if len(features) else {}
    right = np.append(np.zeros(n_states), 1.0)
    found = linprog(-mdp.rewards.ravel()[usable], A_eq=rows, b_eq=right, method="highs", **limits)
    return -found.fun if found.status == 0 else None
