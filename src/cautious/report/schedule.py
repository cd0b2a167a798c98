"""What a solution with a finite horizon does when: its policy and its time, step by step."""

from dataclasses import dataclass
from itertools import groupby

import numpy as np

from cautious.arrays import Array, Indices
from cautious.horizons.visits import over_time
from cautious.models.tabular import MDP
from cautious.report.accuracy import shares_of_time
from cautious.report.text_tables import Table, busiest_states, likeliest_actions
from cautious.report.words import percent, scene_of, state_name
from cautious.solution import Solution

# rows of pictures and tables
MAX_STATES = 20
# a state is drawn at a step if at least this share of the step is spent there
MIN_SHARE = 1e-9
NOT_VISITED = -1


@dataclass(frozen=True)
class OverSteps:
    """The most visited states (k,), and for each step: their shares of the time (T, k), their main actions (T, k).

    An action is ``NOT_VISITED`` where the state is not visited at that step; ``chance`` (T, k) is that of the action.
    """

    states: Indices
    share: Array
    action: Indices
    chance: Array


def over_steps(solution: Solution) -> OverSteps:
    """What the policy of a solution with a finite horizon does, step by step."""
    mass = over_time(solution.occupancy).sum(axis=1)
    states = np.sort(np.array(busiest_states(mass, MAX_STATES), dtype=np.int64))
    each = solution.occupancy.sum(axis=2)
    total = each.sum(axis=1, keepdims=True)
    # with discount 0 only the first step weighs anything
    share = np.divide(each, total, out=np.zeros_like(each), where=total > 0)[:, states]
    chosen = solution.policy[:, states]
    action = np.where(share > MIN_SHARE, np.argmax(chosen, axis=2), NOT_VISITED)
    return OverSteps(states, share, action, chosen.max(axis=2))


def schedule_table(solution: Solution) -> Table:
    """What is done in each state and when: steps that follow each other and do the same are one entry."""
    found, mdp = over_steps(solution), solution.mdp
    shares = shares_of_time(solution)
    rows = [
        (state_name(mdp, state), percent(float(shares[state])), _schedule(solution, state, found.action[:, place]))
        for place, state in enumerate(found.states.tolist())
    ]
    return Table("", ("state", "share of time", f"what is done, {step_word(mdp)} by {step_word(mdp)}"), tuple(rows))


def _schedule(solution: Solution, state: int, actions: Indices) -> str:
    """Such as "1 to 18: operate; 19 to 24: replace"; the first step is number 1."""
    policy, mdp = solution.policy, solution.mdp

    def words(step: int) -> str | None:
        return None if actions[step] == NOT_VISITED else likeliest_actions(mdp, policy[step], state)

    runs = [(text, list(group)) for text, group in groupby(range(len(actions)), words) if text is not None]
    if len(runs) == 1:
        return runs[0][0]
    return "; ".join(f"{_span(steps[0] + 1, steps[-1] + 1)}: {text}" for text, steps in runs)


def _span(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first} to {last}"


def step_word(mdp: MDP) -> str:
    """What a step is called, in one word: month, slot."""
    return scene_of(mdp).step.split(" ")[0] or "step"
