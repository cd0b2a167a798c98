"""Plans for the slopes of light quadratic distances: against CVXPY and interior points."""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest

import cautious as ca
import reference
from cautious.risks.separable import project_on_simplex
from cautious.runtime.clock import Clock
from cautious.solvers import conditional_gradient as light
from cautious.solvers.base import Start, Target, Workspace, run
from cautious.solvers.conditional_gradient import ConditionalGradient
from cautious.solvers.interior_point.interior_point import InteriorPoint
from cautious.status import Status
from random_models import random_case

SHAPES = ("pairs", "states")


def prior_of(mdp, shape):
    found = np.random.default_rng(1).dirichlet(np.ones(mdp.allowed.sum()))
    table = np.zeros(mdp.shape)
    table[mdp.allowed] = found
    return table if shape == "pairs" else table.sum(axis=1)


def sorted_projection(x, mass=1.0):
    """The nearest point with this sum and no negative entry, by the textbook: sort, then the last level that fits."""
    descending = np.sort(x)[::-1]
    levels = [(descending[: k + 1].sum() - mass) / (k + 1) for k in range(x.size)]
    level = [level for level, entry in zip(levels, descending, strict=True) if entry > level][-1]
    return np.maximum(x - level, 0.0)


def solve(problem, target=None):
    return run(ConditionalGradient(), problem, target or Target(1e-6, Clock(60.0)), None)


@pytest.mark.parametrize("x", [
    np.random.default_rng(0).normal(size=1000),
    np.random.default_rng(1).dirichlet(np.ones(50)),
    np.full(7, 3.0),
    np.array([2.0]),
    -np.geomspace(1e-6, 1e9, 200),
])  # fmt: skip
def test_projection_on_the_simplex(x):
    assert project_on_simplex(x) == pytest.approx(sorted_projection(x), abs=1e-12)


def test_projection_that_needs_many_passes():
    """Each pass drops one entry only."""
    x = -np.cumsum(2.0 ** np.arange(60))
    assert project_on_simplex(x) == pytest.approx(sorted_projection(x), abs=1e-12)


@pytest.mark.parametrize("shift", [0.0, 1e6, 1e20, -1e20, 1e300])
def test_lines_of_any_slope_stay_below(shift):
    """In exact arithmetic: the line is never above the risk by more than the rounding that certificates allow for."""
    rng = np.random.default_rng(5)
    mdp = ca.worlds.garnet(6, 2, 3, seed=1)
    risk = ca.Problem(mdp, ca.Quadratic(rng.dirichlet(np.ones(12)).reshape(6, 2))).terms[0][1]
    for _ in range(20):
        slope = rng.normal(size=12) + shift
        line = risk.cut(slope, mdp.allowed)
        steepest = float(np.abs(slope).max())
        for d in (*rng.dirichlet(np.ones(12), size=3), *np.eye(12)[:3]):
            exact = [Fraction(float(x)) for x in d]
            total = sum(exact)
            exact = [x / total for x in exact]
            worth = sum((x - Fraction(float(p))) ** 2 for x, p in zip(exact, risk.prior.ravel(), strict=True)) / 2
            line_there = sum(x * Fraction(float(u)) for x, u in zip(exact, slope, strict=True)) + Fraction(
                line.intercept
            )
            assert line_there - worth <= Fraction(64 * 2.0**-53 * (abs(line.intercept) + steepest))


def test_one_entry_that_pays_without_measure():
    mdp = ca.MDP(np.ones((1, 1, 1)), [[0.0]], 0.9)
    risk = ca.Problem(mdp, ca.Quadratic(np.ones((1, 1)))).terms[0][1]
    assert risk.cut([1e20], mdp.allowed).intercept == -1e20


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("share", [1e-3, 0.3])
@pytest.mark.parametrize("kind", ["Quadratic", "Quadratic states"])
def test_light_distances_match_cvxpy(kind, share, seed, monkeypatch):
    """Forbidden pairs, unreachable states, any rewards; at ``share`` of a caution where return and risk are alike."""
    monkeypatch.setattr(light, "SMALL_STATES", 0)
    monkeypatch.setattr(light.Shape, "mixes_fast", True)
    rng = np.random.default_rng([77, seed])
    case = random_case(rng, (kind,), "medium" if seed % 3 == 0 else "small")
    case = dataclasses.replace(case, caution=share * case.caution)
    outcome = solve(case.problem())
    if share > 0.01 and outcome.status is Status.UNDECIDED:
        # it may give up, and then proposes nothing
        assert outcome.steps == 0
        return
    answer = reference.solve_convex(case.raw, case.terms, case.caution, "CLARABEL")
    size = max(1.0, abs(answer.proved))
    assert outcome.status is Status.SOLVED
    assert outcome.upper >= answer.proved - 1e-12 * size
    assert outcome.evaluated.objective >= answer.proved - 1e-6 * size
    assert case.objective(outcome.evaluated.policy) == pytest.approx(outcome.evaluated.objective, abs=1e-8 * size)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("caution", [0.1, 10.0, 60.0])
def test_agrees_with_the_interior_point(shape, caution):
    """Steps matter: the mixed policy is better than the best plan by much more than the tolerance."""
    mdp = ca.worlds.garnet(500, 4, 5, discount=0.95, seed=3)
    problem = ca.Problem(mdp, ca.Quadratic(prior_of(mdp, shape)), caution)
    outcome = solve(problem)
    exact = run(InteriorPoint(), problem, Target(1e-9, Clock(60.0)), None)
    assert outcome.status is Status.SOLVED
    assert outcome.evaluated.objective <= exact.upper
    assert exact.evaluated.objective <= outcome.upper
    assert outcome.evaluated.objective >= exact.evaluated.objective - 1e-6 * abs(exact.upper)
    if caution == 60.0:
        neutral = ca.solve(ca.Problem(mdp))
        assert problem.objective(neutral.occupancy) < exact.evaluated.objective - 1e-5 * abs(exact.upper)
        assert np.any((outcome.evaluated.policy > 0.01) & (outcome.evaluated.policy < 0.99))


