"""Learning with risks of the return: the policy is good, and what is claimed of it is true as often as it says."""

import numpy as np
import pytest

import cautious as ca
from cautious.learning.return_risks import claimed
from cautious.learning.task import make_task

SWIM = ca.worlds.river_swim(discount=0.8)
RISKS = [ca.ReturnVariance(), ca.ReturnCVaR(0.8), ca.ReturnEntropic(1.0), ca.ReturnEVaR(0.5), ca.ReturnBelow(0.02)]


def true_objective(solution, risk, caution):
    """Of a policy with memory in the true model, from what it does there; from above where it is an interval."""
    from cautious.returns.earnings import earnings_of
    from cautious.returns.forward import follow

    memory = solution.memory_policy
    earnings = earnings_of(SWIM, memory.middle).with_steps(memory.n_steps)
    found = follow(earnings, memory, risk.rate if isinstance(risk, ca.ReturnEntropic) else 0.0)
    low, _ = risk.interval(found.returns)
    return found.returns.expectation - caution * low


@pytest.mark.parametrize("risk", [RISKS[0], RISKS[1]], ids=lambda risk: risk.label)
def test_plug_in_learns_and_claims_what_is_true(risk):
    learned = ca.learn(SWIM.simulator(), risk, caution=0.5, samples=60_000, method="plug-in", seed=1)
    facts, certificate = learned.certificate.facts, learned.certificate
    assert certificate.kind == "estimated"
    assert learned.status is ca.Status.ESTIMATED
    assert facts["samples"] <= 60_000
    assert learned.memory_policy is not None
    true = true_objective(learned, risk, 0.5)
    assert facts["objective_at_least"] <= true
    assert learned.objective == pytest.approx(true, abs=0.2)
    best = ca.solve(ca.Problem(SWIM, risk, 0.5), tolerance=1e-3)
    assert true >= best.objective - 0.1
    assert "95 %" in certificate.statement
    assert "fresh episodes" in certificate.statement


def coverage(risk, runs, n):
    """How often a claim from so many episodes of a given policy is true, and how far it is from the truth."""
    policy = np.full(SWIM.shape, 0.5)
    task, steps = make_task(SWIM.simulator(), None, 0.0, 1000, 0), 31
    exact = ca.Problem(SWIM, risk).risk_of_policy(policy)
    mean = ca.evaluate(SWIM, policy, episodes=2).exact_mean
    returns = ca.evaluate(SWIM, policy, episodes=runs * n, horizon=steps).returns.reshape(runs, n)
    found = [claimed(task, risk, 1.0, one, steps) for one in returns]
    return np.mean([one.risk >= exact - 1e-9 and one.mean <= mean for one in found]), found, exact


@pytest.mark.parametrize("risk", RISKS, ids=lambda risk: risk.label)
def test_claims_are_true_as_often_as_they_say(risk):
    share, found, exact = coverage(risk, runs=60, n=200)
    # with probability 95 % each, fewer than 52 of 60 are true once in 600 times
    assert share >= 52 / 60
    # and they say something: more episodes bring them closer
    more = coverage(risk, runs=2, n=4000)[1]
    assert np.mean([one.risk for one in more]) - exact < 0.6 * (np.mean([one.risk for one in found]) - exact)


@pytest.mark.slow
@pytest.mark.parametrize("risk", RISKS, ids=lambda risk: risk.label)
def test_claims_of_many_runs_are_true_as_often_as_they_say(risk):
    assert coverage(risk, runs=2000, n=400)[0] >= 0.95


def test_what_does_not_fit_is_refused():
    simulator, cvar = SWIM.simulator(), RISKS[1]
    for method in ("primal-dual", "paper", ca.AlgorithmOne()):
        with pytest.raises(ca.IncompatibleError, match="only plug-in learns ReturnCVaR"):
            ca.learn(simulator, cvar, caution=1.0, samples=2000, method=method)
    with pytest.raises(ca.IncompatibleError, match="alone"):
        ca.learn(simulator, cvar + ca.Entropy(), caution=1.0, samples=2000)
    with pytest.raises(ca.InputError, match="level"):
        ca.learn(simulator, ca.ReturnCVaR(1.5), caution=1.0, samples=2000)
    few = ca.learn(simulator, cvar, caution=1.0, samples=30)
    assert "nothing is claimed" in few.certificate.statement
