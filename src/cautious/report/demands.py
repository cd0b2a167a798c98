"""Requirements (SafeSet, TaskFloors) in words: what is asked, what a policy reaches, and what is left."""

from collections.abc import Iterable, Sequence

import numpy as np

from cautious.models.tabular import MDP
from cautious.report.accuracy import shares_of_time
from cautious.report.carriers import Requirement, barrier_requirements
from cautious.report.text_tables import Table, busiest_states
from cautious.report.words import is_counted, number, percent, short, state_name
from cautious.solution import Solution
from cautious.status import Status

# more names are no sentence, and more sentences no paragraph
NAMES, SENTENCES = 6, 4
WORST_OUTSIDE = 3


def limit(one: Requirement) -> str:
    """What must be exceeded."""
    return f"{number(100 * one.limit, 6)} %" if one.is_share else number(one.limit, 6)


def reached(one: Requirement) -> str:
    """What is reached, with more digits where it would look like the limit."""
    if not one.is_share:
        return number(one.reached, 6)
    few = f"{100 * one.reached:.2f} %"
    return few if abs(one.reached - one.limit) >= 1e-4 else f"{number(100 * one.reached, 8)} %"


def subject(one: Requirement, mdp: MDP) -> str:
    """What is looked at; states by their names where those are few."""
    if not one.is_share:
        return one.name
    return f"share of time in {_states(one, mdp)}"


def _plain_name(one: Requirement) -> str:
    """Its name without that of the risk."""
    return one.name.partition(": ")[2]


def _states(one: Requirement, mdp: MDP) -> str:
    if one.states is None:
        return "the safe states"
    if len(one.states) > NAMES:
        return f"{len(one.states):,} states"
    return ", ".join(short(state_name(mdp, state)) for state in one.states)


def requirements_table(asked: Iterable[Requirement], mdp: MDP) -> Table:
    """Each requirement, its limit, and what is left."""
    rows = []
    for one in asked:
        slack = one.reached - one.limit
        left = f"{number(100 * slack, 3)} %" if one.is_share else number(slack, 3)
        rows.append((subject(one, mdp), limit(one), reached(one), left))
    return Table("", ("requirement", "must exceed", "reached", "slack"), tuple(rows))


def demand_words(solution: Solution, *, with_reached: bool = True) -> list[str]:
    """What is asked for and, unless there are several policies, what this one reaches; a paragraph."""
    asked = barrier_requirements(solution)
    who = "the policy that comes closest" if solution.status is Status.INFEASIBLE else "this policy"
    where = ""
    if is_counted(solution):
        where = " in the counted model" if solution.mdp.known_transitions else ", estimated"
    sentences = []
    for one in asked[:SENTENCES]:
        text = f"{_plain_name(one).capitalize()}: at least {limit(one)}"
        if one.is_share:
            text = f"At least {limit(one)} of the discounted time in {_states(one, solution.mdp)}"
        sentences.append(f"{text}; {who}{where}: {reached(one)}." if with_reached else f"{text}.")
    if len(asked) > SENTENCES:
        sentences.append(f"{len(asked) - SENTENCES:,} more requirements are of this kind.")
    return ["Required: " + " ".join(sentences)] if sentences else []


def broken_words(asked: Sequence[Requirement]) -> str:
    """That a policy breaks a requirement, and by how much; empty where it breaks none."""
    broken = [one for one in asked if not one.reached > one.limit]
    if not broken:
        return ""
    if len(asked) == 1:
        return f"breaks the requirement ({reached(broken[0])} instead of at least {limit(broken[0])})"
    text = f"breaks {len(broken)} of {len(asked)} requirements"
    return f"{text} ({_plain_name(broken[0])}: {reached(broken[0])} instead of at least {limit(broken[0])})"


def outside_words(solution: Solution) -> list[str]:
    """How much of the time that is allowed outside a safe set is used, and where."""
    sentences = []
    for one in barrier_requirements(solution):
        if not one.is_share or one.states is None:
            continue
        shares = shares_of_time(solution)
        shares[list(one.states)] = 0.0
        places = busiest_states(shares, WORST_OUTSIDE)
        worst = [f"{state_name(solution.mdp, state)} ({percent(float(shares[state]))})" for state in places]
        text = f"Outside: {percent(max(0.0, 1 - one.reached))} of the time, of {number(100 * (1 - one.limit), 6)} %"
        more = "most of it in " if np.count_nonzero(shares) > WORST_OUTSIDE else "in "
        sentences.append(f"{text} allowed{'; ' + more + ', '.join(worst) if worst else ''}.")
    return sentences
