"""Products and solves with the Newton matrix of a separable problem over the balance of flow, without building it.

Legend: the rows first[s] .. first[s+1]-1 of the CSR matrix (indptr, indices, data) are P(. | s, a) for the pairs of
state s; B = gamma P - E, where E picks the state of a pair. The pairs of a state answer a change of their prices by

    M_s = D - D 1 damp_s 1' D,     D = diag(free),

the second part because of what the state as a whole pays. Nodes and arcs of a transport (tail, head, ``ease``) hang on
the states: state s is node at[s], and f (nodes,) are the nodes' prices. The Newton matrix is

    | B' M B + ridge     -B' M E         |  | x |
    | -E' M B            E' M E + N G N' |  | f |      N the incidence of the arcs, G = diag(ease).
"""

import numpy as np
from numba import njit

from cautious.arrays import Array, Indices


@njit(cache=True, nogil=True)
def price_rows(
    first: Indices, indptr: Indices, indices: Indices, data: Array, gamma: float, x: Array, out: Array
) -> None:
    """out = B x on all pairs."""
    for s in range(x.size):
        for row in range(first[s], first[s + 1]):
            total = 0.0
            for k in range(indptr[row], indptr[row + 1]):
                total += data[k] * x[indices[k]]
            out[row] = gamma * total - x[s]


@njit(cache=True, nogil=True)
def flow_columns(
    first: Indices, indptr: Indices, indices: Indices, data: Array, gamma: float, y: Array, out: Array
) -> None:
    """out = B' y."""
    out[:] = 0.0
    for s in range(out.size):
        for row in range(first[s], first[s + 1]):
            out[s] -= y[row]
            mass = gamma * y[row]
            for k in range(indptr[row], indptr[row + 1]):
                out[indices[k]] += mass * data[k]


@njit(cache=True, nogil=True)
def newton_product(
    first: Indices,
    indptr: Indices,
    indices: Indices,
    data: Array,
    gamma: float,
    free: Array,
    damp: Array,
    x: Array,
    shift: Array,
    change: Array,
    out: Array,
    marginal: Array,
) -> None:
    """With y = M (B x - shift): out = B' y and marginal = E' y, in one pass; ``change`` holds one state's pairs."""
    out[:] = 0.0
    for s in range(x.size):
        total, start = 0.0, first[s]
        for row in range(start, first[s + 1]):
            ahead = 0.0
            for k in range(indptr[row], indptr[row + 1]):
                ahead += data[k] * x[indices[k]]
            change[row - start] = free[row] * (gamma * ahead - x[s] - shift[s])
            total += change[row - start]
        correction, total = damp[s] * total, 0.0
        for row in range(start, first[s + 1]):
            mass = change[row - start] - correction * free[row]
            total += mass
            mass *= gamma
            for k in range(indptr[row], indptr[row + 1]):
                out[indices[k]] += mass * data[k]
        out[s] -= total
        marginal[s] = total


@njit(cache=True, nogil=True)
def newton_diagonal(
    first: Indices,
    indptr: Indices,
    indices: Indices,
    data: Array,
    gamma: float,
    free: Array,
    damp: Array,
    out: Array,
    marginal: Array,
) -> None:
    """About the diagonals of B' M B and E' M E: exact but for successors that several pairs of a state share."""
    out[:] = 0.0
    for s in range(out.size):
        total, own_sum, own_square = 0.0, 0.0, 0.0
        for row in range(first[s], first[s + 1]):
            weight = free[row]
            left = weight * max(1.0 - damp[s] * weight, 0.0)
            own = -1.0
            for k in range(indptr[row], indptr[row + 1]):
                if indices[k] == s:
                    own += gamma * data[k]
                else:
                    out[indices[k]] += left * (gamma * data[k]) ** 2
            total += weight
            own_sum += weight * own
            own_square += weight * own * own
        out[s] += max(own_square - damp[s] * own_sum * own_sum, 0.0)
        marginal[s] = max(total - damp[s] * total * total, 0.0)


@njit(cache=True, nogil=True)
def precondition(
    at: Indices, own: Array, node: Array, across: Array, r: Array, r_nodes: Array, z: Array, z_nodes: Array
) -> tuple[float, float]:
    """Divide by the diagonal, each state together with its node; returns <r, z> and the 1-norm of r."""
    inner, size = 0.0, 0.0
    for i in range(z_nodes.size):
        z_nodes[i] = r_nodes[i] / node[i]
        size += abs(r_nodes[i])
    for s in range(z.size):
        size += abs(r[s])
        if z_nodes.size > 0:
            i = at[s]
            determinant = own[s] * node[i] - across[s] * across[s]
            z[s] = (node[i] * r[s] - across[s] * r_nodes[i]) / determinant
            z_nodes[i] = (own[s] * r_nodes[i] - across[s] * r[s]) / determinant
        else:
            z[s] = r[s] / own[s]
        inner += r[s] * z[s]
    for i in range(z_nodes.size):
        inner += r_nodes[i] * z_nodes[i]
    return inner, size


@njit(cache=True, nogil=True)
def conjugate_gradients(
    first: Indices,
    indptr: Indices,
    indices: Indices,
    data: Array,
    gamma: float,
    free: Array,
    damp: Array,
    ridge: Array,
    at: Indices,
    tail: Indices,
    head: Indices,
    ease: Array,
    own: Array,
    node: Array,
    across: Array,
    vectors: Array,
    node_vectors: Array,
    inner: float,
    stop: float,
    steps: int,
) -> tuple[float, int]:
    """Steps of preconditioned conjugate gradients; returns <r, z> to go on with (0 when done) and the steps taken.

    ``vectors`` (3, S) and ``node_vectors`` (3, nodes) hold solution, residual and direction; an ``inner`` of 0 begins.
    """
    x, r, p = vectors[0], vectors[1], vectors[2]
    x_nodes, r_nodes, p_nodes = node_vectors[0], node_vectors[1], node_vectors[2]
    z, z_nodes, out, marginal = np.empty(x.size), np.empty(x_nodes.size), np.empty(x.size), np.empty(x.size)
    shift, change, on_nodes = np.zeros(x.size), np.empty(np.max(np.diff(first))), np.empty(x_nodes.size)
    for number in range(steps):
        fresh, size = precondition(at, own, node, across, r, r_nodes, z, z_nodes)
        if size <= stop or not fresh > 0.0:
            return 0.0, number
        ratio = fresh / inner if inner > 0.0 else 0.0
        inner = fresh
        p[:] = z + ratio * p
        p_nodes[:] = z_nodes + ratio * p_nodes
        if x_nodes.size > 0:
            shift[:] = p_nodes[at]
        newton_product(first, indptr, indices, data, gamma, free, damp, p, shift, change, out, marginal)
        on_nodes[:] = 0.0
        for k in range(tail.size):
            carried = ease[k] * (p_nodes[tail[k]] - p_nodes[head[k]])
            on_nodes[tail[k]] += carried
            on_nodes[head[k]] -= carried
        if x_nodes.size > 0:
            for s in range(x.size):
                on_nodes[at[s]] -= marginal[s]
        out += ridge * p
        curvature = np.dot(p, out) + np.dot(p_nodes, on_nodes)
        if not curvature > 0.0:
            return 0.0, number
        length = inner / curvature
        x += length * p
        r -= length * out
        x_nodes += length * p_nodes
        r_nodes -= length * on_nodes
    return inner, steps
