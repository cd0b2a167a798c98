"""What a flow must satisfy to be an occupancy: linear equations in its entries at the active pairs."""

import numpy as np
import scipy.sparse as sp

from cautious.arrays import Array, Mask
from cautious.checks import states_of
from cautious.models.tabular import MDP
from cautious.solvers.balance import balance_of


def flow_rows(mdp: MDP, active: Mask) -> tuple[sp.csr_array, Array]:
    """Equations  rows d = right  for d at the active pairs, in the order of the mask (S, A) or (T, S, A)."""
    balance, pairs = balance_of(mdp, active), np.flatnonzero(active)
    states, n = np.flatnonzero(states_of(active)), pairs.size
    leaving = sp.csr_array((np.ones(n), (pairs // mdp.n_actions, np.arange(n))), (balance.inflow.size, n))
    flow = sp.csr_array(leaving - balance.discount * balance.rows[pairs].T)
    return sp.csr_array(flow[states]), balance.inflow.ravel()[states]
