"""Bounds at the best value that any policy reaches: kept exactly, missed by the last digit, or with hardly any room.

Transitions and start are multiples of 1/8, which doubles hold exactly. The best values are found in fractions, by
trying every policy or by backward induction; they are no doubles in general, so that the next double on either side
decides what is feasible.
"""

import itertools
from fractions import Fraction

import numpy as np
import pytest

import cautious as ca

HORIZONS = (None, 1, 3, "average", "total")
N_STATES, N_ACTIONS = 4, 2


def eighths(rng, n, least=0):
    """A distribution of multiples of 1/8."""
    return least / 8 + rng.multinomial(8 - least * n, np.ones(n) / n) / 8


def a_model(rng, horizon):
    """With a state that every policy comes back to in the long run, and an end for totals."""
    rows = np.array([[eighths(rng, N_STATES) for _ in range(N_ACTIONS)] for _ in range(N_STATES)])
    if horizon == "average":
        rows = np.array([[eighths(rng, N_STATES, 1) for _ in range(N_ACTIONS)] for _ in range(N_STATES)])
    rewards, start = rng.integers(-4, 5, (N_STATES, N_ACTIONS)).astype(float), eighths(rng, N_STATES)
    if horizon == "total":
        rows[:, :, -1] += rows[:, :, 0]
        rows[:, :, 0] = 0
        rows[:-1, :, -1] += 1 / 8
        rows[:-1] /= 9 / 8
        # sums of eighths again: a quarter at least goes to the end
        rows[:-1] = np.floor(rows[:-1] * 8) / 8
        rows[:-1, :, -1] += 1 - rows[:-1].sum(axis=2)
        rows[-1], rewards[-1], start = [0, 0, 0, 1], 0, np.array([0.5, 0.25, 0.25, 0])
    discount = {None: 0.75, "average": 1.0, "total": 1.0}.get(horizon, float(rng.choice([0.5, 1.0])))
    return ca.MDP(rows, rewards, discount, start)


def fractions_of(table):
    return [[Fraction(float(x)) for x in row] for row in np.atleast_2d(table)]


def solved(matrix, right):
    """The solution of a linear system in fractions, by elimination with pivots."""
    n = len(matrix)
    rows = [[*row, b] for row, b in zip(matrix, right, strict=True)]
    for i in range(n):
        pivot = next(k for k in range(i, n) if rows[k][i] != 0)
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for k in range(n):
            if k != i and rows[k][i] != 0:
                rows[k] = [x - rows[k][i] * y for x, y in zip(rows[k], rows[i], strict=True)]
    return [row[-1] for row in rows]


def least_value(mdp, horizon, row):
    """The least of a table (S, A), counted as ca.Exposure is, over all policies; in fractions."""
    rows = [fractions_of(block) for block in mdp.transitions.toarray().reshape(N_STATES, N_ACTIONS, N_STATES)]
    (start,), cost, gamma = fractions_of(mdp.start), fractions_of(row), Fraction(mdp.discount)
    if isinstance(horizon, int):
        ahead = [Fraction(0)] * N_STATES
        for _ in range(horizon):
            ahead = [
                min(
                    cost[s][a] + gamma * sum(p * v for p, v in zip(rows[s][a], ahead, strict=True))
                    for a in range(N_ACTIONS)
                )
                for s in range(N_STATES)
            ]
        total = sum(p * v for p, v in zip(start, ahead, strict=True))
        return total / sum(gamma**t for t in range(horizon))
    values = []
    inside = range(N_STATES - 1) if horizon == "total" else range(N_STATES)
    for actions in itertools.product(range(N_ACTIONS), repeat=len(inside)):
        leaving = [[(1 if i == j else 0) - gamma * rows[i][actions[i]][j] for j in inside] for i in inside]
        if horizon == "average":
            # the balance of the last state is replaced by the sum
            balance = [*([leaving[i][j] for i in inside] for j in inside[:-1]), [Fraction(1)] * N_STATES]
            d = solved(balance, [Fraction(0)] * (N_STATES - 1) + [Fraction(1)])
            values.append(sum(x * cost[s][actions[s]] for s, x in enumerate(d)))
            continue
        v = solved(leaving, [cost[s][actions[s]] for s in inside])
        values.append((1 - gamma if horizon is None else 1) * sum(start[s] * v[s] for s in inside))
    return min(values)


