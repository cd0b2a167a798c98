"""Loops over rows and graphs of models against plain NumPy and SciPy."""

import numpy as np
import pytest
import scipy.sparse as sp
from sample_rows import KINDS, csr_of, random_rows
from scipy.sparse.csgraph import connected_components

from cautious._core import rows

EPS = 2.0**-52


def model(seed, kind=np.int32, density=0.1):
    rng = np.random.default_rng(seed)
    dense = random_rows(rng, density=density)
    indptr, indices, data = csr_of(dense, kind)
    return indptr, indices, data, dense, rng.random(27) < 0.7, rng


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(20))
def test_reach(seed, kind):
    indptr, indices, _, dense, allowed, rng = model(seed, kind, 0.05)
    start = rng.random(9) < 0.3
    steps = ((dense > 0) & allowed[:, None]).reshape(9, 3, 9).any(axis=1)
    expected = start.copy()
    for _ in range(9):
        expected |= steps[expected].any(axis=0)
    found = rows.reach(indptr, indices, allowed, start)
    assert found.dtype == bool
    assert np.array_equal(found, expected)


def test_reach_from_everywhere_is_a_copy():
    indptr, indices, _, _, allowed, _ = model(0)
    start = np.ones(9, bool)
    found = rows.reach(indptr, indices, allowed, start)
    found[0] = False
    assert start.all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(20))
