"""Requirements of barrier risks (SafeSet, TaskFloors): what is required, what a policy reaches, and its wording."""

from collections.abc import Iterable, Sequence

import numpy as np

from cautious.models.tabular import MDP
from cautious.report.accuracy import shares_of_time
from cautious.report.barriers import Requirement, barrier_requirements
from cautious.report.limit_words import (
    is_idle,
    is_share,
    is_tight,
    measure_text,
    measure_words,
    price_of_room,
    sense_words,
    shown_constraints,
    value_text,
)
from cautious.report.text_tables import Table, busiest_states
from cautious.report.words import amount, is_counted, number, percent, state_name, time_words
from cautious.solution import Solution
from cautious.status import Status

MAX_SENTENCES = 4
MAX_STATES_OUTSIDE = 3


def requirements_table(asked: Iterable[Requirement], mdp: MDP) -> Table:
    """Each requirement, its limit, what is reached and the slack."""
    rows = []
    for one in asked:
        name = f"share of time in {one.states_text(mdp)}" if one.is_share else one.name
        slack = one.reached - one.limit
        left = f"{number(100 * slack, 3)} %" if one.is_share else number(slack, 3)
        rows.append((name, one.limit_text, one.reached_text, left))
    return Table("", ("requirement", "must exceed", "reached", "slack"), tuple(rows))


def constraints_table(solution: Solution) -> Table:
    """Each limit, what the policy reaches, the slack, and what more room is worth.

    A slack below a ten-thousandth of the bound is shown as 0, and so is the price of a larger one if both together
    are within the gap.
    """
    rows = []
    for one in shown_constraints(solution):
        price = 0.0 if is_idle(one, solution.gap) else price_of_room(one)
        room = "percentage point" if is_share(one) else "unit"
        worth = f"{amount(price, solution.mdp, 6)} per {room}" if np.isfinite(price) else ""
        limit = f"{measure_words(one)} {sense_words(one)} {measure_text(one, one.bound)}"
        rows.append((limit, value_text(one), "0" if is_tight(one) else measure_text(one, one.slack), worth))
    return Table("", ("limit", "reached", "slack", "more room is worth"), tuple(rows))


def requirement_words(solution: Solution, *, with_reached: bool = True) -> list[str]:
    """What is required and, unless there are several policies, what this one reaches; a paragraph."""
    asked = barrier_requirements(solution)
    who = "the policy that comes closest" if solution.status is Status.INFEASIBLE else "this policy"
    where = ""
    if is_counted(solution):
        where = " in the counted model" if solution.mdp.known_transitions else ", estimated"
    sentences = []
    for one in asked[:MAX_SENTENCES]:
        text = f"{one.plain_name.capitalize()}: at least {one.limit_text}"
        if one.is_share:
            text = f"At least {one.limit_text} of the {time_words(solution.mdp)} in {one.states_text(solution.mdp)}"
        sentences.append(f"{text}; {who}{where}: {one.reached_text}." if with_reached else f"{text}.")
    if len(asked) > MAX_SENTENCES:
        sentences.append(f"{len(asked) - MAX_SENTENCES:,} more requirements are of this kind.")
    return ["Required: " + " ".join(sentences)] if sentences else []


def violation_words(asked: Sequence[Requirement]) -> str:
    """That a policy violates requirements, and by how much; empty where it violates none."""
    violated = [one for one in asked if not one.reached > one.limit]
    if not violated:
        return ""
    first = violated[0]
    amounts = f"{first.reached_text} instead of at least {first.limit_text}"
    if len(asked) == 1:
        return f"breaks the requirement ({amounts})"
    return f"breaks {len(violated)} of {len(asked)} requirements ({first.plain_name}: {amounts})"


def outside_words(solution: Solution) -> list[str]:
    """How much of the time that is allowed outside a safe set is used, and in which states."""
    sentences = []
    for one in barrier_requirements(solution):
        if one.states is None:
            continue
        shares = shares_of_time(solution)
        shares[list(one.states)] = 0.0
        places = busiest_states(shares, MAX_STATES_OUTSIDE)
        worst = ", ".join(f"{state_name(solution.mdp, state)} ({percent(float(shares[state]))})" for state in places)
        text = f"Outside: {percent(max(0.0, 1 - one.reached))} of the time, of {number(100 * (1 - one.limit), 6)} %"
        more = "most of it in " if np.count_nonzero(shares) > MAX_STATES_OUTSIDE else "in "
        sentences.append(f"{text} allowed{'; ' + more + worst if worst else ''}.")
    return sentences
