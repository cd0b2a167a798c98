"""The rows of a log in two folds: the first chooses the policy, the second is evidence about it.

A log is no list of independent draws. Whoever made it may have chosen every action by what happened before, even have
learned from it. What is assumed is the Markov property: given everything before a row, its outcome is drawn from the
law of its pair. So the folds follow time, and how many rows ``planned`` of each pair count as evidence is fixed by the
first fold. Rows beyond that number are left out; rows that are missing count as the worst that can happen. Then sums
over the second fold are sums of martingale differences with weights that were fixed beforehand, and the exponential
inequalities in ``error_widths`` hold as for independent draws.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from cautious.arrays import Array, Codes, Indices, Mask
from cautious.models.logged import LoggedMDP
from cautious.models.tabular import MDP

FIRST_SHARE = 2 / 3
# in standard deviations of independent rows; those of one path come in clusters
MARGIN_DEVIATIONS = 4


@dataclass(frozen=True)
class Fold:
    """Rows of the log (n,), their pairs ``s*A + a``, and where they lead; ``count`` (S*A,): rows of each pair."""

    rows: Indices
    pairs: Indices
    targets: Codes
    count: Array

    def sums(self, values: Array) -> Array:
        """The sum of a value per row (n,) over the rows of each pair, (S*A,)."""
        return np.bincount(self.pairs, values, minlength=self.count.size).astype(np.float64)


@dataclass(frozen=True)
class Folds:
    """``first`` and ``second``; ``planned`` (S*A,): how many rows of each pair the second fold should have."""

    logged: LoggedMDP
    first: Fold
    second: Fold
    planned: Array

    @property
    def lost(self) -> Mask:
        """States (S,) that the first fold never left, and that are no ends: nothing was decided about them."""
        left = self.first.count.reshape(self.logged.shape).any(axis=1)
        return np.asarray(~left & ~self.logged.layout.ends)

    def model(self, fold: Fold, expected: Array) -> MDP:
        """The fold as a model with one more state, the worst there is: what is missing of ``expected`` leads there.

        Ends and lost states stay where they are. Its rewards are all zero; evaluations bring their own.
        """
        (n_states, n_actions), size = self.logged.shape, self.logged.counts.size
        worst = n_states
        stays = np.repeat(self.logged.layout.ends | self.lost, n_actions)
        used = ~stays[fold.pairs]
        pairs, targets = fold.pairs[used], fold.targets[used]
        missing = np.where(stays, 0.0, np.maximum(expected - fold.count, 0.0) + (expected == 0))
        staying = np.flatnonzero(stays)
        rows = np.concatenate([pairs, np.arange(size), staying, size + np.arange(n_actions)])
        columns = np.concatenate([targets, np.full(size, worst), staying // n_actions, np.full(n_actions, worst)])
        weights = np.concatenate([np.ones(pairs.size), missing, np.ones(staying.size + n_actions)])
        kept = weights > 0
        shape = (size + n_actions, n_states + 1)
        found = sp.csr_array((weights[kept], (rows[kept], columns[kept])), shape=shape)
        total = np.asarray(found.sum(axis=1)).ravel()
        chances = sp.csr_array(sp.diags_array(1 / total) @ found)
        start = np.append(self.logged.start, 0.0)
        return MDP(chances, np.zeros((n_states + 1, n_actions)), self.logged.discount, start)


def split(logged: LoggedMDP, seed: int) -> Folds:
    """The folds of a log; ``seed`` for new starts, and for rows that stand in no order."""
    log, size = logged.log, logged.counts.size
    rng = np.random.default_rng(seed)
    pairs, targets = log.pairs, logged.layout.targets(log)
    restarts = np.flatnonzero(targets == logged.n_states)
    if restarts.size:
        targets = targets.copy()
        targets[restarts] = rng.choice(logged.n_states, size=restarts.size, p=logged.start)
    if logged.evidence.independent_rows:
        order = rng.permutation(log.n_rows)
        chosen = _visit_number(pairs[order]) < np.ceil(FIRST_SHARE * logged.counts.ravel())[pairs[order]]
        first, second = np.sort(order[chosen]), np.sort(order[~chosen])
        planned = np.bincount(pairs[second], minlength=size)
    else:
        cut = int(np.ceil(FIRST_SHARE * log.n_rows))
        first, second = np.arange(cut), np.arange(cut, log.n_rows)
        planned = _planned(np.bincount(pairs[first], minlength=size), second.size / cut)
        second = second[_visit_number(pairs[second]) < planned[pairs[second]]]
    one, two = (
        Fold(rows, pairs[rows], targets[rows], np.bincount(pairs[rows], minlength=size).astype(np.float64))
        for rows in (first, second)
    )
    return Folds(logged, one, two, planned.astype(np.float64))


def _planned(count: Indices, ratio: float) -> Indices:
    """A little less than the second fold should have: a missing row costs more than one that is left out."""
    expected = ratio * count
    careful = expected - MARGIN_DEVIATIONS * np.sqrt(expected * (1 + ratio))
    return np.asarray(np.floor(np.maximum(careful, expected / 2)), dtype=np.int64)


def _visit_number(pairs: Indices) -> Indices:
    """How often the pair of each row came before."""
    order = np.argsort(pairs, kind="stable")
    first = np.flatnonzero(np.diff(pairs[order], prepend=-1))
    number = np.empty(pairs.size, dtype=np.int64)
    number[order] = np.arange(pairs.size) - np.repeat(first, np.diff(np.append(first, pairs.size)))
    return number
