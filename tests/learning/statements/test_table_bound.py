"""The proof of a table learner: coverage against the exact optimum, and resuming."""

import numpy as np
import pytest
from plain_simulators import Plain, small

import cautious as ca
from cautious.certificate.policy_evaluation import evaluate_policy

PRIOR = np.random.default_rng(7).dirichlet(np.ones(15)).reshape(5, 3)
RISKS = [
    (None, 0.0),
    (ca.KL(PRIOR), 1.0),
    (ca.PeakExposure([[0, 1], [2], [3, 4]]), 3.0),
    (ca.SafeSet([0, 1, 2, 3], slack=0.9), 0.5),
    (ca.TotalVariation(PRIOR.sum(axis=1)), 2.0),
    (ca.Quadratic(PRIOR), 10.0),
    (ca.Variance(), 2.0),
    (ca.CVaR(0.7), 1.0),
]


@pytest.mark.parametrize("number", range(len(RISKS)))
def test_both_halves_of_the_statement_hold(number):
    risk, caution = RISKS[number]
    useful = 0
    for seed in range(12):
        mdp = small(seed, discount=0.6)
        problem = ca.Problem(mdp, risk, caution)
        simulator = mdp.simulator() if seed % 2 else Plain(mdp)
        facts = (learned := ca.learn(simulator, risk, caution, 6000, "primal-dual", seed)).certificate.facts
        true, best = evaluate_policy(problem, learned.policy).objective, ca.solve(problem).objective
        assert facts["objective_at_least"] <= true
        assert best <= facts["optimum_below"]
        assert learned.gap >= best - true
        useful += facts["optimum_below"] < mdp.reward_range[1] / (1 - mdp.discount) - 0.5
    assert useful > 0 or isinstance(risk, ca.Variance | ca.CVaR)


def test_the_bound_tightens_with_samples():
    mdp = small(1)
    best = ca.solve(ca.Problem(mdp)).objective
    bounds = [
        ca.learn(mdp.simulator(), samples=n, method="primal-dual").certificate.facts["optimum_below"]
        for n in (10_000, 100_000, 1_000_000)
    ]
    assert bounds == sorted(bounds, reverse=True)
    assert best < bounds[-1] <= best + 0.5 * abs(best)
