"""``deterministic=True`` against every deterministic policy of small models."""

import itertools
from dataclasses import dataclass

import numpy as np
import pytest

import cautious as ca
from cautious.solvers.deterministic import branch_and_bound
from random_models import random_model


def every_policy(mdp):
    choices = [np.flatnonzero(row) for row in mdp.allowed]
    for actions in itertools.product(*choices):
        yield np.eye(mdp.n_actions)[list(actions)]


def best_of_all(problem):
    """The best objective of the deterministic policies that keep all limits; minus infinity if none does."""
    mdp, best = problem.mdp, -np.inf
    for policy in every_policy(mdp):
        d = occupancy(mdp, policy)
        if all(limit.measure.value(d) <= limit.bound for limit in problem.limits):
            best = max(best, problem.objective(d))
    return best


def occupancy(mdp, policy):
    kernel = np.einsum("sa,sat->st", policy, mdp.transitions.toarray().reshape(*mdp.shape, mdp.n_states))
    states = np.linalg.solve(np.eye(mdp.n_states) - mdp.discount * kernel.T, (1 - mdp.discount) * mdp.start)
    return states[:, None] * policy


RISKS = {
    "none": lambda mdp: None,
    "Quadratic": lambda mdp: ca.Quadratic(np.full(mdp.n_states, 1 / mdp.n_states)),
    "Entropy": lambda mdp: ca.Entropy(),
    "Variance": lambda mdp: ca.Variance(),
}


@pytest.mark.parametrize("risk", RISKS)
@pytest.mark.parametrize("seed", range(6))
def test_against_all_deterministic_policies(risk, seed):
    rng = np.random.default_rng([31, seed])
    mdp = random_model(rng, "tiny").mdp()
    values = [occupancy(mdp, policy)[0].sum() for policy in every_policy(mdp)]
    bound = np.quantile(values, 0.3) + 1e-6
    constraints = [ca.Exposure([0]) <= bound]
    if seed % 2:
        constraints.append(ca.Return(rng.normal(size=mdp.shape)) <= 0.3 * rng.normal() / (1 - mdp.discount))
    scale = max(1.0, np.abs(mdp.rewards).max())
    problem = ca.Problem(mdp, RISKS[risk](mdp), 0.3 * scale if risk != "Variance" else 0.3 / scale, constraints)
    wanted = best_of_all(problem)
    found = ca.solve(problem, deterministic=True)
    if wanted == -np.inf:
        assert found.status is ca.Status.INFEASIBLE
        return
    assert found.status is ca.Status.SOLVED
    assert found.objective == pytest.approx(wanted, rel=1e-6, abs=1e-6)
    assert found.upper_bound >= wanted - 1e-9 * max(1, abs(wanted))
    assert set(np.unique(found.policy)) <= {0.0, 1.0}
    assert all(row.slack >= 0 for row in found.constraints)
    assert found.certificate.facts["mixed_bound"] >= found.objective


def machine():
    transitions = np.array(
        [[[0.8, 0.2, 0], [1, 0, 0]], [[0, 0.85, 0.15], [0.9, 0.1, 0]], [[0, 0, 1.0], [1, 0, 0]]], dtype=float
    )
    rewards = np.array([[10.0, 3.0], [9.0, -1.0], [0.0, -10.0]])
    return ca.MDP(transitions, rewards, discount=0.95, start=[1, 0, 0], state_names=["good", "worn", "broken"])


def test_no_mixing_costs_something():
    problem = ca.Problem(machine(), constraints=[ca.Exposure("broken") <= 0.02])
    mixed, found = ca.solve(problem), ca.solve(problem, deterministic=True)
    assert found.status is ca.Status.SOLVED
    assert found.certificate.kind == "global"
    assert found.objective < mixed.objective
    assert "No deterministic policy is better" in found.certificate.statement
    with pytest.raises(ca.IncompatibleError, match="deterministic policies"):
        ca.verify(found)


def test_only_mixtures_keep_the_limits():
    worn = [occupancy(machine(), policy)[1].sum() for policy in every_policy(machine())]
    low, high = sorted({round(value, 9) for value in worn})[1:3]
    third = (high - low) / 3
    band = [ca.Exposure("worn") >= low + third, ca.Exposure("worn") <= high - third]
    problem = ca.Problem(machine(), constraints=band)
    assert ca.solve(problem).status is ca.Status.SOLVED
    found = ca.solve(problem, deterministic=True)
    assert found.status is ca.Status.INFEASIBLE
    assert "policies that mix actions reach" in found.certificate.statement


