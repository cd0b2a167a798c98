"""One sweep of the practical variant of Algorithm 1: plan, draw, gather, move, improve.

The Lagrangian is the paper's, L(v, lam) = <xi, v> + <lam, r + gamma P v - v> - c rho, with d = (1-gamma) lam split as
d(s, a) = x(s) pi(a | s). Its three conditions are followed side by side, from the same samples:

    q(s, a) -> E[r + gamma v(s')]                               the critic, by moving averages         (gather)
    x(s)    -> (1-gamma) xi(s) + gamma sum d P(s | .)           the balance of flow, likewise          (move)
    pi      -> argmax of <pi, Q> - tau KL(pi || mu),            mirror ascent, optimistic: 2 Q - Q_old  (improve)
               Q = q - u,  v(s) = sum_a pi Q - tau KL

Legend, with S states, A actions and pair number s*A + a:

    x (S,), pi, d (S*A,)       state marginal, policy, occupancy d = x pi; d_bar its weighted average
    v (S,), q (S*A,)           multipliers, up to a constant that plays no part; estimate of E[r + gamma v(s')]
    u (S*A,)                   (1-gamma) c gradient of the risks that are not divergences on pairs
    tau, log_mu (S*A,)         (1-gamma) c of the divergences on pairs, and the logarithm of their prior
    n (S*A,), w (S*A,)         samples of each pair in this sweep, and their expectation; sum w = B
    zeta                       w / B = (1-delta) d + delta uniform over the allowed pairs
    rate, eta                  steps of the averages and of the policy; gamma the discount, xi (S,) the start
"""

import numpy as np
from numba import njit

from cautious.arrays import Array, Indices, Mask
from cautious.kernels.random import first_above, uniform


@njit(cache=True)
def plan(d: Array, allowed: Mask, delta: float, batch: int, offset: float, w: Array, n: Indices) -> int:
    """Systematic sampling: fills w and n, where n is w rounded up or down and E[n] = w; returns the sum of n.

    ``offset`` is uniform in [0, 1). One pass, memory in order, no table to search.
    """
    total, count = 0.0, 0
    for row in range(d.size):
        total += d[row]
        count += allowed[row]
    by_d = batch * (1.0 - delta) / total
    by_pair = batch * delta / count
    upto, before = offset, 0
    for row in range(d.size):
        w[row] = by_d * d[row] + by_pair if allowed[row] else 0.0
        upto += w[row]
        n[row] = int(upto) - before
        before += n[row]
    return before


@njit(cache=True)
def list_pairs(n: Indices, rows: Indices) -> None:
    """Fills rows (sum of n,): the number of each pair, as often as it is to be sampled."""
    i = 0
    for row in range(n.size):
        for _ in range(n[row]):
            rows[i] = row
            i += 1


@njit(cache=True)
def draw(
    indptr: Indices,
    indices: Indices,
    cumulative: Array,
    pay: Array,
    pay_per_outcome: bool,
    n: Indices,
    seed: np.uint64,
    counter: np.uint64,
    s_next: Indices,
    r_hat: Array,
) -> None:
    """Fills s_next and r_hat (sum of n,) from the rows of a table; uses the random numbers from ``counter`` on.

    ``pay`` is a reward per stored outcome, or per pair.
    """
    i = 0
    for row in range(n.size):
        for _ in range(n[row]):
            chance = uniform(seed, counter + np.uint64(i))
            at = first_above(cumulative, indptr[row], indptr[row + 1] - 1, chance)
            s_next[i] = indices[at]
            r_hat[i] = pay[at] if pay_per_outcome else pay[row]
            i += 1


@njit(cache=True)
def gather(
    n: Indices,
    w: Array,
    s_next: Indices,
    r_hat: Array,
    d: Array,
    v: Array,
    gamma: float,
    rate: float,
    q: Array,
    inflow: Array,
) -> None:
    """Moves q towards the samples, in place, and fills inflow (S,) with the unbiased estimate of sum d P(s | .).

    n samples count as n steps of the moving average.
    """
    inflow[:] = 0.0
    i = 0
    for row in range(n.size):
        if n[row] > 0:
            mass = d[row] / w[row]
            total = 0.0
            for _ in range(n[row]):
                total += r_hat[i] + gamma * v[s_next[i]]
                inflow[s_next[i]] += mass
                i += 1
            q[row] += (1.0 - (1.0 - rate) ** n[row]) * (total / n[row] - q[row])


