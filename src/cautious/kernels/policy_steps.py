"""One step of all states at once from an occupancy towards what pays better.

Legend: row ``s*A + a`` of the CSR matrix (indptr, indices, data) is P(. | s, a); ``r`` (S*A,) a reward table;
``active`` (S*A,) the pairs that count; ``gamma`` the discount; ``v`` (S,) multipliers; ``d`` (S*A,) an occupancy; ``h``
how much less a pair pays for a unit more of its mass.
"""

import numpy as np
from numba import njit

from cautious.arrays import Array, Indices, Mask
from cautious.kernels.simplex import level

ONE = np.uint64(1)
LARGEST = 1e100


@njit(cache=True, nogil=True, error_model="numpy")
def paid_moves(
    indptr: Indices,
    indices: Indices,
    data: Array,
    r: Array,
    active: Mask,
    gamma: float,
    v: Array,
    d: Array,
    h: float,
    policy: Array,
) -> None:
    """policy (S*A,): every state's mass as it would be spread if only its own pairs paid less for more.

    That is the distribution of mass x(s) nearest to d + (r + gamma E[v] - v) / h. States without mass take their best
    paid pair; those without active pairs get zeros.
    """
    n_actions = np.uint64(r.size // v.size)
    wanted = np.empty(n_actions)
    for s in range(np.uint64(v.size)):
        first, mass = s * n_actions, 0.0
        for a in range(n_actions):
            row = first + a
            wanted[a] = -np.inf
            if active[row]:
                total = 0.0
                for k in range(indptr[row], indptr[row + ONE]):
                    total += data[k] * v[indices[k]]
                mass += d[row]
                wanted[a] = d[row] + min(max((r[row] + gamma * total - v[s]) / h, -LARGEST), LARGEST)
        share_out(wanted, mass, first, policy)


@njit(cache=True, nogil=True, error_model="numpy")
def share_out(wanted: Array, mass: float, first: int, policy: Array) -> None:
    """policy at ``first`` = the distribution of ``mass`` nearest to ``wanted``, as shares; -inf takes no part."""
    least = level(wanted, mass)
    total = 0.0
    for a in range(np.uint64(wanted.size)):
        policy[first + a] = max(wanted[a] - least, 0.0)
        total += policy[first + a]
    # without mass, or where it is lost beside large numbers, nothing is above the level
    if not total > 0.0:
        best = np.argmax(wanted)
        for a in range(np.uint64(wanted.size)):
            policy[first + a] = 0.0
        total = 1.0
        if wanted[best] > -np.inf:
            policy[first + np.uint64(best)] = 1.0
    for a in range(np.uint64(wanted.size)):
        policy[first + a] /= total
