"""A long list of outcomes (row, next state, probability, reward) to the arrays of a model.

``row`` is s*A + a. Outcomes of a pair that share their next state are one transition: probabilities add up. Where such
outcomes pay different rewards, a reward per transition would be an average that hides a spread. The model then gets
the expected rewards (S, A) and their second moments, so that ``Variance`` is exact and ``CVaR`` is refused instead of
being wrong. Rewards of one transition that differ by no more than rounding are one reward; nothing else is rounded.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cautious.arrays import Array, Indices, Mask

# rewards this close, relative to their size, differ by the rounding of how they were computed
MAX_RELATIVE_ROUNDING = 1e-12


@dataclass
class OutcomeList:
    """One entry per outcome, in any order; ``rewards`` is None where nothing is paid."""

    rows: NDArray[Any]
    next_states: NDArray[Any]
    probabilities: Array
    rewards: Array | None

    def at(self, places: Any) -> "OutcomeList":
        """Some of the outcomes, by index or mask."""
        rewards = None if self.rewards is None else self.rewards[places]
        return OutcomeList(self.rows[places], self.next_states[places], self.probabilities[places], rewards)

    def plus(self, more: "OutcomeList") -> "OutcomeList":
        """These outcomes and then more; both lists pay."""
        assert self.rewards is not None
        assert more.rewards is not None
        return OutcomeList(
            np.concatenate([self.rows, more.rows]),
            np.concatenate([self.next_states, more.next_states]),
            np.concatenate([self.probabilities, more.probabilities]),
            np.concatenate([self.rewards, more.rewards]),
        )

    def sort(self) -> None:
        """By row and next state, in place and column by column: the columns are as large as the model."""
        above, level = self.rows[:-1] < self.rows[1:], self.rows[:-1] == self.rows[1:]
        if np.all(above | (level & (self.next_states[:-1] <= self.next_states[1:]))):
            return
        order = np.lexsort((self.next_states, self.rows))
        self.rows, self.next_states = self.rows[order], self.next_states[order]
        self.probabilities = self.probabilities[order]
        self.rewards = None if self.rewards is None else self.rewards[order]


def staying_outcomes(states: Indices, n_actions: int) -> OutcomeList:
    """Every action of these states stays there and pays 0."""
    rows = (states[:, None] * n_actions + np.arange(n_actions)).ravel()
    return OutcomeList(rows, rows // n_actions, np.ones(rows.size), np.zeros(rows.size))


class MergedOutcomes(NamedTuple):
    """Arguments of ``MDP``: transitions (S*A, S), rewards per transition or (S, A), second moments, allowed (S, A)."""

    transitions: sp.csr_array
    rewards: Any
    reward_square: Array | None
    allowed: Mask


def has_no_axes(value: Any) -> bool:
    """True for an array without axes, which claims to be iterable and is not."""
    return isinstance(value, np.ndarray) and value.ndim == 0


def index_kind(*counts: int) -> type[np.int32] | type[np.int64]:
    """The smaller of the two kinds of indices that SciPy has, if it can count that far."""
    return np.int32 if max(counts) < 2**31 - 1 else np.int64


def merged_outcomes(
    shape: tuple[int, int], outcomes: OutcomeList, *, pair_reward: Array | None = None, per_outcome: bool = False
) -> MergedOutcomes:
    """The outcomes of a model of ``shape`` (S, A), which are put in order; pairs without any are not allowed.

    ``pair_reward`` (S, A) or (S, 1) is paid beside the rewards of the outcomes. Rewards that are the same for all
    outcomes of every pair become rewards of pairs, unless ``per_outcome``.
    """
    n_rows, n_states = shape[0] * shape[1], shape[0]
    outcomes.sort()
    is_first = np.ones(outcomes.rows.size, dtype=np.bool_)
    is_first[1:] = outcomes.rows[1:] != outcomes.rows[:-1]
    is_first[1:] |= outcomes.next_states[1:] != outcomes.next_states[:-1]
    kept, first = outcomes, None
    if not is_first.all():
        first = np.flatnonzero(is_first)
        kept = outcomes.at(first)
        kept.probabilities = np.add.reduceat(outcomes.probabilities, first)
    kind = index_kind(kept.rows.size, n_rows)
    indptr = np.searchsorted(kept.rows, np.arange(n_rows + 1, dtype=kept.rows.dtype)).astype(kind)
    indices = kept.next_states.astype(kind, copy=False)
    transitions = sp.csr_array((kept.probabilities, indices, indptr), shape=(n_rows, n_states))
    used = np.diff(indptr) > 0
    allowed = used.reshape(shape)
    fixed = np.zeros(shape) if pair_reward is None else np.broadcast_to(pair_reward, shape)
    if outcomes.rewards is None or kept.rewards is None:
        return MergedOutcomes(transitions, fixed, None, allowed)
    if first is not None and not _agree(outcomes.rewards, first):
        mean, spread = _moments(outcomes.rows, outcomes.probabilities, outcomes.rewards, n_rows)
        total = mean.reshape(shape) + fixed
        # written around the mean, so that rounding cannot put the second moment below its square
        with np.errstate(over="ignore"):
            return MergedOutcomes(transitions, total, total**2 + spread.reshape(shape), allowed)
    if per_outcome or not _is_constant(kept.rewards, indptr):
        paid = kept.rewards if pair_reward is None else kept.rewards + fixed.ravel()[kept.rows]
        return MergedOutcomes(
            transitions, sp.csr_array((paid, indices, indptr), shape=transitions.shape), None, allowed
        )
    per_pair = np.zeros(n_rows)
    per_pair[used] = kept.rewards[indptr[:-1][used]]
    return MergedOutcomes(transitions, per_pair.reshape(shape) + fixed, None, allowed)


def _moments(rows: Indices, probabilities: Array, rewards: Array, n_rows: int) -> tuple[Array, Array]:
    """Mean and variance of the reward of each row; both 0 where nothing can happen."""
    total = _sums(rows, probabilities, n_rows)
    chances = probabilities / np.where(total > 0, total, 1.0)[rows]
    # numbers that are not finite, or whose squares overflow, are refused by the model
    with np.errstate(over="ignore", invalid="ignore"):
        mean = _sums(rows, chances * rewards, n_rows)
        return mean, _sums(rows, chances * (rewards - mean[rows]) ** 2, n_rows)


def _sums(rows: Indices, values: Array, n_rows: int) -> Array:
    """The sum of the values of each row."""
    return np.asarray(np.bincount(rows, values, minlength=n_rows), dtype=np.float64)


def _agree(rewards: Array, first: Indices) -> bool:
    """Whether the rewards of each group, given by the place of its first one, are the same up to rounding."""
    low, high = np.minimum.reduceat(rewards, first), np.maximum.reduceat(rewards, first)
    return bool(np.all(same_rewards(low, high)))


def same_rewards(low: Array, high: Array) -> Mask:
    """Where two rewards, the first the smaller one, are the same up to rounding."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(high - low <= MAX_RELATIVE_ROUNDING * np.maximum(np.abs(low), np.abs(high)))


def _is_constant(values: Array, indptr: NDArray[Any]) -> bool:
    """Whether the values of every row are equal."""
    changes = np.zeros(values.size, dtype=np.bool_)
    changes[1:] = values[1:] != values[:-1]
    changes[indptr[:-1][np.diff(indptr) > 0]] = False
    return not changes.any()