def double_above(value):
    """The least double that is not below a fraction."""
    near = float(value)
    return near if Fraction(near) >= value else float(np.nextafter(near, np.inf))


def asked(rng, mdp, horizon, sense):
    """A measure, its table, and the least value of the table."""
    row = np.zeros(mdp.shape)
    if rng.random() < 0.5:
        states = rng.choice(N_STATES - 1, 2, replace=False)
        row[states] = 1.0
        measure = ca.Exposure(states)
    else:
        row[:-1] = rng.integers(0, 5, (N_STATES - 1, N_ACTIONS))
        # a share of time, as a sum of returns is not: the normaliser is no double
        measure = ca.Return(row) if horizon in ("average", "total", 1) else None
        if measure is None:
            row = np.zeros(mdp.shape)
            row[[0, 1]] = [[2.0], [-1.0]]
            measure = 2 * ca.Exposure([0]) - ca.Exposure([1])
    return (measure if sense == "<=" else -1.0 * measure), row


@pytest.mark.parametrize("horizon", HORIZONS)
@pytest.mark.parametrize("seed", range(8))
def test_the_last_digit_decides(seed, horizon):
    rng = np.random.default_rng([5, seed, HORIZONS.index(horizon)])
    mdp = a_model(rng, horizon)
    sense = "<=" if seed % 2 else ">="
    measure, row = asked(rng, mdp, horizon, sense)
    bound = double_above(least_value(mdp, horizon, row))
    if bound == 0:
        pytest.skip("a bound of zero forbids pairs")

    def found(limit):
        constraint = measure <= limit if sense == "<=" else measure >= -limit
        return ca.solve(ca.Problem(mdp, constraints=[constraint], horizon=horizon))

    kept = found(bound)
    assert kept.status is ca.Status.SOLVED
    assert kept.constraints[0].slack >= 0
    assert kept.constraints[0].price >= 0
    missed = found(float(np.nextafter(bound, -np.inf)))
    assert missed.status is ca.Status.INFEASIBLE
    assert "the bound misses that by less than 1e-9 of its size" in missed.certificate.statement
    assert abs(missed.certificate.facts["best_reachable"]) == pytest.approx(abs(bound), rel=1e-9)


@pytest.mark.parametrize("horizon", HORIZONS)
@pytest.mark.parametrize("share", [1e-9, 1e-12])
def test_hardly_any_room(share, horizon):
    """More room never makes the best objective worse, and the price pays for it."""
    rng = np.random.default_rng([6, HORIZONS.index(horizon)])
    mdp = a_model(rng, horizon)
    row = np.zeros(mdp.shape)
    row[:2] = 1.0
    best = float(least_value(mdp, horizon, row))
    problem = [
        ca.Problem(mdp, constraints=[ca.Exposure([0, 1]) <= best * (1 + room)], horizon=horizon)
        for room in (share, 1e-3)
    ]
    tight, wide = (ca.solve(one).require() for one in problem)
    (limit,) = tight.constraints
    assert limit.slack >= 0
    assert tight.objective <= wide.upper_bound
    assert wide.objective <= tight.upper_bound + limit.price * 1e-3 * best


def test_two_limits_that_touch_at_the_same_policies():
    """A limit given twice, and with it the same from the other side of the model."""
    rng = np.random.default_rng(9)
    mdp = a_model(rng, "average")
    row = np.zeros(mdp.shape)
    row[:2] = 1.0
    bound = double_above(least_value(mdp, "average", row))
    limits = [ca.Exposure([0, 1]) <= bound, ca.Exposure([0, 1]) <= bound, ca.Exposure([2, 3]) >= 0.5 - bound / 2]
    solution = ca.solve(ca.Problem(mdp, constraints=limits, horizon="average"))
    assert solution.status is ca.Status.SOLVED


def test_a_number_that_no_policy_changes():
    """After one step nothing is left to choose: the limit holds exactly, or nobody can keep it."""
    rng = np.random.default_rng(10)
    mdp = a_model(rng, 1)
    share = float(mdp.start[:2].sum())
    solution = ca.solve(ca.Problem(mdp, ca.KL(mdp.allowed / 8), constraints=[ca.Exposure([0, 1]) <= share], horizon=1))
    assert solution.status is ca.Status.SOLVED
