"""Products and solves with the Newton matrix of a separable problem over the balance of flow, without building it.

Legend: the rows first[s] .. first[s+1]-1 of the CSR matrix (indptr, indices, data) are P(. | s, a) for the pairs of
state s; B = gamma P - E, where E picks the state of a pair. The pairs of a state answer a change of their prices by

    M_s = D - D 1 damp_s 1' D,     D = diag(free),

the second part because of what the state as a whole pays. Nodes and arcs of a transport (tail, head, ``ease``) hang on
the states: state s is node at[s], and f (nodes,) are the nodes' prices. The Newton matrix is

    | B' M B + ridge     -B' M E         |  | x |
    | -E' M B            E' M E + N G N' |  | f |      N the incidence of the arcs, G = diag(ease).

All indices are unsigned, which spares the loops numba's test for negative ones: half of their time.
"""

import numpy as np
from numba import njit

from cautious.arrays import Array, Indices

ONE = np.uint64(1)


@njit(cache=True, nogil=True)
def price_rows(
    first: Indices, indptr: Indices, indices: Indices, data: Array, gamma: float, x: Array, out: Array
) -> None:
    """out = B x on all pairs."""
    for s in range(np.uint64(x.size)):
        for row in range(first[s], first[s + ONE]):
            total = 0.0
            for k in range(np.uint64(indptr[row]), np.uint64(indptr[row + ONE])):
                total += data[k] * x[np.uint64(indices[k])]
            out[row] = gamma * total - x[s]


@njit(cache=True, nogil=True)
def flow_columns(
    first: Indices, indptr: Indices, indices: Indices, data: Array, gamma: float, y: Array, out: Array
) -> None:
    """out = B' y."""
    out[:] = 0.0
    for s in range(np.uint64(out.size)):
        for row in range(first[s], first[s + ONE]):
            out[s] -= y[row]
            mass = gamma * y[row]
            for k in range(np.uint64(indptr[row]), np.uint64(indptr[row + ONE])):
                out[np.uint64(indices[k])] += mass * data[k]


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
    """With y = M (B x - shift): add B' y to out, and marginal = E' y, in one pass; ``change`` holds a state's pairs."""
    for s in range(np.uint64(x.size)):
        start, last, total, own = first[s], first[s + ONE], 0.0, x[s] + shift[s]
        for row in range(start, last):
            ahead = 0.0
            for k in range(np.uint64(indptr[row]), np.uint64(indptr[row + ONE])):
                ahead += data[k] * x[np.uint64(indices[k])]
            change[row - start] = free[row] * (gamma * ahead - own)
            total += change[row - start]
        correction, total = damp[s] * total, 0.0
        for row in range(start, last):
            mass = change[row - start] - correction * free[row]
            total += mass
            mass *= gamma
            for k in range(np.uint64(indptr[row]), np.uint64(indptr[row + ONE])):
                out[np.uint64(indices[k])] += mass * data[k]
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
    for s in range(np.uint64(out.size)):
        total, own_sum, own_square = 0.0, 0.0, 0.0
        for row in range(first[s], first[s + ONE]):
            weight = free[row]
            left = weight * max(1.0 - damp[s] * weight, 0.0)
            own = -1.0
            for k in range(np.uint64(indptr[row]), np.uint64(indptr[row + ONE])):
                j = np.uint64(indices[k])
                if j == s:
                    own += gamma * data[k]
                else:
                    out[j] += left * (gamma * data[k]) ** 2
            total += weight
            own_sum += weight * own
            own_square += weight * own * own
        out[s] += max(own_square - damp[s] * own_sum * own_sum, 0.0)
        marginal[s] = max(total - damp[s] * total * total, 0.0)


@njit(cache=True, nogil=True)
def precondition(
    at: Indices,
    own: Array,
    node: Array,
    across: Array,
    common: float,
    r: Array,
    r_nodes: Array,
    z: Array,
    z_nodes: Array,
) -> tuple[float, float]:
    """Divide by the diagonal, each state together with its node; returns <r, z> and the 1-norm of r.

    A ``common`` change of all states' prices is the slowest there is, and is therefore solved for by itself.
    """
    inner, size, total = 0.0, 0.0, 0.0
    for i in range(z_nodes.size):
        z_nodes[i] = r_nodes[i] / node[i]
        size += abs(r_nodes[i])
    for s in range(z.size):
        total += r[s]
        size += abs(r[s])
    total *= common
    for s in range(np.uint64(z.size)):
        if z_nodes.size > 0:
            i = at[s]
            determinant = own[s] * node[i] - across[s] * across[s]
            z[s] = (node[i] * r[s] - across[s] * r_nodes[i]) / determinant + total
            z_nodes[i] = (own[s] * r_nodes[i] - across[s] * r[s]) / determinant
        else:
            z[s] = r[s] / own[s] + total
        inner += r[s] * z[s]
    for i in range(z_nodes.size):
        inner += r_nodes[i] * z_nodes[i]
    return inner, size


@njit(cache=True, nogil=True)
def apply_newton(
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
    x: Array,
    f: Array,
    out: Array,
    on_nodes: Array,
) -> None:
    """(out, on_nodes) = the Newton matrix times (x, f)."""
    shift, marginal, change = np.zeros(x.size), np.empty(x.size), np.empty(np.max(first[1:] - first[:-1]))
    for s in range(np.uint64(x.size)):
        out[s] = ridge[s] * x[s]
        if f.size > 0:
            shift[s] = f[at[s]]
    newton_product(first, indptr, indices, data, gamma, free, damp, x, shift, change, out, marginal)
    on_nodes[:] = 0.0
    for k in range(tail.size):
        carried = ease[k] * (f[tail[k]] - f[head[k]])
        on_nodes[tail[k]] += carried
        on_nodes[head[k]] -= carried
    if f.size > 0:
        for s in range(np.uint64(x.size)):
            on_nodes[at[s]] -= marginal[s]


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
    common: float,
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
    z, z_nodes, out, on_nodes = np.empty(x.size), np.empty(x_nodes.size), np.empty(x.size), np.empty(x_nodes.size)
    for number in range(steps):
        fresh, size = precondition(at, own, node, across, common, r, r_nodes, z, z_nodes)
        if size <= stop or not fresh > 0.0:
            return 0.0, number
        ratio = fresh / inner if inner > 0.0 else 0.0
        inner = fresh
        _advance(p, ratio, z, 1.0)
        _advance(p_nodes, ratio, z_nodes, 1.0)
        apply_newton(
            first, indptr, indices, data, gamma, free, damp, ridge, at, tail, head, ease, p, p_nodes, out, on_nodes
        )
        curvature = np.dot(p, out) + np.dot(p_nodes, on_nodes)
        if not curvature > 0.0:
            return 0.0, number
        length = inner / curvature
        _advance(x, 1.0, p, length)
        _advance(r, 1.0, out, -length)
        _advance(x_nodes, 1.0, p_nodes, length)
        _advance(r_nodes, 1.0, on_nodes, -length)
    return inner, steps


@njit(cache=True, nogil=True)
def _advance(y: Array, keep: float, x: Array, length: float) -> None:
    """y = keep y + length x."""
    for i in range(y.size):
        y[i] = keep * y[i] + length * x[i]
