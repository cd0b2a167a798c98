"""Wasserstein-1 distance between the state marginal and a prior, over a ground metric.

With D the ground distance, q the prior and x the marginal:

    W(x, q) = min over plans T >= 0 with row sums x and column sums q of <T, D>       (metric given as a matrix)
            = min over flows on the edges that carry x - q of sum weight |flow|        (metric given as a graph)

    line:   W(x, q) >= <f, x> - sum_j q_j max_i (f_i - D_ij)    for any potentials f (S,).
"""

from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra

from cautious.arrays import Array, Indices, Mask
from cautious.checks import states_of
from cautious.risks.base import ConicRisk, Cut
from cautious.risks.epigraph import Epigraph, state_sums
from cautious.risks.graph_flow import SpanningTree, spanning_tree
from cautious.risks.network_simplex import cheapest_flow
from cautious.runtime.deadline import time_is_up

# a flow proved this precise is as good as the exact one; for few states the exact one costs next to nothing
PRECISION, EXACT_STATES = 1e-8, 1000


@dataclass
class Memory:
    """What computations with one risk have found out so far; it only saves time.

    ``grown``: the risk with all arcs needed up to now; ``last``: the last marginal asked for, the answer, and whether
    time was up; ``potentials`` (S,): those of the last line; ``flow``: on the arcs, as a solver found it with them.
    """

    grown: "TransportRisk | None" = None
    last: tuple[Array, tuple[float, Array], bool] | None = None
    potentials: Array | None = None
    flow: Array | None = None


@dataclass(frozen=True)
class TransportRisk(ConicRisk):
    """Mass moves from the marginal, at nodes 0..S-1, over arcs (``tail``, ``head``, ``cost``) to the sinks."""

    prior: Array
    shape: tuple[int, int]
    tail: Indices
    head: Indices
    cost: Array
    memory: "Memory" = field(repr=False, compare=False)
    smooth = False

    @property
    def label(self) -> str:
        """The recipe's name."""
        return "Wasserstein"

    @property
    @abstractmethod
    def demand(self) -> Array:
        """What each node must receive; its size is the number of nodes."""

    @property
    @abstractmethod
    def diameter(self) -> float:
        """An upper bound of every distance."""

    @abstractmethod
    def priced(self, potentials: Array, here: Mask) -> Array:
        """max over states i in ``here`` of f_i - D_ij, for every state j; (S,)."""

    @cached_property
    def incidence(self) -> sp.csr_array:
        """(nodes, arcs): +1 where an arc leaves, -1 where it enters."""
        m = self.tail.size
        signs = np.concatenate([np.ones(m), -np.ones(m)])
        places = (np.concatenate([self.tail, self.head]), np.tile(np.arange(m), 2))
        return sp.csr_array((signs, places), shape=(self.demand.size, m))

    @abstractmethod
    def ship(self, x: Array) -> tuple[float, Array]:
        """Cheapest transport of a marginal x (S,) of sum one: its cost and its potentials (S,)."""

    def best_transport(self, x: Array) -> tuple[float, Array]:
        """As ``ship``; the last answer is remembered, one that may be cut short only until there is time again."""
        last = self.memory.last
        if last is None or not np.array_equal(last[0], x) or (last[2] and not time_is_up()):
            last = x, self.ship(x / x.sum()), time_is_up()
            self.memory.last = last
        return last[1]

    def value(self, d: Array) -> float:
        """The cost of the cheapest transport."""
        return self.best_transport(d.sum(axis=1))[0]

    def gradient(self, d: Array) -> Array:
        """Potentials of the cheapest transport."""
        return self._table(self.best_transport(d.sum(axis=1))[1])

    def witness_at(self, d: Array, active: Mask) -> Array:
        """Potentials of the cheapest transport."""
        return self.best_transport(d.sum(axis=1))[1]

    def simple_witness(self, active: Mask) -> Array:
        """Potentials zero."""
        return np.zeros(active.shape[0])

    def largest_change(self, n: int) -> float:
        """That mass moved over the largest distance."""
        return self.diameter / n

    def refined(self, witness: Any, active: Mask) -> "TransportRisk | None":
        """The same risk with more arcs, where these potentials show that they pay; None when all are there."""
        return None

    def cut(self, witness: Any, active: Mask) -> Cut:
        """The line of the potentials ``witness`` (S,)."""
        here = states_of(active)
        collected = self.priced(np.asarray(witness, dtype=np.float64), here)
        # the largest potentials with these collected prices: min over j of collected_j + D_ij
        potentials = -self.priced(-collected, np.ones_like(here))
        self.memory.potentials = potentials
        return Cut(self._table(potentials), -float(self.prior @ collected))

    def epigraph(self, active: Mask) -> Epigraph:
        """Balance at every node; flows are not negative."""
        sums = state_sums(active)
        (n_states, width), n_nodes, n_arcs = sums.shape, self.demand.size, self.tail.size
        return Epigraph(
            cost=self.cost,
            on_pairs=sp.csr_array(sp.vstack([sums, sp.csr_array((n_nodes - n_states + n_arcs, width))])),
            on_own=sp.csr_array(sp.vstack([-self.incidence, -sp.eye_array(n_arcs)])),
            rhs=np.concatenate([self.demand, np.zeros(n_arcs)]),
            cones=(("zero", n_nodes), ("nonnegative", n_arcs)),
            witness=lambda z: z[:n_states],
        )

    def _table(self, potentials: Array) -> Array:
        return np.broadcast_to(potentials[:, None], self.shape).copy()


