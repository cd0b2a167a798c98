"""How long a problem looks ahead, and how it adds up rewards: the four criteria.

| horizon | maximises | occupancy |
|---|---|---|
| None | the discounted return, for ever | (S, A), sums to one |
| a number of steps T | the discounted return of T steps, discount in [0, 1] | (T, S, A), sums to one |
| "average" | the long-run average reward per step, discount 1 | (S, A), stationary, sums to one |
| "total" | the reward until an absorbing state is entered, discount 1 | (S, A), expected visits |
"""

import numbers
from typing import Any, Literal

import psutil

from cautious.checks import as_count
from cautious.errors import InputError, MemoryLimitError, shown

Horizon = int | Literal["average", "total"] | None
AVERAGE, TOTAL = "average", "total"
# more steps than any policy over time could be stored for
MAX_STEPS = 10**7
# tables (T, S, A) that a solve holds at least
TABLES_OVER_TIME = 4


def as_horizon(horizon: Any, discount: float, shape: tuple[int, int]) -> Horizon:
    """A horizon that goes with this discount, and with states and actions (S, A) of this number."""
    if horizon is None:
        if discount == 1:
            raise InputError(
                "discount is 1, and without a horizon returns need not be finite; give horizon=24 (that many steps), "
                'horizon="average" (per step, in the long run) or horizon="total" (until an absorbing state)'
            )
        return None
    if isinstance(horizon, str):
        if horizon not in (AVERAGE, TOTAL):
            raise InputError(f'horizon is {shown(horizon)}; it must be None, a number of steps, "average" or "total"')
        if discount != 1:
            raise InputError(
                f'horizon="{horizon}" does not discount, and the discount of the model is {discount:g}; make the model '
                "with discount=1, or leave out the horizon"
            )
        return horizon  # type: ignore[return-value]
    if isinstance(horizon, bool) or not isinstance(horizon, numbers.Integral):
        raise InputError(f'horizon is {shown(horizon)}; it must be None, a number of steps, "average" or "total"')
    steps = as_count("horizon", horizon, 1, MAX_STEPS)
    needed, memory = 8 * TABLES_OVER_TIME * steps * shape[0] * shape[1], psutil.virtual_memory().total
    if needed > memory:
        raise MemoryLimitError(
            f"horizon is {steps:,}: policies and occupancies of so many steps take about {needed / 1e9:,.3g} GB for "
            f"{shape[0]:,} states and {shape[1]:,} actions, and this machine has {memory / 1e9:,.3g} GB"
        )
    return steps


def require_discounting(what: str, discount: float) -> None:
    """Refuse discount 1 where returns are discounted, for ever."""
    if discount == 1:
        raise InputError(
            f"{what} works with returns that are discounted for ever, and the discount is 1; give one below 1, or "
            'solve a known model with a horizon: ca.Problem(mdp, horizon=24), horizon="average" or horizon="total"'
        )
