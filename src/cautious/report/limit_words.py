"""What became of a limit, in the words and units of the model: shares of time as percentages, prices as money."""

import re
from dataclasses import replace

import numpy as np

from cautious.models.horizons import AVERAGE, TOTAL
from cautious.models.tabular import MDP
from cautious.report.words import amount, number, scene_of
from cautious.solution import ConstraintValue, Solution

EXPOSURE = re.compile(r"Exposure(?:\((?P<states>.*)\))? (?:<=|>=) [^ ]+$")
# relative to the bound; values are shown with four digits
SMALLEST_SHOWN_SLACK = 1e-4
SENSES = {"<=": "at most", ">=": "at least"}


def shown_constraints(solution: Solution) -> list[ConstraintValue]:
    """The constraints of a solution; until an end an exposure counts visits, and is called so."""
    if solution.horizon != TOTAL:
        return list(solution.constraints)
    return [replace(row, name=re.sub(r"\bExposure\b", "Visits", row.name)) for row in solution.constraints]


def is_share(row: ConstraintValue) -> bool:
    """Whether the limit is one on the share of time in some states."""
    return EXPOSURE.fullmatch(row.name) is not None


def measure_words(row: ConstraintValue) -> str:
    """What is limited."""
    found = EXPOSURE.fullmatch(row.name)
    if found is None:
        return re.split(" (?:<=|>=) ", row.name)[0]
    return f"time in {found['states'] or 'the limited states'}"


def measure_text(row: ConstraintValue, value: float) -> str:
    """A value of the measure."""
    return f"{number(100 * value, 4)} %" if is_share(row) else number(value, 6)


def sense_words(row: ConstraintValue) -> str:
    """At most, or at least."""
    return next(words for sign, words in SENSES.items() if f" {sign} " in row.name)


def is_tight(row: ConstraintValue) -> bool:
    """Whether the slack is too small to be shown."""
    return abs(row.slack) <= SMALLEST_SHOWN_SLACK * max(abs(row.bound), abs(row.value))


def is_idle(row: ConstraintValue, gap: float) -> bool:
    """Whether there is room to spare: slack and price together are within the gap."""
    return not is_tight(row) and 0 <= row.slack * row.price <= gap


def price_of_room(row: ConstraintValue) -> float:
    """What one more unit of room is worth, at most; of a share of time, one more percentage point."""
    return row.price / 100 if is_share(row) else row.price


def price_words(row: ConstraintValue, mdp: MDP) -> str:
    """The price with its unit, in all and per step; empty where nothing is proved."""
    price = price_of_room(row)
    if not np.isfinite(price):
        return ""
    room = "percentage point" if is_share(row) else "unit of room"
    per_step, step = "", f"per {scene_of(mdp).step}"
    if mdp.horizon == AVERAGE:
        per_step = f" {step}"
    elif price > 0 and scene_of(mdp).reward_unit not in ("reward", "") and mdp.horizon != TOTAL:
        per_step = f" ({amount(mdp.normaliser * price, mdp, 4)} {step})"
    return f"one more {room} is worth {amount(price, mdp, 4)}{per_step}"


def limit_words(row: ConstraintValue, mdp: MDP, gap: float) -> str:
    """The limit, what the policy has, whether it keeps the limit, and what more room is worth, up to the gap."""
    verdict = "kept" if row.slack >= 0 else "NOT kept"
    limit = f"{sense_words(row)} {measure_text(row, row.bound)}"
    text = f"{measure_words(row)} {measure_text(row, row.value)}, {limit}: {verdict}"
    worth = "more room is worth nothing" if is_idle(row, gap) else price_words(row, mdp)
    return f"{text}; {worth}" if worth else text
