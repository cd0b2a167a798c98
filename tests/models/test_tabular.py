"""``MDP``: every encoding is the same model; operators are adjoint; the simulator draws what the table says."""

import numpy as np
import pytest
import scipy.sparse as sp

import cautious as ca


def arrays(seed=0, n=7, m=3):
    rng = np.random.default_rng(seed)
    transitions = rng.dirichlet(np.full(n, 0.5), size=(n, m)) * (rng.random((n, m, n)) < 0.6)
    transitions[:, :, 0] += 0.01
    transitions /= transitions.sum(axis=2, keepdims=True)
    return transitions, rng.normal(size=(n, m, n)), rng


def transition_encodings(transitions):
    n, m, _ = transitions.shape
    flat = transitions.reshape(n * m, n)
    halves = sp.coo_array(flat)
    doubled = sp.coo_array((np.tile(halves.data / 2, 2), tuple(np.tile(c, 2) for c in halves.coords)), shape=flat.shape)
    return {
        "dense": transitions,
        "list": transitions.tolist(),
        "csr": sp.csr_array(flat),
        "csc": sp.csc_array(flat),
        "coo": halves,
        "matrix": sp.csr_matrix(flat),
        "duplicates": doubled,
        "per action": [transitions[:, a] for a in range(m)],
        "sparse per action": [sp.csr_array(transitions[:, a]) for a in range(m)],
        "mixed per action": [sp.csc_matrix(transitions[:, 0]), *(transitions[:, a] for a in range(1, m))],
        "fortran": np.asfortranarray(transitions),
    }


def reward_encodings(rewards):
    n, m, _ = rewards.shape
    return {
        "dense": rewards,
        "csr": sp.csr_array(rewards.reshape(n * m, n)),
        "coo": sp.coo_array(rewards.reshape(n * m, n)),
        "per action": [rewards[:, a] for a in range(m)],
        "sparse per action": [sp.csc_array(rewards[:, a]) for a in range(m)],
    }


@pytest.mark.parametrize("name", transition_encodings(arrays()[0]))
def test_transition_encodings_are_equal(name):
    transitions, rewards, _ = arrays()
    mdp = ca.MDP(transition_encodings(transitions)[name], rewards, 0.9)
    assert mdp.shape == (7, 3)
    np.testing.assert_allclose(mdp.transitions.toarray().reshape(7, 3, 7), transitions, atol=1e-15)
    np.testing.assert_allclose(mdp.rewards, np.einsum("sat,sat->sa", transitions, rewards), atol=1e-14)


@pytest.mark.parametrize("name", reward_encodings(arrays()[1]))
def test_reward_encodings_are_equal(name):
    transitions, rewards, _ = arrays()
    mdp = ca.MDP(transitions, reward_encodings(rewards)[name], 0.9)
    np.testing.assert_allclose(mdp.rewards, np.einsum("sat,sat->sa", transitions, rewards), atol=1e-14)
    np.testing.assert_allclose(mdp.reward_square, np.einsum("sat,sat->sa", transitions, rewards**2), atol=1e-14)
    np.testing.assert_allclose(mdp.outcome_rewards, rewards[transitions > 0])


def test_sparse_rewards_missing_means_zero():
    transitions, rewards, _ = arrays()
    thin = np.where(rewards > 0.5, rewards, 0)
    mdp = ca.MDP(transitions, sp.csr_array(thin.reshape(21, 7)), 0.9)
    np.testing.assert_allclose(mdp.rewards, np.einsum("sat,sat->sa", transitions, thin), atol=1e-14)


@pytest.mark.parametrize("seed", range(20))
def test_operators_are_adjoint(seed):
    transitions, rewards, rng = arrays(seed)
    allowed = rng.random((7, 3)) < 0.7
    allowed[:, 0] = True
    mdp = ca.MDP(transitions, rewards, 0.9, allowed=allowed)
    values, mass = rng.normal(size=7), rng.random((7, 3)) * allowed
    assert mdp.flow_into(mass) @ values == pytest.approx(float(np.sum(mass * mdp.expect_next(values))), rel=1e-12)
    policy = mass / mass.sum(axis=1, keepdims=True)
    expected = np.einsum("sa,sat->st", policy, transitions)
    np.testing.assert_allclose(mdp.under(policy).toarray(), expected, atol=1e-14)
    assert np.all(mdp.expect_next(np.ones(7))[~allowed] == 0)


def test_rows_are_renormalised_to_machine_precision():
    transitions, rewards, _ = arrays()
    sums = ca.MDP(transitions * (1 + 5e-10), rewards, 0.9).transitions.sum(axis=1)
    assert np.abs(sums - 1).max() < 1e-15
    single = ca.MDP(transitions.astype(np.float32), rewards, 0.9)
    assert np.abs(single.transitions.sum(axis=1) - 1).max() < 1e-15


