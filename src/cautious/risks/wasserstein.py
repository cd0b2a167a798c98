"""``ca.Wasserstein``: checks the metric (distances or a weighted graph), and picks the form of the distance."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from cautious.arrays import Array
from cautious.checks import as_floats, check_nonnegative, check_shape, first_bad
from cautious.errors import InputError
from cautious.models.encodings import check_magnitude
from cautious.models.tabular import MDP
from cautious.risks.base import UnboundRisk
from cautious.risks.matrix_transport import with_nearest
from cautious.risks.priors import resolve_state_prior
from cautious.risks.transport import GraphTransport, TransportRisk
from cautious.sparse_input import as_rows


@dataclass(frozen=True, eq=False)
class Wasserstein(UnboundRisk):
    """W1 distance between the state marginal and a prior (S,).

    ``metric``: (S, S) array of distances, or a sparse undirected weighted graph (shortest-path distance).

    Examples
    --------
    >>> import numpy as np, cautious as ca
    >>> age = np.arange(12.0)  # decades
    >>> risk = ca.Wasserstein(np.full(12, 1 / 12), metric=np.abs(age[:, None] - age))
    >>> ca.solve(ca.Problem(ca.worlds.forest(), risk, caution=4000.0)).status.name
    'SOLVED'
    """

    summary = "the cost of moving the visited states to the prior ones (Wasserstein distance)"
    fields_in_files: ClassVar = {"prior": "prior", "metric": "metric"}

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
            graph = _checked_graph(metric, n)
            edges = sp.coo_array(graph)
            tail, head = edges.row.astype(np.int64), edges.col.astype(np.int64)
            return GraphTransport(prior, mdp.shape, tail, head, edges.data, graph)
        return with_nearest(prior, mdp.shape, _checked_matrix(metric, n))


def _checked_matrix(metric: Any, n: int) -> Array:
    """Distances (S, S): not negative, symmetric, zero on the diagonal."""
    distance = as_floats("Wasserstein.metric", metric)
    check_shape("Wasserstein.metric", distance, (n, n), "(S, S)")
    check_nonnegative("Wasserstein.metric", distance)
    check_magnitude("Wasserstein.metric", distance)
    _refuse_diagonal(np.diag(distance))
    uneven = np.abs(distance - distance.T) > 1e-9 * max(1e-300, float(distance.max()))
    if uneven.any():
        i, j = first_bad(uneven)
        raise InputError(
            f"Wasserstein.metric[{i}, {j}] is {distance[i, j]} but [{j}, {i}] is {distance[j, i]}; it must be symmetric"
        )
    return distance


def _checked_graph(metric: Any, n: int) -> sp.csr_array:
    """An undirected graph in one piece with weights that are not negative; each edge may be given once or twice."""
    check_shape("Wasserstein.metric", metric, (n, n), "(S, S)")
    given = as_rows("Wasserstein.metric", metric)
    bad = ~np.isfinite(given.data) | (given.data < 0)
    if bad.any():
        raise InputError(
            f"Wasserstein.metric has the edge weight {given.data[int(np.argmax(bad))]}; weights must be finite and "
            "not negative"
        )
    # the longest path may have all edges
    check_magnitude("Wasserstein.metric.data", given.data, max(n, 1))
    given.eliminate_zeros()
    _refuse_diagonal(given.diagonal())
    other = sp.csr_array(given.T)
    both = given.multiply(other != 0)
    uneven = abs(both - sp.csr_array(both.T))
    if uneven.nnz and uneven.data.max() > 1e-12 * given.data.max():
        i, j = (int(index[int(np.argmax(uneven.data))]) for index in sp.coo_array(uneven).coords)
        raise InputError(
            f"Wasserstein.metric has weight {given[i, j]} from {i} to {j} but {given[j, i]} back; it is undirected"
        )
    graph = sp.csr_array(given.maximum(other))
    parts, part = connected_components(graph, directed=False)
    if parts > 1:
        away = int(np.argmax(part != part[0]))
        raise InputError(f"Wasserstein.metric is a graph in {parts} pieces: no path from state 0 to state {away}")
    return graph


def _refuse_diagonal(diagonal: Array) -> None:
    bad = diagonal != 0
    if bad.any():
        i = int(np.argmax(bad))
        raise InputError(f"Wasserstein.metric[{i}, {i}] is {diagonal[i]}; the distance of a state to itself is 0")
