"""Passes that trail each other give the bytes of passes one after the other, wherever states lead."""

import numpy as np
import pytest
import scipy.sparse as sp

import cautious as ca
from cautious.kernels import planning
from cautious.kernels.expected_rows import BLOCK
from cautious.kernels.trailing_passes import KEPT, block_reach, trailing_passes
from cautious.models.chains import Greedy
from cautious.models.encodings import frozen
from cautious.worlds import random_models

N = 11 * BLOCK + 45


def led(targets):
    """A model of one action in which each state leads to the states in its row, all as likely."""
    n, k = targets.shape
    rows = sp.csr_array((np.full(n * k, 1 / k), targets.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n))
    rows.sum_duplicates()
    return ca.MDP(rows, np.random.default_rng(0).random((n, 1)), 0.95)


def steps(low, high):
    """Every state leads to three others, so much farther on."""
    away = np.random.default_rng(1).integers(low, high, (N, 3), endpoint=True)
    return led(np.clip(np.arange(N)[:, None] + away, 0, N - 1))


def back_to(place):
    """Most states lead to their neighbours, all now and then to one and the same."""
    targets = np.stack(
        [np.maximum(np.arange(N) - 1, 0), np.minimum(np.arange(N) + 1, N - 1), np.full(N, place)], axis=1
    )
    return led(targets)


MODELS = {
    "near": lambda: steps(-300, 300),
    "forwards": lambda: steps(1, 700),
    "backwards": lambda: steps(-700, -1),
    "anywhere": lambda: steps(-N, N),
    "back to the first": lambda: back_to(0),
    "on to the last": lambda: back_to(N - 1),
    "small": lambda: random_models.garnet(7, n_actions=1, n_successors=2, discount=0.9),
}


@pytest.mark.parametrize("passes", [4, 5, 11, 20])
@pytest.mark.parametrize("name", MODELS)
def test_the_bytes_are_those_of_passes_one_after_the_other(name, passes):
    mdp = MODELS[name]()
    chain, gain = Greedy(mdp, frozen(mdp.rewards).ravel()).chain(np.zeros(mdp.n_states, np.int64))
    rows, v = (*chain.arrays, chain.widths, gain, mdp.discount), np.random.default_rng(2).normal(size=mdp.n_states)
    iterates = np.full((KEPT, mdp.n_states), np.nan)
    trailing_passes(*rows, v, passes, *mdp.block_reach, iterates)
    for last in range(passes - KEPT, passes):
        assert iterates[last % KEPT].tobytes() == planning.evaluate_passes(*rows, v, last + 1).tobytes()


def test_reach_counts_blocks_whatever_the_policy():
    n = 4 * BLOCK
    targets = np.stack([np.arange(n), np.arange(n)], axis=1)
    # two actions: the second of a state of the second block leads far
    targets[BLOCK + 3, 1], targets[3 * BLOCK, 0] = 3 * BLOCK + 1, BLOCK - 1
    rows = sp.csr_array((np.ones(2 * n), targets.ravel(), np.arange(2 * n + 1)), shape=(2 * n, n))
    indptr, indices, _ = ca.MDP(rows, np.zeros((n, 2)), 0.9).csr
    ahead, behind = block_reach(indptr, indices, n)
    assert ahead.tolist() == [1, 4, 3, 4]
    assert behind.tolist() == [4, 4, 4, 4]
