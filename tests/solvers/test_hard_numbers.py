"""Rewards far beyond the objective, rounding beyond the tolerance, numbers near the end of double precision."""

import numpy as np
import pytest

import cautious as ca
from cautious.certificate.bounds import Box, Cover, Witness, upper_bound
from cautious.solvers.refinement import refined

PRIOR = np.array([[0.7, 0.3]])


def all_risks(mdp):
    """One of every kind, with data that fits any model."""
    (n_states, n_actions), rng = mdp.shape, np.random.default_rng(3)
    pairs, states = np.full(mdp.shape, 1 / (n_states * n_actions)), np.full(n_states, 1 / n_states)
    tasks = rng.random((2, *mdp.shape))
    return {
        "none": None,
        "KL": ca.KL(pairs),
        "KL states": ca.KL(states),
        "Entropy": ca.Entropy(),
        "TotalVariation": ca.TotalVariation(pairs),
        "Quadratic": ca.Quadratic(pairs),
        "Wasserstein": ca.Wasserstein(states, 1.0 - np.eye(n_states)),
        "PeakExposure": ca.PeakExposure([[0], list(range(n_states))]),
        "WorstTask": ca.WorstTask(tasks),
        "SafeSet": ca.SafeSet([0], 0.95),
        "TaskFloors": ca.TaskFloors(tasks, np.full(2, 0.01 / (1 - mdp.discount))),
        "Variance": ca.Variance(),
        "CVaR": ca.CVaR(0.9),
        "Variance + KL": ca.Variance() + ca.KL(pairs),
        "CVaR + TotalVariation": ca.CVaR(0.5) + ca.TotalVariation(pairs),
    }


@pytest.mark.parametrize("caution", [1e-3, 0.127, 10.0])
def test_rounding_of_the_gap_does_not_make_a_solve_endless(caution):
    """A free action and one that costs ten: the rounding of the return alone used to exceed the tolerance."""
    mdp = ca.MDP(np.ones((1, 2, 1)), [[0, -10]], discount=0.9999)
    solution = ca.solve(ca.Problem(mdp, ca.TotalVariation(PRIOR), caution), time_limit_seconds=20)
    assert solution.status is ca.Status.SOLVED
    # return minus caution times half the distance, at its best by hand
    share = np.linspace(0, 0.3, 3)
    worth = -10 * share / (1 - 0.9999) - caution * (0.3 - share)
    assert solution.objective == pytest.approx(worth.max(), abs=2e-6 * max(1, abs(worth.max())))


@pytest.mark.parametrize("discount", [0.9, 0.99, 0.9999])
@pytest.mark.parametrize("name", all_risks(ca.MDP(np.ones((1, 2, 1)), [[0, -10]], discount=0.9)))
def test_costs_with_a_free_way_out(name, discount):
    """The objective is near zero, the rewards are not."""
    rng = np.random.default_rng(5)
    transitions = rng.dirichlet(np.ones(4), size=(4, 3))
    rewards = -1e3 * rng.random((4, 3))
    rewards[:, 0] = 0.0
    mdp = ca.MDP(transitions, rewards, discount)
    solution = ca.solve(ca.Problem(mdp, all_risks(mdp)[name], 0.3), time_limit_seconds=20)
    assert solution.status is ca.Status.SOLVED


@pytest.mark.parametrize("penalty", [-1e5, -1e8])
@pytest.mark.parametrize("discount", [0.9, 0.9999])
@pytest.mark.parametrize("name", all_risks(ca.MDP(np.ones((1, 2, 1)), [[0, -10]], discount=0.9)))
def test_one_large_penalty_that_nobody_pays_costs_no_digits(name, discount, penalty):
    rng = np.random.default_rng(0)
    transitions, rewards = rng.dirichlet(np.ones(6), size=(6, 3)), rng.random((6, 3))
    rewards[2, 1] = penalty
    mdp = ca.MDP(transitions, rewards, discount)
    found = ca.solve(ca.Problem(mdp, all_risks(mdp)[name]), time_limit_seconds=20)
    assert found.status is ca.Status.SOLVED
    # nobody pays it, so that forbidding the pair changes hardly anything
    allowed = np.ones((6, 3), dtype=bool)
    allowed[2, 1] = False
    without = ca.MDP(transitions, rewards, discount, allowed=allowed)
    other = ca.solve(ca.Problem(without, all_risks(mdp)[name]), time_limit_seconds=20)
    room = 3e-6 * max(1.0, abs(other.objective))
    assert found.objective == pytest.approx(other.objective, abs=room)


