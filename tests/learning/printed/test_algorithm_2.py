"""Algorithm 2: the corrected steps against quadratic programs, the ascent against the global optimum, samples."""

import numpy as np
import pytest
from algorithm_1_cases import Box

import cautious as ca
from cautious.certificate.policy_evaluation import evaluate_policy
from cautious.learning.draws import Draws
from cautious.learning.printed.algorithm_1 import AlgorithmOne
from cautious.learning.printed.algorithm_2 import AlgorithmTwo
from cautious.learning.printed.block_ascent import block_ascent
from cautious.learning.printed.gradient_bounds import GradientLimits, bounded
from cautious.learning.printed.variance_surrogate import HalfSquareOf, Surrogate, flow_gradient, simplex_gradient
from cautious.learning.task import make_task
from cautious.risks.base import Sum
from cautious.risks.separable import project_on_simplex


def model(discount=0.8, masked=True):
    rng = np.random.default_rng(7)
    transitions = rng.dirichlet(np.full(5, 0.4), size=(5, 3))
    allowed = np.ones((5, 3), dtype=bool)
    allowed[2, 1] = not masked
    return ca.MDP(transitions, rng.normal(size=(5, 3, 5)) * 2, discount, allowed=allowed)


def surrogate_of(mdp, caution, coupling):
    return Surrogate(mdp.rewards, mdp.reward_square, mdp.allowed, caution, coupling, mdp.discount)


def occupancies(mdp, count):
    rng = np.random.default_rng(3)
    for _ in range(count):
        rows = rng.random(mdp.shape) * mdp.allowed
        yield ca.solve(ca.Problem(ca.MDP(mdp.transitions, rows, mdp.discount, allowed=mdp.allowed))).occupancy


def test_the_centre_of_the_mu_step():
    """Against a general solver; the centre printed in the appendix gives another point."""
    cp = pytest.importorskip("cvxpy")
    mdp, caution, coupling = model(), 5.0, 40.0
    phi = surrogate_of(mdp, caution, coupling)
    here = mdp.allowed
    for d in occupancies(mdp, 3):
        mu = cp.Variable(int(here.sum()))
        mean = float(np.sum(d * mdp.rewards))
        gain = 2 * caution * mean * (mdp.rewards[here] @ mu) - caution * (mdp.reward_square[here] @ mu)
        cp.Problem(cp.Maximize(gain - coupling / 2 * cp.sum_squares(mu - d[here])), [mu >= 0, cp.sum(mu) == 1]).solve(
            "CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12
        )
        found = phi.best_mu(d)
        np.testing.assert_allclose(found[here], mu.value, atol=1e-7)
        assert np.all(found[~here] == 0)
        printed = project_on_simplex((d + 2 / coupling * (2 * mean * mdp.rewards - mdp.reward_square))[here])
        assert np.abs(printed - mu.value).max() > 1e-2


def test_terms_and_gradients_are_those_of_phi():
    mdp = model()
    phi, rng = surrogate_of(mdp, 3.0, 20.0), np.random.default_rng(0)
    draw = lambda: np.where(mdp.allowed, rng.random(mdp.shape), 0.0) / mdp.allowed.sum()  # noqa: E731
    d, other, mu = draw(), draw(), draw()

    def through_terms(d):
        return float(np.sum(d * mdp.rewards)) / 0.2 - sum(w * risk.value(d) for w, risk in phi.terms(mu))

    assert phi.value(d, mu) - phi.value(other, mu) == pytest.approx(through_terms(d) - through_terms(other))
    step, eps = rng.normal(size=mdp.shape), 1e-6
    slope = (phi.value(d + eps * step, mu) - phi.value(d - eps * step, mu)) / (2 * eps)
    assert slope == pytest.approx(float(np.sum(phi.gradient_in_flux(d, mu) * step)) / 0.2, rel=1e-6)
    slope = (phi.value(d, mu + eps * step) - phi.value(d, mu - eps * step)) / (2 * eps)
    assert slope == pytest.approx(float(np.sum(phi.gradient_in_mu(d, mu) * step)), rel=1e-6)
    same = np.where(mdp.allowed, d, 0.0) / d.sum()
    variance = ca.Problem(mdp, ca.Variance()).risk.value(same)
    assert phi.value(same, same) == pytest.approx(float(np.sum(same * mdp.rewards)) / 0.2 - 3.0 * variance)


