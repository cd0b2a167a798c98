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
SINGULAR = 1e-14


@njit(cache=True, nogil=True)
def sizes(returns: Array, features: Array, floor: Array, group: Indices, most: float) -> tuple[float, Array]:
    """Units in which all numbers are about one: of the returns (K,), at least ``most``, and of each feature (m, K).

    The features of a group share theirs.
    """
    size = np.zeros(group.size)
    for i in range(group.size):
        size[i] = abs(floor[i])
        for k in range(returns.size):
            size[i] = max(size[i], abs(features[i, k]))
        if size[i] == 0.0:
            size[i] = 1.0
    for i in range(group.size):
        for j in range(group.size):
            if group[i] >= 0 and group[i] == group[j]:
                size[i] = max(size[i], size[j])
    return max(returns.max() - returns.min(), most, 1e-300), size


@njit(cache=True, nogil=True)
def scaled_columns(
    returns: Array, features: Array, chosen: Indices, unit: float, size: Array, group: Indices
) -> tuple[Array, Array]:
    """``p`` (K,) and ``a`` (m, K) of the chosen columns, see the legend; returns count from their mean."""
    mean, p, a = returns.mean(), np.empty(chosen.size), np.empty((group.size, chosen.size))
    for k in range(chosen.size):
        p[k] = (returns[chosen[k]] - mean) / unit
    for i in range(group.size):
        sign = 1.0 if group[i] < 0 else -1.0
        for k in range(chosen.size):
            a[i, k] = sign * features[i, chosen[k]] / size[i]
    return p, a


@njit(cache=True, nogil=True)
def shared_out(prices: Array, group: Indices, totals: Array) -> Array:
    """Prices (m,), all positive, those of a group in proportion such that they add up to its total."""
    out, sums = np.maximum(prices, 1e-300), np.zeros(totals.size)
    for i in range(group.size):
        if group[i] >= 0:
            sums[group[i]] += out[i]
    for i in range(group.size):
        if group[i] >= 0:
            out[i] *= totals[group[i]] / sums[group[i]]
    return out


@njit(cache=True, nogil=True)
def solve_small(matrix: Array, right: Array) -> None:
    """Solve in place by elimination with partial pivoting; a pivot of zero leaves its unknown at zero."""
    n = right.size
    for k in range(n):
        best = k
        for i in range(k + 1, n):
            if abs(matrix[i, k]) > abs(matrix[best, k]):
                best = i
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
                for j in range(k, n):
                    matrix[i, j] -= factor * matrix[k, j]
                right[i] -= factor * right[k]
    for k in range(n - 1, -1, -1):
        for j in range(k + 1, n):
            right[k] -= matrix[k, j] * right[j]
        right[k] /= matrix[k, k]


@njit(cache=True, nogil=True)
def newton_system(
    a: Array, group: Indices, own: Array, d: Array, pull: Array, gaps: Array, lacks: Array, total: float
) -> tuple[Array, Array]:
    """Matrix and right side for (du, dt, dnu).

    ``own`` is the rows' diagonal, d = w / x; ``pull`` moves w, ``gaps`` rows, ``lacks`` groups, ``total`` the sum.
    """
    m, n = group.size, group.size + lacks.size + 1
    matrix, right = np.zeros((n, n)), np.zeros(n)
    right[:m], right[m : n - 1], right[n - 1] = gaps, lacks, -total
    for k in range(d.size):
        matrix[n - 1, n - 1] += d[k]
        right[n - 1] += d[k] * pull[k]
        for i in range(m):
            carried = d[k] * a[i, k]
            matrix[i, n - 1] -= carried
            right[i] -= carried * pull[k]
            for j in range(i + 1):
                matrix[i, j] += carried * a[j, k]
    for i in range(m):
        matrix[i, i] += own[i]
        matrix[n - 1, i] = matrix[i, n - 1]
        matrix[:i, i] = matrix[i, :i]
        if group[i] >= 0:
            matrix[i, m + group[i]] = matrix[m + group[i], i] = 1.0
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
def unbalanced(p: Array, a: Array, w: Array, u: Array, x: Array, nu: float, rows: Array, flat: Array) -> None:
    """Add A w to ``rows`` (m,); set ``flat`` (K,) to what the columns' own equations  p + A' u + x = nu  miss."""
    for k in range(w.size):
        worth = p[k] + x[k] - nu
        for j in range(u.size):
            rows[j] += a[j, k] * w[k]
            worth += a[j, k] * u[j]
        flat[k] = worth


