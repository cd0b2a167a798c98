"""The flow balance of a policy, in twice the working precision: what an error bound rests on.

Legend: (indptr, indices, data) the transitions, row ``s*A + a``, with unsigned indices; ``pi`` (S*A,) a policy; ``x``
(S,) its state occupancy; ``xi`` (S,) the start. A sum is kept as two numbers, its rounded value and what rounding lost.
"""

import numpy as np
from numba import njit

from cautious.arrays import Array, Indices
from cautious.kernels.vector_ratios import rounded_once


@njit(cache=True, nogil=True)
def exact_product(a: float, b: float) -> tuple[float, float]:
    """a*b as a rounded product and its error."""
    p = a * b
    return p, rounded_once(a, b, -p)


@njit(cache=True, nogil=True)
def exact_sum(a: float, b: float) -> tuple[float, float]:
    """a+b as a rounded sum and its error (Knuth)."""
    s = a + b
    c = s - a
    return s, (a - (s - c)) + (b - c)


@njit(cache=True, nogil=True)
def balance(
    indptr: Indices, indices: Indices, data: Array, pi: Array, x: Array, xi: Array, gamma: float
) -> tuple[Array, float]:
    """(1 - gamma) xi + gamma P_pi' x - x, (S,), each entry rounded once at its end; and its 1-norm."""
    n_actions = pi.size // x.size
    inflow, lost = np.zeros_like(x), np.zeros_like(x)
    for s in range(x.size):
        if x[s] != 0.0:
            for row in range(s * n_actions, (s + 1) * n_actions):
                if pi[row] > 0.0:
                    mass, mass_lost = exact_product(pi[row], x[s])
                    for k in range(indptr[row], indptr[row + 1]):
                        j = indices[k]
                        carried, carried_lost = exact_product(mass, data[k])
                        inflow[j], sum_lost = exact_sum(inflow[j], carried)
                        lost[j] += sum_lost + carried_lost + mass_lost * data[k]
    norm = 0.0
    for s in range(x.size):
        total, rest = exact_product(gamma, inflow[s])
        faded, faded_rest = exact_product(gamma, xi[s])
        rest += gamma * lost[s] - faded_rest
        for term in (-faded, xi[s], -x[s]):
            total, sum_lost = exact_sum(total, term)
            rest += sum_lost
        inflow[s] = total + rest
        norm += abs(inflow[s])
    return inflow, norm
