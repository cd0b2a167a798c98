"""From transitions in columns, one entry per outcome in any order, to a model.

Entries of the same (state, action, next state) are one outcome: probabilities add up. If they pay differently the model
cannot keep a reward per outcome; it keeps the first two moments of each pair, E[r] and E[r^2], which are exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cautious.arrays import Array
from cautious.errors import FileError
from cautious.models.encodings import row_of_entries, weighted_rows
from cautious.models.formats.given import of_file
from cautious.models.scene import Scene
from cautious.models.tabular import MDP

# tables (S, A) are only made when the outcomes can justify their size
MOST_PAIRS = 2**31
PAIRS_PER_OUTCOME, FREE_PAIRS = 1000, 10**6


@dataclass
class Entries:
    """Outcomes as columns (n,); ``reward`` is what each pays, or None. Consumed by ``model``, to spare memory."""

    n_states: int
    n_actions: int
    state: NDArray[Any]
    action: NDArray[Any]
    target: NDArray[Any]
    probability: Array
    reward: Array | None = None


@dataclass(frozen=True)
class About:
    """All else about a model. ``per_outcome``: whether equal rewards of a pair's outcomes stay rewards of outcomes."""

    discount: float
    start: Array | None
    state_names: Sequence[str] | None = None
    action_names: Sequence[str] | None = None
    scene: Scene | None = None
    per_outcome: bool = False
    normalise: bool = False
    reward_square: Array | None = None


def model(path: Path, entries: Entries, pair_reward: Array | None, about: About) -> MDP:
    """The model; ``pair_reward`` (S, A) or (S, 1) is paid beside the rewards of the outcomes."""
    n_states, n_actions = entries.n_states, entries.n_actions
    require_pairs(path, n_states, n_actions, entries.probability.size)
    rows, reward, square = _rows(entries)
    allowed = np.diff(rows.indptr).reshape(n_states, n_actions) > 0
    stuck = ~allowed.any(axis=1)
    if stuck.any():
        state = int(np.argmax(stuck))
        name = state if about.state_names is None else repr(about.state_names[state])
        raise FileError(f"{path}: state {name} has no transition; a state where everything ends leads to itself")
    rewards, given_square = _rewards(rows, reward, square, pair_reward, about)
    return of_file(
        path,
        lambda: MDP(
            rows,
            rewards,
            about.discount,
            about.start,
            allowed=None if allowed.all() else allowed,
            reward_square=given_square,
            state_names=about.state_names,
            action_names=about.action_names,
            normalise=about.normalise,
            scene=about.scene,
        ),
    )


def require_pairs(path: Path, n_states: int, n_actions: int, n_outcomes: int) -> None:
    """Refuse tables (S, A) that a file with so many outcomes cannot be about."""
    if n_states * n_actions >= min(MOST_PAIRS, FREE_PAIRS + PAIRS_PER_OUTCOME * n_outcomes):
        raise FileError(
            f"{path}: {n_states} states times {n_actions} actions are too many pairs for {n_outcomes} outcomes"
        )


def _rows(entries: Entries) -> tuple[sp.csr_array, Array | None, Array | None]:
    """CSR (S*A, S), the reward of each stored outcome, and its square where equal outcomes pay differently."""
    shape = (entries.n_states * entries.n_actions, entries.n_states)
    kind = np.int32 if max(shape[0], entries.probability.size) < 2**31 - 1 else np.int64
    row: Any = entries.state.astype(kind)
    row *= entries.n_actions
    row += entries.action.astype(kind, copy=False)
    target, probability, reward = entries.target.astype(kind, copy=False), entries.probability, entries.reward
    # the columns are as large as the model: nobody else holds them now
    entries.state = entries.action = entries.target = np.empty(0, kind)
    entries.probability, entries.reward = np.empty(0), None
    square = None
    if not _in_order(row, target):
        order = np.lexsort((target, row))
        row, target, probability = row[order], target[order], probability[order]
        reward = None if reward is None else reward[order]
        del order
        if not _in_order(row, target):
            row, target, probability, reward, square = _merged(row, target, probability, reward)
    counts = np.bincount(row, minlength=shape[0])
    indptr = np.zeros(shape[0] + 1, kind)
    np.cumsum(counts, out=indptr[1:])
    return sp.csr_array((probability, target, indptr), shape=shape), reward, square


def _in_order(row: NDArray[Any], target: NDArray[Any]) -> bool:
    """Whether each entry comes strictly after the one before."""
    below, same = row[:-1] < row[1:], row[:-1] == row[1:]
    same &= target[:-1] < target[1:]
    return bool((below | same).all())


def _merged(row: NDArray[Any], target: NDArray[Any], probability: Array, reward: Array | None) -> tuple[Any, ...]:
    """Sorted entries with equal ones summed; rewards become averages, with squares if they differ."""
    first = np.ones(row.size, np.bool_)
    first[1:] = (row[1:] != row[:-1]) | (target[1:] != target[:-1])
    begins = np.flatnonzero(first)
    total = np.add.reduceat(probability, begins)
    if reward is None:
        return row[begins], target[begins], total, None, None
    alike = np.array_equal(reward[begins][np.cumsum(first) - 1], reward)
    if alike:
        return row[begins], target[begins], total, reward[begins], None
    positive = np.where(total > 0, total, 1.0)
    mean, square = (np.add.reduceat(probability * reward**power, begins) / positive for power in (1, 2))
    return row[begins], target[begins], total, mean, square


def _rewards(
    rows: sp.csr_array, reward: Array | None, square: Array | None, pair_reward: Array | None, about: About
) -> tuple[Any, Array | None]:
    """Rewards in a form that ``MDP`` takes, and E[r^2] (S, A) if they are moments."""
    shape = (rows.shape[1], rows.shape[0] // rows.shape[1])
    fixed = np.zeros(shape) if pair_reward is None else np.broadcast_to(pair_reward, shape)
    if reward is None:
        return fixed, about.reward_square
    if square is not None:
        mean = weighted_rows(rows, reward).reshape(shape)
        second = weighted_rows(rows, square).reshape(shape) + 2 * fixed * mean + fixed**2
        return mean + fixed, np.maximum(second, (mean + fixed) ** 2)
    if about.per_outcome or not _constant_in_rows(rows, reward):
        if pair_reward is not None:
            reward = reward + fixed.ravel()[row_of_entries(rows)]
        return sp.csr_array((reward, rows.indices, rows.indptr), shape=rows.shape), None
    paid = np.zeros(rows.shape[0])
    used = np.diff(rows.indptr) > 0
    paid[used] = reward[rows.indptr[:-1][used]]
    return paid.reshape(shape) + fixed, about.reward_square


def _constant_in_rows(rows: sp.csr_array, values: Array) -> bool:
    """Whether the outcomes of every pair pay the same."""
    changes = np.zeros(values.size, np.bool_)
    changes[1:] = values[1:] != values[:-1]
    changes[rows.indptr[:-1][np.diff(rows.indptr) > 0]] = False
    return not changes.any()
