"""Passes that trail each other give the bytes of passes one after the other, wherever states lead."""

import numpy as np
import pytest
import scipy.sparse as sp

import cautious as ca
from cautious._core import planning
from cautious._core.planning import BLOCK
from cautious._core.trailing_passes import KEPT, block_reach, trailing_passes
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


def plain_passes(rows, v, passes):
    """v <- b + gamma P v, so many times."""
    old, count = v.copy(), -(-v.size // planning.PIECE)
    for _ in range(passes):
        new = np.empty_like(old)
        planning.evaluate(*rows, old, new, 0, count)
        old = new
    return old


@pytest.mark.parametrize("passes", [0, 1, 4, 5, 11, 20])
@pytest.mark.parametrize("name", MODELS)
def test_the_bytes_are_those_of_passes_one_after_the_other(name, passes):
    mdp = MODELS[name]()
    chain, gain = Greedy(mdp, frozen(mdp.rewards).ravel()).chain(np.zeros(mdp.n_states, np.int64))
    rows, v = (
        (*chain.arrays, chain.block_lengths, gain, mdp.discount),
        np.random.default_rng(2).normal(size=mdp.n_states),
    )
    iterates = np.full((KEPT, mdp.n_states), np.nan)
    trailing_passes(*rows, v, passes, *mdp.block_reach, iterates)
    for last in range(max(0, passes - KEPT), passes):
        assert iterates[last % KEPT].tobytes() == plain_passes(rows, v, last + 1).tobytes()


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


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("size", [1, 7, 64, 100])
def test_reach_of_either_index_width(kind, size):
    """One block of rows of any number of entries leads to its least and its largest successor."""
    rng = np.random.default_rng(size)
    n = 20 * BLOCK
    indptr = np.full(n + 1, size, kind)
    indptr[: 10 * BLOCK + 1] = 0
    indices = rng.integers(6 * BLOCK, 17 * BLOCK, size).astype(kind)
    ahead, behind = block_reach(indptr, indices, n)
    expected = np.arange(1, 21)
    expected[10] = max(11, indices.max() // BLOCK + 1)
    assert ahead.tolist() == expected.tolist()
    expected = np.arange(1, 21)
    expected[indices.min() // BLOCK] = max(11, expected[indices.min() // BLOCK])
    assert behind.tolist() == np.maximum.accumulate(expected).tolist()


def one_state():
    """Arguments for a chain of one state that stays."""
    whole = np.zeros(1, np.int64)
    rows = np.array([0, 1], np.int32), np.zeros(1, np.int32), np.ones(1), np.ones(1, np.int64), np.ones(1)
    return [*rows, 0.5, np.zeros(1), 4, whole + 1, whole + 1, np.empty((KEPT, 1))]


def test_a_state_of_its_own():
    arguments = one_state()
    trailing_passes(*arguments)
    assert arguments[-1].ravel().tolist() == [1.0, 1.5, 1.75, 1.875]


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        (3, np.ones(2, np.int64)),
        (4, np.ones(2)),
        (6, np.zeros(0)),
        (7, -1),
        (7, 2**62),
        (8, np.ones(0, np.int64)),
        # a block that waits for blocks which do not exist must not be waited for
        (8, np.full(1, 2, np.int64)),
        (9, np.ones(3, np.int64)),
        (10, np.empty((3, 1))),
        (10, np.empty((KEPT, 2))),
    ],
)
def test_wrong_arguments_are_refused(place, wrong):
    arguments = one_state()
    arguments[place] = wrong
    with pytest.raises(ValueError, match="trailing_passes needs"):
        trailing_passes(*arguments)


@pytest.mark.parametrize("n_states", [0, -1, 2, 2**62])
def test_reach_refuses_rows_that_do_not_belong_to_the_states(n_states):
    with pytest.raises(ValueError, match="block_reach needs"):
        block_reach(np.zeros(4, np.int64), np.zeros(0, np.int64), n_states)
