"""The compiled loops of planning against plain NumPy: expectations over rows, Bellman sweeps, evaluation passes."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

import cautious as ca
from cautious._core import planning
from cautious._core.planning import KEPT_ITERATES, PIECE
from cautious.planning import plan

GAMMA = 0.9


def rows_of(lengths, n_states, kind=np.int64, seed=0):
    """Random rows of these lengths, in the form of compiled loops and as a matrix."""
    rng = np.random.default_rng(seed)
    pointer = np.concatenate([[0], np.cumsum(lengths)]).astype(kind)
    places = [np.sort(rng.choice(n_states, size=length, replace=False)) for length in lengths]
    chances = [rng.dirichlet(np.ones(length)) for length in lengths if length]
    csr = pointer, np.concatenate([*places, []]).astype(kind), np.concatenate([*chances, []])
    return csr, sp.csr_array((csr[2], csr[1], pointer), shape=(len(lengths), n_states)), rng


@pytest.mark.parametrize("length", range(9))
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_a_pass_over_rows_of_one_length(length, kind):
    csr, matrix, rng = rows_of([length] * 20, 20, kind, length)
    values, gain, out = rng.normal(size=20), rng.normal(size=20), np.empty(20)
    planning.evaluate(*csr, gain, GAMMA, values, out, 0, 1)
    np.testing.assert_allclose(out, gain + GAMMA * (matrix @ values), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_a_pass_over_rows_of_different_lengths_piece_by_piece(kind):
    n = PIECE + 542
    csr, matrix, rng = rows_of(np.random.default_rng(1).integers(0, 7, size=n), n, kind)
    values, gain, out = rng.normal(size=n), rng.normal(size=n), np.full(n, np.nan)
    planning.evaluate(*csr, gain, GAMMA, values, out, 1, 2)
    assert np.isnan(out[:PIECE]).all()
    planning.evaluate(*csr, gain, GAMMA, values, out, 0, 1)
    np.testing.assert_allclose(out, gain + GAMMA * (matrix @ values), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("passes", [0, 1, 4, 5, 11, 20])
@pytest.mark.parametrize("n", [7, PIECE + 300])
def test_repeated_passes_keep_the_last_four(n, passes):
    csr, _, rng = rows_of(np.random.default_rng(n).integers(1, 5, size=n), n)
    gain, new = rng.normal(size=n), rng.normal(size=n)
    start, iterates = new.copy(), np.full((KEPT_ITERATES, n), np.nan)
    planning.evaluate_repeatedly(*csr, gain, GAMMA, start, passes, iterates)
    for number in range(passes):
        old, new = new, np.empty(n)
        planning.evaluate(*csr, gain, GAMMA, old, new, 0, -(-n // PIECE))
        if number >= passes - KEPT_ITERATES:
            assert iterates[number % KEPT_ITERATES].tobytes() == new.tobytes()


def test_a_sweep_does_not_depend_on_how_rows_are_grouped():
    """One row that is longer than its neighbours changes nothing else."""
    rng = np.random.default_rng(0)
    n = 1024
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


def model_of(seed, kind=np.int32, n=9, m=3, density=0.4):
    """CSR arrays of random rows, the dense table, rewards, and a mask that may leave a state without pairs."""
    rng = np.random.default_rng(seed)
    dense = rng.random((n * m, n)) * (rng.random((n * m, n)) < density)
    dense[np.arange(n * m), rng.integers(n, size=n * m)] += 0.1
    dense /= dense.sum(axis=1, keepdims=True)
    csr = sp.csr_array(dense)
    allowed = rng.random(n * m) < 0.7
    rewards = rng.integers(-2, 3, size=n * m).astype(float)
    return (csr.indptr.astype(kind), csr.indices.astype(kind), csr.data), dense, rewards, allowed, rng


def bellman_reference(dense, rewards, allowed, values, actions):
    n, m = values.size, rewards.size // values.size
    q = np.where(allowed, rewards + GAMMA * dense @ values, -np.inf).reshape(n, m)
    best = q.max(axis=1)
    kept = q[np.arange(n), actions] == best
    return np.where(best > -np.inf, best, values), np.where(kept, actions, np.argmax(q, axis=1)), q


def bellman(csr, rewards, allowed, values, actions, scope, start):
    """The compiled sweep, called as planning calls it."""
    out, summaries, chosen = np.empty(9), np.empty((1, planning.SUMMARY)), actions.copy()
    paid = np.where(allowed, rewards, -np.inf)
    planning.bellman(0, *csr, paid, GAMMA, values, scope, start, chosen, out, summaries, 0, 1)
    assert planning.combine_summaries(summaries) == tuple(summaries[0])
    return out, chosen, summaries[0]


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("seed", range(30))
def test_bellman(seed, kind):
    csr, dense, rewards, allowed, rng = model_of(seed, kind)
    values, actions = rng.normal(size=9), rng.integers(3, size=9)
    scope, start = rng.random(9) < 0.6, rng.dirichlet(np.ones(9))
    scope[0] = True
    expected, choice, q = bellman_reference(dense, rewards, allowed, values, actions)
    found, found_actions, summary = bellman(csr, rewards, allowed, values, actions, scope, start)
    np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-14)
    alive = allowed.reshape(9, 3).any(axis=1)
    # sums in another order may swap exact ties, so the chosen action is compared by its worth
    np.testing.assert_allclose(q[alive, found_actions[alive]], q[alive, choice[alive]], rtol=1e-14, atol=1e-14)
    assert np.array_equal(found_actions[~alive], actions[~alive])
    change = (found - values)[scope]
    assert summary[:3].tolist() == [change.min(), change.max(), max(np.abs(found).max(), np.abs(values).max())]
    assert summary[3] == pytest.approx(float(start @ found), rel=1e-13, abs=1e-13)
    assert summary[4] == np.sum(found_actions != actions)


def test_bellman_keeps_an_action_that_ties():
    csr, _, _, _, _ = model_of(0)
    every = np.ones(9, bool)
    _, actions, summary = bellman(csr, np.zeros(27), np.ones(27, bool), np.zeros(9), np.full(9, 2), every, every / 9)
    assert np.all(actions == 2)
    assert summary[4] == 0


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("backwards", [False, True])
def test_bellman_in_place_uses_what_it_has_just_found(backwards, kind):
    csr, dense, rewards, allowed, rng = model_of(4, kind)
    expected = rng.normal(size=9)
    found = expected.copy()
    paid = np.where(allowed, rewards, -np.inf)
    planning.bellman_in_place(0, *csr, paid, GAMMA, found, backwards)
    for s in range(9)[:: -1 if backwards else 1]:
        best = (paid + GAMMA * dense @ expected).reshape(9, 3)[s].max()
        expected[s] = best if best > -np.inf else expected[s]
    np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-14)


def swept_block(paid, rows, values, states, group):
    """One sweep over a block as it is defined, on a copy: the values and the largest change."""
    values, before, top = values.copy(), values.copy(), -np.inf
    for s in states:
        others = np.where(np.arange(9) == s, 0.0, values)
        with np.errstate(divide="ignore"):
            worth = (paid.reshape(9, 3)[s] + rows[s] @ others) / (1 - rows[s, :, s])
        best = np.where(rows[s, :, s] < 1, worth, -np.inf).max()
        top = max(top, best) if group[s] == 0 else top
        values[s] = best if group[s] < 0 and best > -np.inf else values[s]
    inside = np.isin(np.arange(9), states) & (group == 0)
    values[inside] = top if top > -np.inf else values[inside]
    return values, np.abs(values - before).max()


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize(("sweeps", "aim"), [(1, np.inf), (1, 1e-9), (3, 0.5), (40, 1e-9)])
def test_bellman_in_order_goes_block_by_block_and_levels_groups(sweeps, aim, kind):
    csr, dense, rewards, allowed, rng = model_of(4, kind)
    expected, order, block = rng.normal(size=9), rng.permutation(9), np.empty(9, np.int64)
    block[order] = [0, 1, 1, 1, 1, 2, 2, 2, 3]
    group = np.full(9, -1)
    group[order[1:3]] = 0
    found, paid = expected.copy(), np.where(allowed, rewards, -np.inf)
    made = planning.bellman_in_order(*csr, paid, order, block, group, sweeps, aim, found)
    room = 9 * sweeps
    for number in (3, 2, 1, 0):
        states = [s for s in order if block[s] == number]
        for sweep in range(1 if len(states) == 1 else max(2, min(room // len(states), 100))):
            way = states[:: -1 if sweep % 2 == 0 else 1]
            expected, change = swept_block(paid, dense.reshape(9, 3, 9), expected, way, group)
            room -= len(states)
            if change <= aim:
                break
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13)
    assert made == pytest.approx(sweeps - room / 9)


def test_bellman_in_order_is_exact_in_one_sweep_where_states_only_repeat_themselves():
    rng, n = np.random.default_rng(0), 30
    dense = np.triu(rng.random((n, n)) * (rng.random((n, n)) < 0.3)) + 0.2 * np.eye(n)
    dense *= 0.9 / dense.sum(axis=1)[:, None]
    matrix, values, rewards = sp.csr_array(dense), np.zeros(n), rng.random(n)
    csr = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data
    every = np.arange(n)
    planning.bellman_in_order(*csr, rewards, every, every, np.full(n, -1), 1, 0.0, values)
    np.testing.assert_allclose(values, np.linalg.solve(np.eye(n) - dense, rewards), rtol=1e-12)


@pytest.mark.parametrize("length", [0, 3])
def test_pieces_in_any_order_give_the_same_bytes(length):
    """Each piece sums for itself; ``combine_summaries`` adds the pieces in their order."""
    n, rng = 2 * PIECE + 300, np.random.default_rng(5)
    lengths = np.full(2 * n, length) if length else rng.integers(1, 6, size=2 * n)
    pointer = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    csr = pointer, rng.integers(0, n, pointer[-1]).astype(np.int32), rng.random(pointer[-1])
    rewards, values = rng.normal(size=2 * n), rng.normal(size=n)
    scope, start = rng.random(n) < 0.5, rng.dirichlet(np.ones(n))
    found = []
    for order in ([(0, 3)], [(2, 3), (0, 1), (1, 2)], [(1, 3), (1, 1), (0, 1)]):
        out, summaries, actions = np.empty(n), np.empty((3, planning.SUMMARY)), np.zeros(n, np.int64)
        for first, last in order:
            arguments = (0, *csr, rewards, GAMMA, values, scope, start, actions, out, summaries, first, last)
            planning.bellman(*arguments)
        found.append((out.tobytes(), actions.tobytes(), planning.combine_summaries(summaries)))
    assert found[0] == found[1] == found[2]
    matrix = sp.csr_array((csr[2], csr[1], pointer), shape=(2 * n, n))
    q = (rewards + GAMMA * (matrix @ values)).reshape(n, 2)
    np.testing.assert_allclose(out, q.max(axis=1), rtol=1e-12, atol=1e-12)
    least, most, largest, mean, changed = found[0][2]
    assert (least, most) == ((out - values)[scope].min(), (out - values)[scope].max())
    assert largest == max(np.abs(out).max(), np.abs(values).max())
    assert mean == pytest.approx(start @ out, rel=1e-11)
    assert changed == np.count_nonzero(actions)


@pytest.mark.parametrize("backwards", [False, True])
def test_sweeps_block_by_block_give_the_same_bytes(backwards):
    """Blocks of rows with an index of their own, as a model hands them over that is not written down."""
    n, k, rng = 2 * PIECE + 300, 3, np.random.default_rng(5)
    indices, data = rng.integers(0, n, (n, 2, k)), rng.dirichlet(np.ones(k), (n, 2))
    rewards, values = rng.normal(size=2 * n), rng.normal(size=n)
    scope, start = rng.random(n) < 0.5, rng.dirichlet(np.ones(n))
    found = []
    for edges in ([0, 3], [0, 1, 2, 3], [0, 2, 3]):
        out, summaries, actions = np.empty(n), np.empty((3, planning.SUMMARY)), np.zeros(n, np.int64)
        in_place = values.copy()
        for first, last in list(pairwise(edges))[:: -1 if backwards else 1]:
            part = slice(first * PIECE, last * PIECE)
            flat = indices[part].ravel(), data[part].ravel()
            block = (first * PIECE, np.arange(0, flat[0].size + 1, k), *flat)
            swept = (rewards, GAMMA, values, scope, start, actions, out, summaries, first, last)
            planning.bellman(*block, *swept)
            planning.bellman_in_place(*block, rewards, GAMMA, in_place, backwards)
        found.append((out.tobytes(), actions.tobytes(), summaries.tobytes(), in_place.tobytes()))
    assert found[0] == found[1] == found[2]


def test_a_sweep_refuses_pieces_outside_its_block():
    n = PIECE + 1
    rows = np.arange(n + 1), np.zeros(n, np.int64), np.ones(n)
    vectors = np.zeros(n), np.ones(n, np.bool_), np.zeros(n), np.zeros(n, np.int64), np.empty(n)
    last = np.arange(2), np.zeros(1, np.int64), np.ones(1)
    arguments = np.zeros(n), 0.5, *vectors, np.empty((2, planning.SUMMARY))
    planning.bellman(0, *rows, *arguments, 0, 2)
    planning.bellman(PIECE, *last, *arguments, 1, 2)
    for first in (0, 1):
        with pytest.raises(ValueError, match="bellman needs"):
            planning.bellman(PIECE - first, *last, *arguments, first, 2)


def sweep_arguments():
    """A sweep over one state with two pairs."""
    rows = np.array([0, 1, 2], np.int32), np.zeros(2, np.int32), np.ones(2)
    state = np.ones(1), np.ones(1, np.bool_), np.ones(1), np.zeros(1, np.int64), np.empty(1)
    return [0, *rows, np.array([1.0, 2.0]), 0.5, *state, np.empty((1, planning.SUMMARY)), 0, 1]


def test_a_sweep_over_one_state():
    arguments = sweep_arguments()
    planning.bellman(*arguments)
    assert arguments[10].tolist() == [2.5]
    assert arguments[9].tolist() == [1]
    assert arguments[11].tolist() == [[1.5, 1.5, 2.5, 2.5, 1.0]]


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        (0, 1),
        (0, -1),
        (0, 2**62),
        (1, np.array([0, 1], np.int32)),
        (1, np.array([0, 1, 3], np.int32)),
        (4, np.ones(3)),
        (6, np.ones(0)),
        (7, np.ones(2, np.bool_)),
        (8, np.ones(0)),
        (9, np.zeros(0, np.int64)),
        (10, np.empty(0)),
        (11, np.empty((1, 4))),
        (11, np.empty((2, 5))),
        (12, -1),
        (12, 2),
        (13, 2),
    ],
)
def test_a_sweep_refuses_what_does_not_fit(place, wrong):
    arguments = sweep_arguments()
    arguments[place] = wrong
    with pytest.raises(ValueError, match="bellman needs"):
        planning.bellman(*arguments)


def test_other_loops_refuse_what_does_not_fit():
    rows = np.array([0, 1], np.int64), np.zeros(1, np.int64), np.ones(1)
    one = np.ones(1)
    for first, last in ((-1, 1), (1, 0), (0, 2), (0, 2**62)):
        with pytest.raises(ValueError, match="evaluate needs"):
            planning.evaluate(*rows, one, 0.5, one, np.empty(1), first, last)
    with pytest.raises(ValueError, match="evaluate needs"):
        planning.evaluate(*rows, one, 0.5, np.ones(2), np.empty(1), 0, 1)
    output = np.empty(1)
    output.setflags(write=False)
    with pytest.raises(TypeError, match="writable"):
        planning.evaluate(*rows, one, 0.5, one, output, 0, 1)
    with pytest.raises(ValueError, match="bellman_in_place needs"):
        planning.bellman_in_place(0, *rows, np.ones(2), 0.5, np.ones(1), True)
    with pytest.raises(ValueError, match="bellman_in_place needs"):
        planning.bellman_in_place(0, *rows, np.ones(1), 0.5, np.ones(0), True)
    none = np.array([-1])
    with pytest.raises(ValueError, match="bellman_in_order needs"):
        planning.bellman_in_order(*rows, np.ones(1), np.array([1]), np.array([0]), none, 1, 0.0, np.ones(1))
    with pytest.raises(ValueError, match="bellman_in_order needs"):
        planning.bellman_in_order(*rows, np.ones(1), np.array([0]), np.array([0]), -none, 1, 0.0, np.ones(1))
    with pytest.raises(ValueError, match="bellman_in_order needs"):
        planning.bellman_in_order(*rows, np.ones(1), np.array([0]), np.array([0]), none, 0, 0.0, np.ones(1))
    right = np.empty((KEPT_ITERATES, 1))
    for passes, wrong in ((-1, right), (2**62, right), (4, np.empty((3, 1))), (4, np.empty((KEPT_ITERATES, 2)))):
        with pytest.raises(ValueError, match="evaluate_repeatedly needs"):
            planning.evaluate_repeatedly(*rows, one, 0.5, one, passes, wrong)
    with pytest.raises(ValueError, match="combine_summaries needs"):
        planning.combine_summaries(np.empty((1, 4)))
