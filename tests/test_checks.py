"""Tables (S, A) with few columns, handled column by column, against NumPy."""

import numpy as np
import pytest

from cautious.checks import picked, spread_to, state_sums_of


@pytest.mark.parametrize("n_actions", [1, 2, 4, 7, 8, 20])
def test_sums_are_those_of_numpy_to_the_last_bit(n_actions):
    table = np.random.default_rng(n_actions).normal(size=(50, n_actions))
    found = state_sums_of(table)
    assert np.array_equal(found, table.sum(axis=1))
    # never a view: whoever asked may change it
    assert not np.shares_memory(found, table)
    assert np.array_equal(state_sums_of(table > 0), (table > 0).sum(axis=1))


@pytest.mark.parametrize("everywhere", [True, False])
def test_numbers_go_back_where_they_were_picked(everywhere):
    rng = np.random.default_rng(1)
    table, where = rng.normal(size=(6, 3)), np.ones((6, 3), bool)
    where[2, 1] = where[5] = everywhere
    found = spread_to(where, picked(table, where), -np.inf)
    assert np.array_equal(found, np.where(where, table, -np.inf))
