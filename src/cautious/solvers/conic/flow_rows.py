"""What a flow must satisfy to be an occupancy: linear equations in its entries at the active pairs."""

import numpy as np
import scipy.sparse as sp

from cautious.arrays import Array, Indices, Mask
from cautious.checks import states_of
from cautious.models.horizons import AVERAGE, TOTAL
from cautious.models.tabular import MDP


def flow_rows(mdp: MDP, active: Mask) -> tuple[sp.csr_array, Array]:
    """Equations  rows d = right  for d at the active pairs, in the order of the mask (S, A) or (T, S, A)."""
    if isinstance(mdp.horizon, int):
        return _over_time(mdp, active)
    pairs, states = np.flatnonzero(active), states_of(active)
    share = 1.0 if mdp.horizon == TOTAL else 1 - mdp.discount
    flow = _leaving(mdp, pairs) - mdp.discount * mdp.transitions[pairs].T
    if mdp.horizon == AVERAGE:
        # what balances everywhere else balances at the last state too; the sum is not implied by the start
        rows = sp.vstack([sp.csr_array(flow[states])[:-1], np.ones((1, pairs.size))])
        return sp.csr_array(rows), np.append(np.zeros(int(states.sum()) - 1), 1.0)
    return sp.csr_array(flow[states]), share * mdp.start[states]


def _leaving(mdp: MDP, pairs: Indices) -> sp.csr_array:
    """(S, n): adds up the entries of each state."""
    n = pairs.size
    return sp.csr_array((np.ones(n), (pairs // mdp.n_actions, np.arange(n))), (mdp.n_states, n))


def _over_time(mdp: MDP, active: Mask) -> tuple[sp.csr_array, Array]:
    """At every step what leaves the states is what the step before led there, and at first the start."""
    steps, right = len(active), np.zeros((len(active), mdp.n_states))
    right[0] = mdp.normaliser * mdp.start
    blocks: list[list[sp.csr_array | None]] = [[None] * steps for _ in range(steps)]
    for t in range(steps):
        pairs = np.flatnonzero(active[t])
        blocks[t][t] = _leaving(mdp, pairs)
        if t < steps - 1:
            blocks[t + 1][t] = sp.csr_array(-mdp.discount * mdp.transitions[pairs].T)
    counted = states_of(active).ravel()
    return sp.csr_array(sp.block_array(blocks, format="csr")[counted]), right.ravel()[counted]
