"""KL and entropy on pairs, alone and beside features: answers against CVXPY, hard cases."""

import numpy as np
import pytest
from scipy.special import logsumexp

import cautious as ca
import reference
from cautious.runtime.clock import Clock
from cautious.solvers.base import Target, Workspace
from cautious.solvers.dual_newton import feature_prices as entropic_prices
from cautious.solvers.dual_newton.dual_newton import DualNewton
from cautious.solvers.dual_newton.entropic_dual import Dual, SharedData
from random_models import random_case

SUMS = (
    ("KL", "PeakExposure"),
    ("KL", "SafeSet"),
    ("Entropy", "TaskFloors"),
    ("KL", "WorstTask"),
    ("KL", "Entropy", "PeakExposure", "SafeSet"),
)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kinds", SUMS, ids="+".join)
def test_sums_with_features_match_cvxpy(kinds, seed):
    case = random_case(np.random.default_rng([77, len(kinds), SUMS.index(kinds), seed]), kinds)
    solution = ca.solve(case.problem())
    answers = reference.reference_answers(case.raw, case.terms, case.caution)
    proved = max((answer.proved for answer in answers), default=-np.inf)
    if solution.status is ca.Status.INFEASIBLE:
        assert proved == -np.inf
        return
    size = max(1.0, abs(solution.objective))
    assert solution.status is ca.Status.SOLVED
    assert solution.method == DualNewton.name
    assert solution.objective >= proved - 1e-6 * size
    assert solution.upper_bound >= proved - 1e-12 * size
    assert case.objective(solution.policy) == pytest.approx(solution.objective, abs=1e-9 * size)


def test_what_it_takes():
    mdp = ca.worlds.river_swim()
    pairs, states = np.full(mdp.shape, 1 / (mdp.n_states * mdp.n_actions)), np.full(mdp.n_states, 1 / mdp.n_states)
    takes = [
        ca.KL(pairs),
        ca.Entropy(),
        ca.KL(pairs) + ca.Entropy() + ca.SafeSet([0], 0.9) + ca.PeakExposure([[1], [2]]),
    ]
    leaves = [ca.KL(states), ca.KL(pairs) + ca.KL(states), ca.PeakExposure([[1]]), ca.Entropy() + ca.Quadratic(pairs)]
    assert [DualNewton().refusal(ca.Problem(mdp, risk)) for risk in takes] == [None] * 3
    assert all(DualNewton().refusal(ca.Problem(mdp, risk)) for risk in leaves)


@pytest.mark.parametrize("discount", [0.0, 0.9, 0.9999, 1 - 1e-6])
@pytest.mark.parametrize("caution", [1e-9, 1e-3, 1.0, 1e9])
def test_every_temperature_is_certified(discount, caution):
    rng = np.random.default_rng(3)
    small = ca.worlds.garnet(20, n_actions=3, n_successors=3, discount=discount, seed=2)
    prior = rng.dirichlet(np.full(60, 0.05)).reshape(20, 3) + 1e-200
    for risk in (ca.KL(prior / prior.sum()), ca.Entropy()):
        assert ca.solve(ca.Problem(small, risk, caution)).status is ca.Status.SOLVED


@pytest.mark.parametrize("scale", [1e-300, 1e-8, 1e8, 1e290])
def test_rewards_of_any_size(scale):
    mdp = ca.worlds.garnet(15, n_actions=2, n_successors=3, discount=0.9, seed=1)
    scaled = ca.MDP(mdp.transitions, mdp.rewards * scale, 0.9)
    solution = ca.solve(ca.Problem(scaled, ca.Entropy(), caution=scale))
    once = ca.solve(ca.Problem(mdp, ca.Entropy(), caution=1.0))
    assert solution.status is ca.Status.SOLVED
    assert solution.objective == pytest.approx(scale * once.objective, rel=1e-5 if scale > 1 else None, abs=2e-6)


def test_zeros_of_the_prior_and_states_never_reached():
    transitions = np.zeros((4, 2, 4))
    transitions[0, 0, 1] = transitions[0, 1, 2] = transitions[1, :, 0] = transitions[2, :, 0] = transitions[3, :, 3] = (
        1.0
    )
    prior = np.array([[0.5, 0.0], [0.25, 0.25], [0.0, 0.0], [0.0, 0.0]])
    solution = ca.solve(ca.Problem(ca.MDP(transitions, np.eye(4)[:, :2], 0.9, np.eye(4)[0]), ca.KL(prior), 0.5))
    assert solution.status is ca.Status.SOLVED
    assert solution.policy[0, 1] == 0
    assert np.all(solution.occupancy[2:] == 0)


def test_one_state_has_the_closed_form():
    """With one state the answer is the prior tilted by the rewards."""
    reward, prior = np.array([[1.0, 2.0, -1.0]]), np.array([[0.2, 0.1, 0.7]])
    mdp = ca.MDP(np.ones((1, 3, 1)), reward, discount=0.8)
    solution = ca.solve(ca.Problem(mdp, ca.KL(prior), caution=3.0))
    tilted = prior * np.exp(reward / (3.0 * 0.2))
    assert solution.objective == pytest.approx(3.0 * np.log(tilted.sum()), abs=1e-6)
    assert np.allclose(solution.policy, tilted / tilted.sum(), atol=1e-3)


