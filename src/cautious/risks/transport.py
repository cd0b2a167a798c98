"""Wasserstein-1 distance between the state marginal and a prior, over a ground metric.

With D the ground distance, q the prior and x the marginal:

    W(x, q) = min over plans T >= 0 with row sums x and column sums q of <T, D>       (metric given as a matrix)
            = min over flows on the edges that carry x - q of sum weight |flow|        (metric given as a graph)

    line:   W(x, q) >= <f, x> - sum_j q_j max_i (f_i - D_ij)    for any potentials f (S,).

A large matrix is not written out: plans start on each state's nearest neighbours, plus one hub that everything can
pass at the largest distance, and pairs are added while the potentials say that they pay.
"""

from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog
from scipy.sparse.csgraph import dijkstra

from cautious._checks import as_rows, states_of
from cautious.arrays import Array, Indices, Mask
from cautious.errors import SolveError
from cautious.models.tabular import MDP
from cautious.risks.base import ConicRisk, Cut, Recipe
from cautious.risks.epigraph import Epigraph, state_sums
from cautious.risks.metrics import checked_graph, checked_matrix
from cautious.risks.priors import resolve_state_prior

ALL_PAIRS_STATES = 100
NEAREST = 6
ROUNDS = 50
FEW = 12


@dataclass
class Memory:
    """What computations with one risk have found out so far; it only saves time.

    ``grown``: the risk with all arcs needed up to now; ``last``: the last marginal asked for, and the answer.
    """

    grown: "TransportRisk | None" = None
    last: tuple[Array, tuple[float, Array]] | None = None


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

    def ship(self, x: Array) -> tuple[float, Array]:
        """Cheapest transport of the marginal x over these arcs: its cost and its potentials (S,)."""
        supply = -self.demand
        supply[: x.size] += x / x.sum()
        # the solver's tolerances are absolute: larger amounts make them relative
        supply *= x.size
        # presolve calls some problems with tiny supplies infeasible; without it they are solved
        for presolve in (True, False):
            options = {"presolve": presolve, "primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
            solved = linprog(self.cost, A_eq=self.incidence, b_eq=supply, method="highs-ds", options=options)
            if solved.status == 0:
                break
        else:
            raise SolveError(f"Wasserstein: the transport problem was not solved ({solved.message})")
        flow = np.maximum(solved.x, 0)
        # flows miss the balance by rounding: the missing mass is charged at the full diameter
        missing = float(np.abs(self.incidence @ flow - supply).sum())
        return (float(self.cost @ flow) + self.diameter * missing) / x.size, np.asarray(solved.eqlin.marginals)[
            : x.size
        ]

    def best_transport(self, x: Array) -> tuple[float, Array]:
        """As ``ship``, with every arc that pays."""
        memory = self.memory
        last = memory.last
        if last is not None and np.array_equal(last[0], x):
            return last[1]
        risk = memory.grown or self
        everywhere = np.ones(self.shape, dtype=np.bool_)
        for _ in range(ROUNDS):
            answer = risk.ship(x)
            more = risk.refined(answer[1], everywhere)
            if more is None:
                break
            memory.grown = risk = more
        memory.last = (x, answer)
        return answer

    def value(self, d: Array) -> float:
        """The cost of the cheapest transport."""
        return self.best_transport(d.sum(axis=1))[0]

    def gradient(self, d: Array) -> Array:
        """Potentials of the cheapest transport."""
        return self._table(self.best_transport(d.sum(axis=1))[1])

    def refined(self, witness: Any, active: Mask) -> "TransportRisk | None":
        """The same risk with more arcs, where these potentials show that they pay; None when all are there."""
        return None

    def cut(self, witness: Any, active: Mask) -> Cut:
        """The line of the potentials ``witness`` (S,)."""
        here = states_of(active)
        collected = self.priced(np.asarray(witness, dtype=np.float64), here)
        # the largest potentials with these collected prices: min over j of collected_j + D_ij
        potentials = -self.priced(-collected, np.ones_like(here))
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

    def priced(self, potentials: Array, here: Mask) -> Array:
        """One shortest-path tree from an extra node that reaches i at the cost (largest f) - f_i."""
        n = self.graph.shape[0]
        top = float(potentials[here].max())
        sources = np.flatnonzero(here)
        # something extra on every entry, of the graph's own size: explicit zeros would not be edges
        unit = float(self.graph.data.max(initial=0.0)) or 1.0
        entry = sp.csr_array((top - potentials[sources] + unit, (np.zeros_like(sources), sources)), shape=(1, n))
        extended = sp.block_array([[self.graph, None], [entry, sp.csr_array((1, 1))]], format="csr")
        return np.asarray(top + unit - dijkstra(extended, indices=n)[:n])


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
        grown = self.memory.grown
        if grown is not None and grown.tail.size > self.tail.size:
            return grown.refined(witness, active) or grown
        potentials, here = np.asarray(witness), np.flatnonzero(states_of(active))
        worth = potentials[here, None] - self.distance[here]
        present = np.full(n, -np.inf)
        direct = (self.head < 2 * n) & (self.tail < n)
        np.maximum.at(present, self.head[direct] - n, potentials[self.tail[direct]] - self.cost[direct])
        column = np.flatnonzero(worth.max(axis=0) > present + 1e-11 * max(self.diameter, 1e-300))
        if column.size == 0:
            return None
        few = min(FEW, here.size)
        best = np.argpartition(-worth[:, column], few - 1, axis=0)[:few]
        tails, heads = here[best].ravel(), np.tile(column, few)
        return matrix_transport(
            self.prior,
            self.shape,
            self.distance,
            np.concatenate([self.tail[direct], tails]),
            np.concatenate([self.head[direct] - n, heads]),
            self.memory,
        )


def matrix_transport(
    prior: Array,
    shape: tuple[int, int],
    distance: Array,
    origin: Indices,
    target: Indices,
    memory: Memory,
) -> MatrixTransport:
    """Plans on the pairs (origin, target), each once, plus the hub."""
    n = prior.size
    pairs = np.unique(origin * n + target)
    origin, target = pairs // n, pairs % n
    states = np.arange(n)
    tail = np.concatenate([origin, states, np.full(n, 2 * n)])
    head = np.concatenate([target + n, np.full(n, 2 * n), states + n])
    cost = np.concatenate([distance[origin, target], np.full(n, distance.max()), np.zeros(n)])
    return MatrixTransport(prior, shape, tail, head, cost, memory, distance)


@dataclass(frozen=True, eq=False)
class Wasserstein(Recipe):
    """W1 distance between the state marginal and a prior (S,).

    ``metric``: (S, S) array of distances, or a sparse undirected weighted graph (shortest-path distance).
    """

    prior: Any
    metric: Any
    smooth = False

    def bind(self, mdp: MDP) -> TransportRisk:
        """The distance in this model."""
        prior = resolve_state_prior("Wasserstein.prior", self.prior, mdp)
        n = mdp.n_states
        metric = self.metric
        if sp.issparse(metric) and n == 1:
            # a graph without edges: one state is at distance 0 from itself
            metric = as_rows("Wasserstein.metric", metric).toarray()
        if sp.issparse(metric):
            graph = checked_graph(metric, n)
            edges = sp.coo_array(graph)
            tail, head = edges.row.astype(np.int64), edges.col.astype(np.int64)
            return GraphTransport(prior, mdp.shape, tail, head, edges.data, Memory(), graph)
        distance = checked_matrix(metric, n)
        few = n if n <= ALL_PAIRS_STATES else NEAREST
        nearest = np.argpartition(distance, few - 1, axis=1)[:, :few]
        states = np.repeat(np.arange(n), few)
        return matrix_transport(
            prior,
            mdp.shape,
            distance,
            np.concatenate([states, nearest.ravel()]),
            np.concatenate([nearest.ravel(), states]),
            Memory(),
        )
