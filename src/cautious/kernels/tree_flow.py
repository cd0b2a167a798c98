"""Flows on a spanning tree: it carries any supplies in exactly one way.

Legend: ``parent`` (n,) with -1 at the root; ``order`` (n,) parents before children; ``supply`` (n,) sums to zero.
"""

from numba import njit

from cautious.arrays import Array, Indices


@njit(cache=True, nogil=True)
def carry(parent: Indices, order: Indices, supply: Array) -> Array:
    """Flow (n,) from each node to its parent: what its subtree has too much of."""
    flow = supply.copy()
    for k in range(order.size - 1, 0, -1):
        node = order[k]
        flow[parent[node]] += flow[node]
    return flow
