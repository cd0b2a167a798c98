"""The parts of a dense interior point whose work grows with a table: one pass each.

Legend: ``amount`` (m, n) >= 0 with ``slack`` (m, n) >= 0, both also for directions (``d_amount``, ``d_slack``);
``cost`` (m, n), ``f`` (m,) and ``g`` (n,) with changes ``df``, ``dg``. The dual equation is
slack = cost + f - g;  the product amount * slack is to become ``mu`` minus the product of the changes expected.
"""

import numpy as np
from numba import njit

from cautious.arrays import Array, Indices


@njit(cache=True, nogil=True)
def weigh(amount: Array, slack: Array, weight: Array) -> tuple[Array, Array]:
    """weight = amount / slack, and its sums over rows (m,) and columns (n,)."""
    rows, columns = np.zeros(weight.shape[0]), np.zeros(weight.shape[1])
    for i in range(rows.size):
        for j in range(columns.size):
            weight[i, j] = amount[i, j] / slack[i, j]
            columns[j] += weight[i, j]
        rows[i] = weight[i].sum()
    return rows, columns


@njit(cache=True, nogil=True)
def push(
    cost: Array, f: Array, g: Array, amount: Array, slack: Array, d_amount: Array, d_slack: Array, mu: float
) -> tuple[Array, Array]:
    """Sums over rows and columns of how much too large the amounts would be if f and g stayed where they are."""
    rows, columns = np.zeros(f.size), np.zeros(g.size)
    for i in range(f.size):
        for j in range(g.size):
            missing = cost[i, j] + f[i] - g[j] - slack[i, j]
            wanted = mu - amount[i, j] * slack[i, j] - d_amount[i, j] * d_slack[i, j]
            over = (amount[i, j] * missing - wanted) / slack[i, j]
            rows[i] += over
            columns[j] += over
    return rows, columns


@njit(cache=True, nogil=True)
def respond(
    cost: Array,
    f: Array,
    g: Array,
    amount: Array,
    slack: Array,
    d_amount: Array,
    d_slack: Array,
    mu: float,
    df: Array,
    dg: Array,
) -> tuple[float, float]:
    """Overwrite the changes by those that go with df and dg; how far amounts and slacks can follow them, at most 1."""
    most_amount, most_slack = 1.0, 1.0
    for i in range(f.size):
        for j in range(g.size):
            wanted = mu - amount[i, j] * slack[i, j] - d_amount[i, j] * d_slack[i, j]
            up = cost[i, j] + f[i] - g[j] - slack[i, j] + df[i] - dg[j]
            more = (wanted - amount[i, j] * up) / slack[i, j]
            d_amount[i, j], d_slack[i, j] = more, up
            # as products: comparisons are cheaper than divisions that are hardly ever needed
            if -more * most_amount > amount[i, j]:
                most_amount = -amount[i, j] / more
            if -up * most_slack > slack[i, j]:
                most_slack = -slack[i, j] / up
    return most_amount, most_slack


@njit(cache=True, nogil=True)
def products(amount: Array, slack: Array, d_amount: Array, d_slack: Array, primal: float, dual: float) -> float:
    """Sum of amount * slack after steps of these lengths."""
    total = 0.0
    for i in range(amount.shape[0]):
        for j in range(amount.shape[1]):
            total += (amount[i, j] + primal * d_amount[i, j]) * (slack[i, j] + dual * d_slack[i, j])
    return total


@njit(cache=True, nogil=True)
def gather(indptr: Indices, indices: Indices, data: Array, x: Array) -> Array:
    """B x, (rows,), of a sparse matrix B by rows."""
    out = np.zeros(indptr.size - 1)
    for row in range(out.size):
        for k in range(indptr[row], indptr[row + 1]):
            out[row] += data[k] * x[indices[k]]
    return out


@njit(cache=True, nogil=True)
def scatter(indptr: Indices, indices: Indices, data: Array, y: Array, size: int) -> Array:
    """B' y, (size,)."""
    out = np.zeros(size)
    for row in range(y.size):
        for k in range(indptr[row], indptr[row + 1]):
            out[indices[k]] += data[k] * y[row]
    return out


@njit(cache=True, nogil=True)
def add_normal(indptr: Indices, indices: Indices, data: Array, w: Array, out: Array) -> None:
    """out += B' diag(w) B."""
    for row in range(w.size):
        for k in range(indptr[row], indptr[row + 1]):
            i, part = indices[k], w[row] * data[k]
            for other in range(indptr[row], indptr[row + 1]):
                out[i, indices[other]] += part * data[other]
