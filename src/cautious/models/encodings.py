"""The accepted encodings of transitions and rewards, brought to one form: CSR rows ``s*A + a``.

Transitions: (S, A, S) array | sparse (S*A, S) | sequence of A matrices (S, S), dense or sparse.
Rewards: (S, A) | (S, A, S) | sparse (S*A, S), missing means zero | sequence of A matrices (S, S).
Returns and second moments of rewards must be numbers of double precision.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from cautious._core import rows as row_kernels
from cautious.arrays import Array, Mask
from cautious.checks import as_floats, check_finite, check_shape, first_bad, sum_tolerance
from cautious.errors import InputError
from cautious.models.horizons import MAX_STEPS
from cautious.sparse_input import as_rows, stored_dtype

EPS = float(np.finfo(np.float64).eps)
SMALLEST_NORMAL = float(np.finfo(np.float64).tiny)
# sums up to it can still be added, doubled and bounded without an overflow
LARGEST_RETURN = 1e305
LARGEST_SQUARED = 1e150


class RowBlock(NamedTuple):
    """Rows of some neighbouring states, and which ``pieces`` (first, last) of the loop over all states they make up.

    ``rows``: the first state, then indptr, indices and data of the rows of its pairs and of those that follow.
    """

    pieces: tuple[int, int]
    rows: tuple[int, Any, Any, Array]


def transition_rows(transitions: Any) -> tuple[sp.csr_array, int, float]:
    """CSR (S*A, S) with summed duplicates, the number of actions, and the tolerance its row sums deserve."""
    if sp.issparse(transitions):
        if len(transitions.shape) != 2 or min(transitions.shape) < 1 or transitions.shape[0] % transitions.shape[1]:
            raise InputError(
                f"transitions has shape {transitions.shape}; a sparse matrix must be (S*A, S), row s*A + a"
            )
        rows = transitions if is_in_order(transitions) else as_rows("transitions", transitions)
        n_actions = transitions.shape[0] // transitions.shape[1]
        tolerance = sum_tolerance(stored_dtype(transitions))
    elif _is_matrix_sequence(transitions):
        tolerance = max(sum_tolerance(stored_dtype(matrix)) for matrix in transitions)
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
        rows = _from_dense(array.reshape(-1, array.shape[2]))
    return rows, n_actions, tolerance


def check_rows(
    rows: sp.csr_array, allowed: Mask, tolerance: float, normalise: bool, words: Callable[[int], str]
) -> sp.csr_array:
    """Refuse what is not a probability row; return rows renormalised to machine precision, empty where not allowed.

    ``words`` says which state and action a row belongs to.
    """
    if are_probabilities(rows, allowed):
        return sp.csr_array(
            (read_only_view(rows.data), read_only_view(rows.indices), read_only_view(rows.indptr)), shape=rows.shape
        )
    bad = ~np.isfinite(rows.data) | (rows.data < 0)
    if bad.any():
        position = int(np.argmax(bad))
        row = int(np.searchsorted(rows.indptr, position, side="right")) - 1
        raise InputError(
            f"transition probability at ({words(row)}, next state {rows.indices[position]}) is {rows.data[position]}; "
            "it must be finite and not negative"
        )
    sums = np.asarray(rows.sum(axis=1)).ravel()
    wanted = allowed.ravel()
    empty = wanted & (sums == 0)
    if empty.any():
        row = int(np.argmax(empty))
        raise InputError(
            f"transition row ({words(row)}) is empty; give its probabilities or forbid the pair with allowed"
        )
    off = (np.abs(sums - 1) > tolerance) & (wanted | (sums != 0))
    if off.any() and not normalise:
        row = int(np.argmax(off))
        raise InputError(
            f"transition row ({words(row)}) sums to {sums[row]:.12g}; "
            f"it must sum to 1 within {tolerance:g} (normalise=True rescales the rows)"
        )
    # rows already exact to rounding stay as they are, so that saving and reading a model changes no bit
    exact = np.abs(sums - 1) <= EPS * (2 + np.diff(rows.indptr))
    scale = np.where(wanted & (sums > 0), np.where(exact, 1.0, 1 / np.where(sums > 0, sums, 1)), 0)
    data = rows.data * np.repeat(scale, np.diff(rows.indptr))
    out = sp.csr_array((data, rows.indices.copy(), rows.indptr.copy()), shape=rows.shape)
    out.eliminate_zeros()
    return out


def reward_moments(
    rewards: Any, rows: sp.csr_array, n_states: int, n_actions: int, name: str = "rewards"
) -> tuple[Array, Array | None]:
    """Expected reward (S, A), and the reward of each stored transition (nnz,) when rewards depend on outcomes."""
    shape = (n_states, n_actions)
    if sp.issparse(rewards):
        if rewards.shape != rows.shape:
            raise InputError(f"{name} has shape {rewards.shape}; a sparse reward must be {rows.shape} = (S*A, S)")
        outcome = _aligned(name, rewards, rows)
        if outcome is None:
            outcome = _values_at(name, as_rows(name, rewards), rows)
    elif _is_matrix_sequence(rewards) and len(rewards) == n_actions:
        table, _ = _interleave(name, rewards)
        if table.shape != rows.shape:
            raise InputError(f"{name} has shape {table.shape}; expected {rows.shape} = (S*A, S)")
        outcome = _values_at(name, table, rows)
    else:
        array = as_floats(name, rewards)
        if array.shape == shape:
            return array, None
        if array.shape != (n_states, n_actions, n_states):
            raise InputError(
                f"{name} has shape {array.shape}; expected {shape} = (S, A), "
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


def read_only_view(array: Any) -> Any:
    """A read-only view, its entries one after the other; the array itself stays as it was.

    Compiled loops take their input in this form alone, so that each is compiled once.
    """
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def are_probabilities(rows: sp.csr_array, allowed: Mask) -> bool:
    """Whether rows need no repair: they sum to one up to rounding, and are empty where nothing is allowed."""
    return row_kernels.are_probabilities(
        read_only_view(rows.indptr), read_only_view(rows.data), read_only_view(allowed).ravel(), EPS
    )


def is_in_order(matrix: Any) -> bool:
    """Whether a sparse matrix can be used without a copy: aligned float64 rows, sorted, every index within bounds."""
    if matrix.format != "csr":
        return False
    indptr, indices, data = matrix.indptr, matrix.indices, matrix.data
    arrays = (indptr, indices, data)
    if not all(type(array) is np.ndarray and array.ndim == 1 and array.flags.aligned for array in arrays):
        return False
    fits = indptr.size == matrix.shape[0] + 1 and indices.size == data.size and data.dtype == np.float64
    if not fits or indptr.dtype != indices.dtype or indices.dtype not in (np.int32, np.int64):
        return False
    return row_kernels.well_formed(read_only_view(indptr), read_only_view(indices), matrix.shape[1])


def _from_dense(table: Array) -> sp.csr_array:
    """A table (S*A, S) as CSR; one without zeros is not copied: its rows are the data."""
    n_rows, n_states = table.shape
    if np.count_nonzero(table) < table.size:
        return sp.csr_array(table)
    kind = np.int32 if table.size < 2**31 else np.int64
    indices = np.tile(np.arange(n_states, dtype=kind), n_rows)
    indptr = np.arange(0, table.size + 1, n_states, dtype=kind)
    return sp.csr_array((table.reshape(-1), indices, indptr), shape=table.shape, copy=False)


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
        blocks.append(as_rows(label, matrix) if sp.issparse(matrix) else sp.csr_array(as_floats(label, matrix)))
    order = np.arange(n_actions * n_states).reshape(n_actions, n_states).T.ravel()
    return sp.csr_array(sp.vstack(blocks, format="csr")[order]), n_actions


def _aligned(name: str, table: Any, rows: sp.csr_array) -> Array | None:
    """The entries of ``table`` if they lie at the stored positions of ``rows``, one for one; else None."""
    same = is_in_order(table) and table.data.size == rows.nnz
    if not same or not np.array_equal(table.indptr, rows.indptr) or not np.array_equal(table.indices, rows.indices):
        return None
    check_finite(f"{name} (stored entries)", table.data)
    return np.array(table.data)


def _values_at(name: str, table: sp.csr_array, rows: sp.csr_array) -> Array:
    """Entries of ``table`` at the stored positions of ``rows``; zero where the table stores nothing."""
    check_finite(f"{name} (stored entries)", table.data)
    return np.asarray(table[row_of_entries(rows), rows.indices], dtype=np.float64)


def _refuse_empty(n_states: int, n_actions: int) -> None:
    if n_states == 0 or n_actions == 0:
        raise InputError(f"a model needs at least one state and one action, found {n_states} and {n_actions}")


def check_magnitude(name: str, values: Array, factor: float = 1.0) -> None:
    """Refuse numbers which, times ``factor``, are more than double precision can add up."""
    size = np.abs(values)
    largest = float(size.max(initial=0.0))
    if largest > LARGEST_RETURN / factor:
        place = ", ".join(str(index) for index in first_bad(size == largest)) if size.ndim else ""
        raise InputError(
            f"{name}{f'[{place}]' if place else ''} has the size {largest:g}; at most {LARGEST_RETURN / factor:g} can "
            "be added up in double precision: rescale it"
        )


def check_returns(rewards: Array, outcome_rewards: Array | None, discount: float) -> None:
    """Refuse rewards, of pairs (S, A) or of outcomes, that add up to more than double precision holds."""
    # without a discount, every step that is taken counts in full
    steps = 1 / (1 - discount) if discount < 1 else MAX_STEPS
    largest, limit = float(np.abs(rewards).max(initial=0.0)), LARGEST_RETURN / steps
    place = ""
    if largest > limit:
        place = f"[{', '.join(str(index) for index in first_bad(np.abs(rewards) > limit))}]"
    elif outcome_rewards is not None:
        largest = float(np.abs(outcome_rewards).max(initial=0.0))
    if largest > limit:
        raise InputError(
            f"rewards{place}: rewards up to {largest:g} at discount {discount:g} add up to more than "
            f"{LARGEST_RETURN:g}, beyond double precision; rescale the rewards"
        )


def given_square(given: Any, rewards: Array, allowed: Mask) -> Array:
    """A second moment (S, A) that a caller gives, checked against the rewards."""
    largest = float(np.abs(rewards).max(initial=0.0))
    if largest > LARGEST_SQUARED:
        raise InputError(f"reward_square: rewards up to {largest:g} have no square in double precision")
    square = as_floats("reward_square", given)
    check_shape("reward_square", square, rewards.shape, "(S, A)")
    low = (square < rewards**2 * (1 - 1e-12)) & allowed
    if low.any():
        where = first_bad(low)
        raise InputError(
            f"reward_square{list(where)} is {square[where]}; it cannot be below the squared mean "
            f"{rewards[where] ** 2:.12g}"
        )
    square = np.where(allowed, np.maximum(square, rewards**2), 0.0)
    square.setflags(write=False)
    return square
