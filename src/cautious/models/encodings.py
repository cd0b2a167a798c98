"""The accepted encodings of transitions and rewards, brought to one form: CSR rows ``s*A + a``.

Transitions: (S, A, S) array | sparse (S*A, S) | sequence of A matrices (S, S), dense or sparse.
Rewards: (S, A) | (S, A, S) | sparse (S*A, S), missing means zero | sequence of A matrices (S, S).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from cautious._checks import as_floats, as_rows, check_finite, sum_tolerance
from cautious.arrays import Array, Mask
from cautious.errors import InputError

EPS = float(np.finfo(np.float64).eps)


def transition_rows(transitions: Any) -> tuple[sp.csr_array, int, float]:
    """CSR (S*A, S) with summed duplicates, the number of actions, and the tolerance its row sums deserve."""
    if sp.issparse(transitions):
        rows, n_actions = _from_sparse(transitions)
        tolerance = sum_tolerance(transitions.dtype)
    elif _is_matrix_sequence(transitions):
        tolerance = max(sum_tolerance(getattr(m, "dtype", np.float64)) for m in transitions)
        rows, n_actions = _interleave("transitions", transitions)
    else:
        tolerance = sum_tolerance(getattr(transitions, "dtype", np.float64))
        array = as_floats("transitions", transitions)
        if array.ndim != 3 or array.shape[0] != array.shape[2]:
            raise InputError(
                f"transitions has shape {array.shape}; expected (S, A, S), a sparse (S*A, S) matrix, "
                "or a sequence of A matrices (S, S)"
            )
        _refuse_empty(array.shape[0], array.shape[1])
        n_actions = array.shape[1]
        rows = sp.csr_array(array.reshape(-1, array.shape[2]))
    return rows, n_actions, tolerance


def check_rows(rows: sp.csr_array, n_actions: int, allowed: Mask, tolerance: float, normalise: bool) -> sp.csr_array:
    """Refuse what is not a probability row; return rows renormalised to machine precision, empty where not allowed."""
    bad = ~np.isfinite(rows.data) | (rows.data < 0)
    if bad.any():
        position = int(np.argmax(bad))
        row = int(np.searchsorted(rows.indptr, position, side="right")) - 1
        where = f"state {row // n_actions}, action {row % n_actions}, next state {rows.indices[position]}"
        raise InputError(
            f"transition probability at ({where}) is {rows.data[position]}; it must be finite and not negative"
        )
    sums = np.asarray(rows.sum(axis=1)).ravel()
    wanted = allowed.ravel()
    empty = wanted & (sums == 0)
    if empty.any():
        row = int(np.argmax(empty))
        raise InputError(
            f"transition row (state {row // n_actions}, action {row % n_actions}) is empty; "
            "give its probabilities or forbid the pair with allowed"
        )
    off = (np.abs(sums - 1) > tolerance) & (wanted | (sums != 0))
    if off.any() and not normalise:
        row = int(np.argmax(off))
        raise InputError(
            f"transition row (state {row // n_actions}, action {row % n_actions}) sums to {sums[row]:.12g}; "
            f"it must sum to 1 within {tolerance:g} (normalise=True rescales the rows)"
        )
    # rows already exact to rounding stay as they are, so that saving and reading a model changes no bit
    exact = np.abs(sums - 1) <= EPS * (2 + np.diff(rows.indptr))
    scale = np.where(wanted & (sums > 0), np.where(exact, 1.0, 1 / np.where(sums > 0, sums, 1)), 0)
    data = rows.data * np.repeat(scale, np.diff(rows.indptr))
    out = sp.csr_array((data, rows.indices.copy(), rows.indptr.copy()), shape=rows.shape)
    out.eliminate_zeros()
    return out


def reward_moments(rewards: Any, rows: sp.csr_array, n_states: int, n_actions: int) -> tuple[Array, Array | None]:
    """Expected reward (S, A), and the reward of each stored transition (nnz,) when rewards depend on outcomes."""
    shape = (n_states, n_actions)
    if sp.issparse(rewards):
        if rewards.shape != rows.shape:
            raise InputError(f"rewards has shape {rewards.shape}; a sparse reward must be {rows.shape} = (S*A, S)")
        outcome = _values_at(as_rows("rewards", rewards), rows)
    elif _is_matrix_sequence(rewards) and len(rewards) == n_actions:
        table, _ = _interleave("rewards", rewards)
        if table.shape != rows.shape:
            raise InputError(f"rewards has shape {table.shape}; expected {rows.shape} = (S*A, S)")
        outcome = _values_at(table, rows)
    else:
        array = as_floats("rewards", rewards)
        if array.shape == shape:
            return array, None
        if array.shape != (n_states, n_actions, n_states):
            raise InputError(
                f"rewards has shape {array.shape}; expected {shape} = (S, A), "
                f"{(n_states, n_actions, n_states)} = (S, A, S), or a sparse {rows.shape} matrix"
            )
        outcome = array.reshape(rows.shape)[row_of_entries(rows), rows.indices]
    return weighted_rows(rows, outcome).reshape(shape), outcome


def row_of_entries(rows: sp.csr_array) -> Any:
    """The row number of each stored entry."""
    return np.repeat(np.arange(rows.shape[0], dtype=np.int64), np.diff(rows.indptr))


def weighted_rows(rows: sp.csr_array, values: Array) -> Array:
    """Expectation over each row of a number given per stored entry; (S*A,)."""
    totals = np.bincount(row_of_entries(rows), weights=rows.data * values, minlength=rows.shape[0])
    return np.asarray(totals, dtype=np.float64)


def _from_sparse(matrix: Any) -> tuple[sp.csr_array, int]:
    n_rows, n_states = matrix.shape
    if n_states == 0 or n_rows == 0 or n_rows % n_states:
        raise InputError(f"transitions has shape {matrix.shape}; a sparse matrix must be (S*A, S), row s*A + a")
    return as_rows("transitions", matrix), n_rows // n_states


def _is_matrix_sequence(value: Any) -> bool:
    if isinstance(value, np.ndarray) or not isinstance(value, Sequence) or isinstance(value, str) or len(value) == 0:
        return False
    return all(sp.issparse(m) or (isinstance(m, np.ndarray) and m.ndim == 2) for m in value)


def _interleave(name: str, matrices: Sequence[Any]) -> tuple[sp.csr_array, int]:
    """A matrices (S, S), one per action, to one CSR (S*A, S) whose row s*A + a is row s of matrix a."""
    n_actions = len(matrices)
    n_states = matrices[0].shape[0]
    _refuse_empty(n_states, n_actions)
    blocks = []
    for a, matrix in enumerate(matrices):
        if matrix.shape != (n_states, n_states):
            raise InputError(f"{name}[{a}] has shape {matrix.shape}; expected ({n_states}, {n_states})")
        label = f"{name}[{a}]"
        entries = sp.coo_array(as_rows(label, matrix) if sp.issparse(matrix) else as_floats(label, matrix))
        blocks.append((entries.row.astype(np.int64) * n_actions + a, entries.col, entries.data))
    row, col, data = (np.concatenate([block[i] for block in blocks]) for i in range(3))
    shape = (n_states * n_actions, n_states)
    rows = sp.csr_array(sp.coo_array((data, (row, col)), shape=shape))
    rows.sum_duplicates()
    return rows, n_actions


def _values_at(table: sp.csr_array, rows: sp.csr_array) -> Array:
    """Entries of ``table`` at the stored positions of ``rows``; zero where the table stores nothing."""
    check_finite("rewards (stored entries)", table.data)
    width = rows.shape[1]
    have = row_of_entries(table) * width + table.indices
    want = row_of_entries(rows) * width + rows.indices
    position = np.searchsorted(have, want)
    inside = position < have.size
    found = np.zeros(want.size, dtype=bool)
    found[inside] = have[position[inside]] == want[inside]
    values = np.zeros(want.size)
    values[found] = table.data[position[found]]
    return values


def _refuse_empty(n_states: int, n_actions: int) -> None:
    if n_states == 0 or n_actions == 0:
        raise InputError(f"a model needs at least one state and one action, found {n_states} and {n_actions}")
