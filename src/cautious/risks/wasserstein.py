"""``ca.Wasserstein``: checks the metric and picks the form of the distance."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from cautious.models.tabular import MDP
from cautious.risks.base import UnboundRisk
from cautious.risks.matrix_transport import with_nearest
from cautious.risks.metrics import checked_graph, checked_matrix
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
            graph = checked_graph(metric, n)
            edges = sp.coo_array(graph)
            tail, head = edges.row.astype(np.int64), edges.col.astype(np.int64)
            return GraphTransport(prior, mdp.shape, tail, head, edges.data, graph)
        return with_nearest(prior, mdp.shape, checked_matrix(metric, n))