def test_projected_gradients_against_a_general_solver():
    cp = pytest.importorskip("cvxpy")
    mdp, rng = model(), np.random.default_rng(2)
    here = mdp.allowed.ravel()
    into = np.repeat(np.eye(5), 3, axis=1) - mdp.discount * mdp.transitions.toarray().T
    for d in occupancies(mdp, 3):
        gradient = rng.normal(size=mdp.shape)
        zero = here & (d.ravel() == 0)
        for found, balance in (
            (flow_gradient(gradient, d, mdp, mdp.allowed), into),
            (simplex_gradient(gradient, d, mdp.allowed), np.ones((1, 15))),
        ):
            x = cp.Variable(15)
            cp.Problem(
                cp.Minimize(cp.sum_squares(x[here] - gradient.ravel()[here])),
                [balance @ x == 0, x[np.flatnonzero(zero)] >= 0, x[np.flatnonzero(~here)] == 0],
            ).solve("CLARABEL")
            np.testing.assert_allclose(found.ravel(), x.value, atol=1e-5)


def test_the_number_risk_is_a_sound_conic_risk():
    mdp = model()
    risk = HalfSquareOf(mdp.rewards, 0.3)
    ca.testing.check_risk(risk, mdp)
    assert ca.solve(ca.Problem(mdp, risk, 4.0)).status is ca.Status.SOLVED


def test_sigma_is_the_corrected_one():
    """For rewards in [0, 1] the two terms together stay below 2c + M, in d."""
    limits = GradientLimits(1e-15, 0.01, 0.0, None)
    reward, allowed = np.array([[0.0, 1.0], [0.4, 0.7]]), np.ones((2, 2), dtype=bool)
    phi = Surrogate(reward, reward**2, allowed, 3.0, 50.0, 0.9)
    mu = np.array([[1.0, 0.0], [0.0, 0.0]])
    total = sum(term.weight * term.bound for term in (bounded(w, r, allowed, limits) for w, r in phi.terms(mu)))
    assert total <= 2 * 3.0 + 50.0


@pytest.fixture(scope="module")
def maze():
    problem = ca.Problem(ca.worlds.maze(), ca.Variance(), 10.0)
    return problem, ca.solve(problem), block_ascent(problem, rounds=40)


def test_the_maze_comes_close_to_the_global_optimum(maze):
    problem, best, found = maze
    chosen = found.rounds[found.chosen]
    assert best.certificate.kind == "global"
    assert chosen.objective <= best.upper_bound
    assert best.objective - chosen.objective < 2e-3 * abs(best.objective)
    assert best.objective - chosen.rounded_objective < 2e-3 * abs(best.objective)
    assert ca.solve(ca.Problem(problem.mdp)).expected_return > chosen.objective
    np.testing.assert_allclose(found.policy.sum(axis=1), 1)
    assert np.all(found.rounded.max(axis=1) == 1)


def test_phi_never_falls_and_the_point_becomes_stationary(maze):
    _, _, found = maze
    phis = [one.phi for one in found.rounds]
    assert np.all(np.diff(phis) >= 0)
    assert found.rounds[-1].stationarity < 1e-3 * found.rounds[0].stationarity
    assert max(one.violation for one in found.rounds) < 1e-12


def test_a_stale_mu_breaks_the_ascent():
    """The printed d step uses the mu of two rounds before; then Phi falls."""
    mdp = model()
    phi = surrogate_of(mdp, 1.0, 20.0)
    d = np.where(mdp.allowed, 1.0, 0.0) / 14
    mus, values = [d, d], []
    for _ in range(8):
        mus.append(phi.best_mu(d))
        d = ca.solve(ca.Problem(mdp, Sum(phi.terms(mus[-3])))).occupancy
        values.append(phi.value(d, mus[-1]))
    assert np.diff(values).min() < -1
    assert np.all(np.diff([one.phi for one in block_ascent(ca.Problem(mdp, ca.Variance(), 1.0), 20.0).rounds]) >= 0)


def test_couplings_too_small_and_too_large():
    mdp = ca.worlds.maze()
    problem = ca.Problem(mdp, ca.Variance(), 10.0)
    neutral = ca.solve(ca.Problem(mdp)).occupancy
    small = block_ascent(problem, 0.01, rounds=3).rounds[-1]
    assert small.rounded_objective == pytest.approx(problem.objective(neutral), rel=0.05)
    large = block_ascent(problem, 1e6, rounds=5).rounds
    assert np.abs(large[-1].occupancy - large[0].occupancy).sum() < 0.05


