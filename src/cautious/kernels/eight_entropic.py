"""Loops of the entropic dual at eight temperatures side by side; ``entropic`` has them for one.

Legend: row ``s*A + a`` of the CSR matrix (indptr, indices, data) is P(. | s, a); B = gamma P - E (S*A, S). A table (n, 8)
is flat, on a boundary of 64 bytes, and number 8 i + l belongs to temperature l: ``u`` (S, 8) multipliers, ``policy``
(S*A, 8), ``log_mass`` and ``mass`` (S, 8) of states, ``w`` (S*A, 8) weights. ``heat`` (8,) is one over the
temperatures; ``log_mu`` and ``r`` (S*A,), minus infinity where a pair cannot be used; ``xi`` and ``mu`` (S,).
"""

import numpy as np
from numba import njit

from cautious.arrays import Array, Indices, Mask
from cautious.kernels.vector_logs import exp_eight, log_eight
from cautious.kernels.vector_ratios import larger, over
from cautious.kernels.vectors import (
    EIGHT_LANES,
    load_eight,
    minus_product,
    plus,
    plus_product,
    spread_eight,
    store,
    times,
)

ONE = np.uint64(1)
# the exponent of nothing at all, small enough to be squared
NOTHING = -1e100
# masses whose logarithms differ by less are the same
NEAR = 1e-6


@njit(cache=True, nogil=True)
def soft_rows(
    indptr: Indices,
    indices: Indices,
    data: Array,
    gamma: float,
    log_mu: Array,
    r: Array,
    heat: Array,
    u: Array,
    policy: Array,
    log_mass: Array,
) -> None:
    """log_mass(s) = log sum_a exp(ell(s, a)), policy = exp(ell - log_mass), where ell = log mu + r heat + B u."""
    n_states, hot, one = u.size // EIGHT_LANES, load_eight(heat, 0), spread_eight(1.0)
    n_actions = log_mu.size // n_states
    for s in range(n_states):
        here, first, top = load_eight(u, EIGHT_LANES * s), s * n_actions, spread_eight(NOTHING)
        for row in range(first, first + n_actions):
            usable, total = np.uint64(row), spread_eight(0.0)
            if log_mu[usable] > -np.inf:
                for k in range(np.uint64(indptr[usable]), np.uint64(indptr[usable + ONE])):
                    at = EIGHT_LANES * np.int64(indices[k])
                    total = plus_product(total, spread_eight(data[k]), load_eight(u, at))
                total = minus_product(times(spread_eight(gamma), total), one, here)
                total = plus_product(plus(total, spread_eight(log_mu[usable])), spread_eight(r[usable]), hot)
                top = larger(total, top)
                store(policy, EIGHT_LANES * row, total)
        whole = spread_eight(0.0)
        for row in range(first, first + n_actions):
            if log_mu[np.uint64(row)] > -np.inf:
                share = exp_eight(minus_product(load_eight(policy, EIGHT_LANES * row), one, top))
                whole = plus(whole, share)
                store(policy, EIGHT_LANES * row, share)
        part = over(one, larger(whole, one))
        for row in range(first, first + n_actions):
            if log_mu[np.uint64(row)] > -np.inf:
                store(policy, EIGHT_LANES * row, times(load_eight(policy, EIGHT_LANES * row), part))
            else:
                store(policy, EIGHT_LANES * row, spread_eight(0.0))
        store(log_mass, EIGHT_LANES * s, plus(top, log_eight(larger(whole, one))))


@njit(cache=True, nogil=True)
def set_sums(log_mass: Array, mass: Array, totals: Array) -> None:
    """Give masses the sum one, in place; ``totals`` (8,) are the logarithms of the sums they had."""
    top, whole, one = spread_eight(-np.inf), spread_eight(0.0), spread_eight(1.0)
    for at in range(0, mass.size, EIGHT_LANES):
        top = larger(load_eight(log_mass, at), top)
    for at in range(0, mass.size, EIGHT_LANES):
        here = exp_eight(minus_product(load_eight(log_mass, at), one, top))
        whole = plus(whole, here)
        store(mass, at, here)
    part, log_whole = over(one, whole), plus(top, log_eight(whole))
    for at in range(0, mass.size, EIGHT_LANES):
        store(mass, at, times(load_eight(mass, at), part))
        store(log_mass, at, minus_product(load_eight(log_mass, at), one, log_whole))
    store(totals, 0, log_whole)


