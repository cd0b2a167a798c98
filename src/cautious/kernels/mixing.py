"""The small problem of column generation by a primal-dual interior point.

    maximise   p w - c t + sum_j f_j log s_j    over w >= 0, sum w = 1,   s = A w + t(group) - h >= 0

Legend: ``p`` (K,) profit of a column, ``c`` (G,) cost of the top ``t`` (G,) of a group, ``a`` (m, K), ``h`` (m,),
``f`` (m,) weight of a logarithm (0 for rows of a group), ``group`` (m,) or -1; duals ``u`` (m,) of the rows,
``x`` (K,) of w >= 0, ``nu`` of the sum. The dual may carry a penalty q/2 (u - centre)^2, which adds q (u - centre)
to the rows. Points of the central path have  w x = mu,  s u = f + mu. Each step solves m + G + 1 equations: the columns
are eliminated, because their block of the Newton matrix is diagonal.
"""

import numpy as np
from numba import njit

from cautious.arrays import Array, Indices

STEPS = 100
EXACT = 1e-11


@njit(cache=True, nogil=True)
def solve_small(matrix: Array, right: Array) -> None:
    """Solve in place by elimination with partial pivoting; a pivot of zero leaves its unknown at zero."""
    n = right.size
    for k in range(n):
        best = k + int(np.argmax(np.abs(matrix[k:, k])))
        if matrix[best, k] == 0.0:
            matrix[k, k:], right[k], matrix[k, k] = 0.0, 0.0, 1.0
            continue
        if best != k:
            for j in range(k, n):
                matrix[k, j], matrix[best, j] = matrix[best, j], matrix[k, j]
            right[k], right[best] = right[best], right[k]
        for i in range(k + 1, n):
            factor = matrix[i, k] / matrix[k, k]
            if factor != 0.0:
                matrix[i, k:] -= factor * matrix[k, k:]
                right[i] -= factor * right[k]
    for k in range(n - 1, -1, -1):
        right[k] = (right[k] - np.dot(matrix[k, k + 1 :], right[k + 1 :])) / matrix[k, k]


@njit(cache=True, nogil=True)
def newton_system(
    a: Array, group: Indices, own: Array, d: Array, pull: Array, gaps: Array, lacks: Array, total: float
) -> tuple[Array, Array]:
    """Matrix and right side for (du, dt, dnu).

    ``own`` is the rows' diagonal, d = w / x; ``pull`` moves w, ``gaps`` rows, ``lacks`` groups, ``total`` the sum.
    """
    m, n = group.size, group.size + lacks.size + 1
    matrix, right = np.zeros((n, n)), np.zeros(n)
    carried = a * d
    matrix[:m, :m] = carried @ a.T
    right[:m], right[m : n - 1] = gaps - carried @ pull, lacks
    for i in range(m):
        matrix[i, i] += own[i]
        matrix[i, n - 1] = matrix[n - 1, i] = -carried[i].sum()
        if group[i] >= 0:
            matrix[i, m + group[i]] = matrix[m + group[i], i] = 1.0
    matrix[n - 1, n - 1], right[n - 1] = d.sum(), np.dot(d, pull) - total
    return matrix, right


@njit(cache=True, nogil=True)
def room(x: Array, dx: Array) -> float:
    """How far one can go along dx before an entry of x > 0 reaches zero."""
    longest = np.inf
    for i in range(x.size):
        if dx[i] < 0.0:
            longest = min(longest, -x[i] / dx[i])
    return longest


@njit(cache=True, nogil=True)
def central_mixture(
    p: Array, c: Array, a: Array, h: Array, f: Array, group: Indices, q: Array, centre: Array, mu_end: float
) -> tuple[Array, Array, float]:
    """Weights w (K,), prices u (m,) on the central path at ``mu_end``, and what is still amiss there."""
    n, m = p.size, h.size
    w, t, nu, mu = np.full(n, 1.0 / n), np.ones(c.size), 0.0, 1.0
    s, x = np.full(m, 0.1), np.full(n, float(n))
    for j in range(m):
        s[j] = max(0.1, np.dot(a[j], w) - h[j] + (t[group[j]] if group[j] >= 0 else 0.0))
    u, length = (f + mu) / s, 0.0
    for _ in range(STEPS):
        rows, flat, lacks = a @ w - h - s + q * (u - centre), p + u @ a + x - nu, c.copy()
        for j in range(m):
            if group[j] >= 0:
                rows[j] += t[group[j]]
                lacks[group[j]] -= u[j]
        gap = (np.dot(w, x) + max(0.0, np.sum(s * u - f))) / (n + m)
        amiss = max(np.abs(rows).max(), np.abs(flat).max(), abs(1.0 - w.sum()))
        off = max(np.abs(w * x - mu_end).max(), np.abs(s * u - f - mu_end).max())
        if amiss < EXACT and off < max(0.01 * EXACT, 0.1 * mu_end):
            break
        mu = max(mu_end, gap * max(0.05, (1.0 - length) ** 2))
        pull = flat + mu / w - x
        gaps = (f + mu) / u - s - rows
        matrix, right = newton_system(a, group, s / u + q, w / x, pull, gaps, lacks, 1.0 - w.sum())
        solve_small(matrix, right)
        du, dt, dnu = right[:m], right[m : m + c.size], right[m + c.size]
        dw = w / x * (pull + du @ a - dnu)
        ds, dx = (f + mu) / u - s - s / u * du, mu / w - x - x / w * dw
        length = min(1.0, 0.99 * min(min(room(w, dw), room(s, ds)), min(room(u, du), room(x, dx))))
        if not np.isfinite(length) or not np.all(np.isfinite(right)):
            break
        w, s, t = w + length * dw, s + length * ds, t + length * dt
        u, x, nu = u + length * du, x + length * dx, nu + length * dnu
    return w, u, max(amiss, off)


@njit(cache=True, nogil=True)
def use_up(returns: Array, system: Array, weights: Array) -> None:
    """Leave weight on no more columns than ``system`` (m + 1, K) has rows, system @ weights kept, no return lost."""
    size = system.shape[0]
    used = np.flatnonzero(weights)
    while used.size > size:
        # the smallest weights are the first to go, and one column more than equations always leaves a change
        used = used[np.argsort(weights[used])][: size + 1]
        block = np.zeros((size + 1, size + 1))
        block[:size] = system[:, used]
        change = np.ascontiguousarray(np.linalg.svd(block)[2][-1])
        if np.dot(change, returns[used]) < 0.0:
            change = -change
        length = room(weights[used], change)
        last = np.argmin(np.abs(weights[used] + length * change))
        weights[used] = np.maximum(weights[used] + length * change, 0.0)
        weights[used[last]] = 0.0
        used = np.flatnonzero(weights)
