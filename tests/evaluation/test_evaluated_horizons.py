"""``ca.evaluate`` with a horizon: what is played, and exact figures against all paths written out."""

import itertools
import math

import numpy as np
import pytest

import cautious as ca


def paths_of(mdp, policy):
    """Chance and return of every path of len(policy) steps."""
    dense = mdp.transitions.toarray().reshape(*mdp.shape, mdp.n_states)
    paid = np.zeros(dense.shape)
    rows = np.repeat(np.arange(mdp.n_states * mdp.n_actions), np.diff(mdp.transitions.indptr))
    outcome = mdp.rewards.ravel()[rows] if mdp.outcome_rewards is None else mdp.outcome_rewards
    paid.reshape(-1, mdp.n_states)[rows, mdp.transitions.indices] = outcome
    steps = len(policy)
    for walk in itertools.product(range(mdp.n_states), *[range(mdp.n_actions), range(mdp.n_states)] * steps):
        state, chance, total = walk[0], mdp.start[walk[0]], 0.0
        for t in range(steps):
            action, after = walk[2 * t + 1], walk[2 * t + 2]
            chance *= policy[t, state, action] * dense[state, action, after]
            total += mdp.discount**t * paid[state, action, after]
            state = after
        yield chance, total


@pytest.mark.parametrize("discount", [1.0, 0.7, 0.0])
@pytest.mark.parametrize("by_outcome", [False, True])
def test_mean_and_variance_are_those_of_all_paths(discount, by_outcome):
    rng = np.random.default_rng(3)
    transitions = rng.dirichlet(np.ones(2), size=(2, 2))
    rewards = rng.standard_normal((2, 2, 2) if by_outcome else (2, 2))
    mdp = ca.MDP(transitions, rewards, discount, start=[0.3, 0.7])
    policy = rng.dirichlet(np.ones(2), size=(3, 2))
    chances, totals = np.array(list(paths_of(mdp, policy))).T
    found = ca.evaluate(mdp, policy, episodes=20_000)
    assert chances.sum() == pytest.approx(1)
    assert found.exact_mean == pytest.approx(chances @ totals)
    assert found.exact_variance == pytest.approx(chances @ totals**2 - (chances @ totals) ** 2)
    assert found.mean == pytest.approx(found.exact_mean, abs=5 * found.standard_error)
    assert found.variance == pytest.approx(found.exact_variance, rel=0.1)
    assert (found.criterion, found.horizon, found.truncation_error) == (3, 3, 0.0)


def test_a_solution_is_played_as_long_as_it_says():
    mdp = ca.worlds.machine_replacement()
    solution = ca.solve(ca.Problem(mdp, constraints=[ca.Exposure("broken") <= 0.05], horizon=8)).require()
    found = ca.evaluate(mdp, solution, episodes=4000, sets={"broken": [mdp.n_states - 1]}, seed=1)
    assert found.horizon == found.criterion == 8
    assert found.exact_mean == pytest.approx(solution.expected_return)
    assert found.exact_exposure["broken"] == pytest.approx(solution.occupancy[:, -1].sum())
    assert found.exposure["broken"] == pytest.approx(found.exact_exposure["broken"], abs=0.01)
    assert found.mean == pytest.approx(found.exact_mean, abs=5 * found.standard_error)
    assert ca.evaluate(mdp, solution, horizon=8, episodes=4000, seed=1).mean == found.mean
    with pytest.raises(ca.InputError, match="horizon is 9, and the policy is one for 8 steps"):
        ca.evaluate(mdp, solution, horizon=9)
    with pytest.raises(ca.InputError, match="and the policy is one for horizon=8"):
        ca.evaluate(mdp, solution, horizon="average")
    played = ca.evaluate(mdp.simulator(), solution, episodes=4000, seed=1)
    assert played.mean == found.mean
    assert played.exact_mean is None


def test_policies_by_name_have_their_steps_reordered():
    mdp = ca.worlds.garnet(4, 2, n_successors=3, discount=0.9, seed=5)
    names, order = ["a", "b", "c", "d"], [2, 0, 3, 1]
    parts = mdp.transitions.toarray().reshape(4, 2, 4), mdp.rewards, mdp.start
    here = ca.MDP(*parts[:2], 0.9, parts[2], state_names=names)
    there = ca.MDP(
        parts[0][order][:, :, order],
        parts[1][order],
        0.9,
        parts[2][order],
        state_names=[names[state] for state in order],
    )
    solution = ca.solve(ca.Problem(here, horizon=3))
    assert ca.evaluate(there, solution, 2).exact_mean == pytest.approx(solution.expected_return)


def test_discount_1_needs_a_horizon():
    mdp = ca.MDP(np.full((2, 1, 2), 0.5), np.array([[0.0], [1.0]]), discount=1)
    policy = np.ones((2, 1))
    with pytest.raises(ca.InputError, match=r'discount is 1.*horizon=24.*"average".*"total"'):
        ca.evaluate(mdp, policy)
    with pytest.raises(ca.InputError, match=r"discount is 1.*horizon=24"):
        ca.evaluate(mdp.simulator(), policy)
    found = ca.evaluate(mdp, policy, horizon=6)
    assert (found.exact_mean, found.exact_variance) == pytest.approx((3.0, 1.5))
    assert found.truncation_error == 0
    assert ca.evaluate(mdp.simulator(), policy, horizon=6).mean == found.mean
    with pytest.raises(ca.IncompatibleError, match="does not say which states end an episode"):
        ca.evaluate(mdp.simulator(), policy, horizon="total")
    with pytest.raises(ca.InputError, match=r"does not discount, and the discount of the model is 0\.5"):
        ca.evaluate(ca.MDP(mdp.transitions, mdp.rewards, 0.5), policy, horizon="average")


