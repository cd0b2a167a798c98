"""Which states carry the risk: contributions sum to it, and prices are its changes."""

import dataclasses

import numpy as np
import pytest

import cautious as ca
from cautious.report.contributions import contributions, contributions_table, price
from cautious.report.requirements import barrier_requirements

RNG_SEEDS = (0, 1, 2)


def model(seed, states=5, actions=3):
    rng = np.random.default_rng(seed)
    transitions = rng.dirichlet(np.ones(states), size=(states, actions))
    return ca.MDP(transitions, rng.normal(size=(states, actions, states)), 0.9, rng.dirichlet(np.ones(states)))


def risks(mdp, seed):
    """Every risk, and a sum; barriers with floors that the uniform policy clears."""
    rng = np.random.default_rng(seed + 100)
    prior = rng.dirichlet(np.ones(mdp.n_states * mdp.n_actions)).reshape(mdp.shape)
    tasks = rng.random((2, *mdp.shape))
    line = np.abs(np.subtract.outer(np.arange(mdp.n_states), np.arange(mdp.n_states))).astype(float)
    return {
        "SafeSet": ca.SafeSet([0, 1, 2], slack=0.8),
        "TaskFloors": ca.TaskFloors(tasks, [1.0, 1.0]),
        "PeakExposure": ca.PeakExposure([[0, 1], [2], [3, 4]]),
        "WorstTask": ca.WorstTask(tasks),
        "Variance": ca.Variance(),
        "CVaR": ca.CVaR(0.7),
        "KL": ca.KL(prior),
        "KL of states": ca.KL(prior.sum(axis=1)),
        "TotalVariation": ca.TotalVariation(prior),
        "Quadratic": ca.Quadratic(prior),
        "Wasserstein": ca.Wasserstein(prior.sum(axis=1), line),
        "Entropy": ca.Entropy(),
        "sum": 2.0 * ca.KL(prior) + ca.Variance() + 0.5 * ca.SafeSet([0, 1, 2], slack=0.8),
    }


KINDS = tuple(risks(model(0), 0))


def solved(kind, seed):
    mdp = model(seed)
    return ca.solve(ca.Problem(mdp, risks(mdp, seed)[kind], caution=2.0)).require()


@pytest.mark.parametrize("seed", RNG_SEEDS)
@pytest.mark.parametrize("kind", KINDS)
def test_contributions_sum_to_the_risk(kind, seed):
    solution = solved(kind, seed)
    found = contributions(solution)
    assert found.by_state.sum() == pytest.approx(solution.risk, rel=1e-9, abs=1e-9)
    assert found.beyond.sum() == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_a_price_is_the_change_of_the_risk(kind):
    solution = solved(kind, 0)
    mdp, d = solution.mdp, solution.occupancy
    risk = risks(mdp, 0)[kind].bind(mdp)
    for state in range(mdp.n_states):
        there = np.array([[solution.policy[s, a] * (s == state) for a in range(3)] for s in range(5)])
        change = risk.value(0.99 * d + 0.01 * there) - risk.value(d)
        assert price(solution, state) == pytest.approx(2.0 * change, rel=1e-6, abs=1e-6)


def test_one_point_more_can_break_a_requirement():
    swim = ca.worlds.river_swim()
    solution = ca.solve(ca.Problem(swim, ca.SafeSet([0, 1, 2, 3], 0.3), 0.01)).require()
    assert price(solution, 5) == np.inf
    assert "∞" in {row[-1] for row in contributions_table(solution, contributions(solution)).rows}


def test_at_a_kink_every_way_can_cost():
    solution = ca.solve(ca.Problem(ca.worlds.river_swim(), ca.PeakExposure([[0], [5], [3]]), 30.0)).require()
    # a slope of the risk there is negative for this state; the risk itself goes up
    assert price(solution, 3) > 0.2


