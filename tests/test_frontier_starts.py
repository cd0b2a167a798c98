"""Frontiers: what neighbouring cautions leave for each other helps, and never shows in the answers."""

import numpy as np
import pytest
import scipy.sparse as sp

import cautious as ca
from cautious.certificate.bounds import Box, Witness
from cautious.runtime.clock import Clock
from cautious.solvers.base import Outcome, Target, Workspace, run
from cautious.solvers.interior_point.interior_point import InteriorPoint
from cautious.solvers.interior_point.newton_directions import Newton
from cautious.solvers.interior_point.starting_points import FIRST_KEPT_GAP, KeptPoint
from cautious.solvers.scalar_search import search_history
from cautious.solvers.scalar_search.inner_problems import PlannedProblems

CAUTIONS = np.geomspace(0.3, 3.0, 7)


def model():
    return ca.worlds.garnet(60, n_actions=3, n_successors=4, discount=0.9, seed=3)


def risks(mdp):
    rng = np.random.default_rng(5)
    prior = rng.dirichlet(np.ones(mdp.n_states * mdp.n_actions)).reshape(mdp.shape)
    tasks = rng.random((2, *mdp.shape))
    sets = [np.arange(j, mdp.n_states, 4) for j in range(3)]
    cells = np.arange(mdp.n_states)
    ring = np.minimum((cells[:, None] - cells) % mdp.n_states, (cells - cells[:, None]) % mdp.n_states)
    return {
        "SafeSet": ca.SafeSet(np.arange(10, 60), slack=0.3),
        "TaskFloors": ca.TaskFloors(tasks, [4.0, 4.0]),
        "PeakExposure": 10.0 * ca.PeakExposure(sets),
        "WorstTask": ca.WorstTask(tasks),
        "barrier and worst case": ca.SafeSet(np.arange(10, 60), slack=0.3) + 5.0 * ca.PeakExposure(sets),
        "Variance": 10.0 * ca.Variance(),
        "KL": ca.KL(prior),
        "KL of states": ca.KL(prior.sum(axis=1)),
        "TotalVariation": 5.0 * ca.TotalVariation(prior),
        "Quadratic": 50.0 * ca.Quadratic(prior),
        "Wasserstein": 0.1 * ca.Wasserstein(prior.sum(axis=1), sp.csr_array((ring == 1).astype(float))),
    }


KINDS = list(risks(model()))


@pytest.mark.parametrize("kind", KINDS)
def test_every_point_is_what_a_solve_of_its_own_gives(kind):
    mdp = model()
    risk = risks(mdp)[kind]
    points = ca.frontier(mdp, risk, CAUTIONS)
    assert points.cautions == CAUTIONS.tolist()
    for point in points:
        alone = ca.solve(ca.Problem(mdp, risk, point.caution))
        size = max(1.0, abs(alone.objective))
        assert point.status is ca.Status.SOLVED
        assert point.objective == pytest.approx(alone.objective, abs=1e-6 * size)
        # each claim holds for the other's policy
        assert point.upper_bound >= alone.objective
        assert alone.upper_bound >= point.objective


@pytest.mark.parametrize("kind", ["TaskFloors", "PeakExposure", "KL of states", "Wasserstein"])
def test_the_same_call_gives_the_same_bytes_in_any_order_of_cautions(kind):
    mdp = model()
    one, two = (ca.frontier(mdp, risks(mdp)[kind], order) for order in (CAUTIONS, CAUTIONS[::-1]))
    for first, second in zip(one, two, strict=True):
        assert first.policy.tobytes() == second.policy.tobytes()
        assert first.multipliers.tobytes() == second.multipliers.tobytes()
        assert first.upper_bound == second.upper_bound


