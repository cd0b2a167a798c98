"""A flow that nearly balances, made to balance exactly over a spanning tree."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

from cautious._core.network_simplex import tree_flow
from cautious.arrays import Array, Indices


@dataclass(frozen=True)
class SpanningTree:
    """``parent`` (n,) with -1 at the root, ``order`` (n,) parents first, ``length`` (n,) of the edge to the parent."""

    parent: Indices
    order: Indices
    length: Array

    def excess_cost(self, supply: Array) -> float:
        """What it costs to carry these supplies (n,), which sum to zero, over the tree alone."""
        flow = np.empty_like(supply)
        tree_flow(self.parent, self.order, supply, flow)
        return float(np.abs(flow) @ self.length)


def spanning_tree(graph: sp.csr_array) -> SpanningTree:
    """The shortest tree of a connected graph that holds every edge in both directions."""
    # an explicit zero would not be an edge
    unit = float(graph.data.max(initial=0.0)) or 1.0
    raised = sp.csr_array((graph.data + unit, graph.indices, graph.indptr), shape=graph.shape)
    order, parent = breadth_first_order(minimum_spanning_tree(raised), 0, directed=False)
    order, parent = order.astype(np.int64), parent.astype(np.int64)
    parent[0] = -1
    length = np.zeros(parent.size)
    length[order[1:]] = np.asarray(graph[order[1:], parent[order[1:]]]).ravel()
    return SpanningTree(parent, order, length)
