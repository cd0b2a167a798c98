"""Counts of a log, and the arrays of the model that they describe."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from cautious.arrays import Array, Codes, Indices, Mask
from cautious.checks import states_of
from cautious.models.logs import Log
from cautious.models.scene import END, UNTRIED

# the squares of so large rewards can still be summed over any number of rows
LARGEST_SQUARED = 1e148


@dataclass(frozen=True)
class Layout:
    """The states of the model, whatever part of the log is counted.

    The states of the log come first; then ``end``, where episodes end in states that some row leaves or leads to
    without an end, and ``untried_state``, where pairs that were never tried lead. ``ends`` (S,): states that pay 0 for
    ever. ``restart``: episodes that end begin anew with the probabilities ``start`` (S,).
    """

    shape: tuple[int, int]
    ends: Mask
    end: int | None
    untried_state: int | None
    restart: bool
    untried: str | None
    reward_range: tuple[float, float]
    start: Array

    @property
    def extra_names(self) -> tuple[str, ...]:
        """Names of the states that the log does not have."""
        return tuple(name for name, number in ((END, self.end), (UNTRIED, self.untried_state)) if number is not None)

    @property
    def untried_reward(self) -> float:
        """The reward of states about which nothing is known."""
        low, high = self.reward_range
        return high if self.untried == "optimistic" else low

    def targets(self, log: Log) -> Codes:
        """Where each row leads, (n,): a state, or S for a new start."""
        if not log.ended.any():
            return log.next_states
        if self.restart:
            return np.where(log.ended, self.shape[0], log.next_states)
        elsewhere = log.ended & ~self.ends[log.next_states]
        return log.next_states if self.end is None else np.where(elsewhere, self.end, log.next_states)


def layout_of(
    log: Log, untried: str | None, restart: bool, reward_range: tuple[float, float]
) -> tuple[Layout, Indices, Indices]:
    """The states of the model; which of them are reached and never left; the pairs, as rows, that were never tried."""
    n_labels, n_actions = len(log.state_labels), len(log.action_labels)
    tried: Mask = np.zeros((n_labels, n_actions), dtype=np.bool_)
    tried[log.states, log.actions] = True
    left = states_of(tried)
    ending: Mask = np.zeros(n_labels, dtype=np.bool_)
    ending[log.next_states[log.ended]] = not restart
    reached: Mask = np.zeros(n_labels, dtype=np.bool_)
    reached[log.next_states[~log.ended]] = True
    # where a row also led without an end, and the log breaks off, what follows is not known
    ends: Mask = ending & ~left & ~reached
    low, high = reward_range
    if ending.any():
        low, high = min(low, 0.0), max(high, 0.0)
    end = n_labels if (ending & ~ends).any() else None
    unknown = np.flatnonzero((~tried & left[:, None]).ravel())
    stuck = np.flatnonzero(reached & ~left & ~ends)
    untried_state = None
    if untried in ("pessimistic", "optimistic") and (unknown.size or stuck.size):
        untried_state = n_labels + (end is not None)
    extra = (end is not None) + (untried_state is not None)
    n_states = n_labels + extra
    ends = np.append(ends, np.zeros(extra, dtype=np.bool_))
    if end is not None:
        ends[end] = True
    layout = Layout(
        (n_states, n_actions),
        ends,
        end,
        untried_state,
        restart,
        untried,
        (low, high),
        np.zeros(n_states),
    )
    return layout, stuck, unknown


@dataclass(frozen=True)
class Counted:
    """``transitions`` and the rest as for ``MDP``; ``counts`` (S, A); ``outcome_counts`` sparse (S*A, S).

    The column S of the outcome counts is there when episodes restart: how often that happened.
    """

    transitions: sp.csr_array
    rewards: Any
    reward_square: Array | None
    allowed: Mask
    counts: Indices
    outcome_counts: sp.csr_array


def counted_arrays(log: Log, layout: Layout) -> Counted:
    """Count a log, or a part of one."""
    n_states, size = layout.shape[0], layout.shape[0] * layout.shape[1]
    width = n_states + layout.restart
    groups = _groups(log, layout, width)
    pairs, targets = groups.keys // width, groups.keys % width
    counts = np.bincount(pairs, weights=groups.count, minlength=size).astype(np.int64)
    outcome_counts = sp.csr_array((groups.count, (pairs, targets)), shape=(size, width))
    # what the log does not say: ends, and pairs that were never tried
    extra, extra_targets, extra_rewards, allowed = _unseen(layout, counts.reshape(layout.shape))
    rows, columns = np.concatenate([pairs, extra]), np.concatenate([targets, extra_targets])
    weights = np.concatenate([groups.count.astype(np.float64), np.ones(extra.size)])
    means = np.concatenate([groups.mean, extra_rewards])
    chances = weights / np.bincount(rows, weights=weights, minlength=size)[rows]
    transitions = sp.csr_array((chances, (rows, columns)), shape=(size, width))
    rewards: Any = sp.csr_array((means, (rows, columns)), shape=(size, width))
    square: Array | None = None
    if groups.varied.any() or layout.restart:
        varied = np.concatenate([groups.varied, np.zeros(extra.size, dtype=np.bool_)])
        # rewards whose squares overflow are refused by the model
        with np.errstate(over="ignore"):
            squares = np.concatenate([groups.square, extra_rewards**2])
            rewards, square = _moments(rows, chances, means, squares, varied, size)
        rewards, square = rewards.reshape(layout.shape), square.reshape(layout.shape)
    if layout.restart:
        anew = sp.csr_array(transitions[:, [n_states]])
        transitions = sp.csr_array(transitions[:, :n_states] + anew @ sp.csr_array(layout.start[None, :]))
    return Counted(transitions, rewards, square, allowed, counts.reshape(layout.shape), outcome_counts)


def _moments(
    rows: Indices, chances: Array, means: Array, squares: Array, varied: Mask, size: int
) -> tuple[Array, Array]:
    """Mean and second moment (size,) of the reward of each pair; where it always pays the same, exactly that."""
    same: Array = np.zeros(size)
    same[rows] = means
    differs: Mask = np.zeros(size, dtype=np.bool_)
    differs[rows[varied | (means != same[rows])]] = True
    mean = np.where(differs, np.bincount(rows, weights=chances * means, minlength=size), same)
    square = np.bincount(rows, weights=chances * squares, minlength=size)
    return mean, np.where(differs, np.maximum(square, mean**2), mean**2)


@dataclass(frozen=True)
class _OutcomeGroups:
    """Groups of rows with the same pair and target: number, mean and mean square of the rewards, whether they vary."""

    keys: Indices
    count: Indices
    mean: Array
    square: Array
    varied: Mask


def _groups(log: Log, layout: Layout, width: int) -> _OutcomeGroups:
    keys = log.pairs * width + layout.targets(log)
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    count = np.diff(np.append(first, keys.size))
    paid = log.rewards[order]
    low, high = np.minimum.reduceat(paid, first), np.maximum.reduceat(paid, first)
    varied = low != high
    size = np.abs(log.rewards)
    if size.max() > LARGEST_SQUARED and (varied.any() or layout.restart):
        row = int(np.argmax(size))
        raise log.refusal(
            row,
            f"the reward is {log.rewards[row]:g}; where rewards of a state and action differ, or episodes restart, "
            f"they are squared and summed, which goes up to {LARGEST_SQUARED:g}: rescale the rewards",
        )
    # averages of equal numbers must be that number; the largest have no sums and squares, and then all of them are so
    with np.errstate(over="ignore"):
        mean = np.where(varied, np.clip(np.add.reduceat(paid, first) / count, low, high), low)
        square = np.where(varied, np.add.reduceat(paid**2, first) / count, low**2)
    return _OutcomeGroups(keys[first], count, mean, square, varied)


def _unseen(layout: Layout, counts: Indices) -> tuple[Indices, Indices, Array, Mask]:
    """Pairs (as rows) that the log does not tell about, where they lead and what they pay; the pairs that exist."""
    allowed = np.ones(layout.shape, dtype=np.bool_)
    unknown = counts == 0
    own = np.broadcast_to(np.arange(layout.shape[0])[:, None], layout.shape)
    pays = np.where(layout.ends, 0.0, layout.untried_reward)[:, None] * np.ones(layout.shape)
    leads = own if layout.untried_state is None else np.where(layout.ends[:, None], own, layout.untried_state)
    if layout.untried == "forbid":
        allowed = ~unknown | ~(counts > 0).any(axis=1, keepdims=True)
    rows = np.flatnonzero(unknown & allowed)
    return rows, leads.ravel()[rows], pays.ravel()[rows], allowed
