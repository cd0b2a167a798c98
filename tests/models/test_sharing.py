"""Large inputs are used where they lie: no copy of the probabilities, and the caller's arrays stay the caller's."""

import numpy as np
import pytest
import scipy.sparse as sp

import cautious as ca


def rows(kind=np.int32):
    """Two actions on four states, every row sorted and summing to one."""
    columns = np.array([0, 1, 1, 2, 2, 3, 0, 3, 0, 1, 1, 2, 2, 3, 0, 3], dtype=kind)
    matrix = sp.csr_array((np.full(16, 0.5), columns, np.arange(0, 17, 2, dtype=kind)), shape=(8, 4))
    assert matrix.indices.dtype == kind
    return matrix


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_good_rows_are_not_copied(kind):
    given = rows(kind)
    mdp = ca.MDP(given, np.zeros((4, 2)))
    for mine, theirs in (("data", "data"), ("indices", "indices"), ("indptr", "indptr")):
        assert np.shares_memory(getattr(mdp.transitions, mine), getattr(given, theirs))
        assert getattr(given, theirs).flags.writeable
        assert not getattr(mdp.transitions, mine).flags.writeable
    assert mdp.csr[1].dtype == kind
    assert np.shares_memory(mdp.csr[2], given.data)


@pytest.mark.parametrize(
    "change", ["unsorted", "duplicate", "zero", "off by rounding", "single precision", "forbidden"]
)
def test_other_rows_are_repaired_in_a_copy(change):
    given, allowed = rows(), None
    if change == "unsorted":
        given = sp.csr_array((given.data, given.indices.reshape(-1, 2)[:, ::-1].ravel(), given.indptr), shape=(8, 4))
    elif change == "duplicate":
        given.indices[1] = 0
    elif change == "zero":
        given.data[:2] = 1.0, 0.0
    elif change == "off by rounding":
        given.data[0] += 1e-12
    elif change == "single precision":
        given = given.astype(np.float32)
    else:
        allowed = np.ones((4, 2), bool)
        allowed[0, 0] = False
    before = given.toarray()
    mdp = ca.MDP(given, np.zeros((4, 2)), allowed=allowed)
    assert not np.shares_memory(mdp.transitions.data, given.data)
    assert np.array_equal(given.toarray(), before)
    sums = np.asarray(mdp.transitions.sum(axis=1))
    np.testing.assert_allclose(sums, np.ones(8) if allowed is None else allowed.ravel(), atol=1e-15)
    assert mdp.transitions.has_sorted_indices
    assert np.all(mdp.transitions.data > 0)


def test_empty_rows_of_forbidden_pairs_need_no_copy():
    given = sp.csr_array(
        (np.full(14, 0.5), rows().indices[2:], np.array([0, *range(0, 15, 2)], np.int32)), shape=(8, 4)
    )
    allowed = np.ones((4, 2), bool)
    allowed[0, 0] = False
    assert np.shares_memory(ca.MDP(given, np.zeros((4, 2)), allowed=allowed).transitions.data, given.data)


def test_a_full_table_is_not_copied():
    table = np.full((4, 2, 4), 0.25)
    mdp = ca.MDP(table, np.zeros((4, 2)))
    assert np.shares_memory(mdp.transitions.data, table)
    assert table.flags.writeable
    np.testing.assert_array_equal(mdp.transitions.toarray(), table.reshape(8, 4))


def test_a_table_with_zeros_keeps_only_what_can_happen():
    table = np.full((4, 2, 4), 0.25)
    table[1, 1] = 0.0, 0.0, 1.0, 0.0
    mdp = ca.MDP(table, np.zeros((4, 2)))
    assert mdp.transitions.nnz == 29
    np.testing.assert_array_equal(mdp.transitions.toarray(), table.reshape(8, 4))


def test_second_moments_wait_until_they_are_asked_for():
    mdp = ca.MDP(rows(), np.arange(8.0).reshape(4, 2))
    assert "reward_square" not in vars(mdp)
    np.testing.assert_array_equal(mdp.reward_square, np.arange(8.0).reshape(4, 2) ** 2)
    with pytest.raises(ValueError, match="read-only"):
        mdp.reward_square[0, 0] = 1
