"""What makes a gradient bounded, what is refused without it, and the constants that follow."""

from dataclasses import dataclass

import numpy as np
import pytest
from algorithm_1_cases import Box, N, begun, finish, model, priors, risks

import cautious as ca
from cautious.learning.printed.algorithm_1 import AlgorithmOne
from cautious.learning.printed.gradient_bounds import GradientLimits, bounded
from cautious.learning.task import make_task

LIMITS = GradientLimits(1e-15, 0.01, 0.0, None)


@dataclass(frozen=True)
class Own(ca.Risk):
    def value(self, d):
        return 0.5 * float(np.sum(d[0] ** 2))

    def gradient(self, d):
        out = np.zeros_like(d)
        out[0] = d[0]
        return out


def test_other_simulators_and_own_risks_take_the_readable_loop():
    mdp = model()
    run = finish(begun(Box(mdp), ca.Entropy(), samples=300))
    facts = run.result().facts
    assert (facts["compiled"], run.draws.used, run.moments[0].sum()) == (False, 300, 300)
    assert run.d_sum.sum() == pytest.approx(300)
    task = make_task(mdp.simulator(), Own(), 1.0, 300, 0)
    assert "ca.AlgorithmOne(gradient_bound=...)" in AlgorithmOne().refusal(task)
    run = finish(begun(mdp.simulator(), Own(), 1.0, samples=300, method=AlgorithmOne(gradient_bound=1.0)))
    width = np.ptp(mdp.reward_range)
    assert run.result().facts["sigma"] == pytest.approx(0.2)
    assert run.result().facts["M2"] == pytest.approx(0.2 / width)


def test_wasserstein_runs_with_centred_potentials():
    mdp = model()
    metric = np.abs(np.subtract.outer(np.arange(N), np.arange(N))).astype(float)
    run = finish(begun(mdp.simulator(), ca.Wasserstein(priors(mdp)[1], metric), samples=40))
    (term,) = run.terms
    assert term.bound == 2.5
    slope = term.gradient(run.occupancy)
    assert np.abs(slope).max() <= 2.5 + 1e-12
    assert np.abs(np.diff(slope[:, 0])).max() <= 1 + 1e-9


@pytest.mark.parametrize("kind", [name for name in risks(model()) if name not in ("none", "sum")])
def test_gradients_stay_below_their_bounds(kind):
    mdp = model(masked=True)
    _, risk = ca.Problem(mdp, risks(mdp)[kind]).terms[0]
    term = bounded(1.0, risk, mdp.allowed, LIMITS)
    rng = np.random.default_rng(0)
    for sharpness in (0.01, 0.1, 1.0, 100.0):
        for _ in range(20):
            d = np.zeros(mdp.shape)
            d[mdp.allowed] = rng.dirichlet(np.full(mdp.allowed.sum(), sharpness))
            assert np.abs(term.gradient(d)[mdp.allowed]).max() <= term.bound * (1 + 1e-12)
            if kind not in ("SafeSet", "TaskFloors") and d[mdp.allowed].min() > 1e-15:
                np.testing.assert_allclose(term.gradient(d)[mdp.allowed], risk.gradient(d)[mdp.allowed])


def test_a_prior_with_zeros_needs_an_explicit_mixture():
    mdp = model()
    prior = np.zeros(mdp.shape)
    prior[:, 0] = 1 / N
    task = make_task(mdp.simulator(), ca.KL(prior), 1.0, 1000, 0)
    assert "prior is zero at 12 entries" in AlgorithmOne().refusal(task).replace("the prior of KL", "prior")
    assert "prior_mixing=0.05" in AlgorithmOne().refusal(task)
    run = finish(begun(mdp.simulator(), ca.KL(prior), method=AlgorithmOne(prior_mixing=0.1), samples=1000))
    assert run.result().facts["prior_mixing"] == 0.1
    np.testing.assert_allclose(run.terms[0].risk.prior, 0.9 * prior + 0.1 / 18)
    assert np.isfinite(run.point().objective)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"exploration": 0.5}, "AlgorithmOne.exploration is 0.5; it must be a finite number above 0 and below 0.5"),
        ({"exploration": 0.0}, "AlgorithmOne.exploration"),
        ({"multiplier_step": "fast"}, "AlgorithmOne.multiplier_step is 'fast'; it must be \"theory\" or a number"),
        ({"multiplier_step": 0.0}, "AlgorithmOne.multiplier_step"),
        ({"occupancy_step": float("nan")}, "AlgorithmOne.occupancy_step"),
        ({"shift_reward": -1.0}, "AlgorithmOne.shift_reward"),
        ({"shift_risk": None}, "AlgorithmOne.shift_risk must be a number"),
        ({"prior_mixing": 1.5}, "AlgorithmOne.prior_mixing"),
        ({"barrier_floor": 0.0}, "AlgorithmOne.barrier_floor"),
        ({"occupancy_floor": 1.0}, "AlgorithmOne.occupancy_floor"),
        ({"gradient_bound": 0.0}, "AlgorithmOne.gradient_bound"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ca.InputError, match=message.replace("(", r"\(")):
        AlgorithmOne(**settings)


def test_refusals_name_a_way_out():
    simulator = model().simulator()
    for risk in (ca.CVaR(0.9), ca.Variance() + ca.Entropy()):
        assert 'method="plug-in"' in AlgorithmOne().refusal(make_task(simulator, risk, 1.0, 1000, 0))


def test_theorem_constants():
    mdp = model()
    run = begun(mdp.simulator(), ca.TotalVariation(priors(mdp)[0]), caution=2.0, samples=5000)
    facts, c_sigma = run.result().facts, 2.0 / np.ptp(mdp.reward_range) * 0.2 * 0.5
    assert facts["M1"] == pytest.approx(4 * (1 + c_sigma) / 0.2)
    assert facts["M2"] == pytest.approx(c_sigma)
    assert facts["sigma"] == pytest.approx(0.1)
    assert facts["alpha"] == pytest.approx(np.sqrt(N / 5000) * (1 + c_sigma))
    assert facts["beta"] == pytest.approx(0.2 / (1 + c_sigma) * np.sqrt(np.log(18) / (5000 * 18)))
    assert facts["bound on v"] == pytest.approx(2 * (1 + c_sigma) / 0.2)
    shifted = begun(mdp.simulator(), None, method=AlgorithmOne(shift_reward=0.0), samples=5000)
    assert shifted.result().facts["theorem bound on the expected duality gap, in units of return"] is None
