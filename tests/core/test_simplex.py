"""Distributions nearest to given numbers, against sorting."""

import sys

import numpy as np
import pytest
from masked_model import masked
from sample_rows import KINDS

from cautious._core.simplex import projected_step, simplex_threshold


def sorted_projection(x, mass=1.0):
    """The nearest point with this sum and no negative entry, by the textbook: sort, then the last level that fits."""
    descending = np.sort(x)[::-1]
    levels = [(descending[: k + 1].sum() - mass) / (k + 1) for k in range(x.size)]
    level = [level for level, entry in zip(levels, descending, strict=True) if entry > level][-1]
    return np.maximum(x - level, 0.0)


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
@pytest.mark.parametrize("mass", [1e-3, 1.0, 50.0])
def test_threshold_gives_the_projection(size, mass):
    x = np.random.default_rng(size).normal(size=size)
    assert np.maximum(x - simplex_threshold(x, mass), 0.0) == pytest.approx(sorted_projection(x, mass), abs=1e-12)


def test_entries_that_dropped_out_stay_out():
    """Rounding lowers the level when the second entry goes; letting it back in would raise it again, for ever."""
    ulp = 2.0**-52
    assert simplex_threshold(np.array([1 + 2 * ulp, 1 + ulp]), 2 * ulp) == 1


def test_threshold_without_numbers():
    assert simplex_threshold(np.empty(0), 1.0) == -np.inf
    assert simplex_threshold(np.full(3, -np.inf), 1.0) == -np.inf
    assert simplex_threshold(np.array([-np.inf, 2.0]), 1.0) == 1.0
    simplex_threshold(np.array([np.nan, np.inf, 1.0]), np.nan)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(5))
def test_every_state_moves_to_the_nearest_distribution(seed, kind):
    mdp, rng = masked(seed), np.random.default_rng(seed)
    csr = (*(index.astype(kind) for index in mdp.csr[:2]), mdp.csr[2])
    active = mdp.allowed.copy()
    active[3] = False
    d = np.where(active, rng.random(mdp.shape), 0.0)
    d[1] = 0.0
    reward, values, stiffness = rng.normal(size=mdp.shape), rng.normal(size=mdp.n_states), 0.7
    found = np.full(mdp.shape, np.nan)
    projected_step(*csr, reward, active, mdp.discount, values, d, stiffness, found)
    paid = reward + mdp.discount * mdp.expect_next(values) - values[:, None]
    for s in range(mdp.n_states):
        here = active[s]
        assert np.all(found[s, ~here] == 0)
        if s == 1:
            assert found[s].argmax() == np.where(here, paid[s], -np.inf).argmax()
            assert found[s].max() == 1
        elif here.any():
            expected = sorted_projection(d[s, here] + paid[s, here] / stiffness, d[s].sum()) / d[s].sum()
            assert found[s, here] == pytest.approx(expected, abs=1e-13)
    assert found[3].sum() == 0


def test_moves_too_large_for_numbers_go_to_the_best_pair():
    mdp = masked()
    d, best = mdp.allowed / mdp.allowed.sum(), mdp.allowed.argmax(axis=1)
    reward, found = np.where(np.arange(3) == best[:, None], 0.0, -1.0), np.empty(mdp.shape)
    projected_step(*mdp.csr, reward, mdp.allowed, 0.9, np.zeros(7), d, 1e-310, found)
    assert np.array_equal(found, np.eye(3)[best])


def test_bad_arguments_are_refused():
    mdp = masked()
    tables = [np.zeros(mdp.shape), mdp.allowed, 0.9, np.zeros(7), np.zeros(mdp.shape), 1.0, np.empty(mdp.shape)]
    projected_step(*mdp.csr, *tables)
    for at in (0, 1, 3, 4, 6):
        short = list(tables)
        short[at] = np.ravel(short[at])[:-1]
        with pytest.raises(ValueError, match="needs"):
            projected_step(*mdp.csr, *short)
    with pytest.raises(TypeError):
        simplex_threshold([1.0, 2.0], 1.0)


def test_a_byte_order_that_is_written_down():
    """Arrays of files carry theirs: the processor's own is as good as none, the other is refused."""
    x, (own, other) = np.array([1.0, 3.0]), "<>" if sys.byteorder == "little" else "><"
    named = x.view(x.dtype.newbyteorder(own))
    assert memoryview(named).format == f"{own}d"
    assert simplex_threshold(named, 1.0) == 2.0
    with pytest.raises(TypeError, match="`x`"):
        simplex_threshold(x.astype(x.dtype.newbyteorder(other)), 1.0)