def test_floors_out_of_reach_end_infeasible():
    mdp = ca.worlds.garnet(30, n_actions=3, n_successors=3, discount=0.9, seed=4)
    floors = ca.TaskFloors(mdp.rewards[None], [mdp.rewards.max() / (1 - mdp.discount) + 0.1])
    assert ca.solve(ca.Problem(mdp, ca.Entropy() + floors)).status is ca.Status.INFEASIBLE


def test_a_workspace_saves_passes(monkeypatch):
    mdp = ca.worlds.garnet(300, n_actions=3, n_successors=4, discount=0.95, seed=4)
    problem, made = ca.Problem(mdp, ca.Entropy() + ca.PeakExposure([[0, 1], [2, 3]])), []
    initialise = Dual.__init__
    monkeypatch.setattr(Dual, "__init__", lambda self, *given: (made.append(self), initialise(self, *given))[1])
    workspace = Workspace()
    for caution in (1.0, 1.1):
        next(DualNewton().steps(problem.with_caution(caution), Target(1e-6, Clock(None), workspace=workspace)))
    next(DualNewton().steps(problem.with_caution(1.1), Target(1e-6, Clock(None))))
    assert made[1].passes < made[2].passes


def test_neighbours_share_their_scenery_and_begin_where_they_end(monkeypatch):
    mdp = ca.worlds.garnet(300, n_actions=3, n_successors=4, discount=0.95, seed=4)
    made, steps, initialise, step = [], [], SharedData.__init__, Dual.step
    monkeypatch.setattr(SharedData, "__init__", lambda self, given: (made.append(self), initialise(self, given))[1])
    monkeypatch.setattr(Dual, "step", lambda self, *given: (steps.append(self.caution), step(self, *given))[1])
    cautions = np.geomspace(0.5, 2.0, 10)
    points = ca.frontier(mdp, ca.Entropy(), cautions)
    assert all(point.status is ca.Status.SOLVED for point in points)
    assert len(made) == 1
    # from the third point on the polynomial through the last ones is so near that one Newton step is left
    assert all(steps.count(caution) == 1 for caution in cautions[3:])
    assert all(point.steps == 1 for point in points)


def test_another_risk_or_another_mixture_has_its_own_scenery():
    mdp = ca.worlds.river_swim()
    prior = np.full(mdp.shape, 1 / (mdp.n_states * mdp.n_actions))
    problem = ca.Problem(mdp, ca.KL(prior) + ca.Entropy(), 0.3)
    shared_data = SharedData(problem)
    assert shared_data.fits(problem.with_caution(0.7))
    # the same risks with other weights
    (one, kl), (other, entropy) = problem.terms
    assert not shared_data.fits(problem.part(problem.reward, [(one, kl), (2 * other, entropy)]))
    assert not shared_data.fits(ca.Problem(mdp, ca.KL(prior) + ca.Entropy(), 0.3))


def test_lines_below_an_entropy_where_exponentials_would_vanish():
    mdp = ca.worlds.river_swim()
    prior = np.full(mdp.shape, 1e-300)
    prior[0] = 1.0
    risk = ca.Problem(mdp, ca.KL(prior / prior.sum())).risk
    here = np.ones(mdp.shape, dtype=bool)
    for slope in (-1e4, 0.0, 1e4):
        u = np.full(here.sum(), slope) + np.linspace(0, 3, here.sum())
        expected = -logsumexp(u + np.log(risk.prior[here]))
        assert risk.cut(u, here).intercept == pytest.approx(expected, rel=1e-13)
    d = np.zeros(mdp.shape)
    d[0, 0] = 1.0
    assert risk.value(d) == pytest.approx(np.log(mdp.n_actions), rel=1e-12)


def test_prices_of_rows_that_are_not_the_worst_are_lost():
    mdp = ca.worlds.garnet(40, n_actions=3, n_successors=4, discount=0.9, seed=4)
    problem = ca.Problem(mdp, ca.Entropy() + ca.PeakExposure([[0, 1], [2, 3], [4]]), 2.0)
    dual = Dual(problem, SharedData(problem))
    point = dual.at(np.zeros(40))
    exposures = [float(point.states[list(states)].sum()) for states in ([0, 1], [2, 3], [4])]
    prices = dual.prices.unscaled() / dual.caution
    assert dual.lost(point) == pytest.approx(float(prices @ (max(exposures) - np.array(exposures))))
    alone = ca.Problem(mdp, ca.Entropy(), 2.0)
    assert Dual(alone, SharedData(alone)).lost(point) == 0.0


def test_prices_of_a_neighbour_are_nearly_believed(monkeypatch):
    mdp = ca.worlds.garnet(300, n_actions=3, n_successors=4, discount=0.95, seed=4)
    sets = [np.arange(first, first + 50) for first in (0, 50, 100)]

    def spent():
        steps, step = [], Dual.step
        with monkeypatch.context() as patched:
            patched.setattr(Dual, "step", lambda self, *given: (steps.append(self), step(self, *given))[1])
            points = ca.frontier(mdp, ca.Entropy() + ca.PeakExposure(sets), np.geomspace(0.5, 2.0, 10))
        assert all(point.status is ca.Status.SOLVED for point in points)
        return len(steps)

    nearly = spent()
    monkeypatch.setattr(entropic_prices, "UNIFORM_PRICE_SHARE", 0.1)
    monkeypatch.setattr(entropic_prices, "WARM_TARGET_SHARE", 1e-4)
    assert nearly < spent()
