"""The certificate's own loops: no solver calls them, so that an error in a solver's kernel cannot hide in its proof.

Legend: row ``s*A + a`` of the CSR matrix (indptr, indices, data) is P(. | s, a); ``r`` (S*A,) a reward table and
``size`` (S*A,) what its rounding is relative to, whatever the sign; ``active`` (S*A,) the pairs that count; ``gamma``
the discount; ``v`` (S,) multipliers.
"""

import numpy as np
from numba import njit

from cautious.arrays import Array, Indices, Mask

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
    """Largest r + gamma E[v] - v over the active pairs, each raised by what rounding can hide; NaN if one is NaN.

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
                if not advantage <= worst:
                    worst = advantage
                    if np.isnan(worst):
                        return worst
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
    total, lost, size = 0.0, 0.0, 0.0
    for i in range(x.size):
        part = x[i] * y[i]
        size += abs(part)
        after = total + part
        if abs(total) >= abs(part):
            lost += (total - after) + part
        else:
            lost += (part - after) + total
        total = after
    return total + lost, size
