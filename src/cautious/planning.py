"""The best policy for any reward table: the computation that nearly every solver calls."""

from collections.abc import Callable

import numpy as np

from cautious.arrays import Array, Mask
from cautious.horizons.average import plan_average
from cautious.horizons.discounted import plan_discounted
from cautious.horizons.finite import backward_induction
from cautious.horizons.plan import Plan
from cautious.horizons.policy_iteration import Stopping
from cautious.horizons.recurrence import recurrent_part
from cautious.horizons.total import plan_total
from cautious.models.horizons import AVERAGE, TOTAL
from cautious.models.tabular import MDP


def plan(
    mdp: MDP,
    reward: Array,
    *,
    tolerance: float | Callable[[float], float] = 0.0,
    allowed: Mask | None = None,
    warm: Plan | None = None,
    known: float = -np.inf,
    over: Callable[[], bool] | None = None,
) -> Plan:
    """Best policy for ``reward`` (S, A) among the ``allowed`` pairs (S, A), or (T, S, A) with a finite horizon.

    Stops when ``upper - lower <= tolerance``, or when rounding prevents anything better; ``tolerance`` may depend on
    what the policy is worth. ``allowed`` must be closed, as ``problem.kept`` is: from an allowed pair every successor
    has an allowed pair. With the value ``known`` of some policy, it stops when ``upper - known <= tolerance``, or when
    the bounds are close together compared with that difference. It is asked after every sweep whether time is ``over``;
    the bounds hold for the plan that is returned then too. With a finite horizon a plan is exact, and no tolerance
    is needed. For long-run averages, ``allowed`` are pairs of one end component, and values are relative ones.
    Until the end ("total"), the upper bound is infinite if the table pays for never ending.
    """
    if mdp.horizon == AVERAGE and allowed is None:
        allowed = recurrent_part(mdp, mdp.allowed)
    allowed = mdp.allowed if allowed is None else allowed
    if isinstance(mdp.horizon, int):
        return backward_induction(mdp, reward, np.broadcast_to(allowed, (mdp.horizon, *mdp.shape)))
    stopping = Stopping(tolerance, known, over)
    if mdp.horizon == AVERAGE:
        return plan_average(mdp, reward, allowed, stopping, warm)
    if mdp.horizon == TOTAL:
        return plan_total(mdp, reward, allowed, stopping, warm)
    return plan_discounted(mdp, reward, allowed, stopping, warm)