def test_interior_points_that_start_on_a_neighbours_path_take_fewer_steps(monkeypatch):
    mdp, made = model(), []
    risk, first = risks(mdp)["Quadratic"], Newton.__init__
    monkeypatch.setattr(Newton, "__init__", lambda self, *given: made.append(1) or first(self, *given))

    def steps(caution, workspace):
        made.clear()
        found = run(
            InteriorPoint(), ca.Problem(mdp, risk, caution), Target(1e-6, Clock(None), workspace=workspace), None
        )
        assert found.status is ca.Status.SOLVED
        return len(made)

    shared = Workspace()
    steps(1.0, shared)
    cautions = np.geomspace(1.1, 100.0, 20)
    assert sum(steps(caution, shared) for caution in cautions) < sum(steps(c, Workspace()) for c in cautions)


def test_a_neighbour_that_is_too_far_away_is_given_up():
    mdp = model()
    risk, shared = risks(mdp)["TotalVariation"], Workspace()
    for caution in (1e-3, 1e3, 1e-2, 1.0):
        target = Target(1e-6, Clock(None), workspace=shared)
        found = run(InteriorPoint(), ca.Problem(mdp, risk, caution), target, None, Outcome(ca.Status.STALLED))
        alone = ca.solve(ca.Problem(mdp, risk, caution))
        assert found.status is ca.Status.SOLVED
        assert found.evaluated.objective == pytest.approx(alone.objective, abs=1e-6 * max(1.0, abs(alone.objective)))
    assert shared.of("interior point, start", KeptPoint).level > FIRST_KEPT_GAP


def test_a_frontier_takes_fewer_plans_than_its_points_alone(monkeypatch):
    from cautious.solvers.column_generation import column_pool as columns
    from cautious.solvers.scalar_search import inner_problems

    calls, plan = [], columns.plan
    for module in (columns, inner_problems):
        monkeypatch.setattr(module, "plan", lambda *given, **options: calls.append(1) or plan(*given, **options))
    mdp = ca.worlds.garnet(300, n_actions=4, n_successors=5, discount=0.95, seed=3)
    for risk in (ca.TaskFloors(np.ones((1, *mdp.shape)) * np.arange(4) / 4, [2.0]), 10.0 * ca.Variance(), ca.CVaR(0.9)):
        calls.clear()
        points = ca.frontier(mdp, risk, CAUTIONS)
        together = len(calls)
        calls.clear()
        for point in points:
            ca.solve(ca.Problem(mdp, risk, point.caution)).require()
        assert together < 0.9 * len(calls)


@pytest.mark.parametrize("risk", [10.0 * ca.Variance(), 5.0 * ca.CVaR(0.8)], ids=["Variance", "CVaR"])
def test_boxes_start_where_they_were_apart_from_the_best_number(monkeypatch, risk):
    mdp = ca.worlds.garnet(200, n_actions=4, n_successors=4, discount=0.95, seed=6)

    def spent():
        sweeps, decide = [], PlannedProblems.decide

        def counted(self, *given):
            answer = decide(self, *given)
            sweeps.append(answer.plan.sweeps)
            return answer

        with monkeypatch.context() as patched:
            patched.setattr(PlannedProblems, "decide", counted)
            points = ca.frontier(mdp, risk, CAUTIONS)
        assert all(point.status is ca.Status.SOLVED for point in points)
        return sum(sweeps)

    with_memory = spent()
    monkeypatch.setattr(PlannedProblems, "shifted", lambda self, near, apart: near)
    without = spent()
    assert with_memory < 0.9 * without


def test_covers_beyond_the_room_keep_no_multipliers(monkeypatch):
    monkeypatch.setattr(search_history, "MAX_COVER_BYTES", 0.0)
    points = ca.frontier(model(), 10.0 * ca.Variance(), CAUTIONS)
    assert all(point.status is ca.Status.SOLVED for point in points)
    past, best = (
        search_history.SearchHistory().of([(0.0, 1.0)]),
        search_history.Incumbent(0.0, np.ones((1, 1)), np.ones(1), (0.5,), ((0.4, 0.6),)),
    )
    past.add(1.0, best, [Box((0.0,), (1.0,), (0.5,), Witness(np.ones(2)))], fresh=True)
    assert past.boxes[0].apart is None