def test_slopes_that_rounding_has_eaten_are_not_shown():
    mdp = ca.worlds.river_swim()
    huge = ca.MDP(mdp.transitions, 1e12 * mdp.rewards, mdp.discount, mdp.start)
    assert contributions(ca.solve(ca.Problem(huge, ca.Entropy(), caution=1.0))) is None
    assert contributions(ca.solve(ca.Problem(mdp, ca.Entropy(), caution=1.0))) is not None


def test_the_parts_of_the_variance_are_squared_distances_from_the_mean():
    solution = solved("Variance", 1)
    mdp, d = solution.mdp, solution.occupancy
    mean = np.sum(d * mdp.rewards)
    parts = np.sum(d * mdp.outcome_expectation(lambda r: (r - mean) ** 2), axis=1)
    assert contributions(solution).by_state == pytest.approx(parts, rel=1e-9)


def test_the_parts_of_kl_are_its_summands():
    solution = solved("KL of states", 2)
    prior = solution.problem.unbound_risk.prior
    mass = solution.occupancy.sum(axis=1)
    assert contributions(solution).by_state == pytest.approx(mass * np.log(mass / prior), rel=1e-6)


def test_a_loaded_solution_has_the_same_contributions(maze_solution, tmp_path):
    maze_solution.save(tmp_path / "s.npz")
    loaded = ca.load(tmp_path / "s.npz")
    assert loaded.problem is None
    assert np.array_equal(contributions(loaded).by_state, contributions(maze_solution).by_state)


def test_the_largest_beyond_their_share_come_first_and_were_visited(maze_solution):
    found = contributions(maze_solution)
    states = found.largest(maze_solution, 6)
    beyond = found.by_state - maze_solution.occupancy.sum(axis=1) * maze_solution.risk
    reached = np.flatnonzero(maze_solution.reached)
    assert beyond[states] == pytest.approx(np.sort(beyond[reached])[::-1][:6])
    assert set(states) <= set(reached.tolist())


def test_what_is_concentrated_is_carried_by_the_state_that_is_visited_most():
    # all parts of a negative entropy are negative, so those of rare states are the largest, and say nothing
    solution = ca.solve(ca.Problem(ca.worlds.garnet(), ca.Entropy(), 2.0))
    found, mass = contributions(solution), solution.occupancy.sum(axis=1)
    assert np.all(found.by_state < 0)
    assert found.largest(solution, 1) == [int(np.argmax(mass))]


def test_nothing_is_carried_without_a_finite_risk(chain, infeasible_solution, maze_solution):
    assert contributions(ca.solve(ca.Problem(chain))) is None
    assert contributions(infeasible_solution) is None
    unknown = dataclasses.replace(maze_solution, mdp=ca.MDP(np.eye(1)[None], np.ones((1, 1)), 0.5))
    unknown.mdp.known_transitions = False
    assert contributions(unknown) is None


def test_a_risk_of_the_return_is_not_carried_by_states_whether_or_not_the_policy_remembers(pump):
    for memory in (True, False):
        problem = ca.Problem(pump, ca.ReturnVariance(), caution=1.0, horizon=4)
        assert contributions(ca.solve(problem, memory=memory)) is None
    # the expected return of another table is a risk of time spent
    assert contributions(ca.solve(ca.Problem(pump, ca.Return(-pump.rewards), caution=0.5))) is not None


def test_requirements_have_a_limit_and_what_was_reached():
    solution = solved("TaskFloors", 0)
    tasks = solution.problem.unbound_risk.task_rewards
    returns = np.tensordot(tasks, solution.occupancy, 2) / (1 - solution.mdp.discount)
    rows = barrier_requirements(solution)
    assert [row.limit for row in rows] == [1.0, 1.0]
    assert [row.reached for row in rows] == pytest.approx(returns)
    assert -np.log(returns - 1).sum() == pytest.approx(solution.risk)
    assert barrier_requirements(solved("Variance", 0)) == []