def test_a_policy_for_every_step_is_checked():
    mdp = ca.worlds.queue()
    uniform = mdp.allowed / mdp.allowed.sum(axis=1, keepdims=True)
    found = ca.evaluate(mdp, np.stack([uniform] * 4), 10)
    assert found.criterion == 4
    with pytest.raises(ca.InputError, match=r"horizon is 5, and the policy is one for 4 steps"):
        ca.evaluate(mdp, np.stack([uniform] * 4), 10, horizon=5)
    with pytest.raises(ca.InputError, match="sums to"):
        ca.evaluate(mdp, np.zeros((4, *mdp.shape)))


def test_the_same_return_every_time_has_no_variance():
    mdp = ca.MDP(np.ones((1, 1, 1)), [[0.1]], discount=1)
    found = ca.evaluate(mdp, np.ones((1, 1)), 10, horizon=1000)
    assert found.exact_variance == found.variance == 0
    assert math.isclose(found.exact_mean, 100)


def work(danger=0.3):
    """States a, b, bad, done; work fast and end in bad sometimes, or slowly."""
    moves = np.zeros((4, 2, 4))
    moves[0] = [[0.5, 0.5, 0, 0], [0.2, 0.8 - danger, danger, 0]]
    moves[1] = [[0, 0.6, 0, 0.4], [0.1, 0, 0.1, 0.8]]
    moves[2] = [[1, 0, 0, 0], [0, 0.5, 0, 0.5]]
    moves[3, :, 3] = 1
    pays = np.array([[-2.0, -1.0], [-3.0, -1.0], [-1.0, -1.0], [0.0, 0.0]])
    return ca.MDP(moves, pays, 1.0, [1, 0, 0, 0], state_names=["a", "b", "bad", "done"])


def test_until_the_end():
    mdp = work()
    solution = ca.solve(ca.Problem(mdp, horizon="total")).require()
    found = ca.evaluate(mdp, solution, 20_000, sets={"bad": ["bad"], "end": ["done"]})
    assert (found.criterion, found.truncation_error) == ("total", 0.0)
    assert found.exact_mean == pytest.approx(solution.expected_return)
    assert found.mean == pytest.approx(found.exact_mean, abs=5 * found.standard_error)
    assert found.variance == pytest.approx(found.exact_variance, rel=0.1)
    assert found.exact_exposure["bad"] == pytest.approx(solution.occupancy[2].sum())
    assert found.exposure["bad"] == pytest.approx(found.exact_exposure["bad"], abs=0.02)
    assert found.exposure["end"] == found.exact_exposure["end"] == 0
    assert ("visits to bad", found.exposure["bad"], found.exact_exposure["bad"]) in found.table()
    cut = ca.evaluate(mdp, solution, 100, horizon=1)
    assert (cut.horizon, cut.truncation_error) == (1, math.inf)


def test_a_policy_that_may_never_end_is_refused():
    mdp = ca.MDP([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]], [[-1.0, 0.0], [0.0, 0.0]], 1.0, [1, 0])
    with pytest.raises(ca.InputError, match="this policy may go on for ever"):
        ca.evaluate(mdp, np.array([[1.0, 0.0], [1.0, 0.0]]), horizon="total")


@pytest.mark.parametrize("horizon", ["total", 9])
def test_policies_with_memory(horizon):
    mdp = work()
    free = ca.solve(ca.Problem(mdp, horizon=horizon)).require()
    solution = ca.solve(ca.Problem(mdp, constraints=[ca.Reach("bad") <= 0.2], horizon=horizon)).require()
    assert solution.expected_return < free.expected_return - 0.1
    found = ca.evaluate(mdp, solution, 4000, sets={"bad": ["bad"]}, seed=3)
    assert found.exact_mean == pytest.approx(solution.expected_return)
    assert found.mean == pytest.approx(found.exact_mean, abs=5 * found.standard_error)
    # played by hand in the model without memory
    rng, simulator = np.random.default_rng(0), mdp.simulator()
    states, state, totals, seen = simulator.start_states(4000, rng), None, np.zeros(4000), np.zeros(4000, bool)
    for _ in range(9 if horizon == 9 else 200):
        actions, state = solution.predict(states, state, rng=rng)
        states, paid = simulator.sample(states, actions, rng)
        totals += paid
        seen |= states == 2
    assert totals.mean() == pytest.approx(solution.expected_return, abs=5 * totals.std() / 60)
    assert seen.mean() == pytest.approx(solution.constraints[0].value, abs=0.04)
    with pytest.raises(ca.IncompatibleError, match="only in the model that it was made for"):
        ca.evaluate(work(0.1), solution)


@pytest.mark.parametrize("horizon", ["total", 9])
def test_a_policy_with_memory_from_a_file_remembers(horizon, tmp_path):
    mdp = work()
    solution = ca.solve(ca.Problem(mdp, constraints=[ca.Reach("bad") <= 0.2], horizon=horizon)).require()
    solution.save(tmp_path / "solution.npz", witness=True)
    loaded = ca.load(tmp_path / "solution.npz")
    assert ca.verify(loaded).proved
    simulator, starts = mdp.simulator(), np.zeros(200, np.int64)
    for one, other in ((solution, loaded), (loaded, solution)):
        states, first, second = starts, None, None
        rng, same, played = (np.random.default_rng(5) for _ in range(3))
        for _ in range(8):
            actions, first = one.predict(states, first, rng=rng)
            again, second = other.predict(states, second, rng=same)
            assert np.array_equal(actions, again)
            states, _ = simulator.sample(states, actions, played)
    assert ca.evaluate(mdp, loaded, 50).exact_mean == pytest.approx(solution.expected_return)
