"""Plug-in learning: quality on the paper's grid, every risk, resuming, and what must be refused."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from plain_simulators import Hidden, Spread

import cautious as ca
from cautious.certificate.policy_evaluation import evaluate_policy
from cautious.errors import IncompatibleError
from cautious.learning.draws import Draws
from cautious.learning.plug_in import from_log, plug_in
from cautious.learning.plug_in.plug_in import PlugIn
from cautious.learning.task import make_task
from cautious.runtime.executors import StopRequested


def begin(simulator, risk, caution, samples, seed=0):
    task = make_task(simulator, risk, caution, samples, seed)
    draws = Draws(simulator, samples, seed)
    return PlugIn().begin(task, draws, samples), draws


def learned(simulator, risk, caution, samples, seed=0):
    run, draws = begin(simulator, risk, caution, samples, seed)
    while not run.done:
        run.advance()
    assert draws.used <= samples
    return run.result()


def grid_risks(mdp):
    dark = ca.worlds.dark_cells(mdp)
    safe = np.setdiff1d(np.arange(mdp.n_states), dark)
    return {
        "neutral": (None, 0.0),
        "KL": (ca.KL(ca.worlds.drift_prior()), 5.0),
        "peak": (ca.PeakExposure([dark[:5], dark[5:10], dark[10:]]), 30.0),
        "barrier": (ca.SafeSet(safe, slack=0.12), 1.0),
    }


@pytest.mark.parametrize("name", ["neutral", "KL", "peak", "barrier"])
@pytest.mark.parametrize(("samples", "most"), [(10_000, 0.02), (100_000, 0.005)])
def test_grid_is_learned_from_few_samples(name, samples, most, monkeypatch):
    monkeypatch.setattr(plug_in, "optimum_below", lambda *_: np.inf)
    mdp = ca.worlds.drift()
    risk, caution = grid_risks(mdp)[name]
    problem = ca.Problem(mdp, risk, caution)
    best = ca.solve(problem).objective
    # a tenth of the samples is kept for the trial
    found = [learned(mdp.simulator(), risk, caution, samples * 9 // 10, seed).policy for seed in range(5)]
    lost = [(best - evaluate_policy(problem, policy).objective) / abs(best) for policy in found]
    assert np.mean(lost) <= most


def test_without_the_proof_the_policy_is_learned_all_the_same():
    simulator = ca.worlds.river_swim().simulator()
    proved = ca.learn(simulator, samples=40_000, method=PlugIn())
    plain = ca.learn(simulator, samples=40_000, method=PlugIn(prove=False))
    np.testing.assert_allclose(plain.policy, proved.policy, atol=1e-9)
    # only what the rewards alone allow is known then, and it is said
    _, high = simulator.reward_range
    assert plain.certificate.facts["optimum_below"] == pytest.approx(high / (1 - simulator.discount))
    assert proved.certificate.facts["optimum_below"] < plain.certificate.facts["optimum_below"]


MDP = ca.worlds.river_swim()
N = MDP.n_states
EVEN = np.full(N, 1 / N)
RISKS = {
    "variance": ca.Variance(),
    "cvar": ca.CVaR(0.8),
    "sum": ca.Variance() + 0.3 * ca.KL(EVEN) + ca.PeakExposure([[0]]),
    "tv": ca.TotalVariation(EVEN),
    "quadratic": ca.Quadratic(EVEN),
    "wasserstein": ca.Wasserstein(EVEN, np.abs(np.subtract.outer(np.arange(N), np.arange(N))).astype(float)),
    "entropy": ca.Entropy(),
    "floors": ca.TaskFloors(np.ones((1, *MDP.shape)), [1.0]),
    "worst task": ca.WorstTask(np.random.default_rng(0).random((2, *MDP.shape))),
    "policy prior": ca.KL(np.full(MDP.shape, 0.5)),
    "user": Spread(),
}


@pytest.mark.parametrize("name", RISKS)
def test_every_risk_can_be_learned(name):
    risk = RISKS[name]
    problem = ca.Problem(MDP, risk, 0.5)
    result = learned(MDP.simulator(), risk, 0.5, 20_000)
    best = ca.solve(problem).objective
    assert best - evaluate_policy(problem, result.policy).objective <= 0.03 * max(1.0, abs(best))
    assert result.optimum_below >= best - 1e-9
    assert len(result.scalars) == {"variance": 1, "cvar": 1, "sum": 1}.get(name, 0)


def test_random_rewards_and_unknown_start():
    risk = ca.Variance()
    result = learned(Hidden(MDP, 0.1), risk, 1.0, 20_000)
    assert result.problem.mdp.outcome_rewards is None
    assert np.all(result.problem.mdp.reward_square[MDP.allowed] > result.problem.mdp.rewards[MDP.allowed] ** 2)
    # the true mean of the delivered policy, and the number the variance is taken around
    d = evaluate_policy(ca.Problem(MDP), result.policy)
    assert abs(result.scalars[0] - float(np.sum(d.occupancy.occupancy * MDP.rewards))) < 0.05


def test_cvar_of_random_rewards_is_refused_with_a_way_out():
    with pytest.raises(IncompatibleError, match=r"make what decides the reward part of the state, or use ca\.Variance"):
        learned(Hidden(MDP, 0.1), ca.CVaR(0.9), 1.0, 2000)


@pytest.mark.parametrize("black_box", [False, True])
@pytest.mark.parametrize("risk", [None, ca.Variance(), ca.KL(EVEN)], ids=["neutral", "variance", "KL"])
def test_resume_is_bit_identical_at_every_piece(risk, black_box):
    simulator = Hidden(MDP, 0.0 if risk is None else 0.1) if black_box else MDP.simulator()
    run, draws = begin(simulator, risk, 1.0, 9000)
    kept = []
    while not run.done:
        kept.append((run.storage(), draws.used, draws.calls))
        run.advance()
    whole, point = run.result(), run.point()
    # the bound of a variance takes seconds: every third piece will do
    for storage, used, calls in kept if not whole.scalars else kept[::3]:
        again, others = begin(simulator, risk, 1.0, 9000)
        others.used, others.calls = used, calls
        again.restore(*storage)
        while not again.done:
            again.advance()
        result = again.result()
        assert np.array_equal(result.policy, whole.policy)
        assert np.array_equal(result.multipliers, whole.multipliers)
        assert np.array_equal(result.problem.mdp.transitions.data, whole.problem.mdp.transitions.data)
        assert result.optimum_below == whole.optimum_below
        assert result.scalars == whole.scalars
        assert repr(again.point()) == repr(point)


def test_infeasible_counts_give_the_closest_policy_and_say_so():
    risk = ca.SafeSet([N - 1], slack=0.01)
    result = learned(MDP.simulator(), risk, 1.0, 2000)
    assert "cannot be met" in result.facts["counted model"]
    closest = ca.solve(ca.Problem(MDP, risk, 1.0))
    share = evaluate_policy(ca.Problem(MDP), result.policy).occupancy.occupancy[N - 1].sum()
    assert share >= closest.occupancy[N - 1].sum() - 0.05


def test_zero_priors_are_kept_everywhere():
    prior = np.ones(MDP.shape)
    prior[::2, 0] = 0
    result = learned(MDP.simulator(), ca.KL(prior / prior.sum()), 1.0, 3000)
    assert np.all(result.policy[prior == 0] == 0)


def test_result_is_there_from_the_beginning():
    run, _ = begin(MDP.simulator(), ca.Variance(), 1.0, 5000)
    for _ in range(100):
        result = run.result()
        np.testing.assert_allclose(result.policy.sum(axis=1), 1)
        assert np.isfinite(result.optimum_below)
        if run.done:
            return
        run.advance()


def test_stopping_leaves_the_run_as_it_was():
    run, draws = begin(MDP.simulator(), None, 0.0, 5000)
    run.advance()
    while run.drawing:
        run.advance()
    before = run.storage()
    draws.stopping = lambda: True
    with pytest.raises(StopRequested):
        run.advance()
    after = run.storage()
    assert before[0] == after[0]
    assert all(np.array_equal(before[1][name], after[1][name]) for name in before[1])


def test_counts_beyond_memory_are_refused():
    class Huge(Hidden):
        def __init__(self):
            super().__init__(MDP)
            self.n_states, self.n_actions = 100_000, 10

    task = make_task(Hidden(MDP), None, 0.0, 1000, 0)
    assert PlugIn().refusal(task) is None
    task = make_task(Huge(), None, 0.0, 10**13, 0)
    assert 'use method="primal-dual"' in PlugIn().refusal(task)


def test_a_method_may_have_settings_without_a_default():
    @dataclass(frozen=True)
    class Named(PlugIn):
        label: str = field(kw_only=True)

    learned = ca.learn(ca.worlds.river_swim().simulator(), samples=20_000, method=Named(label="mine"))
    assert "label='mine'" in learned.certificate.facts["settings"]


def test_a_solve_that_is_stopped_stops_learning_from_a_log(monkeypatch):
    rng = np.random.default_rng(0)
    rows = [(int(s), int(a), float(s == 1), int(rng.integers(3))) for s, a in rng.integers(2, size=(400, 2))]
    rows += [(2, a, 0.0, int(rng.integers(3))) for a in (0, 1) for _ in range(50)]
    table = {name: [row[k] for row in rows] for k, name in enumerate(("state", "action", "reward", "next_state"))}
    logged = ca.from_transitions(table, 0.9, untried="forbid", reward_range=(0, 1))
    solve = from_log.solve
    monkeypatch.setattr(from_log, "solve", lambda problem: replace(solve(problem), status=ca.Status.STOPPED))
    learned = ca.learn(logged, ca.KL(np.full((3, 2), 1 / 6)), caution=1.0)
    assert learned.status is ca.Status.STOPPED
    assert learned.certificate.facts["policy from"] == "counted model"
