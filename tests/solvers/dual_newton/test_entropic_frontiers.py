"""Frontiers of KL and entropy: points against single solves, what neighbours save, hard cautions."""

import numpy as np
import pytest

import cautious as ca
from cautious.runtime.clock import Clock
from cautious.solvers.base import Target, Workspace, run
from cautious.solvers.dual_newton.dual_newton import DualNewton
from cautious.solvers.dual_newton.entropic_dual import Dual
from cautious.solvers.dual_newton.newton_start import SolvedCaution, SolvedCautions
from random_models import random_case

KINDS = ("KL",), ("Entropy",), ("KL", "Entropy")


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kinds", KINDS, ids="+".join)
def test_points_are_those_of_single_solves(kinds, seed):
    """Models with masks, states nobody reaches and zero priors among them."""
    case = random_case(np.random.default_rng([19, len(kinds), seed]), kinds)
    problem = case.problem()
    cautions = [0.0, *(problem.caution * np.geomspace(0.01, 100, 4 + 5 * seed))]
    points = ca.frontier(problem.mdp, problem.unbound_risk, cautions)
    assert points.cautions == sorted(cautions)
    for point in points:
        single = ca.solve(ca.Problem(problem.mdp, problem.unbound_risk, point.caution))
        assert point.status is single.status
        if single.status is ca.Status.SOLVED:
            size = max(1.0, abs(single.objective))
            assert abs(point.objective - single.objective) <= 1e-6 * size
            assert point.upper_bound >= single.objective - 1e-9 * size


def test_masked_model_with_a_prior_that_forbids():
    rng = np.random.default_rng(2)
    garnet = ca.worlds.garnet(50, n_actions=3, n_successors=3, discount=0.9, seed=3)
    allowed = rng.random(garnet.shape) < 0.8
    allowed[:, 0] = True
    mdp = ca.MDP(garnet.transitions, garnet.rewards, 0.9, allowed=allowed)
    prior = rng.random(mdp.shape) * allowed * (rng.random(mdp.shape) < 0.9)
    prior[:, 0] += 0.01
    cautions = np.geomspace(0.01, 100, 20)
    points = ca.frontier(mdp, ca.KL(prior / prior.sum()), cautions)
    for point, caution in zip(points, cautions, strict=True):
        single = ca.solve(ca.Problem(mdp, ca.KL(prior / prior.sum()), caution))
        assert point.status is ca.Status.SOLVED
        assert point.objective == pytest.approx(single.objective, abs=1e-6 * max(1.0, abs(single.objective)))


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.999])
def test_extreme_cautions(discount):
    mdp = ca.worlds.garnet(40, n_actions=2, n_successors=3, discount=discount, seed=6)
    for point in ca.frontier(mdp, ca.Entropy(), [0.0, 1e-9, 1e-3, 1.0, 1e3, 1e9]):
        assert point.status is ca.Status.SOLVED


@pytest.fixture
def counted(monkeypatch):
    """The caution of every Newton step."""
    steps, step = [], Dual.step
    monkeypatch.setattr(Dual, "step", lambda self, *given: (steps.append(self.caution), step(self, *given))[1])
    return steps


def test_a_frontier_takes_fewer_newton_steps_than_its_points_alone(counted):
    mdp = ca.worlds.garnet(300, n_actions=3, n_successors=4, discount=0.95, seed=4)
    cautions = np.geomspace(0.1, 10, 40)
    points = ca.frontier(mdp, ca.Entropy(), cautions)
    assert all(point.status is ca.Status.SOLVED for point in points)
    together = len(counted)
    for caution in cautions:
        ca.solve(ca.Problem(mdp, ca.Entropy(), caution)).require()
    assert together < 0.4 * (len(counted) - together)


def test_a_wrong_past_is_given_up():
    """What is remembered of other cautions is only a start: a wrong past changes the steps, not the answer."""
    mdp = ca.worlds.garnet(60, n_actions=3, n_successors=4, discount=0.9, seed=4)
    problem, rng = ca.Problem(mdp, ca.Entropy()), np.random.default_rng(0)
    workspace = Workspace()
    target = Target(1e-6, Clock(None), workspace=workspace)
    solved = workspace.of(DualNewton.name, SolvedCautions)
    for caution in (0.5, 0.6, 0.7, 0.8):
        multipliers, log_states = 100 * rng.normal(size=60), np.log(rng.dirichlet(np.ones(60)))
        solved.past.append(SolvedCaution(caution, multipliers, log_states, np.zeros(0)))
    found, alone = run(DualNewton(), problem.with_caution(1.0), target, None), ca.solve(problem.with_caution(1.0))
    assert found.status is ca.Status.SOLVED
    assert np.abs(found.evaluated.policy - alone.policy).max() < 1e-3


def test_same_bytes_for_any_number_of_threads():
    mdp = ca.worlds.garnet(200, n_actions=3, n_successors=4, discount=0.95, seed=4)
    one, two = (ca.frontier(mdp, ca.Entropy(), np.geomspace(0.1, 10, 12), threads=n) for n in (1, 2))
    for a, b in zip(one, two, strict=True):
        assert a.policy.tobytes() == b.policy.tobytes()
        assert a.objective == b.objective
