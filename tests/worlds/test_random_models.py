import numpy as np
import pytest

from cautious import worlds
from cautious.errors import InputError
from cautious.planning import plan


def test_garnet_has_the_asked_number_of_distinct_successors():
    mdp = worlds.garnet(n_states=30, n_actions=3, n_successors=7, seed=4)
    assert mdp.shape == (30, 3)
    assert mdp.transitions.nnz == 30 * 3 * 7
    np.testing.assert_array_equal(np.count_nonzero(mdp.transitions.toarray(), axis=1), 7)
    np.testing.assert_allclose(mdp.transitions.sum(axis=1), 1, atol=1e-15)
    assert 0 <= mdp.rewards.min() < mdp.rewards.max() <= 1


def test_garnet_depends_on_the_seed_and_on_nothing_else():
    one, same, other = (worlds.garnet(seed=seed) for seed in (3, 3, 4))
    assert one.transitions.data.tobytes() == same.transitions.data.tobytes()
    assert one.transitions.indices.tobytes() == same.transitions.indices.tobytes()
    assert one.rewards.tobytes() == same.rewards.tobytes()
    assert one.rewards.tobytes() != other.rewards.tobytes()


def test_garnet_draws_sets_and_probabilities_uniformly():
    mdp = worlds.garnet(n_states=5, n_actions=20_000, n_successors=2)
    pairs = mdp.transitions.indices.reshape(-1, 2)
    counts = np.bincount(pairs[:, 0] * 5 + pairs[:, 1], minlength=25)
    present = counts[counts > 0]
    assert present.size == 10
    np.testing.assert_allclose(present / counts.sum(), 0.1, atol=0.005)
    # Dirichlet(1, 1): the first probability is uniform, with mean 1/2 and variance 1/12
    first = mdp.transitions.data.reshape(-1, 2)[:, 0]
    assert first.mean() == pytest.approx(0.5, abs=0.01)
    assert first.var() == pytest.approx(1 / 12, abs=0.002)


def test_garnet_spans_one_successor_to_all_of_them():
    np.testing.assert_array_equal(worlds.garnet(n_states=4, n_successors=1).transitions.data, 1)
    full = worlds.garnet(n_states=4, n_actions=1, n_successors=4)
    assert np.all(full.transitions.toarray() > 0)


def test_a_large_garnet_stays_sparse_and_unnamed():
    mdp = worlds.garnet(n_states=50_000, n_actions=2, n_successors=4, reward_range=(-2, 3))
    assert mdp.transitions.nnz == 400_000
    assert mdp.state_names is None
    assert -2 <= mdp.rewards.min() < 0 < mdp.rewards.max() <= 3


def test_river_swim_is_the_standard_one():
    mdp = worlds.river_swim()
    table = mdp.transitions.toarray().reshape(6, 2, 6)
    np.testing.assert_array_equal(table[:, 0].argmax(axis=1), [0, 0, 1, 2, 3, 4])
    np.testing.assert_allclose(table[0, 1, :2], [0.4, 0.6])
    np.testing.assert_allclose(table[3, 1, 2:5], [0.05, 0.6, 0.35])
    np.testing.assert_allclose(table[5, 1, 4:], [0.4, 0.6])
    assert mdp.rewards[0, 0] == 0.005
    assert mdp.rewards[5, 1] == pytest.approx(1)
    assert np.count_nonzero(mdp.rewards) == 2


def test_swimming_is_best_for_the_patient_and_resting_for_the_hasty():
    patient = worlds.river_swim()
    assert plan(patient, patient.rewards).actions.tolist() == [1] * 6
    hasty = worlds.river_swim(discount=0.3)
    found = plan(hasty, hasty.rewards)
    assert found.actions[0] == 0
    assert found.lower == pytest.approx(0.005 / 0.7)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: worlds.garnet(n_states=0), "n_states must be a whole number"),
        (lambda: worlds.garnet(n_states=3), "n_successors is 5; it cannot exceed n_states, which is 3"),
        (lambda: worlds.garnet(seed=-1), "seed must be a whole number"),
        (lambda: worlds.garnet(reward_range=(1, 0)), "reward_range is"),
        (lambda: worlds.garnet(reward_range=5), "reward_range must be"),
        (lambda: worlds.garnet(reward_range=(0, np.inf)), r"reward_range\[1\] is inf"),
        (lambda: worlds.garnet(discount=1.5), r"discount is 1\.5"),
        (lambda: worlds.river_swim(n_states=1), "n_states must be a whole number of at least 2"),
        (lambda: worlds.river_swim(bank_reward=np.nan), "bank_reward is nan"),
    ],
)
def test_wrong_input_is_refused_by_name(call, message):
    with pytest.raises(InputError, match=message):
        call()
