"""The probability of ever entering some states: by every policy with memory, and by simulation of chains."""

from itertools import product

import numpy as np
import pytest

import cautious as ca

FORWARD, SKIP, END = [[0, 1, 0], [0, 0, 1], [0, 0, 1]], [[0, 0, 1], [0, 0, 1], [0, 0, 1]], 2


def line(start=(1, 0, 0), rewards=((0, 3), (1, 1), (0, 0)), names=None):
    """Either through the middle or past it, to the end."""
    return ca.MDP([np.array(FORWARD, float), np.array(SKIP, float)], rewards, 1.0, start, state_names=names)


@pytest.mark.parametrize("horizon", ["total", 1, 2, 5])
def test_a_limit_on_a_chance(horizon):
    problem = ca.Problem(line(), constraints=[ca.Reach([1]) >= 0.25], horizon=horizon)
    assert problem.mdp.memory is None
    solution = ca.solve(problem).require()
    # the middle is paid for only where there is a second step
    value = 2.5 if horizon != 1 else 2.25
    assert solution.expected_return == pytest.approx(value, abs=1e-5)
    assert solution.constraints[0].price == pytest.approx(2.0 if horizon != 1 else 3.0, abs=1e-4)


@pytest.mark.parametrize("horizon", ["total", 3])
def test_a_start_inside_counts(horizon):
    mdp = line(start=(0.5, 0.5, 0))
    solution = ca.solve(ca.Problem(mdp, constraints=[ca.Reach([1]) <= 0.6], horizon=horizon)).require()
    assert solution.constraints[0].value == pytest.approx(0.5, abs=1e-6)
    solution = ca.solve(ca.Problem(mdp, constraints=[ca.Reach([1]) >= 0.6], horizon=horizon)).require()
    assert solution.constraints[0].value == pytest.approx(0.6, abs=1e-5)
    solution = ca.solve(ca.Problem(mdp, constraints=[ca.Reach([1]) <= 0.4], horizon=horizon))
    assert solution.status is ca.Status.INFEASIBLE
    assert solution.certificate.facts["best_alone"][0] == pytest.approx(0.5, abs=1e-6)


def test_the_state_after_the_last_decision_counts():
    mdp = line(rewards=((0, 0), (0, 0), (0, 0)))
    most = ca.solve(ca.Problem(mdp, -1.0 * ca.Reach([END]), horizon=1)).require()
    assert -most.risk == pytest.approx(1.0)


def test_reach_needs_a_time_and_no_discount():
    discounted = ca.MDP([np.array(FORWARD, float), np.array(SKIP, float)], np.zeros((3, 2)), 0.9)
    with pytest.raises(ca.IncompatibleError, match="until some time"):
        ca.Problem(discounted, constraints=[ca.Reach([1]) <= 0.5])
    with pytest.raises(ca.IncompatibleError, match="until some time"):
        ca.Problem(line(), constraints=[ca.Reach([1]) <= 0.5], horizon="average")
    with pytest.raises(ca.IncompatibleError, match="does not discount"):
        ca.Problem(discounted, constraints=[ca.Reach([1]) <= 0.5], horizon=3)


def wanderer(seed, n_states=4, n_actions=2):
    """A model whose states are entered again and again until it ends; the last state is the end."""
    rng = np.random.default_rng(seed)
    transitions = np.zeros((n_states, n_actions, n_states))
    for s, a in product(range(n_states - 1), range(n_actions)):
        transitions[s, a, rng.choice(n_states - 1, size=2, replace=False)] = rng.dirichlet(np.ones(2)) * 0.75
        transitions[s, a, -1] = 0.25
    transitions[-1, :, -1] = 1.0
    rewards = rng.normal(size=(n_states, n_actions))
    rewards[-1] = 0.0
    names = [f"s{state}" for state in range(n_states)]
    return ca.MDP(transitions, rewards, 1.0, rng.dirichlet([1.0] * (n_states - 1) + [0.0001]), state_names=names)


def behaviour(mdp, actions, goal):
    """Return and chance of the goal of a policy that knows whether it was there: actions (2, S)."""
    n = mdp.n_states
    rows = mdp.transitions.toarray().reshape(*mdp.shape, n)
    inside = np.isin(np.arange(n), goal)
    chain, paid, start = np.zeros((2 * n, 2 * n)), np.zeros(2 * n), np.zeros(2 * n)
    for bit, s in product(range(2), range(n)):
        a, here = actions[bit][s], bit * n + s
        paid[here] = mdp.rewards[s, a]
        for j in range(n):
            chain[here, (bit or inside[j]) * n + j] += rows[s, a, j]
        if bit == inside[s]:
            start[here] = mdp.start[s]
    open_states = np.flatnonzero(np.arange(2 * n) % n != n - 1)
    inner = np.eye(open_states.size) - chain[np.ix_(open_states, open_states)]
    visits = np.linalg.solve(inner.T, start[open_states])
    # who has been at the goal ends there with that bit, and who has not without
    ended = visits @ chain[open_states, 2 * n - 1] + start[2 * n - 1]
    return float(visits @ paid[open_states]), float(ended)


