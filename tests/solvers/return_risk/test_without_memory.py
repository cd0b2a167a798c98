"""The best policies without memory that are found, against all deterministic ones."""

import itertools
import math

import numpy as np
import pytest
from all_histories import all_distributions, as_mdp, objective, random_tiny, risk_of

import cautious as ca
from cautious.returns.plain import PlainPolicy

KINDS = ["ReturnVariance", "ReturnCVaR", "ReturnEntropic", "ReturnBelow"]
RISKS = [ca.ReturnVariance(), ca.ReturnCVaR(0.9), ca.ReturnEntropic(1.0), ca.ReturnBelow(0.5)]


def tiny(seed, n_states=3):
    rng = np.random.default_rng([seed, 3])
    chances = rng.dirichlet(np.full(n_states, 0.5), size=(n_states, 2))
    return ca.MDP(chances, rng.normal(size=(n_states, 2, n_states)), 0.5), float(10 ** rng.uniform(-1, 1))


@pytest.mark.parametrize("risk", RISKS, ids=lambda risk: risk.label)
@pytest.mark.parametrize("seed", range(2))
def test_no_deterministic_stationary_policy_is_better(risk, seed):
    mdp, caution = tiny(seed)
    problem = ca.Problem(mdp, risk, caution)
    solution = ca.solve(problem, tolerance=1e-2, memory=False)
    assert solution.memory_policy is None
    assert solution.policy.shape == mdp.shape
    assert solution.certificate.kind == "global"
    for actions in itertools.product(range(2), repeat=3):
        played = PlainPolicy(problem.mdp, np.eye(2)[list(actions)], most_moves=1e6)
        low, high, _ = risk.of(played.followed)
        assert played.mean - caution * high <= solution.objective + 2e-3 * caution + 1e-9
        assert played.mean - caution * high <= solution.upper_bound + 1e-9
        assert low <= high + 1e-12


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_policies_of_steps_have_one_of_all_distributions(kind, seed):
    """Over some steps: never above the best of all, its risk by the definition, as good as any of its kind."""
    rng = np.random.default_rng([seed, 5])
    parts = random_tiny(rng)
    mdp, steps, caution = as_mdp(*parts[:3]), min(parts[3], 2), float(10 ** rng.uniform(-1.5, 1))
    risk = {one.label.split("(")[0]: one for one in RISKS}[kind]
    solution = ca.solve(ca.Problem(mdp, risk, caution, horizon=steps), memory=False)
    best = max(objective(one, risk, caution) for one in all_distributions(*parts[:3], steps, 0))
    slack = 1e-10 * max(1.0, abs(best))
    assert solution.policy.shape == (steps, 2, 2)
    assert solution.objective <= best + slack
    assert solution.upper_bound >= best - slack
    found = []
    for actions in itertools.product(range(2), repeat=2 * steps):
        policy = np.eye(2)[np.reshape(actions, (steps, 2))]
        one = distribution_of(policy, *parts[:3])
        found.append(objective(one, risk, caution))
        if np.array_equal(policy, solution.policy):
            assert solution.risk == pytest.approx(float(risk_of(risk, one)), abs=1e-9)
    assert solution.objective >= max(found) - slack


def distribution_of(policy, transitions, rewards, discount):
    """Of a deterministic policy (T, S, A), from state 0, as sorted (return, chance) pairs of fractions."""
    now = {(0, 0): 1}
    for t, table in enumerate(policy):
        then = {}
        for (state, earned), chance in now.items():
            action = int(np.argmax(table[state]))
            for n in range(len(transitions)):
                if transitions[state, action, n] > 0:
                    key = n, earned + discount**t * rewards[state, action, n]
                    then[key] = then.get(key, 0) + chance * transitions[state, action, n]
        now = then
    found = {}
    for (_, earned), chance in now.items():
        found[earned] = found.get(earned, 0) + chance
    return tuple(sorted(found.items()))


@pytest.mark.parametrize("risk", [*RISKS, ca.ReturnEVaR(0.9)], ids=lambda risk: risk.label)
def test_the_risk_of_a_policy_is_that_of_a_coin(risk):
    """Half of the episodes earn 1 at every step and the others 0, so that the return is 2 or 0."""
    transitions, rewards = np.zeros((2, 1, 2)), np.zeros((2, 1, 2))
    transitions[0, 0, 0] = transitions[1, 0, 1] = 1.0
    rewards[1, 0, 1] = 1.0
    mdp = ca.MDP(transitions, rewards, 0.5, start=np.array([0.5, 0.5]))
    low, high, _ = risk.of(PlainPolicy(mdp, np.ones((2, 1)), most_moves=1e6).followed)
    entropic = [(math.log((1 + math.exp(-2 * b)) / 2) + math.log(10)) / b for b in np.geomspace(1e-2, 1e6, 4000)]
    exact = {
        "ReturnVariance": 1.0,
        "ReturnCVaR": 0.0,
        "ReturnEntropic": math.log((1 + math.exp(-2)) / 2),
        "ReturnBelow": 0.5,
        "ReturnEVaR": min(entropic),
    }[type(risk).__name__]
    assert low - 1e-5 <= exact <= high + 1e-5
    if np.isfinite(low):
        assert high - low < 1e-4


def test_the_flag_is_obeyed_and_kept(tmp_path):
    swim = ca.worlds.river_swim(discount=0.5)
    problem = ca.Problem(swim, ca.ReturnVariance(), 1.0, horizon=4)
    solution = ca.solve(problem, memory=False)
    assert solution.status in (ca.Status.SOLVED, ca.Status.STATIONARY)
    assert solution.risk == pytest.approx(ca.evaluate(problem.mdp, solution.policy, episodes=2).exact_variance)
    solution.save(tmp_path / "plain.npz")
    again = ca.load(tmp_path / "plain.npz")
    assert again.memory_policy is None
    assert again.upper_bound == solution.upper_bound
    action, _ = solution.predict(0, rng=np.random.default_rng(0))
    assert action in (0, 1)
    problem.memory = False
    assert ca.solve(problem).memory_policy is None
    assert ca.solve(problem, memory=True).memory_policy is not None
    with pytest.raises(ca.InputError, match="memory must be True or False"):
        ca.solve(problem, memory="no")
    once = ca.MDP(swim.transitions, swim.rewards, 1.0, swim.start)
    reaching = ca.Problem(once, constraints=[ca.Reach([2]) <= 0.5], horizon=6)
    with pytest.raises(ca.IncompatibleError, match="leave out memory=False"):
        ca.solve(reaching, memory=False)
