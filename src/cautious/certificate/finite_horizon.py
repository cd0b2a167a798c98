"""The upper bound of a finite horizon, from multipliers v (T, S) of every step, with v_T = 0:

    value  <=  <xi, v_0> + sum_t gamma^t max over the pairs of step t of ( r + gamma E[v_{t+1}] - v_t ),

because exactly gamma^t of the mass is still there at step t. Rounding as in ``bounds``.
"""

import numpy as np

from cautious._core import certificate as kernels
from cautious.arrays import Array, Mask
from cautious.models.encodings import EPS, SMALLEST_NORMAL, read_only_view
from cautious.models.tabular import MDP


def finite_bound(mdp: MDP, pairs: Mask, reward: Array, size: Array, v: Array) -> float:
    """What no policy earns from a table (S, A), whose rounding is relative to ``size``; ``pairs`` is (T, S, A)."""
    steps = len(pairs)
    if v.shape != (steps, mdp.n_states):
        return np.inf
    total, magnitude, left = 0.0, 0.0, 1.0
    nothing = np.zeros(mdp.n_states)
    for t in range(steps):
        after = v[t + 1] if t < steps - 1 else nothing
        gamma = mdp.discount if t < steps - 1 else 0.0
        # The loop uses one v for both places, that of the next step. The table is corrected by v_{t+1} - v_t: two more
        # sums, which round relative to both.
        table = reward + (after - v[t])[:, None]
        sizes = np.abs(size) + (np.abs(after) + np.abs(v[t]))[:, None]
        worst = kernels.largest_advantage(
            *mdp.block,
            read_only_view(table).ravel(),
            read_only_view(sizes).ravel(),
            read_only_view(np.ascontiguousarray(pairs[t])).ravel(),
            gamma,
            read_only_view(after),
            2 * EPS,
        )
        # a reward or a multiplier that is not a number proves nothing; states without pairs are not visited
        if np.isnan(worst):
            return np.inf
        if worst > -np.inf:
            total += left * worst
            magnitude += left * abs(worst)
        left *= mdp.discount
    mean, start = kernels.compensated_dot(mdp.start, np.ascontiguousarray(v[0]))
    # 2 u a step for the power of gamma, 4 for the product and the sum; 16 u for the rest, as in ``bounds``
    return float(mean + total + EPS * (steps + 8) * (start + magnitude) + SMALLEST_NORMAL)