def test_a_search_that_ends_early_says_how_far_it_is(monkeypatch):
    monkeypatch.setattr(branch_and_bound, "MAX_NODES", 3)
    mdp = ca.worlds.garnet(60, 4, 5, 0.9)
    problem = ca.Problem(mdp, ca.Entropy(), 5.0)
    found = ca.solve(problem, deterministic=True)
    assert found.status is ca.Status.STEP_LIMIT
    assert 0 < found.gap < np.inf
    assert found.upper_bound >= found.objective


def test_the_flag_is_a_flag():
    with pytest.raises(ca.InputError, match="deterministic must be True or False"):
        ca.solve(ca.Problem(machine()), deterministic="yes")


def over_steps(mdp, policies):
    """Occupancy (S, A) of all steps together, of a policy for each step; it sums to one."""
    kernel = mdp.transitions.toarray().reshape(*mdp.shape, mdp.n_states)
    here, total, weight = mdp.start, np.zeros(mdp.shape), 1.0
    for policy in policies:
        pairs = here[:, None] * policy
        total, weight = total + weight * pairs, weight * mdp.discount
        here = np.einsum("sa,sat->t", pairs, kernel)
    return total / total.sum()


@pytest.mark.parametrize("discount", [0.9, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_over_a_number_of_steps(seed, discount):
    rng, base = np.random.default_rng([5, seed]), machine()
    rewards = base.rewards + rng.normal(size=base.shape)
    mdp = ca.MDP(base.transitions, rewards, discount, start=rng.dirichlet(np.ones(3)))
    every = [
        (over_steps(mdp, steps)[2].sum(), float(np.sum(over_steps(mdp, steps) * rewards)))
        for steps in itertools.product(list(every_policy(mdp)), repeat=3)
    ]
    bound = float(np.quantile([share for share, _ in every], rng.uniform(0.05, 0.5))) + 1e-6
    problem = ca.Problem(mdp, constraints=[ca.Exposure([2]) <= bound], horizon=3)
    earned = sum(discount**t for t in range(3))
    best = earned * max(value for share, value in every if share <= bound)
    found = ca.solve(problem, deterministic=True)
    assert set(np.unique(found.policy)) <= {0.0, 1.0}
    assert found.policy.shape == (3, *mdp.shape)
    assert found.constraints[0].slack >= 0
    assert found.status is ca.Status.SOLVED
    assert found.objective == pytest.approx(best, rel=1e-6, abs=1e-6)
    assert best <= found.upper_bound + 1e-9
    impossible = ca.Problem(mdp, constraints=[ca.Exposure([2]) <= -0.1], horizon=3)
    assert ca.solve(impossible, deterministic=True).status is ca.Status.INFEASIBLE


@pytest.mark.parametrize("nodes", [1, None])
def test_only_mixtures_keep_the_limits_over_steps(nodes, monkeypatch):
    """A search that ends early excludes nothing, and no time limit was given that could have ended it."""
    worn = ca.Exposure("worn")
    ends = [
        ca.solve(ca.Problem(machine(), sign * worn, 1e6, horizon=3)).occupancy.sum(axis=0)[1].sum() for sign in (1, -1)
    ]
    middle = (ends[0] + ends[1]) / 2
    band = [worn >= middle - 1e-4, worn <= middle + 1e-4]
    problem = ca.Problem(machine(), constraints=band, horizon=3)
    assert ca.solve(problem).status is ca.Status.SOLVED
    if nodes is None:
        assert ca.solve(problem, deterministic=True).status is ca.Status.INFEASIBLE
        return
    monkeypatch.setattr(branch_and_bound, "MAX_NODES", nodes)
    found = ca.solve(problem, deterministic=True)
    assert found.status is ca.Status.UNDECIDED
    assert found.objective == -np.inf
    assert "excludes none; policies that mix actions reach" in found.certificate.statement


@dataclass(frozen=True)
class Concentration(ca.Risk):
    """Minus the sum of squares: concave, so that bounds of nodes are of first order only."""

    convex = False

    def value(self, d):
        return -float(np.sum(d**2))

    def gradient(self, d):
        return -2 * d


@pytest.mark.parametrize("seed", [0, 3, 8])
def test_nothing_is_proved_about_all_policies_where_bounds_are_of_first_order(seed):
    problem = ca.Problem(ca.worlds.garnet(4, 3, 2, 0.9, seed=seed), Concentration(), 20.0)
    found = ca.solve(problem, deterministic=True)
    # the bound is not one of all deterministic policies, and the certificate must not say so
    assert found.upper_bound < best_of_all(problem) - 1
    assert (found.status, found.certificate.kind) == (ca.Status.STATIONARY, "stationary")
