"""Algorithm 1 as printed, on the tables of a known model: every sample updates every pair.

Legend, with n = S*A and pair i = s*A + a:

    log_lam (n,)   log of the flux lam, mass 1/(1-gamma); -inf for pairs that do not exist
    d (n,)         (1-gamma) lam, the occupancy
    v (S,)         multipliers; ``box`` their bound (Lemma 1)
    zeta           (1-delta) d + delta/pairs, the law that picks what to simulate
    slope (n,)     c times the subgradient of rho in lam: (1-gamma) times that in d
    alpha, beta    steps of v and lam; m1, m2 the shifts of Theorem 1

Draw t of a chunk uses numbers 3t, 3t+1, 3t+2 of its stream: pair, start state, successor. A risk is a list of terms;
term k has its ``kind``, its weight and the rows ``first[k]`` to ``first[k+1]`` of the table ``rows`` (., n).
"""

from math import exp, log

import numpy as np
from numba import njit

from cautious.arrays import Array, Indices, Mask
from cautious.kernels.random import first_above, uniform

ENTROPIC, HALF_L1, HALF_SQUARES, WORST, BARRIER, SQUARE_OF = range(6)
SMALL = 1e-50


@njit(cache=True)
def uniforms(seed: np.uint64, count: int) -> Array:
    """The first numbers of a stream."""
    out = np.empty(count)
    for i in range(count):
        out[i] = uniform(seed, np.uint64(i))
    return out


@njit(cache=True)
def _entry_slope(kind: int, x: float, p: float, floor: float) -> float:
    """Derivative of one entry of a distance to a prior; p is the logarithm of the prior for entropies."""
    if kind == ENTROPIC:
        return 1.0 + log(max(x, floor)) - p
    if kind == HALF_L1:
        return 0.5 if x > p else (-0.5 if x < p else 0.0)
    return x - p


@njit(cache=True)
def _add_distance(
    kind: int, on_states: bool, weight: float, row: Array, floor: float, d: Array, mass: Array, slope: Array
) -> None:
    """Add weight times the slope of a distance to a prior, on pairs or on states."""
    if not on_states:
        for i in range(d.size):
            slope[i] += weight * _entry_slope(kind, d[i], row[i], floor)
        return
    n_actions = d.size // mass.size
    for s in range(mass.size):
        g = weight * _entry_slope(kind, mass[s], row[s], floor)
        for i in range(s * n_actions, (s + 1) * n_actions):
            slope[i] += g


@njit(cache=True)
def _add_features(kind: int, weight: float, rows: Array, numbers: Array, d: Array, slope: Array) -> None:
    """Add weight times the slope of a risk of m linear numbers; ``numbers`` (m, 2): floor or target, smallest slack."""
    best, best_value = 0, -np.inf
    for j in range(rows.shape[0]):
        y = 0.0
        for i in range(d.size):
            y += rows[j, i] * d[i]
        if kind == WORST:
            if y > best_value:
                best, best_value = j, y
            continue
        gap = y - numbers[j, 0]
        factor = weight * (gap if kind == SQUARE_OF else -1.0 / max(gap, numbers[j, 1]))
        for i in range(d.size):
            slope[i] += factor * rows[j, i]
    if kind == WORST:
        for i in range(d.size):
            slope[i] += weight * rows[best, i]


@njit(cache=True)
def risk_slope(
    kinds: Indices,
    on_states: Mask,
    weights: Array,
    first: Indices,
    rows: Array,
    numbers: Array,
    floor: float,
    d: Array,
    mass: Array,
    slope: Array,
) -> None:
    """Overwrite ``slope`` by the weighted sum over the terms; ``mass`` (S,) is scratch for the state sums."""
    slope[:] = 0.0
    if on_states.any():
        n_actions = d.size // mass.size
        for s in range(mass.size):
            mass[s] = d[s * n_actions : (s + 1) * n_actions].sum()
    for k in range(kinds.size):
        if kinds[k] <= HALF_SQUARES:
            _add_distance(kinds[k], on_states[k], weights[k], rows[first[k]], floor, d, mass, slope)
        else:
            part = slice(first[k], first[k + 1])
            _add_features(kinds[k], weights[k], rows[part], numbers[part], d, slope)


