"""Operations: a machine that wears, a shop that orders, a desk that serves. Illustrative numbers in real units."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln, pdtrc

from cautious.arrays import Array
from cautious.checks import as_count, as_number
from cautious.errors import InputError
from cautious.models.scene import Scene
from cautious.models.tabular import MDP
from cautious.worlds._outcomes import Outcomes


def machine_replacement(
    n_levels: int = 10,
    discount: float = 0.99,
    revenue: float = 1000.0,
    running_cost: float = 20.0,
    repair_cost: float = 500.0,
    replace_cost: float = 2500.0,
    breakdown_cost: float = 5000.0,
    breakdown: float = 0.1,
) -> MDP:
    """A machine that wears: operate it, repair it (half the wear) or replace it (as new), week by week.

    Operating earns ``revenue`` minus ``running_cost`` per level of wear, in euros per week; wear grows by 0, 1 or 2
    levels with probabilities 0.5, 0.35 and 0.15. At wear w the machine breaks down during the week with probability
    ``breakdown`` * (w / worst)^2, which costs ``breakdown_cost`` instead of earning; a broken machine must be replaced
    or given a repair that only brings it back to the worst level. Repairs and replacements take the week: nothing is
    earned. The numbers are illustrative, of the size of a small production line's. Episodes start with a new machine.

    Examples
    --------
    >>> import cautious as ca
    >>> mdp = ca.worlds.machine_replacement()
    >>> mdp.action_names, mdp.state_names[-1]
    (('operate', 'repair', 'replace'), 'broken')
    """
    n_levels = as_count("n_levels", n_levels, 2)
    revenue, running_cost = as_number("revenue", revenue), as_number("running_cost", running_cost, 0.0)
    repair_cost, replace_cost = as_number("repair_cost", repair_cost, 0.0), as_number("replace_cost", replace_cost, 0.0)
    breakdown_cost = as_number("breakdown_cost", breakdown_cost, 0.0)
    breakdown = as_number("breakdown", breakdown, 0.0, 1.0)
    worst, broken = n_levels - 1, n_levels
    outcomes = Outcomes(n_levels + 1, 3)
    for wear in range(n_levels):
        fails = breakdown * (wear / worst) ** 2
        for growth, chance in ((0, 0.5), (1, 0.35), (2, 0.15)):
            earned = revenue - running_cost * wear
            outcomes.add(wear, 0, min(wear + growth, worst), (1 - fails) * chance, earned)
        outcomes.add(wear, 0, broken, fails, -breakdown_cost)
        outcomes.add(wear, 1, wear // 2, 1.0, -repair_cost)
        outcomes.add(wear, 2, 0, 1.0, -replace_cost)
    outcomes.add(broken, 1, worst, 1.0, -repair_cost)
    outcomes.add(broken, 2, 0, 1.0, -replace_cost)
    story = "Running a worn machine earns less and risks a breakdown that costs what five good weeks earn."
    return outcomes.mdp(
        discount,
        start=np.eye(n_levels + 1)[0],
        state_names=[*(f"wear {wear}" for wear in range(n_levels)), "broken"],
        action_names=["operate", "repair", "replace"],
        scene=Scene("Machine replacement", story, "week", "euros"),
    )


def inventory(
    capacity: int = 20,
    max_order: int | None = None,
    demand: float = 5.0,
    discount: float = 0.98,
    price: float = 20.0,
    unit_cost: float = 10.0,
    order_cost: float = 25.0,
    holding_cost: float = 1.0,
    lost_sale_cost: float = 2.0,
) -> MDP:
    """A shop that reviews its stock every week: order some items, which arrive at once, then meet the week's demand.

    State: items on the shelf, 0 to ``capacity``. Action: how many to order, 0 to ``max_order`` (default: up to
    capacity), never more than fit. Demand is Poisson with mean ``demand`` items per week; what is not on the shelf is
    lost. In euros per week: sales at ``price``, purchases at ``unit_cost``, ``order_cost`` per order placed,
    ``holding_cost`` per item left, ``lost_sale_cost`` per customer sent away. All demands that empty the shelf share
    one outcome, with the mean number of lost sales. The numbers are illustrative. Without a limit on orders the best
    policy is of the textbook kind (s, S): at s or below, order up to S (Scarf, 1960).

    Examples
    --------
    >>> import cautious as ca
    >>> mdp = ca.worlds.inventory(capacity=5)
    >>> mdp.shape, int(mdp.allowed[5].sum())
    ((6, 6), 1)
    """
    capacity = as_count("capacity", capacity)
    max_order = capacity if max_order is None else as_count("max_order", max_order)
    if max_order > capacity:
        raise InputError(f"max_order is {max_order}; it cannot exceed capacity, which is {capacity}")
    demand = as_number("demand", demand, 0.0, open_ends="(")
    price, unit_cost = as_number("price", price, 0.0), as_number("unit_cost", unit_cost, 0.0)
    order_cost, holding_cost = as_number("order_cost", order_cost, 0.0), as_number("holding_cost", holding_cost, 0.0)
    lost_sale_cost = as_number("lost_sale_cost", lost_sale_cost, 0.0)
    chance, lost = _week(capacity, demand)
    filled, left = np.arange(capacity + 1)[:, None], np.arange(capacity + 1)[None, :]
    takings = price * (filled - left) - holding_cost * left - lost_sale_cost * lost[:, None] * (left == 0)
    ordered = np.tile(np.arange(max_order + 1), capacity + 1)
    stocked = np.repeat(np.arange(capacity + 1), max_order + 1) + ordered
    allowed = stocked <= capacity
    after = np.where(allowed, stocked, 0)
    paid = unit_cost * ordered + order_cost * (ordered > 0)
    transitions = sp.csr_array(chance)[after]
    rewards = transitions.copy()
    rewards.data = takings[np.repeat(after, np.diff(transitions.indptr)), transitions.indices]
    rewards.data -= np.repeat(paid, np.diff(transitions.indptr))
    story = "Order enough to sell, not so much that it sits on the shelf; every order has a fixed cost."
    return MDP(
        transitions,
        rewards,
        discount,
        allowed=allowed.reshape(capacity + 1, max_order + 1),
        state_names=[f"{stock} in stock" for stock in range(capacity + 1)],
        action_names=[f"order {number}" for number in range(max_order + 1)],
        scene=Scene("Inventory", story, "week", "euros"),
    )


def queue(
    capacity: int = 15,
    arrivals_per_hour: float = 12.0,
    services_per_hour: Sequence[float] = (10.0, 18.0),
    service_costs_per_hour: Sequence[float] = (20.0, 80.0),
    discount: float = 0.99,
    fee: float = 10.0,
    waiting_cost_per_hour: float = 2.0,
) -> MDP:
    """A service desk: admit or turn away arrivals, and choose how fast to serve.

    State: customers present, 0 to ``capacity``. Action: admit or reject, and one of the service speeds. Customers
    arrive and services end at exponential times; time is cut into slots of 1 / (arrival rate + fastest service rate)
    hours (uniformisation; two minutes with the default rates), and each slot holds at most one event. Rewards are
    euros per slot: ``fee`` for each admitted customer, ``waiting_cost_per_hour`` for each one present, and the cost of
    the chosen speed while somebody is served. A full desk must reject. The numbers are illustrative. The best policy
    admits below a threshold and serves faster when the queue is longer.

    Examples
    --------
    >>> import cautious as ca
    >>> mdp = ca.worlds.queue()
    >>> mdp.scene.step, mdp.action_names[0]
    ('slot of 2 minutes', 'admit, 10 per hour')
    """
    capacity = as_count("capacity", capacity)
    arrivals = as_number("arrivals_per_hour", arrivals_per_hour, 0.0, open_ends="(")
    speeds = _numbers("services_per_hour", services_per_hour)
    costs = _numbers("service_costs_per_hour", service_costs_per_hour)
    if len(speeds) != len(costs):
        raise InputError(f"service_costs_per_hour has {len(costs)} entries; expected {len(speeds)}, one per speed")
    if len(set(speeds)) != len(speeds):
        raise InputError(f"services_per_hour is {speeds}; every speed must be given once")
    fee, waiting = as_number("fee", fee), as_number("waiting_cost_per_hour", waiting_cost_per_hour, 0.0)
    slots_per_hour = arrivals + max(speeds)
    outcomes = Outcomes(capacity + 1, 2 * len(speeds))
    for present in range(capacity + 1):
        for action in range(2 * len(speeds)):
            admits, speed = action < len(speeds), action % len(speeds)
            if admits and present == capacity:
                continue
            cost = (waiting * present + costs[speed] * (present > 0)) / slots_per_hour
            comes = arrivals / slots_per_hour if admits else 0.0
            leaves = speeds[speed] / slots_per_hour if present > 0 else 0.0
            outcomes.add(present, action, present + 1, comes, fee - cost)
            outcomes.add(present, action, present - 1, leaves, -cost)
            # summed from rates, so that the fastest busy desk gets exactly zero
            nothing = max(speeds) - (speeds[speed] if present > 0 else 0.0) + (0.0 if admits else arrivals)
            outcomes.add(present, action, present, nothing / slots_per_hour, -cost)
    story = "Every customer pays, every minute of waiting costs, and the faster service is dearer."
    return outcomes.mdp(
        discount,
        start=np.eye(capacity + 1)[0],
        state_names=[f"{present} present" for present in range(capacity + 1)],
        action_names=[f"{word}, {speed:g} per hour" for word in ("admit", "reject") for speed in speeds],
        scene=Scene("Service desk", story, f"slot of {60 / slots_per_hour:g} minutes", "euros"),
    )


def _week(capacity: int, demand: float) -> tuple[Array, Array]:
    """(Y, S) chance that Y items leave S at the end of the week, and (Y,) the mean of lost sales when none is left."""
    filled = np.arange(capacity + 1)
    sold = filled[:, None] - filled[None, :]
    amount = np.maximum(sold, 0)
    chance = np.where(sold >= 0, np.exp(amount * np.log(demand) - demand - gammaln(amount + 1)), 0.0)
    empties = np.where(filled > 0, pdtrc(np.maximum(filled - 1, 0), demand), 1.0)
    chance[:, 0] = empties
    # E(D - y)+ = m P(D >= y) - y P(D > y) for Poisson D with mean m
    missing = demand * empties - filled * pdtrc(filled, demand)
    return chance, np.where(empties > 0, np.maximum(missing, 0.0) / np.where(empties > 0, empties, 1.0), 0.0)


def _numbers(name: str, values: Any) -> tuple[float, ...]:
    if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray) or len(values) == 0:
        raise InputError(f"{name} must be a non-empty sequence of numbers, found {values!r}")
    return tuple(as_number(f"{name}[{i}]", value, 0.0) for i, value in enumerate(values))
