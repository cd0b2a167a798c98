"""Algorithm 1: compiled against readable, its gradients by enumeration, its update against the printed argmax."""

from dataclasses import replace

import numpy as np
import pytest
from algorithm_1_cases import A, N, begun, finish, model, priors, risks
from scipy.optimize import minimize_scalar

import cautious as ca
from cautious.certificate.policy_evaluation import evaluate_policy
from cautious.learning.printed.algorithm_1 import AlgorithmOne
from cautious.learning.printed.algorithm_1_reference import Iterate, iterate


@pytest.fixture
def whole(monkeypatch):
    """All iterations in one piece, so that both loops follow one stream."""
    monkeypatch.setattr("cautious.learning.printed.algorithm_1.READABLE_STEPS", 10**9)


def readable(run):
    run.compiled = None
    return run


@pytest.mark.parametrize("kind", risks(model()))
def test_the_kernel_follows_the_readable_loop(whole, kind):
    names = list(risks(model()))
    mdp = model(by_outcome=names.index(kind) % 2 == 0, masked=names.index(kind) % 3 == 0)
    method = AlgorithmOne(multiplier_step=0.001, occupancy_step=4e-5, barrier_floor=0.5)
    steps = 10_000 if kind in ("none", "KL", "sum") else 3_000
    fast = finish(begun(mdp.simulator(), risks(mdp)[kind], samples=steps, method=method))
    slow = finish(readable(begun(mdp.simulator(), risks(mdp)[kind], samples=steps, method=method)))
    assert fast.count == slow.count == steps
    np.testing.assert_array_equal(fast.moments[0], slow.moments[0])
    # the loop's dynamics multiply rounding errors: with ten times these steps 1e-16 has grown to 1e-3 by then
    for name in ("log_lam", "v", "moments"):
        np.testing.assert_allclose(getattr(fast, name), getattr(slow, name), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(fast.d_sum / fast.count, slow.d_sum / slow.count, rtol=0, atol=1e-12)
    np.testing.assert_allclose(fast.v_sum / fast.count, slow.v_sum / slow.count, rtol=0, atol=1e-12)
    assert np.all(fast.moments[0].reshape(mdp.shape)[~mdp.allowed] == 0)
    assert np.ptp(fast.v) > 0.1
    assert np.ptp(fast.log_lam[mdp.allowed]) > 0.1


def test_averages_keep_their_mass():
    mdp = model(masked=True)
    for kind in ("none", "KL"):
        run = finish(begun(mdp.simulator(), risks(mdp)[kind], samples=200_000))
        assert run.d_sum.sum() / run.count == pytest.approx(1, abs=1e-12)
        result = run.result()
        np.testing.assert_allclose(result.policy.sum(axis=1), 1, atol=1e-12)
        assert np.all(result.policy[~mdp.allowed] == 0)
        assert np.exp(run.log_lam).sum() * (1 - mdp.discount) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("loop", ["compiled", "readable"])
def test_mass_is_not_lost_far_below_the_smallest_number(loop):
    mdp = model()
    run = begun(mdp.simulator(), None, samples=300, method=AlgorithmOne(occupancy_step=1e-4))
    if loop == "readable":
        readable(run)
    depths = np.linspace(0, -2200, N * A).reshape(N, A)
    run.log_lam = depths - np.log(np.exp(depths).sum() * (1 - mdp.discount))
    before = run.log_lam.copy()
    finish(run)
    assert np.isfinite(run.log_lam).all()
    assert run.log_lam.min() < -2100
    # one sample moves an entry by at most 1e-4 * 60 / zeta, less than one: the order of depths is as before
    assert np.array_equal(np.argsort(run.log_lam, axis=None), np.argsort(before, axis=None))
    assert run.d_sum.sum() == pytest.approx(run.count, rel=1e-12)
    assert np.exp(run.log_lam).sum() * (1 - mdp.discount) == pytest.approx(1, rel=1e-12)


def expectation(mdp, task, run, now):
    """Mean gradients over every outcome of one iteration, recovered from the readable loop's own step."""
    k = replace(run.constants, alpha=1e-3, beta=1e-4)
    low, high = mdp.reward_range
    d = np.exp(now.log_lam) * (1 - mdp.discount)
    zeta = np.where(mdp.allowed, (1 - k.delta) * d + k.delta / task.pairs, 0.0)
    edges = np.concatenate([[0.0], np.cumsum(zeta)])
    dense = mdp.transitions.toarray()
    paid = np.zeros_like(dense)
    rows = np.repeat(np.arange(dense.shape[0]), np.diff(mdp.transitions.indptr))
    paid[rows, mdp.transitions.indices] = mdp.outcome_rewards
    mean_v, mean_lam = np.zeros(mdp.n_states), np.zeros(mdp.shape)
    for pair in np.flatnonzero(mdp.allowed):
        for s_next in np.flatnonzero(dense[pair]):
            for s_bar in range(mdp.n_states):
                weight = zeta.ravel()[pair] * dense[pair, s_next] * mdp.start[s_bar]
                outcome = int(s_next), (paid[pair, s_next] - low) / (high - low)
                pick = (edges[pair] + edges[pair + 1]) / 2
                after, seen = iterate(
                    now, mdp.allowed, k, run.risk_slope, pick, s_bar, lambda s, a, outcome=outcome: outcome
                )
                assert seen[:2] == divmod(pair, mdp.n_actions)
                mean_v += weight * (now.v - after.v) / k.alpha
                # the normalisation takes the same constant off every entry: the last pair's gradient is put back
                change = (after.log_lam - now.log_lam) / k.beta
                mean_lam += weight * (change - normaliser(now, k, run, outcome, pair, zeta))
    return mean_v, mean_lam, k


def normaliser(now, k, run, outcome, pair, zeta):
    """What the normalisation adds to log lam / beta, by the printed formula."""
    s, a = divmod(pair, now.log_lam.shape[1])
    gradient = -run.risk_slope((1 - k.gamma) * np.exp(now.log_lam)) - k.m2
    gradient[s, a] += (outcome[1] + k.gamma * now.v[outcome[0]] - now.v[s] - k.m1) / zeta[s, a]
    half = np.exp(now.log_lam) * np.exp(k.beta * gradient)
    return -np.log((1 - k.gamma) * half.sum()) / k.beta


def test_gradients_are_unbiased_up_to_the_shift():
    mdp = model(by_outcome=True, discount=0.7, n=3)
    pairs, _ = priors(mdp)
    caution, rng = 0.8, np.random.default_rng(0)
    run = begun(mdp.simulator(), ca.KL(pairs), caution, samples=1000)
    d = rng.dirichlet(np.ones(9)).reshape(3, 3)
    v = rng.normal(size=3)
    now = Iterate(np.log(d / (1 - mdp.discount)), v, np.zeros_like(d), np.zeros(3))
    mean_v, mean_lam, k = expectation(mdp, run.task, run, now)
    lam, gamma = d / (1 - mdp.discount), mdp.discount
    np.testing.assert_allclose(mean_v, mdp.start + gamma * mdp.flow_into(lam) - lam.sum(axis=1), atol=1e-10)
    low, high = mdp.reward_range
    reward = (mdp.rewards - low) / (high - low)
    slope = caution / (high - low) * (1 - gamma) * (1 + np.log(d / pairs))
    exact = reward + gamma * mdp.expect_next(v) - v[:, None] - slope
    np.testing.assert_allclose(mean_lam, exact - k.m1 - k.m2, atol=1e-8)


def test_the_update_is_the_printed_argmax():
    mdp = model(n=2, discount=0.6)
    run = begun(mdp.simulator(), ca.Quadratic(priors(mdp)[0]), samples=100)
    k = replace(run.constants, beta=0.05)
    rng = np.random.default_rng(4)
    lam = rng.dirichlet(np.ones(6)).reshape(2, 3) / (1 - k.gamma)
    now = Iterate(np.log(lam), rng.normal(size=2), np.zeros_like(lam), np.zeros(2))
    after, (s, a, _) = iterate(now, mdp.allowed, k, run.risk_slope, 0.4, 1, lambda s, a: (1, 0.3))
    zeta = (1 - k.delta) * (1 - k.gamma) * lam + k.delta / 6
    gradient = -run.risk_slope((1 - k.gamma) * lam) - k.m2
    gradient[s, a] += (0.3 + k.gamma * now.v[1] - now.v[s] - k.m1) / zeta[s, a]

    def loss(log_x, i):
        """The printed problem falls apart into one per pair."""
        x, old = np.exp(log_x), lam.ravel()[i]
        kl = (1 - k.gamma) * x * (log_x - np.log(old))
        return -(gradient.ravel()[i] * (x - old) - kl / ((1 - k.gamma) * k.beta))

    found = [
        minimize_scalar(lambda x, i=i: loss(x, i), bracket=(np.log(lam.ravel()[i]) - 1, np.log(lam.ravel()[i]))).x
        for i in range(6)
    ]
    half = np.exp(found).reshape(lam.shape)
    np.testing.assert_allclose(np.exp(after.log_lam), half / half.sum() / (1 - k.gamma), rtol=1e-6)


@pytest.mark.parametrize("kind", ["none", "KL", "SafeSet", "PeakExposure"])
def test_converges_on_a_tiny_model(kind):
    mdp = model(discount=0.5, n=3)
    risk = {**risks(model(n=5)), "KL": ca.KL(priors(mdp)[0]), "SafeSet": ca.SafeSet([0, 1], slack=0.8)}[kind]
    risk = ca.PeakExposure([[0], [1, 2]]) if kind == "PeakExposure" else risk
    problem = ca.Problem(mdp, risk, 0.5)
    best = ca.solve(problem)
    method = AlgorithmOne(barrier_floor=0.05, occupancy_floor=1e-4)
    run = finish(begun(mdp.simulator(), risk, 0.5, samples=4_000_000, method=method))
    found = evaluate_policy(problem, run.result().policy).objective
    uniform = evaluate_policy(problem, np.full(mdp.shape, 1 / A)).objective
    assert best.objective - found < 0.05 * (best.objective - uniform)
    violation = np.abs(mdp.start - run.occupancy.sum(axis=1) / 0.5 + mdp.flow_into(run.occupancy)).sum()
    gap = best.objective - (run.point().objective - run.constants.box * violation * np.ptp(mdp.reward_range))
    assert 0 <= gap < run.result().facts["theorem bound on the expected duality gap, in units of return"]


@pytest.mark.parametrize("name", ["KL", "TotalVariation states", "sum", "PeakExposure", "TaskFloors"])
def test_a_stopped_run_goes_on_bit_for_bit(name):
    mdp = model(masked=True)

    def new():
        return begun(mdp.simulator(), risks(mdp)[name], samples=500_000)

    whole, first, second = new(), new(), new()
    finish(whole)
    first.advance()
    assert not first.done
    second.restore(*first.storage())
    draws = second.draws
    draws.used, draws.calls = first.draws.used, first.draws.calls
    finish(second)
    for array, other in zip(whole.storage()[1].values(), second.storage()[1].values(), strict=True):
        np.testing.assert_array_equal(array, other)


def test_units_are_undone():
    """Rewards 100 r - 40 and caution 100 c: the same run, and multipliers in the new units."""
    mdp = model()
    other = ca.MDP(mdp.transitions, 100 * mdp.rewards - 40, mdp.discount, mdp.start)
    pairs, _ = priors(mdp)
    one = finish(begun(mdp.simulator(), ca.KL(pairs), 0.5, method=AlgorithmOne(0.001, 4e-5)))
    two = finish(begun(other.simulator(), ca.KL(pairs), 50.0, method=AlgorithmOne(0.001, 4e-5)))
    np.testing.assert_allclose(two.result().occupancy, one.result().occupancy, rtol=1e-6)
    shifted = 100 * one.result().multipliers - 40 / (1 - mdp.discount)
    np.testing.assert_allclose(two.result().multipliers, shifted, rtol=1e-6)
    assert two.point().objective == pytest.approx(100 * one.point().objective - 40 / (1 - mdp.discount))
    assert two.point().risk == pytest.approx(one.point().risk)
    np.testing.assert_allclose(one.result().payoff, mdp.rewards, atol=1e-9)
