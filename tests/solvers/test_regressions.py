"""Bugs once found, each with the smallest case that showed it."""

import threading
from dataclasses import dataclass

import numpy as np
import pytest

import cautious as ca
from cautious._core.certificate import pair_occupancy
from cautious.certificate.bounds import Box, Cover, Witness, upper_bound
from cautious.occupancy import policy_occupancy
from cautious.planning import plan
from cautious.risks.base import Cut, Tangents


@dataclass(frozen=True)
class HandEntropy(ca.Risk):
    def value(self, d):
        return float(np.sum(d * np.log(d + (d == 0))))

    def gradient(self, d):
        with np.errstate(divide="ignore"):
            return 1 + np.log(d)


def two_states(**more):
    stay_or_go = np.array([[[1.0, 0.0], [0.2, 0.8]], [[0.0, 1.0], [0.8, 0.2]]])
    return ca.MDP(stay_or_go, np.array([[0.0, 0.2], [1.0, 0.5]]), 0.9, **more)


def test_tangents_of_a_risk_that_is_not_convex_prove_nothing():
    problem = ca.worlds.problem("machine_replacement")
    mdp = problem.mdp
    d = policy_occupancy(mdp, np.eye(3)[np.full(mdp.n_states, 2)]).occupancy
    paid = mdp.rewards - problem.caution * (1 - mdp.discount) * problem.risk.gradient(d)
    witness = Witness(plan(mdp, paid).values, (Tangents((d,)),))
    assert upper_bound(problem, witness) == np.inf


def test_a_cover_with_a_nan_proves_nothing():
    problem = ca.Problem(two_states(), ca.Variance(), 3.0)
    low, high = problem.risk.interval()
    corner = Witness(np.zeros(2))
    assert upper_bound(problem, Cover((Box((low,), (high,), (np.nan,), corner),))) == np.inf


def test_a_cover_with_a_hole_proves_nothing():
    problem = ca.Problem(two_states(), ca.Variance(), 3.0)
    low, high = problem.risk.interval()
    hole = np.nextafter(low, high)
    corner = Witness(np.full(2, 1e3))
    assert upper_bound(problem, Cover((Box((hole,), (high,), (high,), corner),))) == np.inf
    assert np.isfinite(upper_bound(problem, Cover((Box((low,), (high,), (high,), corner),))))


def test_entropies_on_a_grid_with_a_long_horizon():
    mdp = ca.worlds.drift(discount=0.999)
    solution = ca.solve(ca.Problem(mdp, ca.KL(ca.worlds.drift_prior()), 0.05))
    assert solution.status is ca.Status.SOLVED
    assert solution.certificate.kind == "optimal"


@pytest.mark.parametrize("scale", [1e-300, 1e150, 1e300])
@pytest.mark.parametrize("risk", [None, ca.Entropy(), ca.Quadratic(np.full((2, 2), 0.25)), ca.PeakExposure([[0], [1]])])
def test_rewards_of_any_size(scale, risk):
    mdp = two_states()
    mdp = ca.MDP(mdp.transitions, mdp.rewards * scale, 0.9)
    assert ca.solve(ca.Problem(mdp, risk)).status is ca.Status.SOLVED


def test_own_risk_with_infinite_gradient_on_forbidden_or_unreached_pairs():
    forbidden = two_states(allowed=[[True, True], [True, False]])
    assert ca.solve(ca.Problem(forbidden, HandEntropy(), 0.5)).status is ca.Status.SOLVED
    unreached = ca.MDP(np.eye(2)[:, None, :].repeat(2, axis=1), np.zeros((2, 2)), 0.9, [1.0, 0.0])
    solution = ca.solve(ca.Problem(unreached, HandEntropy(), 0.5))
    assert np.isfinite(solution.adjusted_reward).all()
    assert np.isfinite(solution.multipliers).all()


def test_the_model_leaves_the_arrays_it_is_given_alone():
    allowed = np.ones((2, 2), dtype=bool)
    two_states(allowed=allowed)
    allowed[0, 0] = False


