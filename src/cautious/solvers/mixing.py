"""The small problem inside column generation: how to mix K known behaviours.

    maximise over w >= 0, sum w = 1:   R w  +  sum_j c_j log( Y_j w - b_j )  -  sum_g c_g max over i in g of Y_i w

R (K,) are the returns of the columns, Y their features. It is a linear program in which the rows of the barriers have
a fixed complementarity target c_j instead of one that goes to zero, so one primal-dual interior point serves all:

    s = G z - h > 0,  u > 0,  s u = target,   p + G' u = nu a,   a z = 1,      z = (w, one t per group).
"""

from dataclasses import dataclass

import numpy as np

from cautious.arrays import Array, Indices, Mask

ITERATIONS = 120


@dataclass(frozen=True)
class Mixture:
    """``weights`` (K,) of the columns, ``prices`` (m,) of the features, ``value`` of the small problem."""

    weights: Array
    prices: Array
    value: float


@dataclass(frozen=True)
class Rows:
    """The m features: caution of each barrier row (0 for the others), floor, and group (-1 for barriers)."""

    caution: Array
    floor: Array
    group: Indices
    group_caution: Array

    @property
    def barrier(self) -> Mask:
        """Which rows are barriers."""
        return np.asarray(self.group < 0)


def mix(returns: Array, features: Array, rows: Rows) -> Mixture | None:
    """The best mixture of columns with these returns (K,) and features (m, K); None when rounding defeats it."""
    n, groups = returns.size, rows.group_caution.size
    scale = max(
        float(np.ptp(returns)), float(rows.caution.max(initial=0.0)), float(rows.group_caution.max(initial=0.0))
    )
    scale = max(scale, 1e-300)
    size = np.maximum(np.abs(features).max(axis=1), np.abs(rows.floor))
    size = np.where(size > 0, size, 1.0)
    for g in range(groups):
        size[rows.group == g] = size[rows.group == g].max()
    y = features / size[:, None]
    bar = rows.barrier
    own = np.zeros((rows.group.size, groups))
    own[np.flatnonzero(~bar), rows.group[~bar]] = 1.0
    g_matrix = np.block([[np.where(bar[:, None], y, -y), own], [np.eye(n), np.zeros((n, groups))]])
    offset = np.concatenate([np.where(bar, rows.floor / size, 0.0), np.zeros(n)])
    group_size = np.array([size[rows.group == g][0] for g in range(groups)])
    profit = np.concatenate([(returns - returns.mean()) / scale, -rows.group_caution * group_size / scale])
    fixed = np.concatenate([rows.caution / scale, np.zeros(n)])
    found = _interior_point(profit, g_matrix, offset, fixed, n)
    if found is None:
        return None
    z, u = found
    weights = np.maximum(z[:n], 0.0)
    weights = weights / weights.sum()
    prices = u[: rows.group.size] * scale / size
    return Mixture(weights, prices, _value(returns, features, rows, weights))


def _value(returns: Array, features: Array, rows: Rows, weights: Array) -> float:
    numbers, bar = features @ weights, rows.barrier
    slack = numbers[bar] - rows.floor[bar]
    if np.any(slack <= 0):
        return -np.inf
    worst = [c * numbers[rows.group == g].max() for g, c in enumerate(rows.group_caution)]
    return float(returns @ weights + rows.caution[bar] @ np.log(slack) - sum(worst))


def _interior_point(p: Array, g: Array, h: Array, fixed: Array, n: int) -> tuple[Array, Array] | None:
    a = np.zeros(p.size)
    a[:n] = 1.0
    z = np.concatenate([np.full(n, 1 / n), np.ones(p.size - n)])
    s = np.maximum(g @ z - h, 0.1)
    mu = 1.0
    u, nu = (fixed + mu) / s, 0.0
    moving = fixed == 0
    for _ in range(ITERATIONS):
        primal, dual, total = g @ z - h - s, p + g.T @ u - nu * a, 1 - a @ z
        gap = float(np.mean((s * u)[moving])) if moving.any() else 0.0
        off = float(np.abs(s * u - fixed)[~moving].max(initial=0.0))
        residual = max(float(np.abs(primal).max()), float(np.abs(dual).max()), abs(float(total)), off)
        if gap < 1e-13 and residual < 1e-11:
            break
        mu = 0.1 * min(gap, mu) if residual < 10 * gap + 1e-12 or gap > 1e-3 else 0.5 * gap
        target = fixed + max(mu, 1e-16)
        weight = u / s
        push = (target - s * u - u * primal) / s
        matrix = np.zeros((p.size + 1, p.size + 1))
        matrix[:-1, :-1] = (g.T * weight) @ g + 1e-15 * np.eye(p.size)
        matrix[:-1, -1] = matrix[-1, :-1] = a
        right = np.concatenate([dual + g.T @ push, [total]])
        try:
            step = np.linalg.solve(matrix, right)
        except np.linalg.LinAlgError:
            step = np.linalg.lstsq(matrix, right)[0]
        if not np.isfinite(step).all():
            return None
        dz, dnu = step[:-1], step[-1]
        ds = g @ dz + primal
        du = push - weight * (ds - primal)
        length = min(1.0, 0.99 * _room(s, ds), 0.99 * _room(u, du))
        z, s, u, nu = z + length * dz, s + length * ds, u + length * du, nu + length * dnu
    return (z, u) if np.isfinite(z).all() and np.isfinite(u).all() else None


def _room(x: Array, dx: Array) -> float:
    falling = dx < 0
    return float((x[falling] / -dx[falling]).min()) if falling.any() else np.inf
