"""Sweeps against the exact optimum: every risk, any units, masks, zero priors, users' own risks."""

import numpy as np
import pytest
import scipy.sparse as sp
from plain_simulators import Plain, Spread, small

import cautious as ca
from cautious.certificate.policy_evaluation import evaluate_policy

RING = sp.csr_array((np.ones(5), (np.arange(5), (np.arange(5) + 1) % 5)), shape=(5, 5))
PRIOR = np.random.default_rng(7).dirichlet(np.ones(15)).reshape(5, 3)
TASKS = np.random.default_rng(8).random((2, 5, 3))


RISKS = {
    "neutral": (None, 0.0, 0.002),
    "SafeSet": (ca.SafeSet([0, 1, 2, 3], slack=0.9), 0.5, 0.005),
    "TaskFloors": (ca.TaskFloors(TASKS, [1.2, 1.2]), 0.3, 0.01),
    "PeakExposure": (ca.PeakExposure([[0, 1], [2], [3, 4]]), 5.0, 0.01),
    "WorstTask": (ca.WorstTask(TASKS), 2.0, 0.01),
    "Variance": (ca.Variance(), 2.0, 0.005),
    "CVaR": (ca.CVaR(0.7), 3.0, 0.01),
    "KL": (ca.KL(PRIOR), 2.0, 0.002),
    "KL (states)": (ca.KL(PRIOR.sum(axis=1)), 2.0, 0.005),
    "Entropy": (ca.Entropy(), 1.0, 0.002),
    "TotalVariation": (ca.TotalVariation(PRIOR), 4.0, 0.02),
    "TotalVariation (states)": (ca.TotalVariation(PRIOR.sum(axis=1)), 4.0, 0.02),
    "Quadratic": (ca.Quadratic(PRIOR), 10.0, 0.005),
    "Wasserstein": (ca.Wasserstein(PRIOR.sum(axis=1), RING), 1.0, 0.03),
    "user's own": (Spread(), 20.0, 0.005),
    "KL + peak": (ca.KL(PRIOR) + 2.0 * ca.PeakExposure([[0, 1], [2]]), 1.0, 0.005),
    "Variance + KL": (ca.Variance() + ca.KL(PRIOR), 1.0, 0.005),
    "Variance + CVaR": (ca.Variance() + ca.CVaR(0.5), 1.0, 0.01),
}


def off(problem, policy):
    best = ca.solve(problem).objective
    return (best - evaluate_policy(problem, policy).objective) / max(1.0, abs(best))


@pytest.mark.parametrize("name", RISKS)
def test_every_risk_comes_close_to_the_exact_optimum(name):
    risk, caution, allowed = RISKS[name]
    for seed in range(2):
        mdp = small(seed)
        samples = 1_000_000 if "Variance" in name or "CVaR" in name else 200_000
        learned = ca.learn(mdp.simulator(), risk, caution, samples, "primal-dual", seed=seed)
        assert off(ca.Problem(mdp, risk, caution), learned.policy) <= allowed
        assert learned.certificate.kind == "estimated"
        assert not learned.mdp.known_transitions


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("shift", [-3.0, 0.0, 100.0])
def test_units_do_not_matter(scale, shift):
    """Rewards in other units with the caution to match: the same policy, up to the rounding of the rescaling."""
    mdp = small(1)
    other = ca.MDP(
        mdp.transitions,
        sp.csr_array(
            (scale * (mdp.outcome_rewards + shift), mdp.transitions.indices, mdp.transitions.indptr),
            shape=mdp.transitions.shape,
        ),
        mdp.discount,
        mdp.start,
    )
    plain = ca.learn(mdp.simulator(), ca.KL(PRIOR), 2.0, 20_000, "primal-dual", seed=1)
    moved = ca.learn(other.simulator(), ca.KL(PRIOR), 2.0 * scale, 20_000, "primal-dual", seed=1)
    np.testing.assert_allclose(moved.policy, plain.policy, atol=1e-6)


def test_forbidden_pairs_are_never_drawn_nor_chosen():
    rng = np.random.default_rng(0)
    allowed = rng.random((5, 3)) < 0.6
    allowed[:, 0] = True
    base = small(2)
    mdp = ca.MDP(base.transitions, base.rewards, 0.8, base.start, allowed=allowed)
    for risk, caution in ((None, 0.0), (ca.Entropy(), 1.0), (ca.Variance(), 1.0)):
        learned = ca.learn(mdp.simulator(), risk, caution, 50_000, "primal-dual")
        assert np.all(learned.policy[~allowed] == 0)
        assert off(ca.Problem(mdp, risk, caution), learned.policy) <= 0.02


def test_zero_prior_entries_forbid_exactly():
    mdp, prior = small(3), PRIOR.copy()
    prior[1, 0] = prior[2, 1] = prior[4, 2] = 0
    prior /= prior.sum()
    learned = ca.learn(mdp.simulator(), ca.KL(prior), 1.0, 100_000, "primal-dual")
    assert learned.policy[1, 0] == learned.policy[2, 1] == learned.policy[4, 2] == 0
    assert off(ca.Problem(mdp, ca.KL(prior), 1.0), learned.policy) <= 0.005


@pytest.mark.parametrize("name", ["neutral", "KL", "Variance", "CVaR", "PeakExposure"])
def test_a_black_box_simulator_is_as_good(name):
    risk, caution, _ = RISKS[name]
    mdp = small(4)
    # here the worst case is the slowest to learn: from 60,000 samples it is within .05 in the mean of twelve seeds
    samples = 1_000_000 if name == "PeakExposure" else 60_000
    # one seed in ten ends near another number of a risk that is not convex, with tables as well
    seeds = range(3) if name == "CVaR" else range(1)
    learned = [ca.learn(Plain(mdp), risk, caution, samples, "primal-dual", seed=seed) for seed in seeds]
    assert np.median([off(ca.Problem(mdp, risk, caution), one.policy) for one in learned]) <= 0.02


def test_tables_only(tmp_path):
    """What is kept between sweeps is a few tables (S, A): no entry per transition."""
    mdp = ca.worlds.garnet(300, n_actions=3, n_successors=40)
    path = tmp_path / "run.npz"
    ca.learn(mdp.simulator(), samples=40_000, method="primal-dual", checkpoint=path, callback=lambda p: True)
    assert path.stat().st_size < 10 * 8 * 900 + 20_000


def test_a_policy_as_prior_is_refused_with_the_way_out():
    policy = np.full((5, 3), 1 / 3)
    with pytest.raises(ca.IncompatibleError, match='give the occupancy itself, or learn with method="plug-in"'):
        ca.learn(small().simulator(), ca.KL(policy), 1.0, 10_000, "primal-dual")


def test_multipliers_are_the_values_of_the_adjusted_reward():
    mdp = small(5)
    problem = ca.Problem(mdp, ca.KL(PRIOR), 2.0)
    learned = ca.learn(mdp.simulator(), ca.KL(PRIOR), 2.0, 1_000_000, "primal-dual")
    exact = ca.solve(problem)
    gap = learned.multipliers - exact.multipliers
    assert np.abs(gap - gap.mean()).max() <= 0.02 * np.ptp(exact.multipliers)
