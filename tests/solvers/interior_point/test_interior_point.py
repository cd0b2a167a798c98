"""The interior point method: its answers against CVXPY and against proofs, and where it starts."""

import numpy as np
import pytest
import scipy.sparse as sp

import cautious as ca
import reference
from cautious.runtime.clock import Clock
from cautious.solvers.balance import balance_of
from cautious.solvers.base import Outcome, Target, Workspace, run
from cautious.solvers.interior_point.barrier_program import formulate
from cautious.solvers.interior_point.interior_point import InteriorPoint
from cautious.solvers.interior_point.newton_directions import Newton
from cautious.solvers.interior_point.newton_matrix import System
from cautious.solvers.interior_point.starting_points import start
from cautious.solvers.shape import Shape
from random_models import random_case

SINGLE = ["KL states", "TotalVariation", "TotalVariation states", "Quadratic", "Quadratic states", "Wasserstein graph"]
SUMS = [
    ("SafeSet", "Quadratic"),
    ("KL states", "PeakExposure"),
    ("TotalVariation", "WorstTask"),
    ("Wasserstein graph", "KL"),
    ("Quadratic", "Entropy", "TaskFloors"),
    ("TotalVariation states", "Wasserstein graph", "SafeSet"),
    ("PeakExposure", "WorstTask", "Quadratic states"),
]


def solved_by_interior(problem, tolerance=1e-6, workspace=None):
    target = Target(tolerance, Clock(None), workspace=workspace or Workspace())
    return run(InteriorPoint(), problem, target, None, Outcome(ca.Status.STALLED))


def check_against_reference(case):
    problem = case.problem()
    if problem.trapped is not None:
        return
    assert InteriorPoint().refusal(problem) is None
    found = solved_by_interior(problem)
    assert found.status is ca.Status.SOLVED
    best = reference.solve_convex(case.raw, case.terms, case.caution, "CLARABEL")
    size = max(1.0, abs(best.proved))
    # what a policy reaches must be reached, and nobody may claim that it cannot be
    assert found.evaluated.objective >= best.proved - 1.1e-6 * size
    assert found.upper >= best.proved - 1e-12 * size
    assert found.evaluated.objective == pytest.approx(case.objective(found.evaluated.policy), abs=1e-7 * size)


@pytest.mark.parametrize("kind", SINGLE)
@pytest.mark.parametrize("seed", range(3))
def test_single_risks_match_the_reference(kind, seed):
    check_against_reference(random_case(np.random.default_rng([41, seed, len(kind)]), [kind], "small"))


@pytest.mark.parametrize("kinds", SUMS, ids=" + ".join)
@pytest.mark.parametrize("seed", range(2))
def test_sums_match_the_reference(kinds, seed):
    check_against_reference(random_case(np.random.default_rng([42, seed, len(kinds)]), list(kinds), "small"))


def corridor(discount, n=60):
    """A walk with a slip, started at one end: far states are hardly ever visited."""
    cells = np.arange(n)
    rows = np.zeros((n, 3, n))
    for a, move in enumerate((-1, 0, 1)):
        rows[cells, a, np.clip(cells + move, 0, n - 1)] += 0.9
        rows[cells, a, np.clip(cells - move, 0, n - 1)] += 0.1
    rewards = np.repeat(np.sin(cells)[:, None], 3, axis=1)
    return ca.MDP(rows, rewards, discount, np.eye(n)[0])


def path_graph(n):
    cells = np.arange(n - 1)
    return sp.csr_array((np.ones(n - 1), (cells, cells + 1)), shape=(n, n))


@pytest.mark.parametrize("discount", [0.5, 0.99, 0.999, 0.9999])
@pytest.mark.parametrize("risk", ["KL", "TV", "TV states", "Quadratic", "Wasserstein"])
def test_discounts_up_to_one(discount, risk):
    mdp = corridor(discount)
    even = np.full(60, 1 / 60)
    pairs = np.full((60, 3), 1 / 180)
    risks = {
        "KL": ca.KL(even),
        "TV": ca.TotalVariation(pairs),
        "TV states": ca.TotalVariation(even),
        "Quadratic": ca.Quadratic(pairs),
        "Wasserstein": ca.Wasserstein(even, path_graph(60)),
    }
    assert solved_by_interior(ca.Problem(mdp, risks[risk], 1 / (1 - discount))).status is ca.Status.SOLVED


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_units_do_not_matter(scale):
    plain = corridor(0.9)
    mdp = ca.MDP(plain.transitions, scale * plain.rewards, 0.9, plain.start)
    found = solved_by_interior(ca.Problem(mdp, ca.Quadratic(np.full(60, 1 / 60)), 10.0 * scale), 1e-7)
    assert found.status is ca.Status.SOLVED
    assert found.gap <= 1e-6 * abs(found.evaluated.objective) or scale < 1


@pytest.mark.parametrize("caution", [1e-9, 1e-3, 1e3, 1e9])
def test_extreme_cautions(caution):
    mdp = corridor(0.95)
    assert (
        solved_by_interior(ca.Problem(mdp, ca.TotalVariation(np.full(60, 1 / 60)), caution)).status is ca.Status.SOLVED
    )