def test_variance_beside_an_unused_penalty():
    """Ten steps' worth of the reward one, without any variance."""
    mdp = ca.MDP(np.ones((1, 2, 1)), [[1.0, -1e8]], discount=0.9)
    solution = ca.solve(ca.Problem(mdp, ca.Variance(), 1.0))
    assert solution.status is ca.Status.SOLVED
    assert solution.objective == pytest.approx(10.0, abs=1e-6)


TWO = np.array([[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.3, 0.7]]])


@pytest.mark.parametrize("size", [1e308, -1e308, 1e306])
@pytest.mark.parametrize(
    "risk",
    [
        lambda x: ca.WorstTask(np.full((1, 2, 2), x)),
        lambda x: ca.TaskFloors(np.full((1, 2, 2), x), [0.0]),
        lambda x: ca.TaskFloors(np.ones((1, 2, 2)), [x]),
        lambda x: ca.Wasserstein([0.5, 0.5], abs(x) * (1 - np.eye(2))),
        lambda x: abs(x) * ca.KL(np.full((2, 2), 0.25)),
        lambda x: abs(x) * ca.Variance(),
    ],
)
def test_numbers_beyond_double_precision_are_refused(risk, size):
    mdp = ca.MDP(TWO, [[0.0, 1.0], [2.0, -1.0]], 0.9)
    with pytest.raises(ca.InputError, match="double precision"):
        ca.Problem(mdp, risk(size))


@pytest.mark.parametrize("size", [1e300, -1e300, 1e155, -1e30])
@pytest.mark.parametrize("name", all_risks(ca.MDP(np.ones((1, 2, 1)), [[0, -10]], discount=0.9)))
def test_huge_numbers_end_in_an_answer(name, size, capfd):
    """Whatever the status: no error from linear algebra, no message of a library, and the gap is a true statement."""
    mdp = ca.MDP(TWO, [[0.0, 1.0], [2.0, size]], 0.9)
    if "Variance" in name and abs(size) > 1e150:
        with pytest.raises(ca.InputError):
            ca.Problem(mdp, all_risks(mdp)[name])
        return
    solution = ca.solve(ca.Problem(mdp, all_risks(mdp)[name]), time_limit_seconds=20)
    assert solution.gap >= 0
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", all_risks(ca.MDP(np.ones((1, 2, 1)), [[0, -10]], discount=0.9)))
def test_a_witness_still_proves_its_bound_when_the_solver_has_gone_on(name):
    """What a solver sends must not be a view of numbers that it goes on changing."""
    for seed in range(8):
        rng = np.random.default_rng([11, seed])
        mdp = ca.MDP(rng.dirichlet(np.ones(5), size=(5, 3)), 100 * rng.random((5, 3)), 0.999)
        problem = ca.Problem(mdp, all_risks(mdp)[name], 1e3)
        certificate = ca.solve(problem, tolerance=1e-9).certificate
        if isinstance(certificate.witness, Witness | Cover):
            assert upper_bound(problem, certificate.witness) <= certificate.upper_bound


def test_distance_at_a_kink_has_an_error():
    """The slope is zero where occupancy and prior agree; what the occupancy may be off is not."""
    mdp = ca.MDP(np.ones((1, 3, 1)), [[0.0, -1.0, -1.0]], 0.9)
    solution = ca.solve(ca.Problem(mdp, ca.TotalVariation([[1.0, 0.0, 0.0]])))
    assert solution.certificate.objective_error > 0


def test_witnesses_without_lines_are_left_as_they_are():
    """A run may end before every risk has its line: such a witness proves nothing, and breaks nothing."""
    mdp = ca.MDP(TWO, [[0.0, 1.0], [2.0, -1.0]], 0.9)
    bare = Witness(np.zeros(2))
    convex = ca.Problem(mdp, ca.Entropy())
    assert refined(convex, bare) is bare
    mixed = ca.Problem(mdp, ca.Variance() + ca.Entropy())
    cover = Cover((Box((-1.0,), (2.0,), (0.0,), bare),))
    assert refined(mixed, cover) == cover
    assert upper_bound(mixed, cover) == np.inf
