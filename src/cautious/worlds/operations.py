"""Models from practice, with illustrative numbers in real units.

A machine that wears, a shop that orders, a desk that serves, a clinic that treats, a forest that grows, a holding that
is sold.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln, pdtrc

from cautious.arrays import Array
from cautious.checks import as_count, as_number, fitting_memory, is_listable
from cautious.errors import InputError, shown
from cautious.models.scene import Scene
from cautious.models.tabular import MDP
from cautious.worlds._outcomes import MOST_LEVELS, Outcomes

# actions of the clinic
URGENT, ROUTINE, PAUSE = 0, 1, 2
# age classes of the forest in years; its largest volume in cubic metres per hectare
YEARS = 10
LARGEST_VOLUME = 600.0
GROWTH_PER_YEAR = 0.03


@fitting_memory("this world")
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
    n_levels = as_count("n_levels", n_levels, 2, MOST_LEVELS)
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


@fitting_memory("this world")
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
    capacity = as_count("capacity", capacity, 1, MOST_LEVELS)
    max_order = capacity if max_order is None else as_count("max_order", max_order, 1, MOST_LEVELS)
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


@fitting_memory("this world")
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
    capacity = as_count("capacity", capacity, 1, MOST_LEVELS)
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


@fitting_memory("this world")
def clinic(
    max_urgent: int = 5,
    max_routine: int = 8,
    urgent_arrivals: float = 0.55,
    routine_arrivals: float = 0.7,
    deterioration: float = 0.02,
    discount: float = 0.97,
    urgent_benefit: float = 5.0,
    routine_benefit: float = 3.0,
    urgent_harm: float = 0.5,
    routine_harm: float = 0.05,
) -> MDP:
    """Two queues of patients and one treatment per slot of twenty minutes.

    State: urgent and routine patients waiting, capped (beyond the cap patients are sent to another clinic). Action:
    treat an urgent patient, a routine one, or pause. After the treatment each waiting routine patient may get worse
    with probability ``deterioration``, at most one per slot, and then waits as an urgent one; then one urgent and one
    routine patient arrive with the given probabilities. With the defaults there are more patients than slots.
    Rewards are points of quality-adjusted benefit per slot: the benefit of the patient treated, minus the harm of
    each patient waiting at the start of the slot. The numbers are illustrative. ``clinic_tasks`` counts the patients
    treated of each class, for ``TaskFloors`` and ``WorstTask``. Episodes start with empty queues.

    Examples
    --------
    >>> import cautious as ca
    >>> mdp = ca.worlds.clinic()
    >>> mdp.shape, mdp.action_names
    ((54, 3), ('treat urgent', 'treat routine', 'pause'))
    """
    max_urgent, max_routine = (
        as_count("max_urgent", max_urgent, 1, MOST_LEVELS),
        as_count("max_routine", max_routine, 1, MOST_LEVELS),
    )
    urgent_arrivals = as_number("urgent_arrivals", urgent_arrivals, 0.0, 1.0)
    routine_arrivals = as_number("routine_arrivals", routine_arrivals, 0.0, 1.0)
    deterioration = as_number("deterioration", deterioration, 0.0, 1.0)
    benefits = as_number("urgent_benefit", urgent_benefit), as_number("routine_benefit", routine_benefit), 0.0
    urgent_harm, routine_harm = as_number("urgent_harm", urgent_harm, 0.0), as_number("routine_harm", routine_harm, 0.0)
    width = max_routine + 1
    outcomes = Outcomes((max_urgent + 1) * width, 3)
    for u, r in np.ndindex(max_urgent + 1, width):
        for action in (URGENT, ROUTINE, PAUSE):
            u_left, r_left = u - (action == URGENT), r - (action == ROUTINE)
            if u_left < 0 or r_left < 0:
                continue
            reward = benefits[action] - urgent_harm * u - routine_harm * r
            worse = 1 - (1 - deterioration) ** r_left
            for turned, turns in ((0, 1 - worse), (1, worse)):
                for new_u, comes_u in ((0, 1 - urgent_arrivals), (1, urgent_arrivals)):
                    for new_r, comes_r in ((0, 1 - routine_arrivals), (1, routine_arrivals)):
                        u_next = min(u_left + turned + new_u, max_urgent)
                        r_next = min(r_left - turned + new_r, max_routine)
                        chance = turns * comes_u * comes_r
                        outcomes.add(u * width + r, action, u_next * width + r_next, chance, reward)
    story = "Urgent patients gain most, routine ones get worse while they wait, and there is not enough time for all."
    return outcomes.mdp(
        discount,
        start=np.eye((max_urgent + 1) * width)[0],
        state_names=[f"{u} urgent, {r} routine" for u, r in np.ndindex(max_urgent + 1, width)],
        action_names=["treat urgent", "treat routine", "pause"],
        scene=Scene("Clinic", story, "slot of 20 minutes", "benefit points"),
    )


def clinic_tasks(mdp: MDP) -> Array:
    """Task rewards (2, S, A) of a clinic: urgent patients treated per slot, and routine ones.

    Examples
    --------
    >>> import cautious as ca
    >>> ca.worlds.clinic_tasks(ca.worlds.clinic()).shape
    (2, 54, 3)
    """
    if not isinstance(mdp, MDP) or mdp.action_names != ("treat urgent", "treat routine", "pause"):
        raise InputError(f"the tasks belong to a clinic, found {shown(mdp)}")
    tasks = np.zeros((2, *mdp.shape))
    tasks[URGENT, :, URGENT] = mdp.allowed[:, URGENT]
    tasks[ROUTINE, :, ROUTINE] = mdp.allowed[:, ROUTINE]
    return tasks


@fitting_memory("this world")
def forest(
    n_ages: int = 12,
    discount: float = 0.82,
    fire: float = 0.05,
    timber_price: float = 60.0,
    planting_cost: float = 2000.0,
) -> MDP:
    """One hectare of even-aged forest: every decade, let it grow or cut it and plant again.

    State: age class of ten years; the last one holds everything older. A stand of age t years carries
    600 * (1 - exp(-0.03 t))^3 cubic metres per hectare (a Chapman-Richards curve for a productive spruce site);
    cutting earns ``timber_price`` euros per cubic metre minus ``planting_cost`` euros per hectare. A stand left to
    grow burns with probability ``fire`` per decade: nothing is sold, and it is planted again. The discount 0.82 per
    decade is 2 % a year. Rewards: euros per hectare per decade; the numbers are illustrative. Episodes start at any
    age. Without risk the answer is Faustmann's rotation: cut at one age, found by comparing rotations.

    Examples
    --------
    >>> import cautious as ca
    >>> ca.worlds.forest().state_names[:2]
    ('0-9 years', '10-19 years')
    """
    n_ages = as_count("n_ages", n_ages, 2, MOST_LEVELS)
    fire = as_number("fire", fire, 0.0, 1.0)
    timber_price, planting_cost = (
        as_number("timber_price", timber_price, 0.0),
        as_number("planting_cost", planting_cost),
    )
    last = n_ages - 1
    outcomes = Outcomes(n_ages, 2)
    for age in range(n_ages):
        outcomes.add(age, 0, min(age + 1, last), 1 - fire, 0.0)
        outcomes.add(age, 0, 0, fire, -planting_cost)
        volume = LARGEST_VOLUME * (1 - math.exp(-GROWTH_PER_YEAR * YEARS * age)) ** 3
        outcomes.add(age, 1, 0, 1.0, timber_price * volume - planting_cost)
    names = [f"{YEARS * age}-{YEARS * age + YEARS - 1} years" for age in range(last)]
    return outcomes.mdp(
        discount,
        state_names=[*names, f"{YEARS * last} years or more"],
        action_names=["wait", "cut"],
        scene=Scene(
            "Forest", "Old timber is worth more, but it can burn, and money has a price.", "decade", "euros per ha"
        ),
    )


@fitting_memory("this world")
def liquidation(
    n_blocks: int = 10,
    n_prices: int = 9,
    max_sale: int = 4,
    discount: float = 0.95,
    tick: float = 2.0,
    impact: float = 0.3,
    pressure: float = 0.02,
    financing: float = 0.3,
) -> MDP:
    """Sell a holding of ``n_blocks`` blocks of 1000 shares, at most ``max_sale`` blocks a day.

    State: blocks left and price level; levels are ``tick`` euros a share apart, around 100 euros, so one level is
    worth ``tick`` thousand euros per block. The price moves one level up or down each day, with even chances that
    shift by ``pressure`` against the seller per block sold; at the ends of the scale the outward move is lost. The
    reward is the day's gain or loss in thousand euros, marked to market: blocks kept times the price move, minus
    ``impact`` * (blocks sold)^2 for selling in a hurry, minus ``financing`` per block kept. This is the trade-off of
    Almgren and Chriss (2001): selling slowly saves impact and keeps the price risk. The numbers are illustrative.
    Episodes start with all blocks at the middle price.

    Examples
    --------
    >>> import cautious as ca
    >>> mdp = ca.worlds.liquidation()
    >>> mdp.shape, mdp.scene.reward_unit
    ((99, 5), 'thousand euros')
    """
    n_blocks, n_prices = as_count("n_blocks", n_blocks, 1, MOST_LEVELS), as_count("n_prices", n_prices, 3, MOST_LEVELS)
    max_sale = as_count("max_sale", max_sale, 1, MOST_LEVELS)
    tick, impact = as_number("tick", tick, 0.0), as_number("impact", impact, 0.0)
    pressure, financing = as_number("pressure", pressure, 0.0), as_number("financing", financing, 0.0)
    if 0.5 + pressure * max_sale > 1:
        raise InputError(f"pressure is {pressure}; with max_sale {max_sale} it must be at most {0.5 / max_sale:g}")
    outcomes = Outcomes((n_blocks + 1) * n_prices, max_sale + 1)
    for blocks in range(n_blocks + 1):
        for price in range(n_prices):
            here = blocks * n_prices + price
            for sold in range(min(max_sale, blocks) + 1):
                kept = blocks - sold
                cost = impact * sold**2 + financing * kept
                for move, chance in ((1, 0.5 - pressure * sold), (-1, 0.5 + pressure * sold)):
                    there = min(max(price + move, 0), n_prices - 1)
                    gain = kept * tick * (there - price) - cost
                    outcomes.add(here, sold, kept * n_prices + there, chance, gain)
    start = np.zeros((n_blocks + 1) * n_prices)
    start[n_blocks * n_prices + n_prices // 2] = 1.0
    levels = [100 + tick * (price - n_prices // 2) for price in range(n_prices)]
    return outcomes.mdp(
        discount,
        start=start,
        state_names=[
            f"{b} blocks, level {p} ({level:g})" for b in range(n_blocks + 1) for p, level in enumerate(levels)
        ],
        action_names=[f"sell {sold}" for sold in range(max_sale + 1)],
        scene=Scene(
            "Liquidation", "Sell at once and move the price, or wait and bear its swings.", "day", "thousand euros"
        ),
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
    if not isinstance(values, Sequence | np.ndarray) or not is_listable(values) or len(values) == 0:
        raise InputError(f"{name} must be a non-empty sequence of numbers, found {shown(values)}")
    return tuple(as_number(f"{name}[{i}]", value, 0.0) for i, value in enumerate(values))
