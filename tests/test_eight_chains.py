"""Eight policies side by side, against dense algebra."""

import numpy as np
import pytest

import cautious as ca
from cautious.kernels import eight_chains as kernels
from cautious.models.eight_chains import EightChains
from cautious.occupancy import policy_occupancy, uniform_policy


def eight_policies(mdp, rng):
    """Policies (8, S, A): seven random ones, one of them with zeros, and a deterministic one."""
    policies = rng.dirichlet(np.ones(mdp.n_actions), size=(8, mdp.n_states))
    policies[3, ::2] = uniform_policy(mdp.allowed)[::2]
    policies[5] = np.eye(mdp.n_actions)[rng.integers(mdp.n_actions, size=mdp.n_states)]
    return policies


def taken(mdp, policies):
    chains = EightChains(mdp)
    weights = kernels.aligned(policies[0].size)
    weights.reshape(-1, 8)[:] = policies.reshape(8, -1).T
    chains.take(weights)
    return chains


def dense_chain(mdp, policy):
    table = mdp.transitions.toarray().reshape(*mdp.shape, -1)
    return np.einsum("sa,sat->st", policy, table)


@pytest.mark.parametrize("seed", range(3))
def test_chains_are_those_of_the_policies(seed):
    rng = np.random.default_rng(seed)
    mdp = ca.worlds.garnet(23, n_actions=3, n_successors=4, discount=0.9, seed=seed)
    policies = eight_policies(mdp, rng)
    pointer, successor, chance = taken(mdp, policies).arrays
    found = np.zeros((8, 23, 23))
    for s in range(23):
        for k in range(pointer[s], pointer[s + 1]):
            found[:, s, successor[k]] += chance.reshape(-1, 8)[k]
    assert np.allclose(found, [dense_chain(mdp, policy) for policy in policies], atol=1e-15)


@pytest.mark.parametrize("discount", [0.5, 0.95, 0.999])
def test_occupancies_are_those_of_the_policies(discount):
    rng = np.random.default_rng(1)
    world = ca.worlds.garnet(150, n_actions=3, n_successors=4, discount=discount)
    mdp = ca.MDP(world.transitions, world.rewards, discount, rng.dirichlet(np.ones(150)))
    policies = eight_policies(mdp, rng)
    chains = taken(mdp, policies)
    aims = 10.0 ** -np.arange(3.0, 11.0) * (1 - discount)
    states, sizes = chains.flow(aims)
    assert np.all(sizes <= aims)
    for policy, found, size in zip(policies, states.T, sizes, strict=True):
        missing = (1 - discount) * mdp.start + discount * dense_chain(mdp, policy).T @ found - found
        assert np.abs(missing).sum() == pytest.approx(size, abs=1e-14)
        exact = policy_occupancy(mdp, policy).occupancy.sum(axis=1)
        assert np.abs(found - exact).sum() <= size / (1 - discount) + 1e-12


def test_a_guess_that_is_good_enough_stays():
    mdp = ca.worlds.garnet(40, n_actions=3, n_successors=4, discount=0.9)
    policies = eight_policies(mdp, np.random.default_rng(2))
    chains = taken(mdp, policies)
    known, sizes = chains.flow(np.full(8, 1e-9))
    again, measured = chains.flow(2 * np.maximum(sizes, 1e-16), known)
    assert np.array_equal(again, known)
    assert np.array_equal(measured, sizes)


def test_states_that_stay_put_and_chains_that_end():
    # the second state is absorbing, the third never visited
    transitions = np.array([[[0.5, 0.5, 0.0]], [[0.0, 1.0, 0.0]], [[1.0, 0.0, 0.0]]])
    mdp = ca.MDP(transitions, np.zeros((3, 1)), discount=0.9, start=[1.0, 0.0, 0.0])
    states, _ = taken(mdp, np.ones((8, 3, 1))).flow(np.full(8, 1e-12))
    first = 0.1 / (1 - 0.45)
    assert np.allclose(states, np.array([[first], [1 - first], [0.0]]), atol=1e-11)


def test_tables_are_aligned():
    for count in (0, 1, 7, 1000):
        room = kernels.aligned(count)
        assert room.size == 8 * count
        assert room.ctypes.data % 64 == 0
