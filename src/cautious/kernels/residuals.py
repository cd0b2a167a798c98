"""The flow balance of a policy, in twice the working precision: what an error bound rests on.

Legend: (indptr, indices, data) the transitions, row ``s*A + a``, with unsigned indices; ``pi`` (S*A,) a policy; ``x``
(S,) its state occupancy; ``xi`` (S,) the start. A sum is kept as two numbers, its rounded value and what rounding lost.
"""

import numpy as np
from numba import njit

from cautious.arrays import Array, Indices
from cautious.kernels.vector_ratios import rounded_once

ONE, TWO = np.uint64(1), np.uint64(2)


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
    n_actions = np.uint64(pi.size // x.size)
    # what flows into a state and what rounding lost of it, next to each other in memory
    sums, out = np.zeros(2 * x.size), np.empty_like(x)
    for s in range(np.uint64(x.size)):
        if x[s] != 0.0:
            for row in range(s * n_actions, (s + ONE) * n_actions):
                if pi[row] > 0.0:
                    mass, mass_lost = exact_product(pi[row], x[s])
                    for k in range(indptr[row], indptr[row + ONE]):
                        at = TWO * indices[k]
                        carried, carried_lost = exact_product(mass, data[k])
                        sums[at], sum_lost = exact_sum(sums[at], carried)
                        sums[at + ONE] += sum_lost + rounded_once(mass_lost, data[k], carried_lost)
    norm = 0.0
    for s in range(x.size):
        total, rest = exact_product(gamma, sums[2 * s])
        faded, faded_rest = exact_product(gamma, xi[s])
        rest += gamma * sums[2 * s + 1] - faded_rest
        for term in (-faded, xi[s], -x[s]):
            total, sum_lost = exact_sum(total, term)
            rest += sum_lost
        out[s] = total + rest
        norm += abs(out[s])
    return out, norm


@njit(cache=True, nogil=True, error_model="numpy")
def pairs_of(pi: Array, x: Array, total: float) -> Array:
    """pi(a | s) x(s) / total, (S*A,)."""
    n_actions, out = pi.size // x.size, np.empty(pi.size)
    for s in range(x.size):
        share = x[s] / total
        for row in range(s * n_actions, (s + 1) * n_actions):
            out[row] = pi[row] * share
    return out
