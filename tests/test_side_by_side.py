"""Entropic frontiers side by side: order and starts, points against single solves, lanes that fail."""

import numpy as np
import pytest

import cautious as ca
from cautious.occupancy import policy_occupancy
from cautious.solvers.base import Clock, Target, Workspace
from cautious.solvers.entropic import Entropic
from cautious.solvers.entropic_dual import Dual
from cautious.solvers.entropic_flow import find_marginals
from cautious.solvers.entropic_foresight import Known, groups
from cautious.solvers.entropic_sixteen import SixteenDuals
from cautious.solvers.entropic_start import Memory
from random_models import random_case


def test_order_of_cautions():
    for n in (1, 2, 4, 15, 16, 17, 30, 100):
        logs = np.linspace(0, 1, n)
        chosen = list(groups(logs))
        assert sorted(np.concatenate(chosen)) == list(range(n))
        assert all(group.size <= 16 for group in chosen)
        assert {0, n - 1} <= set(chosen[0])


def test_polynomials_through_what_is_known():
    known = Known()
    for log in (0.0, 0.4, 1.0, 1.5):
        known.add(log, np.array([log**3 - log, 2.0]))
    found = known.at(np.array([0.7, 0.4]))
    np.testing.assert_allclose(found, [[0.7**3 - 0.7, 0.4**3 - 0.4], [2.0, 2.0]], atol=1e-14)


def test_idle_places_do_not_count():
    """Three duals in sixteen places: the marginals of the three are found, whatever stands in the others."""
    mdp = ca.worlds.garnet(60, n_actions=3, n_successors=4, discount=0.9, seed=4)
    problems = [ca.Problem(mdp, ca.Entropy()).with_caution(caution) for caution in (0.5, 1.0, 1.5)]
    memory = Memory()
    duals = [Dual(problem, memory.scenery(problem)) for problem in problems]
    sixteen = SixteenDuals(duals[0], duals[0].log_mu)
    half = sixteen.halves[0]
    half.take(duals, np.zeros((60, 8)))
    half.states.reshape(60, 8)[:, 3:] = np.random.default_rng(0).random((60, 5))
    find_marginals(sixteen, 3, 1e-9)
    for lane in range(3):
        policy = half.policy.reshape(60, 3, 8)[:, :, lane]
        exact = policy_occupancy(mdp, policy).occupancy.sum(axis=1)
        assert np.abs(half.wanted.reshape(60, 8)[:, lane] - exact).sum() <= 1e-9


KINDS = ("KL",), ("Entropy",), ("KL", "Entropy")


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kinds", KINDS, ids="+".join)
def test_points_are_those_of_single_solves(kinds, seed):
    """Models with masks, states nobody reaches and zero priors among them."""
    case = random_case(np.random.default_rng([19, len(kinds), seed]), kinds)
    problem = case.problem()
    cautions = [0.0, *(problem.caution * np.geomspace(0.01, 100, 4 + 5 * seed))]
    points = ca.frontier(problem.mdp, problem.recipe, cautions)
    assert points.cautions == sorted(cautions)
    for point in points:
        single = ca.solve(ca.Problem(problem.mdp, problem.recipe, point.caution))
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
    """Cautions at which a Newton step was taken the ordinary way."""
    steps, step = [], Dual.step
    monkeypatch.setattr(Dual, "step", lambda self, *given: (steps.append(self.caution), step(self, *given))[1])
    return steps


def test_most_points_need_no_ordinary_step(counted):
    mdp = ca.worlds.garnet(300, n_actions=3, n_successors=4, discount=0.95, seed=4)
    points = ca.frontier(mdp, ca.Entropy(), np.geomspace(0.1, 10, 40))
    assert all(point.status is ca.Status.SOLVED for point in points)
    assert len(counted) <= 4


@pytest.mark.parametrize("limits", [{"time_limit_seconds": 60.0}, {"memory_limit": 1e9}])
def test_limits_of_single_points_go_without(counted, limits):
    mdp = ca.worlds.garnet(60, n_actions=3, n_successors=4, discount=0.9, seed=4)
    points = ca.frontier(mdp, ca.Entropy(), np.geomspace(0.5, 2, 6), **limits)
    assert all(point.status is ca.Status.SOLVED for point in points)
    assert len(counted) >= 6