@njit(cache=True, nogil=True)
def soft_sweep(log_mass: Array, log_mu: Array, used: Mask, limit: float, live: Mask, u: Array) -> Array:
    """How unevenly log_mass - log_mu (S,) is spread over the ``used`` states, (8,); u += it where above ``limit``.

    A temperature below it rests from then on: ``live`` (8,).
    """
    low, high = np.full(EIGHT_LANES, np.inf), np.full(EIGHT_LANES, -np.inf)
    for s in range(used.size):
        if used[s]:
            for lane in range(EIGHT_LANES):
                rest = log_mass[np.uint64(EIGHT_LANES * s + lane)] - log_mu[s]
                low[lane], high[lane] = min(low[lane], rest), max(high[lane], rest)
    uneven = high - low
    live &= uneven > limit
    step = np.where(live, 1.0, 0.0)
    for s in range(used.size):
        if used[s]:
            for lane in range(EIGHT_LANES):
                at = np.uint64(EIGHT_LANES * s + lane)
                u[at] += step[lane] * (log_mass[at] - log_mu[s])
    return uneven


@njit(cache=True, nogil=True)
def spread_weights(
    policy: Array, log_mass: Array, mass: Array, wanted: Array, mu: Array, fall: float, floor: float, w: Array
) -> None:
    """w = policy times the logarithmic mean of ``mass`` and ``wanted`` (S, 8), raised to fall mass and floor mu."""
    n_states, one = mu.size, spread_eight(1.0)
    n_actions = policy.size // mass.size
    for s in range(n_states):
        at = EIGHT_LANES * s
        has = load_eight(mass, at)
        least = larger(times(spread_eight(fall), has), spread_eight(floor * mu[s]))
        aim = larger(load_eight(wanted, at), least)
        apart = minus_product(load_eight(log_mass, at), one, log_eight(aim))
        # (has - aim) / apart, and ``aim`` where that would be nought by nought
        near = spread_eight(NEAR * NEAR)
        above = plus_product(times(near, aim), minus_product(has, one, aim), apart)
        mean = over(above, plus_product(near, apart, apart))
        for row in range(s * n_actions, (s + 1) * n_actions):
            store(w, EIGHT_LANES * row, times(load_eight(policy, EIGHT_LANES * row), mean))


@njit(cache=True, nogil=True)
def downhill(
    indptr: Indices,
    indices: Indices,
    data: Array,
    gamma: float,
    policy: Array,
    mass: Array,
    xi: Array,
    out: Array,
) -> None:
    """out = -(xi + B' y), (S, 8), where y = policy mass."""
    n_states, one = xi.size, spread_eight(1.0)
    n_actions = policy.size // out.size
    for s in range(n_states):
        store(out, EIGHT_LANES * s, minus_product(load_eight(mass, EIGHT_LANES * s), one, spread_eight(xi[s])))
    for s in range(n_states):
        leaving = times(spread_eight(gamma), load_eight(mass, EIGHT_LANES * s))
        for row in range(s * n_actions, (s + 1) * n_actions):
            y = times(leaving, load_eight(policy, EIGHT_LANES * row))
            for k in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
                at = EIGHT_LANES * np.int64(indices[k])
                store(out, at, minus_product(load_eight(out, at), spread_eight(data[k]), y))


@njit(cache=True, nogil=True)
def aimed_mass(
    indptr: Indices,
    indices: Indices,
    data: Array,
    gamma: float,
    w: Array,
    mass: Array,
    x: Array,
    out: Array,
) -> None:
    """out(s) = mass(s) + sum_a w (B x)(s, a): the masses (S, 8) that a step x (S, 8) aims at."""
    n_states, one = x.size // EIGHT_LANES, spread_eight(1.0)
    n_actions = w.size // x.size
    for s in range(n_states):
        here, aim = load_eight(x, EIGHT_LANES * s), load_eight(mass, EIGHT_LANES * s)
        for row in range(s * n_actions, (s + 1) * n_actions):
            total = spread_eight(0.0)
            for k in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
                at = EIGHT_LANES * np.int64(indices[k])
                total = plus_product(total, spread_eight(data[k]), load_eight(x, at))
            total = minus_product(times(spread_eight(gamma), total), one, here)
            aim = plus_product(aim, load_eight(w, EIGHT_LANES * row), total)
        store(out, EIGHT_LANES * s, aim)
