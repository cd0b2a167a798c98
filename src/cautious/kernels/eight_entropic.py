"""Loops of the entropic dual at eight temperatures side by side; ``entropic`` has them for one.

Legend: row ``s*A + a`` of the CSR matrix (indptr, indices, data) is P(. | s, a); B = gamma P - E (S*A, S). A table
(n, 8) is flat, on a boundary of 64 bytes, and number 8 i + l belongs to temperature l: ``u`` (S, 8) multipliers,
``policy`` (S*A, 8), ``log_mass`` and ``mass`` (S, 8) of states. ``heat`` (8,) is one over the temperatures; ``log_mu``
and ``r`` (S*A,), the first minus infinity where a pair cannot be used; ``xi`` and ``mu`` (S,).
"""

import numpy as np
from numba import njit

from cautious.arrays import Array, Indices, Mask, Singles
from cautious.kernels.vector_logs import exp_eight, log_eight
from cautious.kernels.vector_ratios import larger, load_short, over, store_short
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
# weights below this do not count: the range of single precision is short
LEAST = 1e-25


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
    """log_mass(s) = log sum_a exp(ell(s, a)), policy = exp(ell - log_mass), where ell = log mu + r heat + B u.

    ``policy`` may have room for one state only: then nobody wants it.
    """
    n_states, hot, one = u.size // EIGHT_LANES, load_eight(heat, 0), spread_eight(1.0)
    n_actions = log_mu.size // n_states
    wanted = policy.size == EIGHT_LANES * log_mu.size
    for s in range(n_states):
        here, first, top = load_eight(u, EIGHT_LANES * s), s * n_actions, spread_eight(NOTHING)
        place = EIGHT_LANES * first if wanted else 0
        for a in range(n_actions):
            row, total = np.uint64(first + a), spread_eight(0.0)
            if log_mu[row] > -np.inf:
                for k in range(np.uint64(indptr[row]), np.uint64(indptr[row + ONE])):
                    at = EIGHT_LANES * np.int64(indices[k])
                    total = plus_product(total, spread_eight(data[k]), load_eight(u, at))
                total = minus_product(times(spread_eight(gamma), total), one, here)
                total = plus_product(plus(total, spread_eight(log_mu[row])), spread_eight(r[row]), hot)
                top = larger(total, top)
                store(policy, place + EIGHT_LANES * a, total)
        whole = spread_eight(0.0)
        for a in range(n_actions):
            share = spread_eight(0.0)
            if log_mu[np.uint64(first + a)] > -np.inf:
                share = exp_eight(minus_product(load_eight(policy, place + EIGHT_LANES * a), one, top))
                whole = plus(whole, share)
            store(policy, place + EIGHT_LANES * a, share)
        if wanted:
            part = over(one, larger(whole, one))
            for a in range(n_actions):
                own = place + EIGHT_LANES * a
                store(policy, own, times(load_eight(policy, own), part))
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
    uneven: Array = high - low
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
    policy: Array,
    log_mass: Array,
    mass: Array,
    wanted: Array,
    mu: Array,
    fall: float,
    floor: float,
    mean: Array,
    first: int,
    w: Singles,
) -> None:
    """``mean`` (S, 8), the logarithmic mean of ``mass`` and ``wanted`` (S, 8), raised to fall mass and floor mu.

    Times the policy it goes into the places from ``first`` on of the weights w (S*A, 16), without what is nearly zero.
    """
    one, near = spread_eight(1.0), spread_eight(NEAR * NEAR)
    n_actions = policy.size // mass.size
    for s in range(mu.size):
        at = EIGHT_LANES * s
        has = load_eight(mass, at)
        least = larger(times(spread_eight(fall), has), spread_eight(floor * mu[s]))
        aim = larger(load_eight(wanted, at), least)
        apart = minus_product(load_eight(log_mass, at), one, log_eight(aim))
        # (has - aim) / apart, and ``aim`` where that would be nought by nought
        above = plus_product(times(near, aim), minus_product(has, one, aim), apart)
        between = over(above, plus_product(near, apart, apart))
        store(mean, at, between)
        for row in range(s * n_actions, (s + 1) * n_actions):
            weight = plus_product(spread_eight(-LEAST), load_eight(policy, EIGHT_LANES * row), between)
            store_short(w, 2 * EIGHT_LANES * row + first, larger(weight, spread_eight(0.0)))


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
    policy: Array,
    mean: Array,
    mass: Array,
    x: Array,
    out: Array,
) -> None:
    """out(s) = mass(s) + sum_a mean policy (B x)(s, a): the masses (S, 8) that a step x (S, 8) aims at."""
    n_states, n_actions = x.size // EIGHT_LANES, policy.size // x.size
    for s in range(n_states):
        aim = spread_eight(0.0)
        for row in range(s * n_actions, (s + 1) * n_actions):
            total = spread_eight(0.0)
            for k in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
                at = EIGHT_LANES * np.int64(indices[k])
                total = plus_product(total, spread_eight(data[k]), load_eight(x, at))
            total = minus_product(times(spread_eight(gamma), total), spread_eight(1.0), load_eight(x, EIGHT_LANES * s))
            aim = plus_product(aim, load_eight(policy, EIGHT_LANES * row), total)
        here = EIGHT_LANES * s
        store(out, here, plus_product(load_eight(mass, here), load_eight(mean, here), aim))


@njit(cache=True, nogil=True)
def move(start: Array, x: Array, length: Array, u: Array) -> None:
    """u = start + length x, (S, 8), for lengths (8,)."""
    by = load_eight(length, 0)
    for at in range(0, u.size, EIGHT_LANES):
        store(u, at, plus_product(load_eight(start, at), by, load_eight(x, at)))


@njit(cache=True, nogil=True)
def products(x: Array, y: Array) -> Array:
    """The inner products (8,) of two tables (S, 8)."""
    total, found = spread_eight(0.0), np.empty(EIGHT_LANES)
    for at in range(0, x.size, EIGHT_LANES):
        total = plus_product(total, load_eight(x, at), load_eight(y, at))
    store(found, 0, total)
    return found


@njit(cache=True, nogil=True)
def lengthen(x: Singles, first: int, unit: Array, out: Array) -> None:
    """out (S, 8) = the places from ``first`` on of x (S, 16), in units (8,)."""
    by = load_eight(unit, 0)
    for i in range(out.size // EIGHT_LANES):
        store(out, EIGHT_LANES * i, times(load_short(x, 2 * EIGHT_LANES * i + first), by))
