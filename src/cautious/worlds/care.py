"""A clinic with more patients than time: whom to treat next."""

import numpy as np

from cautious.arrays import Array
from cautious.checks import as_count, as_number
from cautious.errors import InputError
from cautious.models.scene import Scene
from cautious.models.tabular import MDP
from cautious.worlds._outcomes import Outcomes

URGENT, ROUTINE, PAUSE = 0, 1, 2


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
    max_urgent, max_routine = as_count("max_urgent", max_urgent), as_count("max_routine", max_routine)
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
    if mdp.action_names != ("treat urgent", "treat routine", "pause"):
        raise InputError(f"the tasks belong to a clinic, found a model with the actions {mdp.action_names}")
    tasks = np.zeros((2, *mdp.shape))
    tasks[URGENT, :, URGENT] = mdp.allowed[:, URGENT]
    tasks[ROUTINE, :, ROUTINE] = mdp.allowed[:, ROUTINE]
    return tasks
