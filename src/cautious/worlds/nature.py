"""Forest management: grow, cut, and sometimes burn."""

import math

from cautious.checks import as_count, as_number
from cautious.models.scene import Scene
from cautious.models.tabular import MDP
from cautious.worlds._outcomes import Outcomes

YEARS = 10
LARGEST_VOLUME = 600.0
GROWTH_PER_YEAR = 0.03


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
    n_ages = as_count("n_ages", n_ages, 2)
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