@njit(cache=True, nogil=True)
def largest(x: Array, y: Array, mu: Array) -> float:
    """The largest of |x y - mu|."""
    most = 0.0
    for i in range(x.size):
        most = max(most, abs(x[i] * y[i] - mu[i]))
    return most


@njit(cache=True, nogil=True)
def move(x: Array, dx: Array, length: float) -> None:
    """x + length dx, in place."""
    for i in range(x.size):
        x[i] += length * dx[i]


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
    u, length, flat = (f + mu) / s, 0.0, np.empty(n)
    ends, end = np.full(n, mu_end), f + mu_end
    for _ in range(STEPS):
        rows, lacks = q * (u - centre) - h - s, c.copy()
        unbalanced(p, a, w, u, x, nu, rows, flat)
        for j in range(m):
            if group[j] >= 0:
                rows[j] += t[group[j]]
                lacks[group[j]] -= u[j]
        total = 1.0 - w.sum()
        gap = (np.dot(w, x) + max(0.0, np.dot(s, u) - f.sum())) / (n + m)
        amiss = max(np.abs(rows).max(), np.abs(flat).max(), abs(total))
        off = max(largest(w, x, ends), largest(s, u, end))
        if amiss < EXACT and off < max(0.01 * EXACT, 0.1 * mu_end):
            break
        mu = max(mu_end, gap * max(0.05, (1.0 - length) ** 2))
        d, pull = w / x, flat + mu / w - x
        matrix, right = newton_system(a, group, s / u + q, d, pull, (f + mu) / u - s - rows, lacks, total)
        solve_small(matrix, right)
        du, dt, dnu = right[:m], right[m : m + c.size], right[m + c.size]
        dw = d * (pull + du @ a - dnu)
        ds, dx = (f + mu) / u - s - s / u * du, mu / w - x - dw / d
        length = min(1.0, 0.99 * min(min(room(w, dw), room(s, ds)), min(room(u, du), room(x, dx))))
        if not np.isfinite(length) or not np.all(np.isfinite(right)):
            break
        nu += length * dnu
        for now, change in ((w, dw), (s, ds), (t, dt), (u, du), (x, dx)):
            move(now, change, length)
    return w, u, max(amiss, off)


@njit(cache=True, nogil=True)
def null_vector(matrix: Array) -> Array:
    """x (n + 1,) with largest entry one and  matrix x = 0  for a matrix (n, n + 1), which is used up on the way."""
    n = matrix.shape[0]
    order, rank, least = np.arange(n + 1), n, SINGULAR * np.abs(matrix).max()
    for k in range(n):
        row, column = k, k
        for i in range(k, n):
            for j in range(k, n + 1):
                if abs(matrix[i, j]) > abs(matrix[row, column]):
                    row, column = i, j
        if abs(matrix[row, column]) <= least:
            rank = k
            break
        for j in range(n + 1):
            matrix[k, j], matrix[row, j] = matrix[row, j], matrix[k, j]
        for i in range(n):
            matrix[i, k], matrix[i, column] = matrix[i, column], matrix[i, k]
        order[k], order[column] = order[column], order[k]
        for i in range(n):
            factor = matrix[i, k] / matrix[k, k]
            if i != k and factor != 0.0:
                for j in range(k, n + 1):
                    matrix[i, j] -= factor * matrix[k, j]
    x = np.zeros(n + 1)
    x[order[rank]] = 1.0
    for k in range(rank):
        x[order[k]] = -matrix[k, rank] / matrix[k, k]
    x /= np.abs(x).max()
    return x


@njit(cache=True, nogil=True)
def use_up(returns: Array, system: Array, weights: Array) -> None:
    """Leave weight on no more columns than ``system`` (m + 1, K) has rows, system @ weights kept, no return lost."""
    size = system.shape[0]
    used = np.flatnonzero(weights)
    while used.size > size:
        # the smallest weights are the first to go, and one column more than equations always leaves a change
        used = used[np.argsort(weights[used])][: size + 1]
        change = null_vector(system[:, used])
        if np.dot(change, returns[used]) < 0.0:
            change = -change
        length = room(weights[used], change)
        last = np.argmin(np.abs(weights[used] + length * change))
        weights[used] = np.maximum(weights[used] + length * change, 0.0)
        weights[used[last]] = 0.0
        used = np.flatnonzero(weights)


@njit(cache=True, nogil=True)
def earned(reward: Array, actions: Indices, states: Array) -> float:
    """What a behaviour with these actions (S,) and this state marginal (S,) is paid by a table (S, A)."""
    total = 0.0
    for s in range(states.size):
        total += states[s] * reward[s, actions[s]]
    return total
