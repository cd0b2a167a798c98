"""The certificate's own loops: an error in a solver's kernel cannot hide in its proof.

All they share with solvers are the instructions on vectors of numbers (``vectors``, ``vector_ratios``).

Legend: row ``s*A + a`` of the CSR matrix (indptr, indices, data) is P(. | s, a); ``r`` (S*A,) a reward table and
``size`` (S*A,) what its rounding is relative to, whatever the sign; ``active`` (S*A,) the pairs that count; ``gamma``
the discount; ``v`` (S,) multipliers.
"""

import numpy as np
from numba import njit

from cautious.arrays import Array, Indices, Mask
from cautious.kernels.residuals import exact_sum
from cautious.kernels.vector_ratios import larger
from cautious.kernels.vectors import (
    EIGHT_LANES,
    load_eight,
    minus_product,
    plus,
    spread_eight,
    store,
    times,
)

ONE = np.uint64(1)


@njit(cache=True, nogil=True)
def largest_advantage(
    indptr: Indices,
    indices: Indices,
    data: Array,
    r: Array,
    size: Array,
    active: Mask,
    gamma: float,
    v: Array,
    unit: float,
) -> float:
    """Largest r + gamma E[v] - v over the active pairs, each raised by what rounding can hide; NaN if not finite.

    ``unit`` is the rounding of one operation; a row of k successors takes about k + 8 of them.
    """
    n_actions = np.uint64(r.size // v.size)
    worst = -np.inf
    for s in range(np.uint64(v.size)):
        for row in range(s * n_actions, (s + ONE) * n_actions):
            if active[row]:
                total, magnitude = 0.0, 0.0
                for k in range(indptr[row], indptr[row + ONE]):
                    part = data[k] * v[indices[k]]
                    total += part
                    magnitude += abs(part)
                noise = (
                    unit * (indptr[row + ONE] - indptr[row] + 8.0) * (abs(size[row]) + gamma * magnitude + abs(v[s]))
                )
                advantage: float = r[row] + gamma * total - v[s] + noise
                if not np.isfinite(advantage):
                    return np.nan
                worst = max(worst, advantage)
    return worst


@njit(cache=True, nogil=True)
def advantages_of(
    indptr: Indices,
    indices: Indices,
    data: Array,
    r: Array,
    pi: Array,
    active: Mask,
    counted: Mask,
    gamma: float,
    v: Array,
    unit: float,
) -> tuple[float, float]:
    """Least and largest  r_pi + gamma E_pi[v] - v  of a policy ``pi`` (S*A,) over the ``counted`` states (S,).

    Both are moved outwards by what rounding can hide. NaN if one is, or if the policy leaves the active pairs there.
    """
    n_actions = np.uint64(r.size // v.size)
    least, largest = np.inf, -np.inf
    for s in range(np.uint64(v.size)):
        if counted[s]:
            total, magnitude, terms = 0.0, 0.0, 8.0 + n_actions
            for row in range(s * n_actions, (s + ONE) * n_actions):
                if pi[row] > 0.0:
                    if not active[row]:
                        return np.nan, np.nan
                    mean, size = 0.0, 0.0
                    for k in range(indptr[row], indptr[row + ONE]):
                        part = data[k] * v[indices[k]]
                        mean += part
                        size += abs(part)
                    total += pi[row] * (r[row] + gamma * mean)
                    magnitude += pi[row] * (abs(r[row]) + gamma * size)
                    terms += indptr[row + ONE] - indptr[row]
            noise = unit * terms * (magnitude + abs(v[s]))
            low, high = total - v[s] - noise, total - v[s] + noise
            if np.isnan(low):
                return np.nan, np.nan
            least, largest = min(least, low), max(largest, high)
    return least, largest


@njit(cache=True, nogil=True)
def careful_dot(x: Array, y: Array) -> tuple[float, float]:
    """(<x, y>, <|x|, |y|>); the first is summed with compensation, so that only the products round, however many."""
    x, y = np.ascontiguousarray(x), np.ascontiguousarray(y)
    # eight sums at a time, because one would wait for itself
    one, nothing, parts = spread_eight(1.0), spread_eight(0.0), np.empty((3, EIGHT_LANES))
    total, lost, size = nothing, nothing, nothing
    even = x.size - x.size % EIGHT_LANES
    for at in range(0, even, EIGHT_LANES):
        part = times(load_eight(x, at), load_eight(y, at))
        size = plus(size, larger(part, minus_product(nothing, one, part)))
        after = plus(total, part)
        came = minus_product(after, one, total)
        stayed = minus_product(after, one, came)
        lost = plus(lost, plus(minus_product(total, one, stayed), minus_product(part, one, came)))
        total = after
    store(parts[0], 0, total)
    store(parts[1], 0, lost)
    store(parts[2], 0, size)
    whole, rest, magnitude = 0.0, parts[1].sum(), parts[2].sum()
    for i in range(EIGHT_LANES + x.size - even):
        here = parts[0, i] if i < EIGHT_LANES else x[even + i - EIGHT_LANES] * y[even + i - EIGHT_LANES]
        magnitude += 0.0 if i < EIGHT_LANES else abs(here)
        whole, missed = exact_sum(whole, here)
        rest += missed
    return whole + rest, magnitude


@njit(cache=True, nogil=True)
def charge(slope: Array, price: float, active: Mask, r: Array, size: Array) -> float:
    """r -= price slope, size += |price slope|, in place; the largest |slope| of an active pair, NaN if one is NaN."""
    largest: float = 0.0
    for row in range(r.size):
        part = price * slope[row]
        r[row] -= part
        size[row] += abs(part)
        if active[row] and not abs(slope[row]) <= largest:
            largest = abs(slope[row])
            if np.isnan(largest):
                return largest
    return largest


@njit(cache=True, nogil=True)
def largest_payment(r: Array, pi: Array, reached: Mask) -> float:
    """The largest |r| of the pairs that a policy ``pi`` (S*A,) takes in the ``reached`` states (S,); 0 without any."""
    n_actions = r.size // reached.size
    largest = 0.0
    for s in range(reached.size):
        if reached[s]:
            for row in range(s * n_actions, (s + 1) * n_actions):
                if pi[row] > 0.0:
                    largest = max(largest, abs(r[row]))
    return largest
