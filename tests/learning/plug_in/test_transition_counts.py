"""Counts against a plain NumPy reference, and the model they make."""

import numpy as np
import pytest

import cautious as ca
from cautious.learning.draws import Draws
from cautious.learning.plug_in.transition_counts import (
    Counts,
    counted_mdp,
    draw_table_piece,
    next_moments,
    pair_batches,
    piece_of,
    shared_sizes,
    uniform_sizes,
)
from cautious.learning.scalar_risk_rewards import Payoff
from cautious.learning.task import make_task
from cautious.models.simulators import Known

S, A = 5, 3


class Noisy:
    """Rewards with or without spread for the same outcome."""

    n_states, n_actions, discount, reward_range = S, A, 0.8, (-1.0, 9.0)

    def __init__(self, spread, allowed=None):
        self.spread = spread
        self.known = Known(allowed=allowed, state_names=tuple("abcde"))

    def start_states(self, n, rng):
        return rng.integers(S, size=n)

    def sample(self, states, actions, rng):
        following = (states + actions + rng.integers(2, size=states.size)) % S
        return following, 0.1 * states + following + self.spread * rng.random(states.size)


def drawn(seed, n=3000, spread=0.5):
    rng = np.random.default_rng(seed)
    states, actions = rng.integers(S, size=n), rng.integers(A, size=n)
    return states, actions, *Noisy(spread).sample(states, actions, rng)


def reference(states, actions, following, rewards):
    shape = (S, A, S)
    count, total, square = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    np.add.at(count, (states, actions, following), 1)
    np.add.at(total, (states, actions, following), rewards)
    np.add.at(square, (states, actions, following), rewards**2)
    return count, total, square


@pytest.mark.parametrize("spread", [0.0, 0.5])
def test_counted_model_equals_reference(spread):
    data = drawn(1, spread=spread)
    counts = Counts((S, A))
    for part in range(0, 3000, 700):
        counts.add(*(column[part : part + 700] for column in data))
    task = make_task(Noisy(spread), None, 0.0, 1000, 0)
    mdp = counted_mdp(task, counts, np.full(S, 0.2))
    count, total, square = reference(*data)
    pairs = count.sum(axis=2)
    np.testing.assert_allclose(mdp.transitions.toarray().reshape(S, A, S), count / pairs[:, :, None], rtol=1e-14)
    np.testing.assert_allclose(mdp.rewards, total.sum(axis=2) / pairs, rtol=1e-12)
    np.testing.assert_allclose(mdp.reward_square, square.sum(axis=2) / pairs, rtol=1e-12)
    assert (mdp.outcome_rewards is None) == (spread > 0)
    assert counts.deterministic == (spread == 0)
    assert mdp.state_names == tuple("abcde")


def test_order_and_split_do_not_matter_and_storage_is_exact():
    data = drawn(2)
    whole, left = Counts((S, A)), Counts((S, A))
    whole.add(*data)
    left.add(*(column[:1000] for column in data))
    left.add(*(column[1000:] for column in data))
    again = Counts.from_arrays((S, A), **left.arrays())
    order, other = np.argsort(whole.keys), np.argsort(again.keys)
    assert np.array_equal(whole.keys[order], again.keys[other])
    assert np.array_equal(whole.count[order], again.count[other])
    for name in ("shift", "square"):
        # both are deviations from the same first reward, because the first part came first
        np.testing.assert_allclose(getattr(whole, name)[order], getattr(again, name)[other], atol=1e-10)
    for name in ("keys", "count", "first", "shift", "square"):
        assert np.array_equal(getattr(left, name), getattr(again, name))


def test_growth_keeps_every_key():
    counts, rng = Counts((3000, 1)), np.random.default_rng(0)
    states, following = rng.integers(3000, size=20_000), rng.integers(3000, size=20_000)
    for part in range(0, 20_000, 999):
        here = slice(part, part + 999)
        counts.add(states[here], np.zeros_like(states[here]), following[here], np.zeros(states[here].size))
    keys, number = np.unique(states * 3000 + following, return_counts=True)
    order = np.argsort(counts.keys)
    assert np.array_equal(counts.keys[order], keys)
    assert np.array_equal(counts.count[order], number)


