"""Learning from a log: the statement holds, whoever made the log, and says no more than is known."""

from bisect import bisect

import numpy as np
import pytest

import cautious as ca
from cautious.certificate.policy_evaluation import evaluate_policy
from logs_of import drawn_log, in_the_model

RISKS = {
    "none": (None, 0.0),
    "variance": (ca.Variance(), 2.0),
    "tail": (ca.CVaR(0.8), 1.0),
    "safe set": (ca.SafeSet([0, 1, 2], 0.9), 0.5),
    "peak": (ca.PeakExposure([[4], [5]]), 3.0),
    "sum": (ca.Variance() + 0.5 * ca.PeakExposure([[4], [5]]), 1.0),
}


def swim():
    """A log of river swim by somebody who mostly swims upstream."""
    return drawn_log(ca.worlds.river_swim(), 10_000, 40, np.random.default_rng(3), np.tile([0.2, 0.8], (6, 1)))


def learned(mdp, table, risk, caution, **more):
    """What was learned from a log, and the true objective of that policy."""
    start = {state: p for state, p in enumerate(mdp.start) if p > 0}
    given = {"untried": "forbid", "reward_range": mdp.reward_range, "start": start} | more
    logged = ca.from_transitions(table, mdp.discount, **given)
    solution = ca.learn(logged, risk, caution)
    policy = in_the_model(mdp, logged, solution.policy)
    return solution, evaluate_policy(ca.Problem(mdp, risk, caution), policy).objective


@pytest.mark.parametrize("name", RISKS)
def test_the_statement_is_true_and_says_something(name):
    mdp = ca.worlds.river_swim()
    risk, caution = RISKS[name]
    solution, true = learned(mdp, swim(), risk, caution)
    facts = solution.certificate.facts
    assert solution.certificate.kind == "estimated"
    assert solution.status is ca.Status.ESTIMATED
    assert facts["objective_at_least"] <= true <= facts["optimum_below"]
    best = ca.solve(ca.Problem(mdp, risk, caution)).objective
    assert true == pytest.approx(best, abs=0.05)
    assert facts["objective_at_least"] > best - 2.0
    assert solution.gap == pytest.approx(facts["optimum_below"] - facts["objective_at_least"])
    assert f"at least {facts['objective_at_least']:.6g}" in solution.certificate.statement


@pytest.mark.parametrize("risk", [ca.KL(np.full((6, 2), 1 / 12)), ca.TotalVariation(np.full(6, 1 / 6))])
def test_bent_risks_leave_the_return(risk):
    mdp = ca.worlds.river_swim()
    solution, _ = learned(mdp, swim(), risk, 1.0)
    facts = solution.certificate.facts
    assert facts["objective_at_least"] == -np.inf
    assert "expected return of this policy is at least" in solution.certificate.statement
    table = np.asarray(solution.policy)
    true = ca.evaluate(mdp, table, episodes=2).exact_mean
    assert true - 1.5 < facts["return_at_least"] < true


def test_a_requirement_without_proof_leaves_the_return():
    """No policy spends more than 0.54 of the time in these states; 0.53 is met, and the evidence cannot show it."""
    mdp = ca.worlds.river_swim()
    solution, objective = learned(mdp, swim(), ca.SafeSet([4, 5], 0.47), 0.1)
    facts = solution.certificate.facts
    assert np.isfinite(objective)
    assert facts["objective_at_least"] == -np.inf
    assert "expected return of this policy is at least" in solution.certificate.statement
    true = ca.evaluate(mdp, solution.policy, episodes=2).exact_mean
    assert true - 1.5 < facts["return_at_least"] < true