def test_outputs_and_refusals():
    problem = ca.Problem(model(), ca.Variance(), 2.0)
    one, two = (block_ascent(problem, rounds=6, output="random", seed=seed).chosen for seed in (0, 1))
    assert {one, two} <= set(range(6))
    with pytest.raises(ca.IncompatibleError, match=r"Algorithm 2 is for ca.Variance\(\) on its own"):
        block_ascent(ca.Problem(model(), ca.CVaR(0.9), 1.0))
    with pytest.raises(ca.InputError, match="coupling is -1"):
        block_ascent(problem, -1.0)
    with pytest.raises(ca.InputError, match="output is 'last'"):
        block_ascent(problem, output="last")
    for settings in ({"coupling": 0.0}, {"rounds": 0}, {"output": "last"}):
        with pytest.raises(ca.InputError, match="AlgorithmTwo"):
            AlgorithmTwo(**settings)
    for risk in (ca.CVaR(0.9), ca.Variance() + ca.Entropy(), None):
        reason = AlgorithmTwo().refusal(make_task(model().simulator(), risk, 1.0, 1000, 0))
        assert 'method="plug-in"' in reason


def begun(mdp, samples, method, caution=0.5, seed=1):
    task = make_task(mdp.simulator(), ca.Variance(), caution, samples, seed)
    assert method.refusal(task) is None
    return method.begin(task, Draws(mdp.simulator(), samples, seed), samples)


def test_learning_by_samples():
    mdp = model(0.5)
    method = AlgorithmTwo(coupling=4.0, rounds=4, inner=AlgorithmOne(shift_reward=0.0, shift_risk=0.0))
    run = begun(mdp, 1_000_000, method)
    while not run.done:
        run.advance()
    result, problem = run.result(), ca.Problem(mdp, ca.Variance(), 0.5)
    found = evaluate_policy(problem, result.policy).objective
    best = ca.solve(problem).objective
    uniform = evaluate_policy(problem, mdp.allowed / mdp.allowed.sum(axis=1, keepdims=True)).objective
    assert best - found < 0.25 * (best - uniform)
    (m,) = result.scalars
    paid = mdp.rewards - 0.5 * 0.5 * (mdp.reward_square - 2 * m * mdp.rewards + m**2)
    np.testing.assert_allclose(result.payoff[mdp.allowed], paid[mdp.allowed], atol=0.2)
    assert run.draws.used == 1_000_000
    assert len(result.facts["phi of every round"]) == 4
    assert result.facts["sigma, for rewards in [0, 1]"] > 0
    d = result.occupancy
    assert d.sum() == pytest.approx(1)
    assert np.all(d[~mdp.allowed] == 0)
    assert result.scalars[0] == pytest.approx(float(np.sum(d * mdp.rewards)), abs=0.05)
    assert run.point().risk == pytest.approx(problem.risk.value(run.previous), rel=0.05)


@pytest.mark.parametrize("pieces", [1, 3, 5])
@pytest.mark.parametrize("output", ["best", "random"])
def test_a_stopped_run_goes_on_bit_for_bit(monkeypatch, pieces, output):
    monkeypatch.setattr("cautious.learning.printed.algorithm_1.PIECE_UPDATES", 200_000)
    mdp, method = model(), AlgorithmTwo(rounds=3, output=output)
    whole, first, second = (begun(mdp, 12_000, method) for _ in range(3))
    while not whole.done:
        whole.advance()
    for _ in range(pieces):
        first.advance()
    assert not first.done
    second.restore(*first.storage())
    second.draws.used, second.draws.calls = first.draws.used, first.draws.calls
    while not second.done:
        second.advance()
    for name, array in whole.storage()[1].items():
        np.testing.assert_array_equal(array, second.storage()[1][name])


def test_other_simulators_take_the_readable_loop():
    task = make_task(Box(model(masked=False)), ca.Variance(), 0.5, 400, 0)
    run = AlgorithmTwo(rounds=2).begin(task, Draws(task.simulator, 400, 0), 400)
    while not run.done:
        run.advance()
    assert (run.draws.used, run.moments[0].sum(), len(run.record)) == (400, 400, 2)


def test_too_few_samples_for_any_round_leave_the_uniform_policy():
    run = begun(model(), 14, AlgorithmTwo())
    assert run.result().policy[2, 1] == 0
    run.advance()
    assert run.done
    assert run.result().facts["rounds"] == 0