@njit(cache=True)
def normalise(log_lam: Array, gamma: float, d: Array) -> None:
    """Give lam its mass 1/(1-gamma) again, by a fresh sum, and overwrite d by (1-gamma) lam."""
    top = log_lam.max()
    total = 0.0
    for i in range(d.size):
        d[i] = exp(log_lam[i] - top)
        total += d[i]
    shift = top + log(total * (1.0 - gamma))
    for i in range(d.size):
        d[i] /= total
        log_lam[i] -= shift


@njit(cache=True)
def _pick_pair(d: Array, allowed: Mask, delta: float, share: float, u: float) -> int:
    """The pair that a uniform number selects from zeta; pairs that do not exist are never selected."""
    total, last = 0.0, 0
    for i in range(d.size):
        if allowed[i]:
            total += (1.0 - delta) * d[i] + share
            last = i
            if total > u:
                return i
    return last


@njit(cache=True)
def run(
    steps: int,
    seed: np.uint64,
    model: tuple[Indices, Indices, Array, Array, bool, Array, Mask],
    scale: tuple[float, float],
    constants: tuple[float, float, float, float, float, float, float],
    risk: tuple[Indices, Mask, Array, Indices, Array, Array, float],
    state: tuple[Array, Array, Array, Array],
    moments: Array,
) -> None:
    """``steps`` iterations, in place on ``state`` = (log_lam, v, sum of d, sum of v) and ``moments`` (3, n).

    ``model``: CSR rows with running sums, rewards (per pair, or per outcome), running sums of xi, which pairs exist.
    ``scale`` (low, width): a reward r counts as (r - low) / width. ``moments``: draws, sum and sum of squares of these.
    Without a risk one logarithm changes per step (m2 shifts all of them alike), so only one exponential is taken: the
    others stay in ``weight``, on a common scale that is renewed before it can run out; their sum is always a fresh one.
    """
    indptr, indices, cumulative, rewards, per_outcome, xi, allowed = model
    gamma, alpha, beta, m1, m2, delta, box = constants
    log_lam, v, d_sum, v_sum = state
    n, n_actions = log_lam.size, log_lam.size // v.size
    share = delta / allowed.sum()
    d, weight, slope, mass = np.empty(n), np.empty(n), np.zeros(n), np.empty(v.size)
    neutral = risk[0].size == 0
    normalise(log_lam, gamma, weight)
    for t in range(steps):
        total = weight.sum()
        if not (neutral and SMALL < total < 1.0 / SMALL):
            normalise(log_lam, gamma, weight)
            total = 1.0
        for j in range(n):
            d[j] = weight[j] / total
            d_sum[j] += d[j]
        v_sum += v
        if not neutral:
            risk_slope(*risk, d, mass, slope)
        i = _pick_pair(d, allowed, delta, share, uniform(seed, np.uint64(3 * t)))
        s_bar = first_above(xi, 0, xi.size - 1, uniform(seed, np.uint64(3 * t + 1)) * xi[-1])
        k = first_above(cumulative, indptr[i], indptr[i + 1] - 1, uniform(seed, np.uint64(3 * t + 2)))
        s, s_next = i // n_actions, indices[k]
        r_hat = (rewards[k if per_outcome else i] - scale[0]) / scale[1]
        moments[0, i] += 1.0
        moments[1, i] += r_hat
        moments[2, i] += r_hat * r_hat
        zeta = (1.0 - delta) * d[i] + share
        sampled = (r_hat + gamma * v[s_next] - v[s] - m1) / zeta
        ratio = d[i] / ((1.0 - gamma) * zeta)
        v[s_bar] -= alpha
        v[s_next] -= alpha * ratio * gamma
        v[s] += alpha * ratio
        for j in (s_bar, s_next, s):
            v[j] = min(max(v[j], -box), box)
        if not neutral:
            for j in range(n):
                log_lam[j] -= beta * (slope[j] + m2)
        log_lam[i] += beta * sampled
        weight[i] = (1.0 - gamma) * exp(log_lam[i])
    normalise(log_lam, gamma, weight)
