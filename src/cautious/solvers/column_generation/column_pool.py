"""Columns: the deterministic policies found so far, each with its return and its features.

A column keeps its actions as small integers and, as long as they fit in a few megabytes or ``STATES_SHARE`` of the
model's own bytes, its state marginal. With that, its return under another reward table is one sum, so that one pool
serves all cautions of a frontier and all inner problems of a scalar search. Early columns are computed roughly;
``sharpen`` computes those that carry weight in a mixture again.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from cautious.arrays import Array, Indices
from cautious.checks import state_sums_of
from cautious.horizons.average import quickly_mixing
from cautious.horizons.plan import Plan
from cautious.models.chains import DeterministicChains
from cautious.models.encodings import read_only_view
from cautious.models.horizons import AVERAGE, TOTAL
from cautious.occupancy import policy_occupancy
from cautious.planning import plan
from cautious.problem import Problem
from cautious.support import CONNECTING_SHARE

MAX_COLUMNS = 400
KEPT_RECENT_COLUMNS = 20
STATES_SHARE, STATES_BYTES = 0.5, 32e6

# by what the share that joins behaviours is multiplied where it costs more than this part of a gap, and its least value
SMALLER_SHARE, MAX_SHARE_COST, SMALLEST_SHARE = 0.1, 0.1, 1e-11
# an error from which on the chain of a column counts as too slow, and one that nothing can be done with
MAX_SLOW_ERROR, MAX_COLUMN_ERROR = 1e-7, 0.5

Accuracy = float | Callable[[Plan], float]


@dataclass
class Column:
    """``actions`` (S,) of a behaviour; its state marginal if kept (S,), and how wrong that can be.

    With a finite horizon both are (T, S).
    """

    actions: np.ndarray
    states: Array | None
    error: float


class ColumnPool:
    """Behaviours of one model; ``price_out`` adds the best one for given prices of the features."""

    def __init__(self, problem: Problem, features: sp.csr_array) -> None:
        self.problem, self.features, self.by_pair = problem, features, features.T
        # (m, S, A), where no entry is zero: then tables are faster than lists of entries
        whole = features.nnz == features.shape[0] * features.shape[1]
        self.tables = features.data.reshape(-1, *problem.mdp.shape) if whole else None
        self.horizon = 1 / problem.mdp.normaliser
        self.columns: list[Column] = []
        self.returns = np.empty(0)
        self.numbers = np.empty((features.shape[0], 0))
        self.last: Plan | None = None
        self.guess: Array | None = None
        self.spreads = _spreads(features)
        if problem.mdp.horizon == TOTAL:
            self.spreads = np.array([np.abs(row.data).max(initial=0.0) for row in features])
        self.every = np.arange(problem.mdp.n_states)
        self.small_integer = np.uint8 if problem.mdp.n_actions <= 256 else np.int32
        self._reward_range = _range(problem)
        self.chains = DeterministicChains(problem.mdp, read_only_view(problem.reward).ravel())
        room = max(STATES_SHARE * problem.mdp.n_bytes, STATES_BYTES)
        self.states_kept = max(2, int(room / (8 * math.prod(problem.mdp.occupancy_shape[:-1]))))
        self.solved: tuple[float, Array] | None = None
        # for long-run averages every behaviour is joined to all others
        self.connecting = problem.support.connecting
        joined = np.zeros(problem.mdp.shape) if self.connecting is None else self.connecting
        self.share = 0.0 if self.connecting is None else CONNECTING_SHARE
        self.joined_numbers = np.asarray(features @ joined.ravel())
        # whether a mixture is known to clear the floors of all barriers
        self.cleared = False

    def serve(self, problem: Problem) -> None:
        """Use the same columns for another caution or another reward table of the model."""
        same = problem.reward is self.problem.reward or np.array_equal(problem.reward, self.problem.reward)
        self.problem = problem
        if not same:
            self._reward_range = _range(problem)
            self.solved = None
            self._choose(np.array([column.states is not None for column in self.columns], dtype=np.bool_))
            self.returns = np.array([self._return(column) for column in self.columns])

    def proportional_prices(self, caution: float) -> Array | None:
        """The prices (m,) of the last solved caution, scaled in proportion to this one; None if none was solved."""
        return None if self.solved is None else caution / self.solved[0] * self.solved[1]

    def sensitivity(self, prices: Array) -> float:
        """How much the priced return of a policy can change for each unit of error in its occupancy."""
        felt = self.horizon * self._reward_range / 2 + float(np.abs(prices) @ self.spreads)
        # with equal rewards and constant features any occupancy will do
        return max(felt, 1e-300)

    def price_out(
        self,
        reward: Array,
        prices: Array,
        tolerance: float,
        accuracy: Accuracy,
        known: float = -np.inf,
        over: Callable[[], bool] | None = None,
    ) -> Plan:
        """Plan for reward + (1-gamma) sum of prices * features, and keep the behaviour.

        ``tolerance``, ``known`` and ``over`` as in ``plan``; ``accuracy``, which may look at what it found, is how
        wrong the occupancy may be.
        """
        problem = self.problem
        priced = reward + self._worth(prices) / self.horizon
        found = plan(
            problem.mdp, priced, tolerance=tolerance, allowed=problem.kept, warm=self.last, known=known, over=over
        )
        self.last = found
        wanted = accuracy(found) if callable(accuracy) else accuracy
        column = Column(found.actions.astype(self.small_integer), None, np.inf)
        numbers = self._evaluate(column, wanted)
        if problem.mdp.horizon == AVERAGE and column.error > max(wanted, MAX_SLOW_ERROR):
            # another column that is about as good, and whose chain does not take for ever
            slack = max(found.upper - found.lower, wanted * self.sensitivity(prices))
            other = quickly_mixing(problem.mdp, priced, problem.kept, found, slack)
            faster = Column(other.actions.astype(self.small_integer), None, np.inf)
            better = self._evaluate(faster, wanted)
            column, numbers = (faster, better) if faster.error < column.error else (column, numbers)
            if column.error >= MAX_COLUMN_ERROR and self.columns:
                return found
        self.columns.append(column)
        self.returns = np.append(self.returns, self._return(column))
        self.numbers = np.concatenate([self.numbers, numbers[:, None]], axis=1)
        return found

    def costs_much(self, prices: Array, gap: float) -> bool:
        """Whether the share that joins policies may cost a large part of a gap, and can be made smaller."""
        return self.share > SMALLEST_SHARE and self.share * self.sensitivity(prices) > MAX_SHARE_COST * gap

    def separate(self) -> None:
        """Make the share that joins policies smaller."""
        alone = (self.numbers - self.share * self.joined_numbers[:, None]) / (1 - self.share)
        paid = 0.0 if self.connecting is None else self.horizon * float(np.vdot(self.connecting, self.problem.reward))
        returns = (self.returns - self.share * paid) / (1 - self.share)
        self.share *= SMALLER_SHARE
        self.numbers = np.asarray((1 - self.share) * alone + self.share * self.joined_numbers[:, None])
        self.returns = np.asarray((1 - self.share) * returns + self.share * paid)

    def sharpen(self, weights: Array, accuracy: float) -> bool:
        """Evaluate every column with weight to this accuracy; True if any number changed."""
        rough = [k for k in np.flatnonzero(weights) if self.columns[k].error > accuracy]
        changed = False
        for k in rough:
            column, before = self.columns[k], self.columns[k].error
            self.numbers[:, k] = self._evaluate(column, accuracy)
            self.returns[k] = self._return(column)
            changed |= column.error < 0.5 * before
        return changed

    def mixture(self, weights: Array, accuracy: float) -> Array:
        """The occupancy (S, A) of a mixture of the columns."""
        total = np.zeros(self.problem.mdp.occupancy_shape)
        for k in np.flatnonzero(weights):
            column = self.columns[k]
            if column.states is None:
                self._evaluate(column, accuracy)
            assert column.states is not None
            total.ravel()[self._entries(column.actions)] += weights[k] * column.states.ravel()
            self.forget_states(weights)
        return total if self.connecting is None else self.problem.support.connected(total, self.share)

    def default_policy(self) -> Array:
        """Rows (S, A) for states that a mixture never visits: the actions of the last plan."""
        assert self.last is not None
        return self.problem.completed(self.last.policy(self.problem.mdp.n_actions))

    def forget(self, weights: Array) -> None:
        """Drop columns without weight when the pool is full, and states of columns beyond the room for them."""
        if len(self.columns) > MAX_COLUMNS:
            weighty = np.append(weights > 0, np.ones(len(self.columns) - weights.size, dtype=np.bool_))
            self._choose(weighty | (np.arange(weighty.size) >= weighty.size - KEPT_RECENT_COLUMNS))
        self.forget_states(weights)

    def forget_states(self, weights: Array) -> None:
        """Only the columns with the largest weights, and the newest, keep their states."""
        if len(self.columns) <= self.states_kept:
            return
        keeping = [k for k, column in enumerate(self.columns) if column.states is not None]
        if len(keeping) > self.states_kept:
            important = np.append(weights, np.ones(len(self.columns) - weights.size))[keeping]
            for i in np.lexsort((np.arange(len(keeping)), important))[: -self.states_kept]:
                self.columns[keeping[i]].states = None

    def _evaluate(self, column: Column, accuracy: float) -> Array:
        """Solve for the column's occupancy; returns its numbers (m,)."""
        mdp, actions = self.problem.mdp, column.actions.astype(np.int64)
        guess = self.guess if column.states is None else column.states
        if mdp.horizon is None:
            guess = self._quickly(column, actions, guess, accuracy)
        if mdp.horizon is not None or column.error > accuracy:
            # what the quick way cannot reach, the careful one may
            found = policy_occupancy(mdp, self._policy(actions), accuracy, guess)
            column.states, column.error = state_sums_of(found.occupancy), found.error
        self.guess = column.states
        if self.tables is not None:
            return self._joined(np.array([self._expected(table, column) for table in self.tables]))
        assert column.states is not None
        pairs = (self.every * mdp.n_actions + actions).ravel()
        return self._joined(np.asarray(self.features @ np.bincount(pairs, column.states.ravel(), math.prod(mdp.shape))))

    def _joined(self, numbers: Array) -> Array:
        """The numbers (m,) of a policy that is joined to all others."""
        return np.asarray((1 - self.share) * numbers + self.share * self.joined_numbers)

    def _quickly(self, column: Column, actions: Indices, guess: Array | None, accuracy: float) -> Array:
        """Solve for a discounted occupancy by one method without a fallback; what it found (S,), at least a guess.

        The column gets it where that is accurate enough.
        """
        mdp = self.problem.mdp
        chain, _ = self.chains.chain(actions)
        states, size = chain.flow(
            mdp.discount, (1 - mdp.discount) * mdp.start, guess, 0.5 * accuracy * (1 - mdp.discount)
        )
        # setting the sum to one at most doubles the distance
        column.error = 2 * size * self.horizon
        if column.error <= accuracy and states.any():
            column.states = states / states.sum()
        else:
            column.error = np.inf
        return states

    def _entries(self, actions: Indices) -> Indices:
        """The places of actions (S,) or (T, S) in a flat table (S, A) or (T, S, A)."""
        return np.asarray(np.arange(actions.size) * self.problem.mdp.n_actions + actions.ravel())

    def _worth(self, prices: Array) -> Array:
        """What each pair (S, A) is worth at these prices (m,) of the features."""
        if self.tables is not None:
            return np.tensordot(prices, self.tables, axes=1)
        return np.asarray(self.by_pair @ prices).reshape(self.problem.mdp.shape)

    def _policy(self, actions: Indices) -> Array:
        table = np.zeros(self.problem.mdp.occupancy_shape)
        table.ravel()[self._entries(actions)] = 1.0
        return table if self.problem.active_states.all() else self.problem.completed(table)

    def _return(self, column: Column) -> float:
        paid = self._expected(self.problem.reward, column)
        if self.connecting is not None:
            paid = (1 - self.share) * paid + self.share * float(np.vdot(self.connecting, self.problem.reward))
        return self.horizon * paid

    def _expected(self, table: Array, column: Column) -> float:
        """The mean of a table (S, A) under the occupancy of a column."""
        assert column.states is not None
        paid = table.ravel()[self.every * table.shape[1] + column.actions]
        return float(np.vdot(column.states, paid))

    def _choose(self, chosen: np.ndarray) -> None:
        self.columns = [column for column, keep in zip(self.columns, chosen, strict=True) if keep]
        self.returns, self.numbers = self.returns[chosen], self.numbers[:, chosen]
        self.cleared = False