def test_states_as_a_python_set_and_risks_summed_by_sum():
    mdp = two_states()
    named = ca.Problem(mdp, ca.SafeSet({1}, 0.9)).risk.value(np.full((2, 2), 0.25))
    assert named == ca.Problem(mdp, ca.SafeSet([1], 0.9)).risk.value(np.full((2, 2), 0.25))
    assert len(sum([ca.Variance(), ca.Entropy()]).terms) == 2


def test_a_frontier_stops_when_asked():
    points = ca.frontier(two_states(), ca.Entropy(), [0.1, 1.0, 10.0], callback=lambda _: True, tolerance=1e-12)
    assert len(points) < 3 or all(point.status is ca.Status.SOLVED for point in points)


def test_an_infeasible_solution_survives_saving(tmp_path):
    solution = ca.solve(ca.Problem(two_states(), ca.SafeSet([1], 1e-6)))
    assert solution.status is ca.Status.INFEASIBLE
    solution.save(tmp_path / "s.npz")
    again = ca.load(tmp_path / "s.npz")
    assert again.risk_terms == solution.risk_terms
    assert again.objective == -np.inf


def test_solving_in_a_thread():
    found = []
    worker = threading.Thread(target=lambda: found.append(ca.solve(ca.Problem(two_states(), ca.Entropy()))))
    worker.start()
    worker.join()
    assert found[0].status is ca.Status.SOLVED


def test_wasserstein_on_a_graph_of_one_state():
    mdp = ca.MDP(np.ones((1, 2, 1)), [[0.0, 1.0]], 0.9)
    graph = ca.worlds.river_swim().transitions[:1, :1] * 0
    assert ca.solve(ca.Problem(mdp, ca.Wasserstein([1.0], graph))).risk == pytest.approx(0.0, abs=1e-12)


def test_every_public_name_is_there():
    for name in ca.__all__:
        assert getattr(ca, name) is not None
    import cautious.evaluation.evaluate
    import cautious.frontiers  # noqa: F401

    assert callable(ca.evaluate)
    assert callable(ca.frontier)


@pytest.mark.parametrize("risk", [ca.KL(np.full((6, 2), 1 / 12)), ca.Entropy(), ca.Quadratic(np.full(6, 1 / 6))])
def test_multipliers_are_the_values_of_the_adjusted_reward(risk):
    """They were off by the caution for relative entropies, whose gradient and proved line differ by a constant."""
    solution = ca.solve(ca.Problem(ca.worlds.river_swim(), risk, 2.0), tolerance=1e-9)
    values = plan(solution.mdp, solution.adjusted_reward).values
    np.testing.assert_allclose(solution.multipliers, values, atol=2e-3)


def test_nothing_shared_among_pairs_is_no_crash():
    """A policy whose states were all lost has an occupancy that is no number, and is judged as such."""
    found = np.empty(2)
    pair_occupancy(np.array([0.5, 0.5]), np.zeros(1), 0.0, found)
    assert np.isnan(found).all()


@dataclass(frozen=True)
class Misshapen(ca.Risk):
    """Its line has one slope per state, where one per pair is asked for."""

    def value(self, d):
        return float(np.sum(d**2))

    def gradient(self, d):
        return 2 * d

    def cut(self, witness, active):
        return Cut(np.zeros((len(active), 1)), 0.0)


def test_a_line_of_another_shape_is_refused_by_name():
    with pytest.raises(ca.IncompatibleError, match=r"Misshapen.cut gave a slope of shape \(6, 1\); expected \(6, 2\)"):
        ca.solve(ca.Problem(ca.worlds.river_swim(), Misshapen()))


def test_a_frontier_into_cautions_too_cold_for_double_precision():
    """Which solver fits is asked once for all cautions, but a temperature may be too low for some of them."""
    mdp = ca.worlds.garnet(12, 2, 3, discount=0.9, seed=0)
    huge = ca.MDP(mdp.transitions, 1e288 * mdp.rewards, 0.9)
    cold, warm = ca.frontier(huge, ca.Entropy(), [1e-25, 1.0])
    for point in (cold, warm):
        assert np.isfinite(point.objective)
        assert np.isfinite(point.policy).all()
        assert point.gap <= 1e-6 * abs(point.objective)
