"""The parts of a planning call against plain NumPy: steps along rows, the simpler world."""

import numpy as np
import pytest
import scipy.sparse as sp

import cautious as ca
from cautious.kernels.expected_rows import BLOCK, block_widths, step_rows
from cautious.kernels.likely_moves import follow_moves, likely_moves, meant_share
from cautious.models.encodings import frozen
from cautious.planning import plan


def rows_of(lengths, n_states, seed=0):
    """Random rows of these lengths, in the form of compiled loops and as a matrix."""
    rng = np.random.default_rng(seed)
    pointer = np.concatenate([[0], np.cumsum(lengths)])
    places = [np.sort(rng.choice(n_states, size=length, replace=False)) for length in lengths]
    chances = [rng.dirichlet(np.ones(length)) for length in lengths if length]
    data = (np.concatenate([*chances, []]), np.concatenate([*places, []]).astype(np.int64), pointer)
    matrix = sp.csr_array(data, shape=(len(lengths), n_states))
    csr = frozen(pointer.astype(np.uint64)), frozen(data[1].astype(np.uint64)), frozen(data[0])
    return csr, matrix, rng


@pytest.mark.parametrize("length", range(9))
@pytest.mark.parametrize("kind", [np.uint32, np.uint64])
def test_step_rows_of_one_length(length, kind):
    csr, matrix, rng = rows_of([length] * 20, 12, length)
    pointer, successor, chance = frozen(csr[0].astype(kind)), frozen(csr[1].astype(kind)), csr[2]
    values, gain, out = rng.normal(size=12), rng.normal(size=20), np.empty(13)
    assert block_widths(pointer, 20).tolist() == [length]
    step_rows(pointer, successor, chance, length, values, gain, 0.9, np.uint64(5), out)
    np.testing.assert_allclose(out, (gain + 0.9 * (matrix @ values))[5:18], rtol=1e-13, atol=1e-13)


def test_step_rows_of_different_lengths():
    lengths = np.random.default_rng(1).integers(0, 7, size=30)
    csr, matrix, rng = rows_of(lengths, 12)
    values, gain, out = rng.normal(size=12), rng.normal(size=30), np.empty(30)
    step_rows(*csr, 0, values, gain, 0.9, np.uint64(0), out)
    np.testing.assert_allclose(out, gain + 0.9 * (matrix @ values), rtol=1e-13, atol=1e-13)


def test_block_widths_are_zero_where_rows_differ():
    lengths = np.full(5 * BLOCK + 3, 3)
    lengths[BLOCK + 7] = 4
    lengths[4 * BLOCK] = 2
    csr, _, _ = rows_of(lengths, 12)
    assert block_widths(csr[0], BLOCK).tolist() == [3, 0, 3, 3, 0, 3]


def test_a_sweep_does_not_depend_on_how_rows_are_grouped():
    """One row that is longer than its neighbours changes the path through the loops, and nothing else."""
    rng = np.random.default_rng(0)
    n = 4 * BLOCK
    columns = np.sort(np.stack([rng.choice(n, size=3, replace=False) for _ in range(2 * n)]), axis=1)
    weights = rng.dirichlet(np.ones(3), size=2 * n)
    pointer = np.arange(0, 6 * n + 1, 3)
    uniform = ca.MDP(sp.csr_array((weights.ravel(), columns.ravel(), pointer), (2 * n, n)), rng.random((n, 2)), 0.9)
    mixed_rows = uniform.transitions.tolil()
    mixed_rows[5] = 0
    mixed_rows[5, :4] = 0.25
    mixed = ca.MDP(sp.csr_array(mixed_rows), uniform.rewards, 0.9)
    found, q = plan(mixed, mixed.rewards), mixed.rewards + 0.9 * mixed.expect_next(plan(mixed, mixed.rewards).values)
    np.testing.assert_allclose(q.max(axis=1), found.values, rtol=1e-9)
    assert plan(uniform, uniform.rewards).upper != found.upper


def simpler_world(transitions, rewards, allowed, discount):
    """Values of the world in which a move is repeated until its likeliest outcome happens, by value iteration."""
    n, m = rewards.shape
    table = transitions.reshape(n, m, n)
    values = np.zeros(n)
    for _ in range(4000):
        q = np.full((n, m), -np.inf)
        for s in range(n):
            for a in range(m):
                if allowed[s, a]:
                    likely = int(np.argmax(table[s, a]))
                    chance = table[s, a, likely]
                    q[s, a] = rewards[s, a] + discount * (chance * values[likely] + (1 - chance) * values[s])
        values = q.max(axis=1)
    return values


@pytest.mark.parametrize("seed", range(4))
def test_following_likely_moves_solves_the_simpler_world(seed):
    rng = np.random.default_rng(seed)
    n, m, discount = 7, 3, 0.9
    transitions = rng.dirichlet(np.full(n, 0.3), size=n * m)
    rewards, allowed = rng.normal(size=(n, m)), rng.random((n, m)) < 0.7
    allowed[:, 0] = True
    rows = sp.csr_array(transitions)
    csr = (frozen(rows.indptr.view(np.uint32)), frozen(rows.indices.view(np.uint32)), frozen(rows.data))
    target, weight = likely_moves(*csr, discount, n)
    assert np.array_equal(target, np.argmax(transitions, axis=1))
    assert meant_share(csr[0], csr[2], 1000) == pytest.approx(transitions.max(axis=1).mean())
    paid, worth = frozen(np.where(allowed, rewards, -np.inf)).ravel(), np.full(n, rewards[allowed].min())
    rises = [follow_moves(target, weight, paid, worth, number % 2 == 1) for number in range(400)]
    np.testing.assert_allclose(
        worth / (1 - discount), simpler_world(transitions, rewards, allowed, discount), rtol=1e-9
    )
    assert rises[0] > 0
    assert rises[-1] == 0


def test_news_cross_the_world_in_one_sweep():
    """A corridor with a prize at its end: what a sweep at a time would need a thousand of."""
    n, discount = 1000, 0.999
    steps = np.zeros((n, 2, n))
    here = np.arange(n)
    for action, way in enumerate((-1, 1)):
        steps[here, action, np.clip(here + way, 0, n - 1)] += 0.9
        steps[here, action, here] += 0.1
    rewards = np.zeros((n, 2))
    rewards[-1] = 1.0
    found = plan(ca.MDP(steps, rewards, discount), rewards, tolerance=1e-6)
    assert np.all(found.actions[1:] == 1)
    assert found.sweeps < 60