@pytest.mark.parametrize("shape", SHAPES)
def test_who_answers(shape):
    """Light distances by plans, heavy ones by other methods; small models and other risks are not even tried."""
    mdp = ca.worlds.garnet(500, 4, 5, discount=0.95, seed=3)
    prior = prior_of(mdp, shape)
    assert ca.solve(ca.Problem(mdp, ca.Quadratic(prior), 1.0)).method == ConditionalGradient.name
    heavy = ca.solve(ca.Problem(mdp, ca.Quadratic(prior), 1e5))
    assert heavy.method != ConditionalGradient.name
    assert heavy.status is Status.SOLVED
    small = ca.worlds.garnet(100, seed=1)
    assert solve(ca.Problem(small, ca.Quadratic(prior_of(small, shape)), 1e-9)).steps == 0
    mixed = ca.Problem(mdp, ca.Quadratic(prior) + ca.TotalVariation(prior))
    assert ConditionalGradient().refusal(mixed) == f"cannot take {mixed.terms[1][1].label} (an L1 distance)"
    assert ConditionalGradient().refusal(ca.Problem(mdp, ca.Quadratic(prior) + 2.0 * ca.Quadratic(prior))) is None


def test_a_large_grid_is_tried_only_if_the_distance_weighs_little():
    marks = np.random.default_rng(0).integers(10, size=(150, 150)).astype(str)
    mdp = ca.worlds.from_grid(["".join(row) for row in marks], {str(k): 0.1 * k for k in range(10)}, discount=0.9)
    even = np.full(mdp.n_states, 1 / mdp.n_states)
    target = Target(1e-6, Clock(None))
    assert light._may_be_light(ca.Problem(mdp, ca.Quadratic(even), 1.0), target)
    assert not light._may_be_light(ca.Problem(mdp, ca.Quadratic(even), 1e5), target)
    solution = ca.solve(ca.Problem(mdp, ca.Quadratic(even), 1.0))
    assert (solution.method, solution.status) == (ConditionalGradient.name, Status.SOLVED)


def test_two_distances_at_once():
    mdp = ca.worlds.garnet(500, 4, 5, discount=0.9, seed=4)
    risk = ca.Quadratic(prior_of(mdp, "pairs")) + 3.0 * ca.Quadratic(prior_of(mdp, "states"))
    problem = ca.Problem(mdp, risk, 10.0)
    outcome, exact = solve(problem), run(InteriorPoint(), problem, Target(1e-8, Clock(60.0)), None)
    assert outcome.status is Status.SOLVED
    assert outcome.evaluated.objective == pytest.approx(exact.evaluated.objective, rel=1e-6)


def test_a_neighbour_is_a_start_and_its_failure_a_warning():
    mdp = ca.worlds.garnet(500, 4, 5, discount=0.95, seed=3)
    problem = ca.Problem(mdp, ca.Quadratic(prior_of(mdp, "pairs")), 10.0)
    near = ca.solve(problem)
    target = Target(1e-6, Clock(60.0), start=Start(near.policy, near.multipliers))
    assert solve(problem.with_caution(11.0), target).status is Status.SOLVED
    # along a frontier, a caution that was too heavy is remembered: heavier ones are not tried
    assert solve(problem.with_caution(1e5), target).steps == 0
    walks = []
    original, light._ConditionalGradientRun = light._ConditionalGradientRun, lambda *given: walks.append(given)
    try:
        assert solve(problem.with_caution(2e5), target).steps == 0
    finally:
        light._ConditionalGradientRun = original
    assert not walks


def test_out_of_time_the_present_policy_is_given():
    mdp = ca.worlds.garnet(500, 4, 5, discount=0.95, seed=3)
    problem = ca.Problem(mdp, ca.Quadratic(prior_of(mdp, "pairs")), 60.0)
    clock = Clock(None)
    clock.stop_requested = True
    outcome = solve(problem, Target(1e-6, clock))
    assert outcome.status is Status.STOPPED
    assert np.isfinite(outcome.gap)
    assert outcome.gap > 1e-6 * abs(outcome.evaluated.objective)


def test_a_stop_says_nothing_about_the_weight():
    """Only steps that came to nothing are remembered; a clock that ran out is no reason to skip later cautions."""
    mdp = ca.worlds.garnet(500, 4, 5, discount=0.95, seed=3)
    problem, workspace = ca.Problem(mdp, ca.Quadratic(prior_of(mdp, "pairs")), 60.0), Workspace()
    stopped = Clock(None)
    stopped.stop_requested = True
    solve(problem, Target(1e-6, stopped, workspace=workspace))
    assert solve(problem, Target(1e-6, Clock(60.0), workspace=workspace)).status is Status.SOLVED


def test_rewards_of_zero_leave_the_slopes_to_be_precise_for():
    """An occupancy must be as exact as the distance asks for, where the reward asks for nothing."""
    mdp = ca.worlds.garnet(500, 4, 5, discount=0.95, seed=3)
    problem = ca.Problem(mdp, ca.Quadratic(prior_of(mdp, "pairs")), 10.0)
    walk = light._ConditionalGradientRun(problem.part(np.zeros(mdp.shape), problem.terms), Target(1e-6, Clock(None)))
    assert walk._accuracy <= 1e-6
