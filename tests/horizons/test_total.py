"""Until the end, undiscounted: against all deterministic policies in exact arithmetic, and other solvers."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from total_by_hand import TinyModel
from total_lp import best_by_lp, flow_equations, random_total_model

import cautious as ca
from cautious.models.chains import Chain
from cautious.planning import plan


@pytest.mark.parametrize("block", range(10))
def test_all_deterministic_policies(block):
    seen = {"solved": 0, "refused": 0}
    for seed in range(50 * block, 50 * (block + 1)):
        model = TinyModel(seed)
        ended, mdp = model.ended(), model.mdp()
        assert set(np.flatnonzero(mdp.ended)) == ended, seed
        totals = [model.total(policy, ended) for policy in model.policies()]
        best = max((total for total in totals if total is not None), default=None)
        if best is None or model.endless(ended):
            words = "no policy comes to an end" if best is None else "has no largest value"
            with pytest.raises(ca.InputError, match=words):
                ca.Problem(mdp, horizon="total")
            seen["refused"] += 1
            continue
        solution = ca.solve(ca.Problem(mdp, horizon="total"))
        assert solution.status is ca.Status.SOLVED, (seed, solution.status)
        assert solution.objective == pytest.approx(float(best), rel=1e-8, abs=1e-8), seed
        assert Fraction(solution.upper_bound) >= best, seed
        assert np.all(solution.occupancy[sorted(ended)] == 0), seed
        balance = mdp.start + mdp.flow_into(solution.occupancy) - solution.occupancy.sum(axis=1)
        assert np.abs(np.delete(balance, sorted(ended))).max(initial=0.0) < 1e-9, seed
        seen["solved"] += 1
    assert min(seen.values()) > 0


def indicator(mdp, states):
    row = np.zeros(mdp.shape)
    row[states] = 1.0
    return row


@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_limits_against_a_linear_program(seed, loops):
    mdp = random_total_model(seed, loops=loops)
    other = -np.random.default_rng(seed + 99).uniform(0, 1, mdp.shape)
    other[-2:] = 0.0
    ended, visits, entering = [10, 11], indicator(mdp, [2, 3]), mdp.expect_next(np.eye(12)[11])
    entering[-2:] = 0.0
    free = ca.solve(ca.Problem(mdp, horizon="total")).require().occupancy
    assert float(np.sum(free * mdp.rewards)) == pytest.approx(best_by_lp(mdp, ended)[0], rel=1e-6)

    def limit(row, sign):
        """Half way between what the best policy does, and the most or the least that can be done."""
        return 0.5 * (float(np.sum(free * row)) + sign * best_by_lp(mdp, ended, reward=sign * row)[0])

    bounds = [limit(visits, -1), limit(other, 1), limit(entering, 1)]
    constraints = [
        ca.Exposure([2, 3]) <= bounds[0],
        ca.Return(other) >= bounds[1],
        ca.Reach([11]) >= bounds[2],
        ca.Reach([10]) <= 1 - bounds[2],
    ]
    rows, right = [visits, -other, -entering], [bounds[0], -bounds[1], -bounds[2]]
    for chosen in ([0], [1], [2], [3], [0, 1, 2]):
        # the two ends exclude each other: to enter one is not to enter the other
        places = [min(k, 2) for k in chosen]
        expected = best_by_lp(mdp, ended, [rows[k] for k in places], [right[k] for k in places])
        solution = ca.solve(ca.Problem(mdp, constraints=[constraints[k] for k in chosen], horizon="total"))
        if expected is None:
            assert solution.status is ca.Status.INFEASIBLE
            continue
        assert solution.status is ca.Status.SOLVED, (solution, expected)
        assert solution.expected_return == pytest.approx(expected[0], rel=2e-6, abs=2e-6)
        assert solution.upper_bound >= expected[0] - 1e-9
        for row, price in zip(solution.constraints, expected[1], strict=True):
            assert row.slack >= 0
            assert row.price == pytest.approx(price, rel=1e-3, abs=1e-3)


def test_limits_that_cannot_be_kept_are_proved():
    mdp = random_total_model(0)
    ended = [10, 11]
    least = -best_by_lp(mdp, ended, reward=-indicator(mdp, [2, 3]))[0]
    wanted = ca.Exposure([2, 3]) <= 0.99 * least
    solution = ca.solve(ca.Problem(mdp, constraints=[wanted], horizon="total"))
    assert solution.status is ca.Status.INFEASIBLE
    assert solution.certificate.facts["best_alone"][0] == pytest.approx(least, rel=1e-6)


@pytest.mark.parametrize("kind", ["KL", "Entropy", "TotalVariation", "Quadratic"])
@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_convex_risks_of_visits_against_cvxpy(kind, loops, seed):
    cp = pytest.importorskip("cvxpy")
    mdp = random_total_model(seed, loops=loops)
    pairs, equations, right = flow_equations(mdp, [10, 11])
    prior = np.where(mdp.allowed, 0.1, 0.0)
    prior[-2:] = 0.0
    x = cp.Variable(pairs.size, nonneg=True)
    near = prior.ravel()[pairs]
    risk = {
        "KL": cp.sum(cp.kl_div(x, near)),
        "Entropy": -cp.sum(cp.entr(x)),
        "TotalVariation": 0.5 * cp.norm1(x - near),
        "Quadratic": 0.5 * cp.sum_squares(x - near),
    }[kind]
    problem = cp.Problem(cp.Maximize(mdp.rewards.ravel()[pairs] @ x - 0.5 * risk), [equations @ x == right])
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    risk = ca.Entropy() if kind == "Entropy" else getattr(ca, kind)(prior)
    solution = ca.solve(ca.Problem(mdp, risk, 0.5, horizon="total"))
    assert solution.objective == pytest.approx(problem.value, rel=2e-6, abs=2e-6)
    assert solution.status is ca.Status.SOLVED


def test_a_sweep_does_not_forget_the_best_exit_of_states_that_lead_to_each_other_for_free():
    """Free pairs of states in a row: one pays to go on, the other, where one arrives, leads straight to the end."""
    n = 20
    table, rewards = np.zeros((2 * n + 1, 2, 2 * n + 1)), np.zeros((2 * n + 1, 2))
    for k in range(n):
        pays, arrives = 2 * k, 2 * k + 1
        table[pays, 0, arrives] = table[arrives, 0, pays] = 1.0
        table[pays, 1, min(arrives + 2, 2 * n)] = table[arrives, 1, 2 * n] = 1.0
        rewards[pays, 1] = 1.0
    table[2 * n, :, 2 * n] = 1.0
    mdp = ca.Problem(ca.MDP(table, rewards, 1.0, np.eye(2 * n + 1)[1]), horizon="total").mdp
    found = plan(mdp, rewards, tolerance=1e-9)
    assert found.lower == pytest.approx(n)
    assert found.upper == pytest.approx(n)
    # policy after policy was tried here while sweeps went back to the worse exit: 1,253 sweeps
    assert found.sweeps < 100


def test_a_table_that_pays_nothing_is_worth_nothing_at_once():
    mdp = random_total_model(0).with_horizon("total")
    found = plan(mdp, np.zeros(mdp.shape))
    assert (found.lower, found.upper) == (0.0, 0.0)
    free = ca.MDP(mdp.transitions, np.zeros(mdp.shape), 1.0, mdp.start, allowed=mdp.allowed)
    solution = ca.solve(ca.Problem(free, horizon="total"))
    assert solution.require().objective == 0
    assert ca.verify(solution).proved


def ring(n, leaving):
    """A ring of n states with two lanes; every step may lead to the end with a chance of ``leaving``."""
    rows, columns, chances = [], [], []
    for s in range(2 * n):
        lane, place = divmod(s, n)
        for action, to in enumerate((lane * n + (place + 1) % n, (1 - lane) * n + (place + 2) % n)):
            rows += [2 * s + action] * 2
            columns += [to, 2 * n]
            chances += [1 - leaving, leaving]
    rows += [4 * n, 4 * n + 1]
    columns += [2 * n, 2 * n]
    transitions = sp.csr_array(([*chances, 1.0, 1.0], (rows, columns)), shape=(4 * n + 2, 2 * n + 1))
    rewards = -np.random.default_rng(0).uniform(0.5, 1.5, size=(2 * n + 1, 2))
    rewards[-1] = 0.0
    start = np.zeros(2 * n + 1)
    start[0] = 1.0
    return ca.MDP(transitions, rewards, 1.0, start)


def test_long_cycles_that_hardly_end_are_solved_by_factors(monkeypatch):
    def refused(*arguments, **named):
        raise AssertionError("no Krylov steps are needed where factors are cheap")

    monkeypatch.setattr(Chain, "krylov", refused)
    mdp = ring(200, 1e-4)
    solution = ca.solve(ca.Problem(mdp, horizon="total"))
    assert solution.require().objective == pytest.approx(best_by_lp(mdp, [400])[0], rel=1e-6)


def test_factors_that_do_not_exist_in_floating_point_are_not_used():
    # rounding leaves the ring without a way out
    solution = ca.solve(ca.Problem(ring(1_000, 1e-18), horizon="total"))
    assert solution.status is ca.Status.UNDECIDED
    assert not solution.gap < np.inf


def ring_of_gains(n, missing):
    """A ring that pays 1 in one state and costs 1 + missing half way round; one may leave it at a cost of 1."""
    there = np.append(np.arange(1, n + 1) % n, n)
    columns = np.stack([there, np.full(n + 1, n)], axis=1).ravel()
    transitions = sp.csr_array((np.ones(2 * n + 2), (np.arange(2 * n + 2), columns)), shape=(2 * n + 2, n + 1))
    costs, table = np.full((n + 1, 2), -1.0), np.zeros((n + 1, 2))
    costs[n] = 0.0
    table[:n, 1] = -1.0
    table[0, 0], table[n // 2, 0] = 1.0, -1 - missing
    start = np.eye(n + 1)[n // 4]
    return ca.Problem(ca.MDP(transitions, costs, 1.0, start), horizon="total").mdp, table


@pytest.mark.parametrize("missing", [1e-6, -1e-6])
def test_whether_going_round_gains_is_known_where_it_gains_next_to_nothing(missing):
    mdp, table = ring_of_gains(600, missing)
    found = plan(mdp, table, tolerance=1e-9)
    assert found.lower == pytest.approx(-1)
    assert found.upper == pytest.approx(-1 if missing > 0 else np.inf)


def test_time_is_asked_for_while_it_is_found_out_whether_going_round_gains():
    mdp, table = ring_of_gains(10_000, 1e-6)
    asked = []
    found = plan(mdp, table, over=lambda: bool(asked.append(0)) or len(asked) > 3)
    assert found.lower == pytest.approx(-1)
    assert len(asked) > 3