def test_normalise_rescales_and_records_it():
    transitions, rewards, _ = arrays()
    mdp = ca.MDP(3 * transitions, rewards, 0.9, normalise=True)
    assert mdp.normalised
    np.testing.assert_allclose(mdp.transitions.toarray().reshape(7, 3, 7), transitions, atol=1e-15)


def test_forbidden_rows_are_ignored():
    transitions, rewards, _ = arrays()
    allowed = np.ones((7, 3), bool)
    allowed[2, 1] = False
    odd = transitions.copy()
    odd[2, 1] = 0
    mdp = ca.MDP(odd, rewards, 0.9, allowed=allowed)
    assert mdp.rewards[2, 1] == 0
    assert mdp.transitions.toarray()[2 * 3 + 1].sum() == 0


def test_names_and_state_indices():
    transitions, rewards, _ = arrays()
    names = [f"room {i}" for i in range(7)]
    mdp = ca.MDP(transitions, rewards, 0.9, state_names=names, action_names=["a", "b", "c"])
    mask = np.isin(np.arange(7), [1, 4])
    for states in ([4, 1], [1, 4, 4], mask, ["room 4", "room 1"], np.array([1, 4], dtype=np.uint8), (1, 4)):
        assert mdp.state_indices("states", states).tolist() == [1, 4]
    assert mdp.state_names == tuple(names)
    assert "room 3" in mdp.state_label(3)


def test_reward_range_and_spread():
    transitions, rewards, _ = arrays()
    by_outcome = ca.MDP(transitions, rewards, 0.9)
    paid = rewards[transitions > 0]
    assert by_outcome.reward_range == (paid.min(), paid.max())
    assert not by_outcome.has_reward_spread
    averages = by_outcome.rewards
    assert not ca.MDP(transitions, averages, 0.9).has_reward_spread
    assert ca.MDP(transitions, averages, 0.9, reward_square=averages**2 + 1).has_reward_spread


def test_near_one_discount_warns():
    transitions, rewards, _ = arrays()
    with pytest.warns(ca.CautiousWarning, match="discount"):
        ca.MDP(transitions, rewards, 1 - 1e-8)


def test_stored_arrays_are_read_only():
    transitions, rewards, _ = arrays()
    mdp = ca.MDP(transitions, rewards, 0.9)
    for array in (mdp.rewards, mdp.start, mdp.transitions.data, mdp.allowed, mdp.reward_square):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_only_the_transitions_are_shared_with_the_caller():
    transitions, _, _ = arrays()
    table, start, rows = np.zeros((7, 3)), np.full(7, 1 / 7), sp.csr_array(transitions.reshape(21, 7))
    square = np.ones((7, 3))
    mdp = ca.MDP(rows, table, 0.9, start, reward_square=square)
    for given in (table, start, square):
        given[...] = 5.0
    assert mdp.rewards.max() == 0
    assert mdp.start.max() < 1
    assert rows.data.flags.writeable
    assert mdp.reward_square.max() == 1


@pytest.mark.parametrize("outcome", [True, False])
def test_simulator_draws_what_the_table_says(outcome):
    transitions, rewards, _ = arrays()
    table = rewards if outcome else rewards[:, :, 0]
    start = np.array([0.5, 0.25, 0.25, 0, 0, 0, 0])
    mdp = ca.MDP(transitions, table, 0.9, start)
    simulator = mdp.simulator()
    rng = np.random.default_rng(1)
    n = 40_000
    for state, action in ((0, 0), (3, 2), (6, 1)):
        nexts, paid = simulator.sample(np.full(n, state), np.full(n, action), rng)
        share = np.bincount(nexts, minlength=7) / n
        expected = transitions[state, action]
        # five standard errors: about one false alarm in a million draws of the seed
        assert np.all(np.abs(share - expected) <= 5 * np.sqrt(expected * (1 - expected) / n) + 1e-12)
        assert np.array_equal(paid, table[state, action, nexts] if outcome else np.full(n, table[state, action]))
    firsts = np.bincount(simulator.start_states(n, rng), minlength=7) / n
    assert np.all(np.abs(firsts - start) <= 5 * np.sqrt(start * (1 - start) / n) + 1e-12)
    assert isinstance(simulator, ca.Simulator)


def test_simulator_is_reproducible_and_remembers_nothing():
    mdp = ca.MDP(*arrays()[:2], 0.9)
    states, actions = np.zeros(100, int), np.ones(100, int)
    draws = [mdp.simulator().sample(states, actions, np.random.default_rng(5)) for _ in range(2)]
    assert np.array_equal(draws[0][0], draws[1][0])
    assert np.array_equal(draws[0][1], draws[1][1])


