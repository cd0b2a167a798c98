"""Wasserstein-1 distance between the state marginal and a prior, over a ground metric.

With D the ground distance, q the prior and x the marginal:

    W(x, q) = min over plans T >= 0 with row sums x and column sums q of <T, D>       (metric given as a matrix)
            = min over flows on the edges that carry x - q of sum weight |flow|        (metric given as a graph)

    line:   W(x, q) >= <f, x> - sum_j q_j max_i (f_i - D_ij)    for any potentials f (S,).
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra

from cautious.arrays import Array, Indices, Mask
from cautious.checks import state_sums_of, states_of
from cautious.models.encodings import EPS
from cautious.risks.base import ConicRisk, Cut, Structure, never
from cautious.risks.epigraph import Epigraph, state_sums
from cautious.risks.graph_flow import SpanningTree, spanning_tree
from cautious.risks.network_simplex import cheapest_flow, cheapest_flow_tree

# a flow proved this precise is as good as the exact one; for few states the exact one costs next to nothing
FLOW_PRECISION, EXACT_STATES = 1e-8, 1000


@dataclass(frozen=True)
class TransportHint:
    """A nearly cheapest flow on the arcs and potentials (S,), as a solver has them."""

    flow: Array
    potentials: Array


@dataclass(frozen=True)
class TransportRisk(ConicRisk):
    """Mass moves from the marginal, at nodes 0..S-1, over arcs (``tail``, ``head``, ``cost``) to the sinks."""

    prior: Array
    shape: tuple[int, int]
    tail: Indices
    head: Indices
    cost: Array
    smooth = False
    of_shares = True
    structure = Structure.TRANSPORT

    @property
    def label(self) -> str:
        """The recipe's name."""
        return "Wasserstein"

    on_graph: ClassVar[bool] = False

    @property
    def typical_slope(self) -> float:
        """The mean length of an arc."""
        return float(self.cost.mean()) if self.cost.size else 0.0

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
    def ship(self, x: Array, hint: TransportHint | None, over: Callable[[], bool]) -> tuple[float, Array]:
        """Cheapest transport of a marginal x (S,) of sum one: its cost and its potentials (S,)."""

    @abstractmethod
    def plan_tree(self, x: Array) -> Indices:
        """The spanning tree of the cheapest transport of a marginal x (S,), as the parent of every node."""

    def value(self, d: Array) -> float:
        """The cost of the cheapest transport."""
        return self.value_and_gradient(d)[0]

    def gradient(self, d: Array) -> Array:
        """Potentials of the cheapest transport."""
        return self.value_and_gradient(d)[1]

    def value_and_gradient(self, d: Array, hint: Any = None, over: Callable[[], bool] = never) -> tuple[float, Array]:
        """Both, from one plan; ``hint`` may be a ``TransportHint``."""
        x = state_sums_of(d)
        cost, potentials = self.ship(x / x.sum(), hint, over)
        return cost, self._table(potentials)

    def value_error(self, d: Array, value: float, slope: Array, distance: float) -> float:
        """By the triangle inequality: half of that distance is moved at most over the largest distance of states."""
        return (distance / 2 + 32 * EPS) * self.diameter + 32 * EPS * abs(value)

    def witness_at(self, d: Array, active: Mask) -> Array:
        """Potentials of the cheapest transport."""
        return self.gradient(d)[:, 0]

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
        potentials, collected = self.tightened(np.asarray(witness, dtype=np.float64), states_of(active))
        return Cut(self._table(potentials), -float(self.prior @ collected))

    def tightened(self, potentials: Array, here: Mask) -> tuple[Array, Array]:
        """The prices that these potentials collect at every sink, and the largest potentials that collect no more."""
        collected = self.priced(potentials, here)
        return -self.priced(-collected, np.ones_like(here)), collected

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
    on_graph = True

    @property
    def demand(self) -> Array:
        """The prior, at the states themselves."""
        return self.prior.copy()

    @cached_property
    def diameter(self) -> float:
        """Twice the largest distance from one state."""
        return 2 * float(dijkstra(self.graph, indices=0).max())

    def ship(self, x: Array, hint: TransportHint | None, over: Callable[[], bool]) -> tuple[float, Array]:
        """The flow of a hint, balanced, where its potentials prove that it is the cheapest; else from scratch."""
        missing = x - self.prior
        if hint is not None and x.size > EXACT_STATES:
            rest = missing - np.asarray(self.incidence @ hint.flow)
            # opposite flows cancel; the tree carries the rest, which can only make the plan dearer than it need be
            upper = float(self.cost @ hint.flow) + self.tree.excess_cost(rest - rest.mean())
            potentials, collected = self.tightened(hint.potentials, x > 0)
            if upper - float(potentials @ x) + float(self.prior @ collected) <= FLOW_PRECISION * max(
                upper, 0.01 * self.diameter
            ):
                return upper, potentials
        return cheapest_flow(self.tail, self.head, self.cost, self.tree, missing - missing.mean(), over)

    def plan_tree(self, x: Array) -> Indices:
        """Over the states themselves."""
        missing = x - self.prior
        return cheapest_flow_tree(self.tail, self.head, self.cost, self.tree, missing - missing.mean())

    @cached_property
    def tree(self) -> SpanningTree:
        """For what a flow fails to balance."""
        return spanning_tree(self.graph)

    def priced(self, potentials: Array, here: Mask) -> Array:
        """One shortest-path tree from an extra node that reaches i at the cost (largest f) - f_i."""
        n = self.graph.shape[0]
        top = float(potentials[here].max())
        sources = np.flatnonzero(here)
        # a constant of the graph's own size is added to every entry: explicit zeros would not be edges
        unit = float(self.graph.data.max(initial=0.0)) or 1.0
        graph, costs = self.graph, top - potentials[sources] + unit
        rows = np.append(graph.indptr, graph.nnz + sources.size)
        entries = np.concatenate([graph.data, costs]), np.concatenate([graph.indices, sources]), rows
        extended = sp.csr_array(entries, shape=(n + 1, n + 1))
        return np.asarray(top + unit - dijkstra(extended, indices=n)[:n])
