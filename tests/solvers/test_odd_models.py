"""Models at the edge of what is allowed, each of which once gave a wrong answer, a crash or a warning."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

import cautious as ca


def two_states(second_stays):
    transitions = np.zeros((2, 2, 2))
    transitions[0, 0, 1] = transitions[0, 1, 0 if second_stays else 1] = 1
    transitions[1, :, 1] = 1
    return ca.MDP(transitions, [[1000.0, 0.0], [0.0, 0.0]], 0.0, start=[1.0, 0.0])


@pytest.mark.parametrize("second_stays", [True, False])
def test_without_a_future_successors_do_not_count(second_stays):
    # the successor is forbidden by the prior, but at discount 0 nobody ever counts it
    solution = ca.solve(ca.Problem(two_states(second_stays), ca.KL([1.0, 0.0])))
    assert solution.status is ca.Status.SOLVED
    assert solution.objective == pytest.approx(1000, rel=1e-6)
    assert solution.upper_bound >= 1000


ALL_EQUAL = ca.MDP(np.eye(3)[:, None, :], np.ones((3, 1)), 0.9)


@pytest.mark.parametrize(
    "risk",
    [
        ca.SafeSet([0, 1, 2], 0.5),
        ca.PeakExposure([[0, 1, 2]]),
        ca.WorstTask(np.ones((2, 3, 1))),
        ca.TaskFloors(np.ones((1, 3, 1)), [1.0]),
    ],
)
def test_features_that_nothing_can_change(risk):
    solution = ca.solve(ca.Problem(ALL_EQUAL, risk))
    assert solution.status is ca.Status.SOLVED
    assert solution.expected_return == pytest.approx(10)


@pytest.mark.parametrize("size", [1e100, 1e200, 1e300])
def test_huge_rewards_beside_total_variation(size):
    rng = np.random.default_rng(0)
    transitions, rewards = rng.dirichlet(np.ones(4), size=(4, 3)), rng.normal(size=(4, 3))
    mdp = ca.MDP(transitions, rewards * size, 0.9)
    for risk in (ca.TotalVariation([0, 0, 0, 1.0]), ca.TotalVariation([0, 0, 0, 1.0]) + ca.Quadratic([0, 0, 0, 1.0])):
        solution = ca.solve(ca.Problem(mdp, risk))
        assert solution.objective == pytest.approx(ca.solve(ca.Problem(mdp)).objective, rel=1e-6)


def test_a_distance_of_nothing():
    mdp = ca.MDP(np.ones((1, 1, 1)), np.ones((1, 1)), 0.9)
    solution = ca.solve(ca.Problem(mdp, ca.Wasserstein([1.0], [[0.0]]) + ca.TotalVariation([1.0])))
    assert solution.objective == pytest.approx(10)


def test_equal_rewards_beside_a_worst_case():
    rng = np.random.default_rng(1)
    mdp = ca.MDP(rng.dirichlet(np.ones(4), size=(4, 2)), np.zeros((4, 2)), 0.9)
    solution = ca.solve(ca.Problem(mdp, ca.PeakExposure([[0], [0, 1, 2, 3]])))
    assert solution.status is ca.Status.SOLVED
    assert solution.risk == pytest.approx(1)


@pytest.mark.parametrize("change", ["too large", "negative", "longer rows", "zeros", "negative data"])
def test_a_matrix_changed_behind_the_models_back_is_refused(change):
    rng = np.random.default_rng(2)
    rows = sp.csr_array(rng.dirichlet(np.ones(5), size=10))
    mdp = ca.MDP(rows, rng.random((5, 2)), 0.9)
    problem = ca.Problem(mdp, ca.Entropy())
    assert ca.solve(problem).status is ca.Status.SOLVED
    if change == "too large":
        rows.indices[7] = 10**9
    elif change == "negative":
        rows.indices[:] = -1
    elif change == "longer rows":
        rows.indptr[1:] = rows.indptr[-1]
    else:
        rows.data[3] = 0.0 if change == "zeros" else -5.0
    with pytest.raises(ca.InputError, match="the transitions were changed after the model was made"):
        ca.solve(problem)
    with pytest.raises(ca.InputError, match="the transitions were changed after the model was made"):
        ca.evaluate(mdp, np.full((5, 2), 0.5))


@pytest.mark.parametrize("discount", [1 - 1e-4, 1 - 1e-5, 1 - 1e-6])
def test_an_end_that_absorbs_is_proved_at_discounts_near_one(discount):
    """The occupancy is nearly all in the end, where rounding hides what the rest of it says about the return."""
    steps, chance = 12, 0.3
    transitions = np.zeros((steps + 1, 2, steps + 1))
    for state in range(steps):
        transitions[state, 0, [state, state + 1]] = 1 - chance, chance
        transitions[state, 1, state] = 1.0
    transitions[steps, :, steps] = 1.0
    rewards = np.full((steps + 1, 2), -1.0)
    rewards[steps] = 0.0
    mdp = ca.MDP(transitions, rewards, discount, start=np.eye(steps + 1)[0])
    gamma, exact = Fraction(discount), Fraction(0)
    for _ in range(steps):
        exact = (-1 + gamma * Fraction(chance) * exact) / (1 - gamma * (1 - Fraction(chance)))
    solution = ca.solve(ca.Problem(mdp))
    assert solution.status is ca.Status.SOLVED
    assert solution.objective - solution.gap <= exact <= solution.upper_bound
