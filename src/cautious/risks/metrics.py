"""Ground metrics of transport distances, checked: a matrix of distances, or a weighted graph."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from cautious.arrays import Array
from cautious.checks import as_floats, check_nonnegative, check_shape, first_bad
from cautious.errors import InputError
from cautious.models.encodings import check_magnitude
from cautious.sparse_input import as_rows


def checked_matrix(metric: Any, n: int) -> Array:
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


def checked_graph(metric: Any, n: int) -> sp.csr_array:
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