def test_unreachable_states_and_forbidden_pairs():
    rng = np.random.default_rng(8)
    rows = np.zeros((12, 2, 12))
    rows[:6, :, :6] = rng.dirichlet(np.ones(6), size=(6, 2))
    rows[6:, :, 6:] = rng.dirichlet(np.ones(6), size=(6, 2))
    allowed = np.ones((12, 2), dtype=bool)
    allowed[2, 0] = False
    mdp = ca.MDP(rows, rng.normal(size=(12, 2)), 0.9, np.eye(12)[0], allowed=allowed)
    for risk in (ca.Quadratic(np.full((12, 2), 1 / 24)), ca.Wasserstein(np.full(12, 1 / 12), path_graph(12))):
        found = solved_by_interior(ca.Problem(mdp, risk, 3.0))
        assert found.status is ca.Status.SOLVED
        assert found.evaluated.policy[2, 0] == 0
        assert not found.evaluated.occupancy.occupancy[6:].any()


def test_one_state_and_one_action():
    lonely = ca.MDP(np.ones((1, 2, 1)), np.array([[1.0, 0.0]]), 0.9)
    found = solved_by_interior(ca.Problem(lonely, ca.Quadratic(np.array([[0.5, 0.5]])), 4.0))
    # 10 (1 - b) - 4 b'^2 has its best at the border: all on the first action
    assert found.evaluated.policy[0, 0] == pytest.approx(1.0, abs=1e-4)
    forced = ca.MDP(np.full((3, 1, 3), 1 / 3), np.zeros((3, 1)), 0.9)
    assert solved_by_interior(ca.Problem(forced, ca.TotalVariation(np.array([1.0, 0, 0])))).status is ca.Status.SOLVED


def test_analysis_is_kept_between_solves():
    mdp, workspace = corridor(0.9), Workspace()
    for caution in (1.0, 2.0):
        solved_by_interior(ca.Problem(mdp, ca.Quadratic(np.full(60, 1 / 60)), caution), workspace=workspace)
    kept = workspace.of("interior point", lambda: None)
    assert kept is not None
    assert kept.factor.n == 60


def test_a_direction_may_start_from_another():
    mdp = corridor(0.9)
    problem = ca.Problem(mdp, ca.Quadratic(np.full(60, 1 / 60)), 5.0)
    balance = balance_of(mdp, problem.active)
    form, system = formulate(problem, balance), System(balance, problem.active, None)
    newton = Newton(form, system, start(problem, form, system))
    newton.enough = 0.0
    wanted = -newton.point.primal * newton.point.dual
    direct = newton.direction(wanted, newton.blank("direct"))
    first = newton.direction(0.5 * wanted, newton.blank("first"), rounds=1)
    step = newton.direction(wanted, newton.blank("step"), like=first)
    assert np.allclose(step.primal, direct.primal, rtol=1e-8, atol=1e-10)
    assert np.allclose(step.v, direct.v, rtol=1e-8, atol=1e-10)


def test_refuses_what_it_cannot_take():
    mdp = ca.worlds.garnet(20)
    even = np.full(20, 1 / 20)
    distances = 1.0 - np.eye(20)
    assert InteriorPoint().refusal(ca.Problem(mdp, ca.Wasserstein(even, distances))) is not None
    two = ca.Wasserstein(even, path_graph(20)) + ca.Wasserstein(even, path_graph(20))
    assert "one transport" in InteriorPoint().refusal(ca.Problem(mdp, two))
    many = ca.Quadratic(even) + ca.PeakExposure([[i] for i in range(20)]) + ca.PeakExposure([[i] for i in range(5)])
    assert "features" in InteriorPoint().refusal(ca.Problem(mdp, many))


def test_large_factors_are_not_started():
    def work(mdp):
        problem = ca.Problem(mdp, ca.TotalVariation(np.full(mdp.shape, 1 / mdp.rewards.size)))
        return InteriorPoint().work(problem, Shape(problem))

    assert work(ca.worlds.garnet(20_000, n_actions=4, n_successors=5)) == np.inf
    assert work(ca.worlds.garnet(1_000, n_actions=4, n_successors=5)) < np.inf
    ring = sp.csr_array((np.ones(5000), (np.arange(5000), (np.arange(5000) + 1) % 5000)), shape=(5000, 5000))
    assert work(ca.MDP(ring, np.zeros((5000, 1)))) < 1e9


def test_cost_of_a_factor_counts_its_entries():
    # a dense model of n states has a full lower triangle, whose columns of k entries cost k^2
    mdp = ca.MDP(np.full((20, 2, 20), 1 / 20), np.zeros((20, 2)), 0.9)
    pattern = System(balance_of(mdp, mdp.allowed), mdp.allowed, None).pattern
    assert (pattern.nonzeros, pattern.flops) == (210, sum(k * k for k in range(1, 21)))


@pytest.mark.parametrize("name", ["TotalVariation", "TotalVariation, states", "Wasserstein"])
def test_starts_inside_and_balanced(name):
    mdp = ca.worlds.garnet(30, 3, 4, discount=0.9, seed=1)
    states = np.random.default_rng(2).dirichlet(np.ones(30))
    risks = {
        "TotalVariation": lambda: ca.TotalVariation(np.full(mdp.shape, 1 / 90)),
        "TotalVariation, states": lambda: ca.TotalVariation(states),
        "Wasserstein": lambda: ca.Wasserstein(states, path_graph(30)),
    }
    problem = ca.Problem(mdp, risks[name](), caution=2.0)
    balance = balance_of(mdp, problem.active)
    form = formulate(problem, balance)
    system = System(balance, problem.active, None if form.transport is None else form.transport.edges)
    newton = Newton(form, system, start(problem, form, system))
    assert newton.point.primal.min() > 0
    assert newton.point.dual.min() > 0
    assert np.abs(newton.dual_residual).max() < 1e-9
    # entries that were too small are the only ones that do not balance
    assert np.abs(newton.right[:30]).max() < 0.01 * form.arrival.max()