def test_untried_pairs_stay_and_forbidden_pairs_do_not_exist():
    allowed = np.ones((S, A), dtype=bool)
    allowed[2, 1] = False
    counts = Counts((S, A))
    counts.add(np.array([0]), np.array([0]), np.array([1]), np.array([2.0]))
    task = make_task(Noisy(0.0, allowed), None, 0.0, 100, 0)
    mdp = counted_mdp(task, counts, np.full(S, 0.2))
    dense = mdp.transitions.toarray().reshape(S, A, S)
    assert dense[0, 0, 1] == 1
    assert dense[3, 2, 3] == 1
    assert mdp.rewards[3, 2] == -1.0
    assert dense[2, 1].sum() == 0


def test_moments_of_reward_and_next_value():
    rng = np.random.default_rng(3)
    v, data = rng.normal(size=S), drawn(3)
    counts = Counts((S, A))
    counts.add(*data)
    mean, variance = next_moments(counts, Payoff((), (), 0.8), v)
    states, actions, following, rewards = data
    x, row = rewards + 0.8 * v[following], states * A + actions
    for pair in range(S * A):
        np.testing.assert_allclose(mean[pair], x[row == pair].mean(), rtol=1e-12)
        np.testing.assert_allclose(variance[pair], x[row == pair].var(ddof=1), rtol=1e-10)
    bent = Payoff(((2.0, ca.Variance()),), (1.5,), 0.8)
    mean, variance = next_moments(counts, bent, v)
    paid = bent(rewards) + 0.8 * v[following]
    np.testing.assert_allclose(mean, [paid[row == pair].mean() for pair in range(S * A)], rtol=1e-12)
    assert variance is None


def test_sizes_are_whole_and_complete():
    rng = np.random.default_rng(4)
    for total in (15, 16, 1000, 12345):
        even = uniform_sizes(np.ones((S, A), dtype=bool), total)
        assert even.sum() == total
        assert even.max() - even.min() <= 1
        share = rng.dirichlet(np.ones(15))
        assert shared_sizes(share, total).sum() == total
    sizes = rng.integers(0, 9, size=40)
    pieces = [piece_of(sizes, done, 7) for done in range(0, int(sizes.sum()), 7)]
    assert np.array_equal(np.sum(pieces, axis=0), sizes)
    assert all(piece.sum() == 7 for piece in pieces[:-1])


@pytest.mark.parametrize("known", [True, False])
def test_drawing_gives_each_pair_its_number(known):
    mdp = ca.worlds.river_swim()
    simulator = mdp.simulator() if known else Noisy(0.0)
    shape = (simulator.n_states, simulator.n_actions)
    sizes = np.arange(shape[0] * shape[1]) * 1000
    draws, counts, done = Draws(simulator, 10**6, 0), Counts(shape), 0
    while known and done < sizes.sum():
        done += draw_table_piece(counts, draws, simulator, sizes, done)
    if not known:
        for part in draws.stream(pair_batches(sizes, 0, shape[1], draws.per_call)):
            counts.add(*part)
            done += part[0].size
    assert np.array_equal(counts.per_pair, sizes)
    assert draws.used == done == sizes.sum()
    if not known:
        assert draws.calls == -(-done // draws.per_call)
        return
    task = make_task(simulator, None, 0.0, 1000, 0)
    model = counted_mdp(task, counts, mdp.start)
    error = np.abs((model.transitions - mdp.transitions).toarray()).sum(axis=1)[1:]
    # Weissman et al. 2003: |estimate - truth|_1 exceeds this with probability at most 1e-6 in all rows together
    limit = np.sqrt(2 * (shape[0] * np.log(2) + np.log(error.size * 1e6)) / sizes[1:])
    assert np.all(error <= limit)
