"""A long list of outcomes (row, next state, probability, reward) to the arrays of a model.

``row`` is s*A + a. Outcomes of a pair that share their next state are one transition: probabilities add up. Where such
outcomes pay different rewards, a reward per transition would be an average that hides a spread. The model then gets
the expected rewards (S, A) and their second moments, so that ``Variance`` is exact and ``CVaR`` is refused instead of
being wrong.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from cautious.arrays import Array, Indices, Mask

# rewards this close, relative to their size, differ by the rounding of how they were computed
SAME = 1e-12


class OutcomeList(NamedTuple):
    """One entry per outcome, in any order; probabilities are above zero and sum to one for each row."""

    rows: Indices
    next_states: Indices
    probabilities: Array
    rewards: Array

    def at(self, places: Any) -> "OutcomeList":
        """Some of the outcomes, by index or mask."""
        return OutcomeList(*(column[places] for column in self))

    def plus(self, more: "OutcomeList") -> "OutcomeList":
        """These outcomes and then more."""
        return OutcomeList(*(np.concatenate(columns) for columns in zip(self, more, strict=True)))


class MergedOutcomes(NamedTuple):
    """Arguments of ``MDP``: transitions (S*A, S), rewards per transition or (S, A), second moments, allowed (S, A)."""

    transitions: sp.csr_array
    rewards: Any
    reward_square: Array | None
    allowed: Mask


def is_single(value: Any) -> bool:
    """Whether a value is an array without axes, which says that it can be gone through and cannot."""
    return isinstance(value, np.ndarray) and value.ndim == 0


def merged_outcomes(shape: tuple[int, int], outcomes: OutcomeList) -> MergedOutcomes:
    """The outcomes of a model of ``shape`` (S, A); pairs without any are not allowed."""
    n_rows, n_states = shape[0] * shape[1], shape[0]
    rows, next_states, probabilities, rewards = outcomes.at(np.lexsort((outcomes.next_states, outcomes.rows)))
    is_first = np.ones(rows.size, dtype=np.bool_)
    is_first[1:] = (rows[1:] != rows[:-1]) | (next_states[1:] != next_states[:-1])
    first = np.flatnonzero(is_first)
    kind = np.int32 if max(first.size, n_states) < 2**31 else np.int64
    indptr = np.zeros(n_rows + 1, dtype=kind)
    np.cumsum(np.bincount(rows[first], minlength=n_rows), out=indptr[1:])
    indices = next_states[first].astype(kind)
    transitions = sp.csr_array((np.add.reduceat(probabilities, first), indices, indptr), shape=(n_rows, n_states))
    used = np.diff(indptr) > 0
    allowed = used.reshape(shape)
    starts = np.flatnonzero(np.diff(rows, prepend=-1))
    if _agree(rewards, starts):
        per_pair = np.zeros(n_rows)
        per_pair[used] = rewards[starts]
        return MergedOutcomes(transitions, per_pair.reshape(shape), None, allowed)
    if _agree(rewards, first):
        per_outcome = sp.csr_array((rewards[first], indices, indptr), shape=transitions.shape)
        return MergedOutcomes(transitions, per_outcome, None, allowed)
    chances = probabilities / _sums(rows, probabilities, n_rows)[rows]
    mean = _sums(rows, chances * rewards, n_rows)
    # written around the mean, so that rounding cannot put the second moment below its square
    with np.errstate(over="ignore"):
        square = mean**2 + _sums(rows, chances * (rewards - mean[rows]) ** 2, n_rows)
    return MergedOutcomes(transitions, mean.reshape(shape), square.reshape(shape), allowed)


def _sums(rows: Indices, values: Array, n_rows: int) -> Array:
    """The sum of the values of each row."""
    return np.asarray(np.bincount(rows, values, minlength=n_rows), dtype=np.float64)


def _agree(rewards: Array, first: Indices) -> bool:
    """Whether the rewards of each group, given by the place of its first one, are the same up to rounding."""
    low, high = np.minimum.reduceat(rewards, first), np.maximum.reduceat(rewards, first)
    return bool(np.all(high - low <= SAME * np.maximum(np.abs(low), np.abs(high))))
