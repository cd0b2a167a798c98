"""What the flow of an occupancy balances, for every horizon: a chain that loses its mass.

With E d what leaves every state, occupancies are the d >= 0 on the active pairs with  inflow + R'd - E d = 0:

    discounted        R = gamma P                                  inflow (1-gamma) start
    T steps           R = gamma P, from every step to the next     inflow start / sum_t gamma^t  at the first step
    "total"           R = P                                        inflow start
    "average"         R = P - 1 e'                                 inflow e

Mass is lost by discounting, after the last step, and in ended states, which have no active pairs. In the long run none
is lost: the balance of one state follows from those of the others, and nothing fixes the sum of d. So e is 1 at one
state, the ``hub``, and 0 elsewhere: the equation of the hub is that of the sum, because all equations together say
1 - sum d = 0. Multipliers v of these equations are relative values, and v at the hub is the gain.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from cautious.arrays import Array, Mask
from cautious.checks import states_of
from cautious.horizons.finite import n_steps
from cautious.models.horizons import AVERAGE, TOTAL
from cautious.models.tabular import MDP


@dataclass(frozen=True)
class Balance:
    """``rows`` times ``discount`` is R, a row for each pair and a column for each state, of every step if there are
    several.

    ``inflow`` has the shape of the states, and so has ``unit_value``: the multipliers that pay one for every pair where
    the sum of an occupancy is fixed, else zero.
    """

    rows: sp.csr_array
    discount: float
    inflow: Array
    unit_value: Array
    hub: int | None = None


def balance_of(mdp: MDP, active: Mask) -> Balance:
    """The balance of occupancies with mass on ``active`` pairs."""
    if isinstance(mdp.horizon, int):
        return _over_time(mdp)
    if mdp.horizon == AVERAGE:
        return _for_ever(mdp, int(np.argmax(states_of(active))))
    unit = 0.0 if mdp.horizon == TOTAL else 1 / mdp.normaliser
    return Balance(mdp.transitions, mdp.discount, mdp.normaliser * mdp.start, np.full(mdp.n_states, unit))


def _for_ever(mdp: MDP, hub: int) -> Balance:
    rows, n_pairs = mdp.transitions, mdp.transitions.shape[0]
    to_hub = (np.ones(n_pairs), np.full(n_pairs, hub, rows.indices.dtype), np.arange(n_pairs + 1))
    inflow = np.zeros(mdp.n_states)
    inflow[hub] = 1.0
    return Balance(sp.csr_array(rows - sp.csr_array(to_hub, rows.shape)), 1.0, inflow, np.ones(mdp.n_states), hub)


def _over_time(mdp: MDP) -> Balance:
    """Nothing follows the last step."""
    steps, n_states, rows = n_steps(mdp), mdp.n_states, mdp.transitions
    inflow = np.zeros((steps, n_states))
    inflow[0] = mdp.normaliser * mdp.start
    ahead = n_states * np.arange(1, steps)
    starts = rows.indptr[1:] + rows.nnz * np.arange(steps - 1)[:, None]
    last = np.full(rows.shape[0], rows.nnz * (steps - 1))
    layered = sp.csr_array(
        (
            np.tile(rows.data, steps - 1),
            (rows.indices + ahead[:, None]).ravel(),
            np.concatenate([[0], starts.ravel(), last]),
        ),
        (steps * rows.shape[0], steps * n_states),
    )
    # with k steps to go one unit a step is worth the sum of k powers of the discount
    to_go = np.cumsum(mdp.discount ** np.arange(steps))[::-1]
    return Balance(layered, mdp.discount, inflow, np.repeat(to_go[:, None], n_states, axis=1))
