"""Wasserstein-1 distance over a full matrix of distances.

A large matrix is not written out as a plan: plans start on each state's nearest neighbours, plus one hub that
everything can pass at the largest distance, and pairs are added while the potentials say that they pay.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from cautious.arrays import Array, Indices, Mask
from cautious.checks import states_of
from cautious.risks.network_simplex import cheapest_plan, cheapest_plan_tree
from cautious.risks.transport import TransportHint, TransportRisk

# up to so many states all pairs are arcs; beyond, these many of each state, and these many more of a column that pays
MAX_STATES_WITH_ALL_ARCS, FIRST_ARCS_PER_STATE, ADDED_ARCS_PER_COLUMN = 100, 6, 12


@dataclass(frozen=True)
class MatrixTransport(TransportRisk):
    """Nodes: the states, a copy of each as its sink, and a hub; distances are the entries of a matrix."""

    distance: Array

    @property
    def demand(self) -> Array:
        """The prior, at the copies."""
        return np.concatenate([np.zeros(self.prior.size), self.prior, [0.0]])

    @cached_property
    def diameter(self) -> float:
        """The largest entry."""
        return float(self.distance.max())

    def ship(self, x: Array, hint: TransportHint | None, over: Callable[[], bool]) -> tuple[float, Array]:
        """Over all pairs, whether they are among the arcs or not."""
        return cheapest_plan(self.distance, x, self.prior, over)

    def plan_tree(self, x: Array) -> Indices:
        """Over the states, their copies and the hub."""
        return cheapest_plan_tree(self.distance, x, self.prior)

    def priced(self, potentials: Array, here: Mask) -> Array:
        """Column maxima of f_i - D_ij."""
        return np.asarray((potentials[here, None] - self.distance[here]).max(axis=0))

    @property
    def partial(self) -> bool:
        """Whether some pairs are not among the arcs."""
        n = self.prior.size
        return self.tail.size < n * n + 2 * n

    def refined(self, witness: Any, active: Mask) -> "TransportRisk | None":
        """Arcs from the best states of every column that the present arcs undervalue."""
        if not self.partial:
            return None
        n = self.prior.size
        potentials, here = np.asarray(witness), np.flatnonzero(states_of(active))
        worth = potentials[here, None] - self.distance[here]
        present = np.full(n, -np.inf)
        direct = (self.head < 2 * n) & (self.tail < n)
        np.maximum.at(present, self.head[direct] - n, potentials[self.tail[direct]] - self.cost[direct])
        column = np.flatnonzero(worth.max(axis=0) > present + 1e-11 * max(self.diameter, 1e-300))
        if column.size == 0:
            return None
        few = min(ADDED_ARCS_PER_COLUMN, here.size)
        best = np.argpartition(-worth[:, column], few - 1, axis=0)[:few]
        tails, heads = here[best].ravel(), np.tile(column, few)
        pairs = np.unique(np.concatenate([self.tail[direct] * n + self.head[direct] - n, tails * n + heads]))
        return matrix_transport(self.prior, self.shape, self.distance, *np.divmod(pairs, n))


def matrix_transport(
    prior: Array,
    shape: tuple[int, int],
    distance: Array,
    origin: Indices,
    target: Indices,
) -> MatrixTransport:
    """Plans on the pairs (origin, target), each given once, plus the hub."""
    n = prior.size
    states = np.arange(n)
    tail = np.concatenate([origin, states, np.full(n, 2 * n)])
    head = np.concatenate([target + n, np.full(n, 2 * n), states + n])
    cost = np.concatenate([distance[origin, target], np.full(n, distance.max()), np.zeros(n)])
    return MatrixTransport(prior, shape, tail, head, cost, distance)


def with_nearest(prior: Array, shape: tuple[int, int], distance: Array) -> MatrixTransport:
    """Plans on each state's nearest neighbours, both ways; on all pairs of a small model."""
    n = prior.size
    if n <= MAX_STATES_WITH_ALL_ARCS:
        return matrix_transport(prior, shape, distance, *np.divmod(np.arange(n * n), n))
    nearest = np.argpartition(distance, FIRST_ARCS_PER_STATE - 1, axis=1)[:, :FIRST_ARCS_PER_STATE].ravel()
    states = np.repeat(np.arange(n), FIRST_ARCS_PER_STATE)
    pairs = np.unique(np.concatenate([states * n + nearest, nearest * n + states]))
    return matrix_transport(prior, shape, distance, *np.divmod(pairs, n))