def test_a_prior_made_from_the_log_leaves_the_return():
    """The bounds hold for all policies at once, also for one that a prior made from the same rows has chosen."""
    rng = np.random.default_rng(2)
    table = {"state": rng.integers(3, size=30), "action": rng.integers(4, size=30), "reward": rng.random(30)}
    table["next_state"] = rng.integers(3, size=30)
    logged = ca.from_transitions(table, 0.9, untried="forbid", reward_range=(0, 1))
    solution = ca.learn(logged, ca.KL(logged.logging_policy), 1.0)
    facts = solution.certificate.facts
    assert solution.status is ca.Status.ESTIMATED
    assert "expected return of this policy is at least" in solution.certificate.statement
    # every action pays 0.5 on average, wherever it leads
    assert facts["objective_at_least"] == -np.inf
    assert 0.0 < facts["return_at_least"] < 5.0
    assert (facts["stress"], facts["stress of"]) == (facts["return_at_least"], "expected return")


def adaptive_log(mdp, rows, rng):
    """A path of a behaviour that learns: mostly the action that paid best so far; it begins anew now and then."""
    running = np.cumsum(mdp.transitions.toarray(), axis=1).reshape(*mdp.shape, -1).tolist()
    pays, (n_states, n_actions) = mdp.rewards.tolist(), mdp.shape
    paid = [[0.5] * n_actions for _ in range(n_states)]
    tried = [[1.0] * n_actions for _ in range(n_states)]
    table, state = [], 0
    for row, (anew, explore, which, coin, chance) in enumerate(rng.random((rows, 5)).tolist()):
        if row % 25 == 0:
            state = int(anew * n_states)
        worth = [total / count for total, count in zip(paid[state], tried[state], strict=True)]
        action = worth.index(max(worth)) if explore < 0.7 else int(which * n_actions)
        reward = float(coin < pays[state][action])
        next_state = min(bisect(running[state][action], chance), n_states - 1)
        paid[state][action] += reward
        tried[state][action] += 1
        table.append((state, action, reward, next_state))
        state = next_state
    return table


def coverage(replications, rows, seed):
    """How often the statement holds, and how far it is from the truth on average."""
    rng = np.random.default_rng(seed)
    held, loss = 0, []
    for _ in range(replications):
        mdp = ca.worlds.garnet(3, 2, 2, discount=0.6, seed=int(rng.integers(1e6)))
        solution, true = learned(
            mdp, adaptive_log(mdp, rows, rng), None, 0.0, reward_range=(0, 1), untried="pessimistic"
        )
        claimed = solution.certificate.facts["objective_at_least"]
        held += claimed <= true
        loss.append(true - claimed)
    return held / replications, float(np.mean(loss))


def test_coverage_for_a_behaviour_that_learns():
    share, loss = coverage(60, 600, seed=0)
    assert share >= 0.95
    # the range of values is 2.5
    assert loss < 1.5


@pytest.mark.slow
def test_coverage_long():
    share, loss = coverage(600, 3000, seed=1)
    assert share >= 0.95
    assert loss < 0.7


def test_rows_in_no_order():
    mdp = ca.worlds.garnet(10, 2, 3, seed=4)
    rng = np.random.default_rng(0)
    states, actions = (column.ravel() for column in np.indices((10, 2)))
    states, actions = np.repeat(states, 3000), np.repeat(actions, 3000)
    next_states, rewards = mdp.simulator().sample(states, actions, rng)
    table = {"state": states, "action": actions, "reward": rewards, "next_state": next_states}
    solution, true = learned(mdp, table, None, 0.0, independent_rows=True)
    assert true - 1.0 < solution.certificate.facts["objective_at_least"] <= true
    # nothing depends on the order of the rows
    order = rng.permutation(states.size)
    other, _ = learned(mdp, {name: column[order] for name, column in table.items()}, None, 0.0)
    assert np.array_equal(other.policy, solution.policy)
    claimed = solution.certificate.facts["objective_at_least"]
    assert other.certificate.facts["objective_at_least"] == pytest.approx(claimed, rel=1e-9)


