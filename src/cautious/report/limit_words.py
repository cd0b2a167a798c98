"""What became of a limit, in the words and units of the model: shares of time as percentages, prices as money."""

import re
from dataclasses import replace

import numpy as np

from cautious.models.horizons import AVERAGE, TOTAL
from cautious.models.tabular import MDP
from cautious.report.words import amount, number, scene_of
from cautious.solution import ConstraintValue, Solution
from cautious.status import Status

CONSTRAINT = re.compile(r"(?P<measure>.*) (?P<sense><=|>=) [^ ]+")
# one measure with its name, if it has one; a sum of several is called as it was written
MEASURE = re.compile(r"(?P<kind>Exposure|Visits|Reach|Return)(?:\((?P<name>(?:(?!\) \+ ).)*)\))?")
WORDS = {
    "Exposure": ("time in {}", "the limited states"),
    "Visits": ("visits to {}", "the limited states"),
    "Reach": ("chance of ever entering {}", "the limited states"),
    "Return": ("{}", "the limited return"),
}
SHARES = ("Exposure", "Reach")
# relative to the bound; values are shown with four digits
SMALLEST_SHOWN_SLACK = 1e-4
SENSES = {"<=": "at most", ">=": "at least"}


def shown_constraints(solution: Solution) -> list[ConstraintValue]:
    """The constraints of a solution; until an end an exposure counts visits, and is called so."""
    if solution.horizon != TOTAL:
        return list(solution.constraints)
    return [replace(row, name=re.sub(r"\bExposure\b", "Visits", row.name)) for row in solution.constraints]


def is_share(row: ConstraintValue) -> bool:
    """Whether the limit is one on a share of time or on a probability."""
    found = MEASURE.fullmatch(_measure(row))
    return found is not None and found["kind"] in SHARES


def measure_words(row: ConstraintValue) -> str:
    """What is limited."""
    found = MEASURE.fullmatch(_measure(row))
    if found is None:
        return _measure(row)
    words, unnamed = WORDS[found["kind"]]
    return words.format(found["name"] or unnamed)


def _measure(row: ConstraintValue) -> str:
    found = CONSTRAINT.fullmatch(row.name)
    return row.name if found is None else found["measure"]


def measure_text(row: ConstraintValue, value: float) -> str:
    """A value of the measure."""
    return f"{number(100 * value, 4)} %" if is_share(row) else number(value, 6)


def value_text(row: ConstraintValue) -> str:
    """What the policy has; the bound itself where the slack is too small to be shown."""
    return measure_text(row, row.bound if is_tight(row) and row.slack >= 0 else row.value)


def sense_words(row: ConstraintValue) -> str:
    """At most, or at least."""
    found = CONSTRAINT.fullmatch(row.name)
    return SENSES["<=" if found is None else found["sense"]]


def bound_words(row: ConstraintValue) -> str:
    """The limit: time in broken at most 2 %."""
    return f"{measure_words(row)} {sense_words(row)} {measure_text(row, row.bound)}"


def is_tight(row: ConstraintValue) -> bool:
    """Whether the slack is too small to be shown; beside a bound of zero a number is small by itself."""
    size = max(abs(row.bound), abs(row.value), 0.0 if row.bound != 0 or is_share(row) else 1.0)
    return abs(row.slack) <= SMALLEST_SHOWN_SLACK * size


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


def limit_words(row: ConstraintValue, mdp: MDP, gap: float, is_policy: bool = True) -> str:
    """The limit, what the policy has, whether it keeps the limit, and what more room is worth, up to the gap.

    Where no policy keeps all limits (``is_policy`` False), room is worth nothing that could be said.
    """
    verdict = "kept" if row.slack >= 0 else "NOT kept"
    limit = f"{sense_words(row)} {measure_text(row, row.bound)}"
    text = f"{measure_words(row)} {value_text(row)}, {limit}: {verdict}"
    if not is_policy:
        return text
    worth = "more room is worth nothing" if is_idle(row, gap) else price_words(row, mdp)
    return f"{text}; {worth}" if worth else text


def impossible_words(solution: Solution) -> str:
    """Of a problem without a policy that keeps all limits: which cannot be kept, and what each can reach alone.

    Empty where the conflict is not one of limits only: then the certificate says what cannot be met.
    """
    facts, rows = solution.certificate.facts, {row.name: row for row in solution.constraints}
    best, names = facts.get("best_alone", []), facts.get("requirements", [])
    if solution.status is not Status.INFEASIBLE or len(best) != len(names) or not all(name in rows for name in names):
        return ""
    shown = {one.name: again for one, again in zip(solution.constraints, shown_constraints(solution), strict=True)}
    named = [shown[name] for name in names]
    asked = " and ".join(bound_words(row) for row in named)
    if len(named) == 1:
        (row,), (reached,) = named, best
        least = "at least" if sense_words(row) == "at most" else "at most"
        return f"No policy has {asked}: every policy has {least} {measure_text(row, reached)}."
    alone = [
        f"{measure_words(row)} can be {measure_text(row, reached)} at best"
        for row, reached in zip(named, best, strict=True)
    ]
    return f"No policy has {asked}. Each alone: {'; '.join(alone)}."