@dataclass(frozen=True)
class GraphTransport(TransportRisk):
    """The states are the nodes of an undirected weighted graph; distance is the shortest path."""

    graph: sp.csr_array

    @property
    def demand(self) -> Array:
        """The prior, at the states themselves."""
        return self.prior.copy()

    @cached_property
    def diameter(self) -> float:
        """Twice the largest distance from one state."""
        return 2 * float(dijkstra(self.graph, indices=0).max())

    def ship(self, x: Array) -> tuple[float, Array]:
        """A solver's flow, balanced, where its potentials prove that it is the cheapest; else from scratch."""
        flow, potentials, missing = self.memory.flow, self.memory.potentials, x - self.prior
        if flow is not None and potentials is not None and x.size > EXACT_STATES:
            rest = missing - np.asarray(self.incidence @ flow)
            # opposite flows cancel; the tree carries the rest, which can only make the plan dearer than it need be
            upper = float(self.cost @ flow) + self.tree.excess_cost(rest - rest.mean())
            lower = float(potentials @ x) - float(self.prior @ self.priced(potentials, x > 0))
            if upper - lower <= PRECISION * max(upper, 0.01 * self.diameter):
                return upper, potentials
        return cheapest_flow(self.tail, self.head, self.cost, self.tree, missing - missing.mean())

    @cached_property
    def tree(self) -> SpanningTree:
        """For what a flow fails to balance."""
        return spanning_tree(self.graph)

    def priced(self, potentials: Array, here: Mask) -> Array:
        """One shortest-path tree from an extra node that reaches i at the cost (largest f) - f_i."""
        n = self.graph.shape[0]
        top = float(potentials[here].max())
        sources = np.flatnonzero(here)
        # something extra on every entry, of the graph's own size: explicit zeros would not be edges
        unit = float(self.graph.data.max(initial=0.0)) or 1.0
        graph, costs = self.graph, top - potentials[sources] + unit
        rows = np.append(graph.indptr, graph.nnz + sources.size)
        entries = np.concatenate([graph.data, costs]), np.concatenate([graph.indices, sources]), rows
        extended = sp.csr_array(entries, shape=(n + 1, n + 1))
        return np.asarray(top + unit - dijkstra(extended, indices=n)[:n])