def test_ends_and_new_starts():
    rng = np.random.default_rng(5)
    # work or rest; work ends with probability 0.2, and pays 1
    states, actions = rng.integers(2, size=20_000), rng.integers(2, size=20_000)
    done = (actions == 1) & (rng.random(20_000) < 0.2)
    next_states = np.where(done, 2, 1 - states)
    table = {"state": states, "action": actions, "reward": 1.0 * actions, "next_state": next_states, "done": done}
    for at_end, best in (("absorb", 1 / (1 - 0.8 * 0.8)), ("restart", 1 / (1 - 0.8))):
        logged = ca.from_transitions(
            table, 0.8, at_end=at_end, reward_range=(0, 1), start={0: 0.5, 1: 0.5}, independent_rows=True
        )
        solution = ca.learn(logged)
        claimed = solution.certificate.facts["objective_at_least"]
        assert best - 0.4 < claimed <= best
        assert solution.policy[:2].tolist() == [[0, 1], [0, 1]]


def test_same_seed_same_bytes_and_what_is_saved(tmp_path):
    mdp = ca.worlds.river_swim()
    table = drawn_log(mdp, 500, 20, np.random.default_rng(0))
    first, second = (learned(mdp, table, ca.Variance(), 1.0)[0] for _ in range(2))
    assert first.certificate == second.certificate
    assert np.array_equal(first.policy, second.policy)
    first.save(tmp_path / "learned.npz")
    assert ca.load(tmp_path / "learned.npz").certificate.statement == first.certificate.statement


def test_refusals():
    mdp = ca.worlds.river_swim()
    table = drawn_log(mdp, 100, 10, np.random.default_rng(0))
    without = ca.from_transitions(table, 0.9, untried="forbid")
    with pytest.raises(ca.InputError, match=r"reward_range=\(low, high\)\), or .*; the log has 0 to 0.005"):
        ca.learn(without)
    logged = ca.from_transitions(table, 0.9, untried="forbid", reward_range=(0, 1))
    for name, value in (("samples", 10), ("checkpoint", "x.npz"), ("callback", print), ("method", "primal-dual")):
        with pytest.raises(ca.IncompatibleError, match=f"{name} is for simulators"):
            ca.learn(logged, **{name: value})
    with pytest.raises(ca.InputError, match="robust must be True or False, found 'no'"):
        ca.learn(logged, robust="no")
    with pytest.raises(ca.IncompatibleError, match="robust is for logs"):
        ca.learn(mdp.simulator(), robust=False)
    infeasible = ca.learn(logged, ca.SafeSet([4], 0.01), 1.0)
    assert "nothing is claimed" in infeasible.certificate.statement


SMALL = {
    "none": None,
    "variance": ca.Variance(),
    "tail": ca.CVaR(0.8),
    "bent": ca.KL(np.full((2, 2), 0.25)),
    "barrier": ca.SafeSet([0], 0.9),
    "easy barrier": ca.SafeSet([0, 1], 0.9),
    "peak": ca.PeakExposure([[0], [1]]),
    "worst task": ca.WorstTask(np.array([[[0.0, 1.0], [1.0, 0.0]], [[2.0, 0.0], [0.0, 0.0]]])),
    "sum": ca.Variance() + 2.0 * ca.PeakExposure([[0], [1]]) + ca.SafeSet([0, 1], 0.5),
}


@pytest.mark.parametrize("risk", SMALL.values(), ids=SMALL)
def test_a_small_log_says_that_it_is_too_small(risk):
    """The least that a statement can name is what any policy reaches."""
    rows = [("well", "wait", 1.0, "well"), ("well", "wait", 1.0, "ill"), ("ill", "treat", -2.0, "well")]
    logged = ca.from_transitions(rows, 0.9, untried="forbid", reward_range=(-7000, 1))
    said = ca.learn(logged, risk, 0.001 if risk else 0.0).certificate.statement
    assert said.endswith("Any policy reaches that: the log is too small to say more.")
    if risk is None:
        assert "at least -70000." in said
    more, _ = learned(ca.worlds.river_swim(), swim(), risk if isinstance(risk, ca.Variance) else None, 1.0)
    assert "too small" not in more.certificate.statement