def test_keep_safe(seed, kind):
    indptr, indices, _, dense, allowed, _ = model(seed, kind)
    expected = allowed.copy()
    while True:
        alive = expected.reshape(9, 3).any(axis=1)
        smaller = expected & ~((dense > 0) & ~alive).any(axis=1)
        if np.array_equal(smaller, expected):
            break
        expected = smaller
    assert np.array_equal(rows.keep_safe(indptr, indices, allowed, 9), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_row_lengths(kind):
    indptr = model(3, kind, 0.4)[0]
    lengths = np.diff(indptr).reshape(9, 3)
    assert rows.row_lengths(indptr, 9) == (lengths.max(), lengths.max(axis=1).sum())
    assert rows.row_lengths(np.zeros(2, kind), 1) == (0, 0)


BAD_STRUCTURES = {
    "pointer starts late": ([1, 2, 4], [0, 1, 0, 2]),
    "pointer falls": ([0, 5, 4], [0, 1, 0, 2]),
    "pointer negative": ([0, -1, 4], [0, 1, 2, 2]),
    "pointer ends early": ([0, 2, 3], [0, 1, 0, 2]),
    "not sorted": ([0, 2, 4], [1, 0, 0, 2]),
    "duplicate": ([0, 2, 4], [0, 0, 0, 2]),
    "too large": ([0, 2, 4], [0, 1, 0, 3]),
    "negative": ([0, 2, 4], [0, 1, -1, 2]),
    "negative first": ([0, 2, 4], [-1, 1, 0, 2]),
    "last row not sorted": ([0, 0, 4], [0, 1, 2, 2]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", BAD_STRUCTURES)
def test_well_formed_refuses(name, kind):
    def verdict(pointer, places):
        return rows.well_formed(np.array(pointer, kind), np.array(places, kind), 3)

    assert verdict([0, 2, 4], [0, 1, 0, 2]) is True
    assert verdict(*BAD_STRUCTURES[name]) is False


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("extreme", ["min", "max"])
def test_well_formed_refuses_any_bad_place_in_long_rows(kind, extreme):
    """Long rows are read many entries at a time: one fault at any place counts."""
    n = 100
    indptr, indices = np.array([0, n, 2 * n], kind), np.tile(np.arange(n, dtype=kind), 2)
    assert rows.well_formed(indptr, indices, n)
    assert not rows.well_formed(indptr, indices, n - 1)
    for place in range(2 * n):
        bad = indices.copy()
        bad[place] = getattr(np.iinfo(kind), extreme)
        assert not rows.well_formed(indptr, bad, n)
        assert not rows.well_formed(indptr, bad, 2**62 if extreme == "min" else n)
        if place % n:
            bad[place] = indices[place - 1]
            assert not rows.well_formed(indptr, bad, n)


@pytest.mark.parametrize("kind", KINDS)
def test_well_formed_corners(kind):
    nothing = np.empty(0, kind)
    assert rows.well_formed(np.zeros(1, kind), nothing, 0)
    assert rows.well_formed(np.zeros(4, kind), nothing, 3)
    assert not rows.well_formed(np.array([0, 1], kind), np.zeros(1, kind), 0)
    assert rows.well_formed(np.array([0, 1], kind), np.zeros(1, kind), 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("data", "allowed", "good"),
    [
        ([0.5, 0.5, 1.0], [True, True, False], True),
        ([0.5, 0.5 + 2e-15, 1.0], [True, True, False], False),
        ([1.0, 0.0, 1.0], [True, True, False], False),
        ([1.5, -0.5, 1.0], [True, True, False], False),
        ([0.5, np.nan, 1.0], [True, True, False], False),
        ([0.5, 0.5, 1.0], [True, False, False], False),
        ([0.5, 0.5, 1.0], [True, True, True], False),
    ],
)
def test_are_probabilities(data, allowed, good, kind):
    pointer = np.array([0, 2, 3, 3], kind)
    assert rows.are_probabilities(pointer, np.array(data), np.array(allowed), EPS) is good


@pytest.mark.parametrize("kind", KINDS)
def test_absorbing_states(kind):
    dense = random_rows(np.random.default_rng(2))
    dense[[3, 4, 5, 9, 10]] = np.eye(9)[[1, 1, 1, 3, 3]]
    dense[11] = np.eye(9)[0]
    allowed = np.ones(27, bool)
    allowed[11] = False
    indptr, indices, _ = csr_of(dense, kind)
    assert np.flatnonzero(rows.absorbing_states(indptr, indices, allowed, 9)).tolist() == [1, 3]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("by_outcome", [False, True])
def test_duplicate_actions(kind, by_outcome):
    rng = np.random.default_rng(4)
    dense = random_rows(rng).reshape(9, 3, 9)
    reward, allowed = rng.integers(2, size=(9, 3)).astype(float), rng.random((9, 3)) < 0.9
    dense[:6, 2] = dense[:6, 0]
    reward[:4, 2] = reward[:4, 0]
    csr = csr_of(dense.reshape(27, 9), kind)
    pay = rng.random(csr[2].size) if by_outcome else np.empty(0)
    same = allowed[:, 0] & allowed[:, 2] & (reward[:, 0] == reward[:, 2]) & (np.arange(9) < 6)
    expected = np.zeros((3, 3), int)
    expected[0, 2] = 0 if by_outcome else same.sum()
    found = rows.duplicate_actions(*csr, reward.ravel(), pay, allowed.ravel(), 9)
    assert np.array_equal(found, expected)
    assert same.sum() > 0


def test_bad_arguments_are_refused():
    indptr, indices, data, _, allowed, _ = model(0)
    start = np.ones(9, bool)
    refused = {
        "another number of pairs": lambda: rows.reach(indptr, indices, allowed[:26], start),
        "pairs that do not belong to states": lambda: rows.reach(indptr, indices, allowed, np.ones(8, bool)),
        "no states": lambda: rows.keep_safe(indptr, indices, allowed, 0),
        "negative states": lambda: rows.absorbing_states(indptr, indices, allowed, -9),
        "uneven": lambda: rows.row_lengths(indptr, 8),
        "no pointers": lambda: rows.well_formed(indptr[:0], indices, 9),
        "short data": lambda: rows.are_probabilities(indptr, data[:5], allowed, EPS),
        "short rewards": lambda: rows.duplicate_actions(indptr, indices, data, data[:3], data[:0], allowed, 9),
    }
    for call in refused.values():
        with pytest.raises(ValueError, match="needs"):
            call()
    with pytest.raises(TypeError):
        rows.reach(indptr, indices.astype(np.int64), allowed, start)
    with pytest.raises(TypeError, match="allowed"):
        rows.reach(indptr, indices, allowed.astype(np.int8), start)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(12))
def test_forward_order_goes_by_the_longest_way_and_then_by_the_numbers_of_the_states(seed, kind):
    rng = np.random.default_rng(seed)
    n, n_actions = 30, 2
    dense = np.where(rng.random((n * n_actions, n)) < rng.choice([0.01, 0.03, 0.2]), 1.0, 0.0)
    allowed = rng.random(n * n_actions) < 0.8
    indptr, indices, _ = csr_of(dense, kind)
    order, block = np.empty(n, np.int64), np.empty(n, np.int64)
    largest = rows.forward_order(indptr, indices, allowed, order, block)
    edges = (dense * allowed[:, None]).reshape(n, n_actions, n).sum(axis=1) > 0
    _, label = connected_components(sp.csr_array(edges), connection="strong")
    assert sorted(order) == list(range(n))
    assert largest == np.bincount(label).max()
    assert np.array_equal(block[:, None] == block, label[:, None] == label)
    assert np.all(np.diff(block[order]) >= 0)
    own = {number: np.flatnonzero(block == number) for number in np.unique(block)}
    longest = dict.fromkeys(own, 0)
    for number in sorted(own):
        for other in np.unique(block[edges[own[number]].any(axis=0)]):
            assert other >= number
            if other > number:
                longest[other] = max(longest[other], longest[number] + 1)
    assert sorted(own, key=lambda number: (longest[number], own[number][0])) == sorted(own)
