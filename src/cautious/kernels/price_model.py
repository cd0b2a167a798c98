"""The smooth model of what a planner earns at prices of the features, fitted to plans, and where it is least.

Legend: ``asked`` (n, m) prices of n plans and ``slopes`` (n, m) the features of their behaviours, both in units of the
features' size, signs such that all prices are positive; ``near`` (m,) the prices that matter.
"""

import numpy as np
from numba import njit

from cautious.arrays import Array, Indices
from cautious.kernels.mixing import solve_small

# how much the curvature is drawn to the typical one, and the least of it in any direction, as a share of that
STEADY, LEAST_CURVE = 1e-2, 1e-3
NEWTON_STEPS, NEWTON_PRECISION = 60, 1e-6
FIRST_BARRIER, LAST_BARRIER, BARRIER_FALL = 0.1, 1e-10, 0.1


@njit(cache=True, nogil=True)
def nearest(asked: Array, near: Array, most: int) -> Indices:
    """The plans at the prices nearest to ``near``, the nearest first and the older one of two."""
    distance = np.empty(asked.shape[0])
    for i in range(distance.size):
        distance[i] = np.sum((asked[i] - near) ** 2)
    return np.argsort(distance, kind="mergesort")[:most]


@njit(cache=True, nogil=True)
def curvature(steps: Array, rises: Array, lengths: Array) -> Array:
    """The symmetric positive matrix (m, m) that best explains how slopes rise, each plan by its relative error."""
    m = steps.shape[1]
    rates = np.empty(lengths.size)
    for i in range(lengths.size):
        rates[i] = np.dot(steps[i], rises[i]) / lengths[i]
    typical = max(np.median(rates), 1e-300)
    weighted = steps / lengths.reshape(-1, 1)
    square, found = weighted.T @ steps, weighted.T @ rises
    for i in range(m):
        square[i, i] += STEADY
        found[i, i] += typical * STEADY
    for j in range(m):
        column = found[:, j].copy()
        solve_small(square.copy(), column)
        found[:, j] = column
    if not np.isfinite(found).all():
        return found
    values, vectors = np.linalg.eigh(0.5 * (found + found.T))
    raised = vectors * np.maximum(values, LEAST_CURVE * typical)
    return np.asarray(np.dot(raised, vectors.T))


@njit(cache=True, nogil=True)
def least_bound(
    caution: Array, floor: Array, group: Indices, totals: Array, start: Array, centre: Array, slope: Array, curve: Array
) -> tuple[Array, bool]:
    """Minimise  slope (y - centre) + (y - centre) curve (y - centre) / 2 - intercept(y)  by Newton's method.

    ``caution`` and ``floor`` (m,) of barriers, group -1; the prices of a group add up to its total. Says whether it
    got there.
    """
    m, k = start.size, totals.size
    y = np.maximum(start, 1e-9 * start.max())
    for g in range(k):
        here = group == g
        y[here] *= totals[g] / y[here].sum()
    mu = FIRST_BARRIER * np.dot(np.abs(slope), y) / m
    last = LAST_BARRIER * mu
    for _ in range(NEWTON_STEPS):
        system, step = np.zeros((m + k, m + k)), np.zeros(m + k)
        system[:m, :m] = curve
        step[:m] = -slope - curve @ (y - centre)
        for j in range(m):
            pull = caution[j] if group[j] < 0 else mu
            step[j] += pull / y[j] + (floor[j] if group[j] < 0 else 0.0)
            system[j, j] += pull / y[j] ** 2
            if group[j] >= 0:
                system[j, m + group[j]] = system[m + group[j], j] = 1.0
        solve_small(system, step)
        length, largest = 1.0, 0.0
        for j in range(m):
            if step[j] < 0.0:
                length = min(length, -0.95 * y[j] / step[j])
        for j in range(m):
            y[j] += length * step[j]
            largest = max(largest, abs(step[j] / y[j]))
        if not np.isfinite(y).all():
            return y, False
        if largest < NEWTON_PRECISION and (mu <= last or k == 0):
            return y, True
        if length > 0.5:
            mu = max(BARRIER_FALL * mu, last)
    return y, False


@njit(cache=True, nogil=True)
def least_by_plans(
    asked: Array,
    slopes: Array,
    near: Array,
    most: int,
    reach: float,
    caution: Array,
    floor: Array,
    group: Indices,
    totals: Array,
) -> tuple[Array, float]:
    """The prices (m,) that minimise the bound by the ``most`` nearest plans, and the mean curvature.

    A curvature of zero says that the plans say too little, or that the prices are ``reach`` times farther than they.
    """
    chosen = nearest(asked, near, most)
    centre, slope = asked[chosen[0]], slopes[chosen[0]]
    steps, rises = asked[chosen[1:]] - centre, slopes[chosen[1:]] - slope
    lengths = np.empty(steps.shape[0])
    for i in range(lengths.size):
        lengths[i] = np.sum(steps[i] ** 2)
    apart = np.flatnonzero(lengths > 1e-12 * lengths.max())
    if apart.size == 0:
        return near, 0.0
    curve = curvature(steps[apart], rises[apart], lengths[apart])
    if not np.isfinite(curve).all():
        return near, 0.0
    found, there = least_bound(caution, floor, group, totals, near, centre, slope, curve)
    if not there or np.sum((found - centre) ** 2) > reach**2 * lengths.max():
        return near, 0.0
    return found, np.trace(curve) / near.size
