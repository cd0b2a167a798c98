"""What a page needs to let walkers follow a policy: rows of the transitions, the policy of each step, where they start.

They walk in the model that was solved. One with memory, of what has been entered, has several states for one place.
"""

import math
from typing import Any

import numpy as np

from cautious.arrays import Indices
from cautious.errors import InputError
from cautious.models.horizons import AVERAGE, TOTAL
from cautious.models.tabular import MDP
from cautious.report.over_steps import as_one_table
from cautious.solution import Solution
from cautious.studio.scenario import Scenario

LARGEST_ROWS = 1_000_000
# entries of the policies of all steps; beyond, one policy stands for all steps
LARGEST_POLICIES = 4_000_000
LONGEST_WALK = 1000
# a discounted walk is over when what follows has this share of the weight
LAST_SHARE = 0.01


def walk_arrays(solution: Solution, scenario: Scenario) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
    """Facts and arrays of a walk: ``pointer``, ``next``, ``chance`` are the rows of the pairs."""
    mdp = solution.mdp
    pointer, following, chance = mdp.csr
    if len(following) > LARGEST_ROWS:
        raise InputError(
            f"walkers need at most {LARGEST_ROWS:,} transitions, and this model has {len(following):,}; "
            "its figures and its policy are shown without them"
        )
    by_step = solution.policy.ndim == 3 and solution.policy.size <= LARGEST_POLICIES
    policy = solution.policy if by_step else as_one_table(solution).policy
    place = np.arange(mdp.n_states) if mdp.memory is None else mdp.memory.origin
    facts = {
        "states": mdp.n_states,
        "actions": mdp.n_actions,
        "steps": policy.shape[0] if by_step else 1,
        "longest": longest_walk(mdp),
        "one_for_all_steps": solution.policy.ndim == 3 and not by_step,
    }
    arrays = {
        "pointer": pointer.astype("<u4"),
        "next": following.astype("<u4"),
        "chance": chance.astype("<f4"),
        "start": mdp.start.astype("<f4"),
        "policy": policy.astype("<f4").ravel(),
        "place": place.astype("<u4"),
        "danger": scenario.danger.astype("<u4"),
        "ends": never_left(mdp).astype("<u4"),
    }
    return facts, arrays


def longest_walk(mdp: MDP) -> int | None:
    """Steps after which a walk is over; None: it goes on."""
    if isinstance(mdp.horizon, int):
        return mdp.horizon
    if mdp.horizon == AVERAGE:
        return None
    if mdp.horizon == TOTAL:
        return LONGEST_WALK
    if mdp.discount == 0:
        return 1
    return min(LONGEST_WALK, math.ceil(math.log(LAST_SHARE) / math.log(mdp.discount)))


def never_left(mdp: MDP) -> Indices:
    """States in which every action stays."""
    pairs = np.arange(mdp.n_states * mdp.n_actions)
    stays = np.asarray(mdp.transitions[pairs, pairs // mdp.n_actions]).reshape(mdp.shape) > 1 - 1e-12
    return np.flatnonzero((stays | ~mdp.allowed).all(axis=1))