class ColumnPoolCache:
    """The pool that solves of one model and risk share, made anew when it does not fit."""

    def __init__(self) -> None:
        self.pool: ColumnPool | None = None
        self.blocks: list[sp.csr_array] = []

    def of(
        self, problem: Problem, blocks: list[sp.csr_array], features: Callable[[Problem], sp.csr_array]
    ) -> ColumnPool:
        """A pool for the features of these risks, with what earlier solves left in it."""
        known = self.pool
        fits = known is not None and len(blocks) == len(self.blocks) and known.problem.mdp is problem.mdp
        fits = fits and all(one is other for one, other in zip(blocks, self.blocks, strict=True))
        if known is None or not fits or not np.array_equal(known.problem.kept, problem.kept):
            self.pool, self.blocks = ColumnPool(problem, features(problem)), blocks
        else:
            known.serve(problem)
        assert self.pool is not None
        return self.pool


def _range(problem: Problem) -> float:
    """Largest minus smallest reward of the pairs in use; with zero, where occupancies have different sums."""
    used = problem.reward[problem.active_pairs]
    if problem.mdp.horizon == TOTAL:
        # an error need not sum to zero
        return 2 * float(np.abs(used).max(initial=0.0))
    return float(np.ptp(used)) if used.size else 0.0


def _spreads(features: sp.csr_array) -> Array:
    """Half the difference of the largest and the smallest entry of each feature (m,)."""
    out = np.empty(features.shape[0])
    for j, (start, end) in enumerate(pairwise(features.indptr)):
        entries = features.data[start:end]
        beyond = np.inf if entries.size == features.shape[1] else 0.0
        out[j] = (entries.max(initial=-beyond) - entries.min(initial=beyond)) / 2
    return out