@pytest.mark.parametrize("seed", range(8))
def test_memory_against_all_policies_that_remember(seed):
    mdp, goal = wanderer(seed), [1]
    points = [
        behaviour(mdp, (first, then), goal)
        for first in product(range(2), repeat=mdp.n_states)
        for then in product(range(2), repeat=mdp.n_states)
    ]
    returns, chances = np.array(points).T
    limit = 0.7 * chances.min() + 0.3 * chances.max()
    solution = ca.solve(ca.Problem(mdp, constraints=[ca.Reach("s1") <= limit], horizon="total"))
    assert solution.mdp.memory is not None
    assert "s1 (after Reach(s1))" in solution.mdp.state_names
    assert "s1" not in solution.mdp.state_names
    if chances[returns.argmax()] <= limit + 1e-9:
        assert solution.require().expected_return == pytest.approx(returns.max(), abs=1e-5)
        return
    # the best mixture of two policies
    below, above = chances <= limit, chances > limit
    share = (limit - chances[below])[:, None] / (chances[above][None, :] - chances[below][:, None])
    best = max(returns[below].max(), ((1 - share) * returns[below][:, None] + share * returns[above][None, :]).max())
    assert solution.require().expected_return == pytest.approx(best, rel=2e-6, abs=2e-6)
    assert solution.constraints[0].value <= limit


def test_other_measures_mean_the_states_of_the_model():
    mdp = wanderer(3)
    rewards = np.abs(mdp.rewards)
    constraints = [ca.Reach("s1") >= 0.2, ca.Exposure("s2") <= 5.0, ca.Return(rewards) >= 0.0]
    solution = ca.solve(ca.Problem(mdp, constraints=constraints, horizon="total")).require()
    memory = solution.mdp.memory
    in_s2, paid = memory.origin == 2, rewards[memory.origin]
    assert solution.constraints[1].value == pytest.approx(float(solution.occupancy[in_s2].sum()))
    assert solution.constraints[2].value == pytest.approx(float(np.sum(solution.occupancy * paid)))


def test_several_sets_have_a_bit_each():
    mdp = wanderer(5)
    two = ca.Problem(mdp, constraints=[ca.Reach([0]) <= 0.9, ca.Reach([1]) >= 0.1], horizon="total")
    assert len(two.mdp.memory.sets) == 2
    assert ca.solve(two).require().gap < 1e-5
    same = ca.Problem(mdp, constraints=[ca.Reach([0]) <= 0.9, ca.Reach("s0") >= 0.1], horizon="total")
    assert len(same.mdp.memory.sets) == 1
    four = [ca.Reach(states) <= 0.9 for states in ([0], [1], [2], [0, 1])]
    with pytest.raises(ca.IncompatibleError, match="at most 3"):
        ca.Problem(mdp, constraints=four, horizon="total")
    with pytest.raises(ca.IncompatibleError, match="not available there"):
        ca.Problem(mdp, ca.Entropy(), constraints=[ca.Reach([0]) <= 0.9], horizon="total")


def test_outcome_rewards_are_remembered_too():
    rng = np.random.default_rng(0)
    plain = wanderer(6)
    outcomes = rng.normal(size=(*plain.shape, plain.n_states))
    outcomes[-1] = 0.0
    mdp = ca.MDP(plain.transitions.toarray().reshape(4, 2, 4), outcomes, 1.0, plain.start)
    problem = ca.Problem(mdp, constraints=[ca.Reach([0]) <= 2.0], horizon="total")
    memory = problem.mdp.memory
    assert np.allclose(problem.mdp.rewards, mdp.rewards[memory.origin])
    assert np.allclose(problem.mdp.reward_square, mdp.reward_square[memory.origin])
    best = ca.solve(ca.Problem(mdp, horizon="total")).require().objective
    assert ca.solve(problem).require().objective == pytest.approx(best, abs=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_a_return_without_zeros_is_limited_in_a_model_with_memory(seed):
    """A pair stands in the model once for every memory, and all of its copies must count what it counts."""
    rng = np.random.default_rng(seed)
    mdp = ca.MDP(rng.dirichlet(np.ones(4), (4, 3)), rng.normal(size=(4, 3)), 1.0, [0, 1, 0, 0])
    measure = ca.Return(rng.normal(size=(4, 3)) + 0.01) + 2 * ca.Reach([2])
    best = ca.solve(ca.Problem(mdp, measure, 1e6, horizon=2)).risk
    kept = ca.solve(ca.Problem(mdp, constraints=[measure <= best + 1e-3], horizon=2)).require()
    assert kept.mdp.memory is not None
    assert ca.verify(kept).proved
    missed = ca.solve(ca.Problem(mdp, constraints=[measure <= best - 1e-3], horizon=2))
    assert missed.status is ca.Status.INFEASIBLE
    assert missed.certificate.facts["best_alone"] == pytest.approx([best], abs=1e-6)