@njit(cache=True)
def tally(n: Indices, r_hat: Array, paid: Array, drawn: Indices) -> None:
    """Adds the rewards and the numbers of samples of each pair, in place."""
    i = 0
    for row in range(n.size):
        for _ in range(n[row]):
            paid[row] += r_hat[i]
            i += 1
        drawn[row] += n[row]


@njit(cache=True)
def move(inflow: Array, xi: Array, gamma: float, rate: float, weight: float, x: Array, y_bar: Array) -> None:
    """Moves the state marginal towards balance, in place; the estimate is scaled to mass one first.

    ``y_bar`` averages these estimates of where the mass goes, with ``weight`` as ``settle`` averages d.
    """
    total = 0.0
    for s in range(x.size):
        total += (1.0 - gamma) * xi[s] + gamma * inflow[s]
    for s in range(x.size):
        y = ((1.0 - gamma) * xi[s] + gamma * inflow[s]) / total
        x[s] += rate * (y - x[s])
        y_bar[s] += weight * (y - y_bar[s])


@njit(cache=True)
def spread(u: Array, w: Array) -> float:
    """Standard deviation of u under zeta: how strongly the risk pulls, in rewards per step."""
    total, mean = 0.0, 0.0
    for row in range(u.size):
        total += w[row]
        mean += w[row] * u[row]
    mean /= total
    square = 0.0
    for row in range(u.size):
        square += w[row] * (u[row] - mean) ** 2
    return float(np.sqrt(square / total))


@njit(cache=True)
def add_log_marginal(x: Array, tau: float, floor: float, u: Array) -> None:
    """Adds tau log x(s), the part of the gradient of a divergence on pairs that does not depend on the action."""
    n_actions = u.size // x.size
    for s in range(x.size):
        extra = tau * np.log(max(x[s], floor))
        for row in range(s * n_actions, (s + 1) * n_actions):
            u[row] += extra


@njit(cache=True)
def improve(
    q: Array,
    u: Array,
    allowed: Mask,
    eta: float,
    tau: float,
    log_mu: Array,
    big_q: Array,
    log_pi: Array,
    v: Array,
) -> None:
    """The policy's step; overwrites big_q with Q = q - u, log_pi with the new policy, v with its values.

    ``big_q`` holds Q of the sweep before on entry. ``log_mu`` is not read when tau = 0. A state without pairs gets 0
    here; see ``settle``.
    """
    n_actions = q.size // v.size
    for s in range(v.size):
        first, last = s * n_actions, (s + 1) * n_actions
        top = -np.inf
        for row in range(first, last):
            if allowed[row]:
                now = q[row] - u[row]
                log_pi[row] += eta * (2.0 * now - big_q[row])
                if tau > 0.0:
                    log_pi[row] = (log_pi[row] + eta * tau * log_mu[row]) / (1.0 + eta * tau)
                big_q[row] = now
                top = max(top, log_pi[row])
        total = 0.0
        for row in range(first, last):
            if allowed[row]:
                total += np.exp(log_pi[row] - top)
        v[s] = 0.0
        for row in range(first, last):
            if allowed[row]:
                log_pi[row] -= top + np.log(total)
                cost = tau * (log_pi[row] - log_mu[row]) if tau > 0.0 else 0.0
                v[s] += np.exp(log_pi[row]) * (big_q[row] - cost)


@njit(cache=True)
def settle(
    allowed: Mask, log_pi: Array, x: Array, weight: float, horizon: float, v: Array, d: Array, d_bar: Array
) -> None:
    """Centres v at its mean under x, sets d = x pi, and moves the average d_bar towards d by ``weight``.

    A state without pairs is forbidden: its v is put ``horizon`` below all others, so that ways there look bad.
    """
    n_actions = d.size // x.size
    mean, mass, lowest = 0.0, 0.0, np.inf
    for s in range(x.size):
        if allowed[s * n_actions : (s + 1) * n_actions].any():
            mean += x[s] * v[s]
            mass += x[s]
            lowest = min(lowest, v[s])
    mean /= mass
    for s in range(x.size):
        alive = allowed[s * n_actions : (s + 1) * n_actions].any()
        v[s] = (v[s] if alive else lowest - horizon) - mean
        for row in range(s * n_actions, (s + 1) * n_actions):
            d[row] = x[s] * np.exp(log_pi[row]) if allowed[row] else 0.0
            d_bar[row] += weight * (d[row] - d_bar[row])
