"""The flow of sixteen policies side by side, in single precision: corrections of occupancies, a few digits at a time.

Legend: row ``s*A + a`` of the CSR matrix (indptr, indices, data) is P(. | s, a). Tables (n, 16) are flat, on a boundary
of 64 bytes; number 16 i + l belongs to policy l, with the weights ``w`` (S*A, 16) and the chain P_l (S, S). ``inverse``
(S, 16): one over the diagonal of I - gamma P.
"""

import numpy as np
from numba import njit

from cautious.arrays import Array, Indices, Mask, Singles
from cautious.kernels.vector_ratios import larger, load_short, over, store_short
from cautious.kernels.vectors import (
    EIGHT_LANES,
    SIXTEEN_LANES,
    load_eight,
    load_sixteen,
    minus_product,
    plus,
    plus_product,
    spread_eight,
    spread_sixteen,
    store,
    times,
)

ONE = np.uint64(1)
# so many states are summed in single precision
STRETCH = 256
TINY = 1e-290


@njit(cache=True, nogil=True)
def shorten(table: Array, first: int, out: Singles) -> None:
    """A table (n, 8) into the places from ``first`` on of one of sixteen (n, 16)."""
    for i in range(table.size // EIGHT_LANES):
        store_short(out, SIXTEEN_LANES * i + first, load_eight(table, EIGHT_LANES * i))


@njit(cache=True, nogil=True)
def measure(missing: Array, first: int, out: Singles) -> Array:
    """The 1-norms (8,) of a table (S, 8).

    In their units, with the other sign, the table goes where ``shorten`` would put it.
    """
    total, found = spread_eight(TINY), np.empty(EIGHT_LANES)
    nothing, one = spread_eight(0.0), spread_eight(1.0)
    for at in range(0, missing.size, EIGHT_LANES):
        here = load_eight(missing, at)
        total = plus(total, larger(here, minus_product(nothing, one, here)))
    store(found, 0, total)
    by = over(minus_product(nothing, one, one), total)
    for i in range(missing.size // EIGHT_LANES):
        store_short(out, SIXTEEN_LANES * i + first, times(load_eight(missing, EIGHT_LANES * i), by))
    return found


@njit(cache=True, nogil=True)
def correct(x: Singles, first: int, size: Array, marginals: Array) -> None:
    """Add to ``marginals`` (S, 8) the corrections x (S, 16) from place ``first`` on, in units of ``size`` (8,).

    Nothing becomes negative.
    """
    unit, nothing = load_eight(size, 0), spread_eight(0.0)
    for i in range(marginals.size // EIGHT_LANES):
        here = plus_product(load_eight(marginals, EIGHT_LANES * i), load_short(x, SIXTEEN_LANES * i + first), unit)
        store(marginals, EIGHT_LANES * i, larger(here, nothing))


@njit(cache=True, nogil=True)
def diagonals(indptr: Indices, indices: Indices, data: Singles, gamma: float, w: Singles, inverse: Singles) -> None:
    """Fill ``inverse``."""
    n_actions, fading = w.size // inverse.size, np.float32(gamma)
    for s in range(inverse.size // SIXTEEN_LANES):
        own = spread_sixteen(np.float32(1.0))
        for row in range(s * n_actions, (s + 1) * n_actions):
            for k in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
                if np.int64(indices[k]) == s:
                    own = minus_product(own, spread_sixteen(fading * data[k]), load_sixteen(w, SIXTEEN_LANES * row))
        store(inverse, SIXTEEN_LANES * s, own)
    for i in range(inverse.size):
        inverse[i] = np.float32(1.0) / inverse[i]


@njit(cache=True, nogil=True)
def _sweep(
    indptr: Indices,
    indices: Indices,
    data: Singles,
    gamma: float,
    w: Singles,
    inverse: Singles,
    y: Singles,
    z: Singles,
    az: Singles,
    other: Singles,
    along: Array,
    squares: Array,
) -> None:
    """z = one Gauss-Seidel sweep on (I - gamma P') z = y from zero; az = (I - gamma P') z.

    ``along`` and ``squares`` (16,) become <other, az> and <az, az>.
    """
    n_states, n_actions = y.size // SIXTEEN_LANES, w.size // y.size
    fading, nothing = spread_sixteen(np.float32(gamma)), spread_sixteen(np.float32(0.0))
    az[:] = y
    for s in range(n_states):
        here = SIXTEEN_LANES * s
        taken = times(load_sixteen(az, here), load_sixteen(inverse, here))
        store(z, here, taken)
        taken = times(taken, fading)
        for row in range(np.uint64(s * n_actions), np.uint64((s + 1) * n_actions)):
            part = times(taken, load_sixteen(w, SIXTEEN_LANES * np.int64(row)))
            for k in range(np.uint64(indptr[row]), np.uint64(indptr[row + ONE])):
                to = SIXTEEN_LANES * np.int64(indices[k])
                store(az, to, plus_product(load_sixteen(az, to), spread_sixteen(data[k]), part))
        # what came back to the state itself is in ``inverse``
        store(az, here, nothing)
    one, part = spread_sixteen(np.float32(1.0)), np.empty(SIXTEEN_LANES, np.float32)
    along[:], squares[:] = 0.0, 0.0
    for first in range(0, y.size, STRETCH * SIXTEEN_LANES):
        with_other, with_self = nothing, nothing
        for at in range(first, min(first + STRETCH * SIXTEEN_LANES, y.size), SIXTEEN_LANES):
            there = minus_product(load_sixteen(y, at), one, load_sixteen(az, at))
            store(az, at, there)
            with_other = plus_product(with_other, there, load_sixteen(other, at))
            with_self = plus_product(with_self, there, there)
        store(part, 0, with_other)
        along += part
        store(part, 0, with_self)
        squares += part


@njit(cache=True, nogil=True)
def _settle(
    alpha: Singles,
    omega: Singles,
    p_hat: Singles,
    r_hat: Singles,
    t: Singles,
    shadow: Singles,
    x: Singles,
    r: Singles,
    along: Array,
    size: Array,
) -> None:
    """x += alpha p_hat + omega r_hat and r -= omega t; ``along`` and ``size`` (16,) are then <shadow, r> and |r|_1."""
    by, to, part = load_sixteen(alpha, 0), load_sixteen(omega, 0), np.empty(SIXTEEN_LANES, np.float32)
    nothing, one = spread_sixteen(np.float32(0.0)), spread_sixteen(np.float32(1.0))
    along[:], size[:] = 0.0, 0.0
    for first in range(0, x.size, STRETCH * SIXTEEN_LANES):
        with_shadow, whole = nothing, nothing
        for at in range(first, min(first + STRETCH * SIXTEEN_LANES, x.size), SIXTEEN_LANES):
            here = plus_product(load_sixteen(x, at), by, load_sixteen(p_hat, at))
            store(x, at, plus_product(here, to, load_sixteen(r_hat, at)))
            rest = minus_product(load_sixteen(r, at), to, load_sixteen(t, at))
            store(r, at, rest)
            with_shadow = plus_product(with_shadow, rest, load_sixteen(shadow, at))
            whole = plus(whole, larger(rest, minus_product(nothing, one, rest)))
        store(part, 0, with_shadow)
        along += part
        store(part, 0, whole)
        size += part


@njit(cache=True, nogil=True)
def _divided(above: Array, below: Array, live: Mask, out: Singles) -> None:
    """Quotients (16,) where a system is still being solved; 0, and no longer live, where there is none."""
    for lane in range(SIXTEEN_LANES):
        live[lane] &= below[lane] != 0.0 and np.isfinite(above[lane] / below[lane])
        out[lane] = above[lane] / below[lane] if live[lane] else 0.0


@njit(cache=True, nogil=True)
def solve_flow(
    indptr: Indices,
    indices: Indices,
    data: Singles,
    gamma: float,
    w: Singles,
    inverse: Singles,
    tolerance: Array,
    most: int,
    x: Singles,
    room: Singles,
    left: Array,
) -> int:
    """x (S, 16) with (I - gamma P') x = b for each policy, from zero; how many steps it took. ``room`` (7, 16 S).

    The first row of ``room`` holds b, of about size one. BiCGStab, preconditioned by a Gauss-Seidel sweep in one
    direction: back and forth takes fewer steps, but not less time. A system rests when its own idea of the residual's
    1-norm, ``left`` (16,), is below its ``tolerance`` (16,), or on a breakdown.
    """
    r, shadow, p, p_hat, r_hat, v, t = room[0], room[1], room[2], room[3], room[4], room[5], room[6]
    for empty in (x, p_hat, r_hat, t):
        empty[:] = np.float32(0.0)
    shadow[:], p[:] = r, r
    rho, below, above = np.empty(SIXTEEN_LANES), np.empty(SIXTEEN_LANES), np.empty(SIXTEEN_LANES)
    alpha, omega = np.zeros(SIXTEEN_LANES, np.float32), np.zeros(SIXTEEN_LANES, np.float32)
    beta = np.zeros(SIXTEEN_LANES, np.float32)
    _settle(alpha, omega, p_hat, r_hat, t, shadow, x, r, rho, left)
    live = left > tolerance
    for step in range(most):
        if not live.any():
            return step
        _sweep(indptr, indices, data, gamma, w, inverse, p, p_hat, v, shadow, below, above)
        _divided(rho, below, live, alpha)
        by = load_sixteen(alpha, 0)
        for at in range(0, x.size, SIXTEEN_LANES):
            store(r, at, minus_product(load_sixteen(r, at), by, load_sixteen(v, at)))
        _sweep(indptr, indices, data, gamma, w, inverse, r, r_hat, t, r, above, below)
        # a resting system has no alpha; one that rests from here on takes half a step
        _divided(above, below, live, omega)
        _settle(alpha, omega, p_hat, r_hat, t, shadow, x, r, above, left)
        live &= (left > tolerance) & (omega != 0.0)
        _divided(above * alpha, rho * omega, live, beta)
        rho[:] = above
        on, to = load_sixteen(beta, 0), load_sixteen(omega, 0)
        for at in range(0, x.size, SIXTEEN_LANES):
            back = minus_product(load_sixteen(p, at), to, load_sixteen(v, at))
            store(p, at, plus_product(load_sixteen(r, at), on, back))
    return most