def test_duals_that_fail_do_no_harm(counted, monkeypatch):
    mdp = ca.worlds.garnet(60, n_actions=3, n_successors=4, discount=0.9, seed=4)
    cautions, newton = np.geomspace(0.1, 10, 20), SixteenDuals.newton

    def sometimes(self, allowed, steps, clock):
        left = newton(self, allowed, steps, clock)
        self.halves[0].u.reshape(-1, 8)[:, 3] = np.nan
        left[4] = np.inf
        return left

    monkeypatch.setattr(SixteenDuals, "newton", sometimes)
    points = ca.frontier(mdp, ca.Entropy(), cautions)
    assert 2 <= len(set(counted)) <= 6
    for point, caution in zip(points, cautions, strict=True):
        assert point.status is ca.Status.SOLVED
        single = ca.solve(ca.Problem(mdp, ca.Entropy(), caution))
        assert point.objective == pytest.approx(single.objective, abs=1e-6 * max(1.0, abs(single.objective)))


def test_a_wrong_start_is_found_out():
    """The certificate judges what was left in the workspace, and ordinary steps go on from there."""
    mdp = ca.worlds.garnet(60, n_actions=3, n_successors=4, discount=0.9, seed=4)
    problems = [ca.Problem(mdp, ca.Entropy()).with_caution(caution) for caution in (0.5, 1.0, 1.5, 2.0)]
    workspace = Workspace()
    target = Target(1e-6, Clock(None), workspace=workspace)
    Entropic().foresee(problems, target)
    memory = workspace.of(Entropic.name, Memory)
    assert sorted(memory.foreseen) == [0.5, 1.0, 1.5, 2.0]
    memory.foreseen[1.0].log_states[:] += np.random.default_rng(0).normal(size=60)
    memory.foreseen[1.0].policy[:] = 1 / 3
    candidates = Entropic().steps(problems[1], target)
    first = next(candidates)
    assert np.allclose(first.policy, 1 / 3)
    second = next(candidates)
    answer = ca.solve(problems[1])
    assert np.abs(second.policy - answer.policy).max() < 1e-3


def test_nothing_is_foreseen_for_few_cautions_or_huge_models(monkeypatch):
    mdp = ca.worlds.garnet(60, n_actions=3, n_successors=4, discount=0.9, seed=4)
    problems = [ca.Problem(mdp, ca.Entropy()).with_caution(caution) for caution in (0.5, 1.0, 1.5, 2.0)]
    workspace = Workspace()
    target = Target(1e-6, Clock(None), workspace=workspace)
    Entropic().foresee(problems[:3], target)
    monkeypatch.setattr("cautious.solvers.entropic_foresight.MOST_BYTES", 1e5)
    Entropic().foresee(problems, target)
    assert not workspace.of(Entropic.name, Memory).foreseen


def test_a_request_to_stop_ends_it():
    mdp = ca.worlds.garnet(60, n_actions=3, n_successors=4, discount=0.9, seed=4)
    problems = [ca.Problem(mdp, ca.Entropy()).with_caution(caution) for caution in np.geomspace(0.5, 2, 20)]
    workspace, clock = Workspace(), Clock(None)
    clock.stop_requested = True
    Entropic().foresee(problems, Target(1e-6, clock, workspace=workspace))
    assert not workspace.of(Entropic.name, Memory).foreseen


def test_same_bytes_for_any_number_of_threads():
    mdp = ca.worlds.garnet(200, n_actions=3, n_successors=4, discount=0.95, seed=4)
    one, two = (ca.frontier(mdp, ca.Entropy(), np.geomspace(0.1, 10, 12), threads=n) for n in (1, 2))
    for a, b in zip(one, two, strict=True):
        assert a.policy.tobytes() == b.policy.tobytes()
        assert a.objective == b.objective