@pytest.mark.parametrize("rewards", [[[1.0, 0.0], [0.0, -1e308]], np.full((2, 2, 2), -1e308)])
def test_rewards_that_add_up_to_more_than_a_double_are_refused(rewards):
    transitions = np.full((2, 2, 2), 0.5)
    with pytest.raises(ca.InputError, match=r"rewards\[\d, \d\]: rewards up to 1e\+308 at discount 0\.9 add up"):
        ca.MDP(transitions, rewards, 0.9)
    # far apart, the outcomes cancel
    with pytest.raises(ca.InputError, match="rewards: rewards up to 1e\\+306"):
        ca.MDP(transitions, np.array([[[1e306, -1e306]] * 2] * 2), 0.9)
    assert ca.MDP(transitions, np.full((2, 2), 9e303), 0.9).reward_range == (9e303, 9e303)


@pytest.mark.parametrize("suffix", [".npz", ".umb", ".tra", ".csv", ".mat"])
def test_names_that_no_file_can_hold_are_refused_before_one_is_written(tmp_path, suffix):
    """Half a character, as a broken decoder leaves it, has no UTF-8."""
    transitions = np.full((2, 1, 2), 0.5)
    for name, named in (("state_names", ["fine", "\ud800 half"]), ("action_names", ["\udcff"])):
        with pytest.raises(ca.InputError, match=rf"{name}\[{len(named) - 1}\] is .*half a character"):
            ca.MDP(transitions, np.zeros((2, 1)), 0.9, [1, 0], **{name: named})
    with pytest.raises(ca.InputError, match=r"scene grid\[1\] is .*half a character"):
        ca.Scene("Yard", grid=("..", "\ud83d"))
    # a whole character beyond the first plane is one, and is kept
    whole = ca.MDP(transitions, np.zeros((2, 1)), 0.9, [1, 0], state_names=["\U0001f600", "é"])
    whole.save(tmp_path / f"model{suffix}")
    assert ca.read_model(tmp_path / f"model{suffix}").state_names == ("\U0001f600", "é")


def test_names_that_no_file_can_hold_are_refused_in_a_companion(tmp_path):
    path = tmp_path / "model.csv"
    ca.MDP(np.ones((1, 1, 1)), [[0.0]], 0.9, state_names=["a"]).save(path)
    beside = tmp_path / "model.csv.json"
    beside.write_text(beside.read_text().replace('"a"', '"\\ud800"'))
    with pytest.raises(ca.FileError, match=r"model\.csv\.json: state_names\[0\] is .*half a character"):
        ca.read_model(path)


def test_rows_that_do_not_sum_are_called_by_their_names():
    transitions = np.full((2, 2, 2), 0.5)
    transitions[1, 0] = 0.6
    named = {"state_names": ["up", "down"], "action_names": ["wait", "repair"]}
    with pytest.raises(ca.InputError, match=r"transition row \(state 'down', action 'wait'\) sums to 1.2"):
        ca.MDP(transitions, np.zeros((2, 2)), 0.9, **named)
    with pytest.raises(ca.InputError, match=r"transition row \(state 1, action 0\) sums to 1.2"):
        ca.MDP(transitions, np.zeros((2, 2)), 0.9)


@pytest.mark.parametrize("start", [0, "up"])
def test_a_start_that_is_a_state_is_answered_with_what_to_write(start):
    model = np.full((2, 2, 2), 0.5), np.zeros((2, 2)), 0.9, start
    with pytest.raises(ca.InputError, match=rf"start is {start!r}; it must hold the chance of each state"):
        ca.MDP(*model, state_names=["up", "down"])


def off_by_a_byte(array):
    """The same numbers, not where their type belongs in memory."""
    moved = np.frombuffer(b"-" + np.ascontiguousarray(array).tobytes(), array.dtype, array.size, 1).reshape(array.shape)
    assert not moved.flags.aligned
    return moved


def test_numbers_that_begin_at_any_byte():
    """Files hand out such arrays; the model copies them."""
    plain = ca.worlds.garnet(20, 3, 4, seed=1)
    dense, rows = plain.transitions.toarray().reshape(20, 3, 20), plain.transitions.copy()
    rows.data, rows.indices, rows.indptr = (off_by_a_byte(part) for part in (rows.data, rows.indices, rows.indptr))
    expected = ca.solve(ca.Problem(plain)).expected_return
    for transitions in (off_by_a_byte(dense), rows):
        mdp = ca.MDP(transitions, off_by_a_byte(plain.rewards), plain.discount, off_by_a_byte(plain.start))
        assert ca.solve(ca.Problem(mdp)).expected_return == pytest.approx(expected, rel=1e-9)
