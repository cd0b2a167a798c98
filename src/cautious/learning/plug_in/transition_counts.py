"""Counts of what a simulator did, and the model they describe.

Only triples (state, action, next state) that were seen take memory: about 60 bytes each. Rewards are kept as
deviations from the first one seen for the same triple, so a reward without spread is recognised exactly.
"""

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

from cautious._core import sampling
from cautious.arrays import Array, Indices, Mask
from cautious.learning.draws import Draws
from cautious.learning.scalar_risk_rewards import Payoff
from cautious.learning.task import Task
from cautious.models.simulators import TableSimulator
from cautious.models.tabular import MDP

BYTES_PER_TRIPLE = 60
TABLE_PIECE = 2_000_000
CALL_PIECE = 65_536
MAX_RELATIVE_SPREAD = 1e-9


class Counts:
    """How often each triple was drawn, and with which rewards; key = (state * A + action) * S + next state."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self.shape = shape
        self.used = 0
        self._integers = np.zeros((2, 64), dtype=np.int64)
        self._numbers = np.zeros((3, 64))
        self._slots = np.zeros(256, dtype=np.int64)

    @property
    def keys(self) -> Indices:
        """The triples seen, in the order of their first appearance."""
        return self._integers[0, : self.used]

    @property
    def count(self) -> Indices:
        """How often each was seen."""
        return self._integers[1, : self.used]

    @property
    def first(self) -> Array:
        """A reward of each."""
        return self._numbers[0, : self.used]

    @property
    def shift(self) -> Array:
        """The sum of deviations from that reward."""
        return self._numbers[1, : self.used]

    @property
    def square(self) -> Array:
        """The sum of their squares."""
        return self._numbers[2, : self.used]

    @property
    def pairs(self) -> Indices:
        """The pair, as a row ``s*A + a``, of each triple."""
        return self.keys // self.shape[0]

    @property
    def next_states(self) -> Indices:
        """The next state of each triple."""
        return self.keys % self.shape[0]

    @property
    def per_pair(self) -> Indices:
        """Samples of each pair, (S*A,)."""
        totals = np.bincount(self.pairs, weights=self.count, minlength=self.shape[0] * self.shape[1])
        return np.asarray(totals, dtype=np.int64)

    @property
    def deterministic(self) -> bool:
        """Whether the reward of every triple is always the same, up to rounding."""
        spread = np.sqrt(self.square / np.maximum(self.count, 1))
        return bool(np.all(spread <= MAX_RELATIVE_SPREAD * np.maximum(np.abs(self.first), 1e-300)))

    def add(self, states: Indices, actions: Indices, next_states: Indices, rewards: Array) -> None:
        """Count drawn transitions."""
        keys = (states * self.shape[1] + actions) * self.shape[0] + next_states
        nothing = np.zeros(keys.size)
        self._tally(keys, np.ones(keys.size, dtype=np.int64), rewards, nothing, nothing)

    def _tally(self, keys: Indices, count: Indices, first: Array, shift: Array, square: Array) -> None:
        self._make_room(self.used + keys.size)
        integers, numbers = self._integers, self._numbers
        held = (self._slots, integers[0], integers[1], numbers[0], numbers[1], numbers[2])
        self.used = sampling.add_groups(*held, self.used, keys, count, first, shift, square)

    def _make_room(self, wanted: int) -> None:
        room = self._integers.shape[1]
        if wanted <= room:
            return
        room = 1 << (wanted - 1).bit_length()
        more = ((0, 0), (0, room - self._integers.shape[1]))
        self._integers, self._numbers = np.pad(self._integers, more), np.pad(self._numbers, more)
        self._slots = np.zeros(2 * room, dtype=np.int64)
        sampling.fill_slots(self._slots, self._integers[0], self.used)

    def arrays(self) -> dict[str, Indices | Array]:
        """Everything counted."""
        return {"triples": self._integers[:, : self.used].copy(), "rewards": self._numbers[:, : self.used].copy()}

    @staticmethod
    def from_arrays(shape: tuple[int, int], triples: Indices, rewards: Array) -> "Counts":
        """The inverse of ``arrays``."""
        counts = Counts(shape)
        counts._tally(*np.array(triples, dtype=np.int64), *np.array(rewards, dtype=np.float64))
        return counts


def piece_of(sizes: Indices, done: int, most: int) -> Indices:
    """Of ``sizes`` draws per pair, taken pair after pair, the next ``most`` after the first ``done``."""
    ends = np.cumsum(sizes)
    return np.asarray(np.clip(ends, done, done + most) - np.clip(ends - sizes, done, done + most), dtype=np.int64)


def pair_batches(sizes: Indices, done: int, n_actions: int, per_call: int) -> Iterator[tuple[Indices, Indices]]:
    """States and actions of what is left of ``sizes`` (S*A,) after the first ``done`` draws, in whole calls."""
    most = CALL_PIECE // per_call * per_call
    for first in range(done, int(sizes.sum()), most):
        piece = piece_of(sizes, first, most)
        rows = np.repeat(np.arange(piece.size, dtype=np.int64), piece)
        yield rows // n_actions, rows % n_actions


def draw_table_piece(counts: Counts, draws: Draws, table: TableSimulator, sizes: Indices, done: int) -> int:
    """Draw and count the next piece of ``sizes`` (S*A,) after the first ``done`` draws; returns how many."""
    n_states = counts.shape[0]
    piece = piece_of(sizes, done, TABLE_PIECE)
    total = int(piece.sum())
    hits = np.zeros(table.rows.nnz, dtype=np.int64)
    draws.count(total)
    sampling.draw_hits(*table.sums, piece, draws.kernel_seed(), hits)
    seen = np.flatnonzero(hits)
    rows = np.searchsorted(table.rows.indptr, seen, side="right") - 1
    rewards = table.pay[seen] if table.pays_per_outcome else table.pay[rows]
    nothing = np.zeros(seen.size)
    counts._tally(rows * n_states + table.rows.indices[seen], hits[seen], rewards, nothing, nothing)
    return total


def triple_payments(counts: Counts, payoff: Payoff) -> tuple[Array, Array]:
    """The mean payoff of each triple, and the sum of squared deviations of its rewards from their mean, (used,)."""
    if counts.deterministic:
        return payoff(counts.first), np.zeros(counts.used)
    # within a triple E[(r - t)^2] = (mean - t)^2 + spread; tails (CVaR) of random rewards are refused
    n = counts.count.astype(np.float64)
    inside = np.maximum(counts.square - counts.shift**2 / n, 0.0)
    curvature = (1 - payoff.discount) * sum(weight for weight, _ in payoff.scalars)
    return payoff(counts.first + counts.shift / n) - curvature * inside / n, inside


def next_moments(counts: Counts, payoff: Payoff, v: Array) -> tuple[Array, Array | None]:
    """Mean and sample variance (S*A,) of payoff + gamma v(s'); zero for pairs that were never tried.

    The variance of a nonlinear payoff of random rewards is None: it would take fourth moments.
    """
    n, size = counts.count.astype(np.float64), counts.shape[0] * counts.shape[1]
    per_pair = counts.per_pair
    paid, inside = triple_payments(counts, payoff)
    x = paid + payoff.discount * v[counts.next_states]
    mean = np.bincount(counts.pairs, weights=n * x, minlength=size) / np.maximum(per_pair, 1)
    if payoff.scalars and not counts.deterministic:
        return mean, None
    around = n * (x - mean[counts.pairs]) ** 2 + inside
    return mean, np.bincount(counts.pairs, weights=around, minlength=size) / np.maximum(per_pair - 1, 1)


def counted_mdp(task: Task, counts: Counts, start: Array) -> MDP:
    """The model whose probabilities are the observed frequencies.

    A pair that was never tried is taken to stay where it is at the lowest reward.
    """
    size, n_states = task.allowed.size, task.shape[0]
    untried = np.flatnonzero(task.allowed.ravel() & (counts.per_pair == 0))
    once, nothing = np.ones(untried.size), np.zeros(untried.size)
    keys = np.concatenate([counts.keys, untried * n_states + untried // task.shape[1]])
    order = np.argsort(keys)
    rows, columns = np.divmod(keys[order], n_states)
    number, first, shift, square = (
        np.concatenate([seen, added])[order]
        for seen, added in (
            (counts.count.astype(np.float64), once),
            (counts.first, task.reward_range[0] * once),
            (counts.shift, nothing),
            (counts.square, nothing),
        )
    )
    pointer = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=size))])
    per_pair = np.bincount(rows, weights=number, minlength=size)
    chance = number / per_pair[rows]
    transitions = sp.csr_array((chance, columns, pointer), shape=(size, n_states))
    reward_square: Array | None = None
    if counts.deterministic:
        rewards = sp.csr_array((first, columns, pointer), shape=(size, n_states))
    else:
        tried = np.maximum(per_pair, 1.0)
        mean = np.bincount(rows, weights=number * first + shift, minlength=size) / tried
        moved = np.bincount(rows, weights=number * first**2 + 2 * first * shift + square, minlength=size) / tried
        rewards = mean.reshape(task.shape)
        reward_square = np.maximum(moved, mean**2).reshape(task.shape)
    return MDP(
        transitions,
        rewards,
        task.discount,
        start,
        allowed=task.allowed,
        reward_square=reward_square,
        state_names=task.known.state_names,
        action_names=task.known.action_names,
        scene=task.known.scene,
    )


def uniform_sizes(allowed: Mask, total: int) -> Indices:
    """``total`` draws spread over the allowed pairs as evenly as whole numbers can; (S*A,)."""
    return shared_sizes(allowed.ravel() / np.count_nonzero(allowed), total)


def shared_sizes(share: Array, total: int) -> Indices:
    """Whole numbers that sum to ``total`` and follow ``share`` (sums to one): running sums are rounded."""
    ends = np.floor(np.cumsum(share) / share.sum() * total + 0.5)
    return np.diff(np.concatenate([[0.0], ends])).astype(np.int64)
