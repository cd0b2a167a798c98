"""Barriers within one per cent of what is possible: feasible is solved, infeasible is proved."""

import numpy as np
import pytest
from scipy.optimize import linprog

import cautious as ca
import reference
from random_models import random_model, random_tasks

NEAR = [0.01, 0.003, 1e-3, 1e-4, 1e-5]


def flow(raw):
    """Equality rows of the occupancy LP: (S, S*A) matrix and right side."""
    outflow = np.repeat(np.eye(raw.n_states), raw.n_actions, axis=1)
    return outflow - raw.discount * raw.kernel.reshape(-1, raw.n_states).T, (1 - raw.discount) * raw.start


def best_worst_slack(raw, features, floors):
    """Largest t such that some occupancy has <f_j, d> - floor_j >= t for all j."""
    balance, right = flow(raw)
    width = raw.n_states * raw.n_actions
    bounds = [(0, None if ok else 0) for ok in raw.allowed.ravel()] + [(None, None)]
    found = linprog(
        np.append(np.zeros(width), -1.0),
        A_ub=np.column_stack([-features.reshape(len(features), -1), np.ones(len(features))]),
        b_ub=-np.asarray(floors, dtype=float),
        A_eq=np.column_stack([balance, np.zeros(raw.n_states)]),
        b_eq=right,
        bounds=bounds,
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    assert found.status == 0, found.message
    return -found.fun


def safe_set_case(rng):
    """A model and states whose best share is neither 0 nor 1."""
    while True:
        raw = random_model(rng, "small")
        states = np.flatnonzero(rng.random(raw.n_states) < 0.4)
        inside = np.zeros(raw.shape)
        inside[states] = 1
        best = best_worst_slack(raw, inside[None], [0.0])
        if 0.02 < best < 0.98:
            return raw, states, best


def task_case(rng):
    """A model, tasks and floors that are met with equality at best, all by the same margin."""
    raw = random_model(rng, "small")
    tasks = random_tasks(rng, raw)
    floors = rng.normal(size=len(tasks)) * np.abs(tasks).max() * 0.3 / (1 - raw.discount)
    best = best_worst_slack(raw, tasks / (1 - raw.discount), floors)
    return raw, tasks, floors + best, np.abs(tasks).max() / (1 - raw.discount)


def solve(raw, risk):
    return ca.solve(ca.Problem(raw.mdp(), risk, caution=1e-2 * max(1e-3, np.ptp(raw.mean_reward))))


def check_infeasible(solution, words, numbers):
    """-inf, a proof, and the facts a person needs."""
    assert solution.status is ca.Status.INFEASIBLE
    assert solution.objective == -np.inf
    assert solution.certificate.kind == "infeasible"
    assert words in str(solution.certificate.facts) + solution.certificate.statement
    assert any(
        found == pytest.approx(number, rel=1e-4, abs=1e-6)
        for found in _numbers(solution.certificate.facts)
        for number in numbers
    )
    with pytest.raises(ca.SolveError):
        solution.require()


def _numbers(facts):
    if isinstance(facts, dict):
        return [n for value in facts.values() for n in _numbers(value)]
    if isinstance(facts, list | tuple | np.ndarray):
        return [n for value in facts for n in _numbers(value)]
    return [float(facts)] if isinstance(facts, int | float | np.number) else []


@pytest.mark.parametrize("seed", range(50))
def test_safe_set_just_feasible(seed):
    rng = np.random.default_rng([1, seed])
    raw, states, best = safe_set_case(rng)
    floor = best * (1 - NEAR[seed % len(NEAR)])
    solution = solve(raw, ca.SafeSet(states, slack=1 - floor))
    assert solution.status is ca.Status.SOLVED
    assert reference.occupancy(raw, solution.policy)[states].sum() > floor


@pytest.mark.parametrize("seed", range(50))
def test_safe_set_just_infeasible(seed):
    rng = np.random.default_rng([2, seed])
    raw, states, best = safe_set_case(rng)
    floor = best + (1 - best) * NEAR[seed % len(NEAR)]
    solution = solve(raw, ca.SafeSet(states, slack=1 - floor))
    check_infeasible(solution, "SafeSet", [best])
    closest = reference.occupancy(raw, solution.policy)[states].sum()
    assert closest == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize("seed", range(50))
def test_task_floors_just_feasible(seed):
    rng = np.random.default_rng([3, seed])
    raw, tasks, edge, size = task_case(rng)
    floors = edge - size * NEAR[seed % len(NEAR)]
    solution = solve(raw, ca.TaskFloors(tasks, floors))
    assert solution.status is ca.Status.SOLVED
    d = reference.occupancy(raw, solution.policy)
    assert np.all(np.einsum("jsa,sa->j", tasks, d) / (1 - raw.discount) > floors)


@pytest.mark.parametrize("seed", range(50))
def test_task_floors_just_infeasible(seed):
    rng = np.random.default_rng([4, seed])
    raw, tasks, edge, size = task_case(rng)
    floors = edge + size * NEAR[seed % len(NEAR)]
    solution = solve(raw, ca.TaskFloors(tasks, floors))
    d = reference.occupancy(raw, solution.policy)
    reached = np.einsum("jsa,sa->j", tasks, d) / (1 - raw.discount)
    check_infeasible(solution, "TaskFloors", reached)
    assert np.any(reached < floors)


def test_conflicting_barriers_of_a_sum_are_named():
    rng = np.random.default_rng(5)
    raw, states, best = safe_set_case(rng)
    outside = np.setdiff1d(np.arange(raw.n_states), states)
    risk = ca.SafeSet(states, slack=1 - 0.7 * best) + ca.SafeSet(outside, slack=0.69 * best)
    solution = solve(raw, risk)
    assert solution.status is ca.Status.INFEASIBLE
    assert solution.certificate.kind == "infeasible"


def test_requirements_that_only_rounding_could_meet_are_undecided():
    raw, states, best = safe_set_case(np.random.default_rng(5))
    outside = np.setdiff1d(np.arange(raw.n_states), states)
    solution = solve(raw, ca.SafeSet(states, slack=1 - 0.7 * best) + ca.SafeSet(outside, slack=0.7 * best))
    assert solution.status in (ca.Status.UNDECIDED, ca.Status.INFEASIBLE)
    assert solution.objective == -np.inf


def test_unavoidable_zero_prior_is_infeasible_and_named():
    stay = np.zeros((2, 1, 2))
    stay[:, 0, :] = [[0.5, 0.5], [0.5, 0.5]]
    mdp = ca.MDP(stay, np.zeros((2, 1)), 0.9, [1.0, 0.0], state_names=["home", "cliff"])
    solution = ca.solve(ca.Problem(mdp, ca.KL(np.array([[1.0], [0.0]]))))
    assert solution.status is ca.Status.INFEASIBLE
    assert solution.objective == -np.inf
    assert "home" in solution.certificate.statement or "cliff" in solution.certificate.statement


@pytest.mark.parametrize("limits", [[], [ca.Exposure([1]) <= 0.3], [ca.KL(np.full((4, 2), 1 / 8)) <= 2]])
@pytest.mark.parametrize("horizon", [None, 5, "average"])
def test_a_barrier_on_what_no_policy_reaches_is_infeasible_without_any_margin(horizon, limits):
    transitions = np.zeros((4, 2, 4))
    transitions[0, 0, 0] = transitions[0, 1, 1] = 1
    transitions[1, :, 0] = transitions[2, :, 3] = transitions[3, :, 2] = 1
    mdp = ca.MDP(transitions, np.arange(8.0).reshape(4, 2), 0.9 if horizon is None else 1, start=[1, 0, 0, 0])
    far = np.zeros((1, 4, 2))
    far[0, 2:] = 5
    for risk in (ca.SafeSet([2, 3], 1.0), ca.TaskFloors(far, [0.0]), ca.SafeSet([2], 1.0) + ca.SafeSet([0], 0.9)):
        solution = ca.solve(ca.Problem(mdp, risk, constraints=limits, horizon=horizon))
        assert solution.status is ca.Status.INFEASIBLE
        assert ca.verify(solution).proved
