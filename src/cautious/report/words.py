"""How numbers, units, states, actions and risks are written on pages and in tables."""

import math
import re
from typing import NamedTuple, TypeGuard

from cautious.models.logged import LoggedMDP
from cautious.models.scene import Scene
from cautious.models.tabular import MDP
from cautious.solution import Solution

# larger numbers are easier to read with a power of ten than with all their digits
LARGEST_WITH_ALL_DIGITS = 1e8
# a smaller share of time is rounding
MIN_MIXED_SHARE = 1e-9


def number(value: float | None, digits: int = 5) -> str:
    """A number in few digits; "n/a" where it is missing, a sign where it is infinite."""
    if value is None or math.isnan(value):
        return "n/a"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    group = "," if abs(value) >= 1e4 else ""
    # 99999.6 with five digits is written 100,000 and not 1e+05; and no zero is negative
    whole = 10**digits - 0.5 <= abs(value) < LARGEST_WITH_ALL_DIGITS
    return f"{value:{group}.0f}" if whole else f"{value + 0.0:{group}.{digits}g}"


def number_or_bounds(value: float | tuple[float, float]) -> str:
    """A number, or the two numbers between which it is."""
    if not isinstance(value, tuple):
        return number(value)
    low, high = (number(end) for end in value)
    return low if low == high else f"{low} to {high}"


def amount(value: float | None, mdp: MDP, digits: int = 5) -> str:
    """A number of units of reward, with the unit where the model names one."""
    text = number(value, digits)
    return text if value is None or not math.isfinite(value) else text + unit_after(mdp, " ")


def unit_after(mdp: MDP, before: str = ", ") -> str:
    """The unit of reward, for the end of a text; empty where the model names none."""
    unit = scene_of(mdp).reward_unit
    return "" if unit in ("reward", "") else before + unit


def time_steps(count: str, mdp: MDP) -> str:
    """A number of steps, by the name of a step: 20 days, 3 slots of 20 minutes."""
    first, *rest = scene_of(mdp).step.split(" ")
    if not re.fullmatch(r"[A-Za-z]+", first):
        return f"{count} steps"
    if re.search(r"[^aeiou]y$", first):
        first = first[:-1] + "ie"
    elif re.search(r"(s|x|ch|sh)$", first):
        first += "e"
    return " ".join([count, f"{first}s", *rest])


def time_words(mdp: MDP) -> str:
    """What shares of time are shares of, for the end of "share of ..."."""
    match mdp.horizon:
        case None:
            return "discounted time"
        case "average":
            return "time in the long run"
        case "total":
            return "the steps until the end"
        case steps:
            return f"{'discounted ' * (mdp.discount < 1)}time over {time_steps(f'{steps:,}', mdp)}"


def return_words(mdp: MDP) -> str:
    """How the rewards of a return are added up, for a note behind it."""
    match mdp.horizon:
        case None:
            return "discounted"
        case "average":
            return f"per {scene_of(mdp).step or 'step'}, in the long run"
        case "total":
            return "in total, until the end"
        case steps:
            return f"{'discounted, ' * (mdp.discount < 1)}over {time_steps(f'{steps:,}', mdp)}"


def return_label(mdp: MDP) -> str:
    """The expected return, for an axis."""
    unit = scene_of(mdp).reward_unit
    if mdp.horizon is None:
        return f"expected discounted return ({unit})"
    return f"expected return ({unit}, {return_words(mdp)})"


def percent(share: float) -> str:
    """A share as a percentage."""
    return "< 0.01 %" if 0 < share < 1e-4 else f"{100 * share:.2f} %"


def short(name: str, longest: int = 28) -> str:
    """A name that fits a drawing."""
    return name if len(name) <= longest else name[: longest - 1] + "…"


def scene_of(mdp: MDP) -> Scene:
    """The model's scene, or a plain one; of a model with memory, that of the model without."""
    scene = mdp.without_memory.scene
    return Scene(title=f"A model with {mdp.n_states:,} states") if scene is None else scene


def is_neutral(solution: Solution) -> bool:
    """Whether risk played no part."""
    return solution.caution == 0 or solution.risk_label in ("none", "")


def state_name(mdp: MDP, state: int) -> str:
    """The state's name, its place on the map, or its number."""
    if mdp.state_names is not None:
        return mdp.state_names[state]
    if fits_grid(mdp):
        row, column = scene_of(mdp).cells[state]
        return f"row {row}, column {column}"
    return f"state {state}"


def action_name(mdp: MDP, action: int) -> str:
    """The action's name, or its number."""
    return f"action {action}" if mdp.action_names is None else mdp.action_names[action]


def fits_grid(mdp: MDP) -> bool:
    """Whether the scene has a map with one cell per state."""
    return mdp.scene is not None and bool(mdp.scene.grid) and len(mdp.scene.cells) == mdp.n_states


class LabelledRisk(NamedTuple):
    """A term of a risk's label: of ``2*KL (states)`` the weight is "2", the name "KL (states)", the kind "KL"."""

    weight: str
    name: str
    kind: str


def risks_in(label: str) -> list[LabelledRisk]:
    """The terms of a label such as ``2*KL (states) + Variance``, which a solution from a file knows too."""
    parts = [part.rpartition("*") for part in label.split(" + ")]
    return [LabelledRisk(weight, name, re.split(r"[ (]", name, maxsplit=1)[0]) for weight, _, name in parts]


def has_only_barriers(solution: Solution) -> bool:
    """Whether the risk consists of requirements alone."""
    return is_barrier_label(solution.risk_label)


def is_barrier_label(label: str) -> bool:
    """Whether a label such as ``SafeSet + TaskFloors`` is that of requirements alone."""
    return all(risk.kind in ("SafeSet", "TaskFloors") for risk in risks_in(label))


def is_of_return(solution: Solution) -> bool:
    """Whether its risk is one of the return of an episode."""
    kinds = [one.kind for one in risks_in(solution.risk_label)]
    # ca.Return is the expected return of another table, which time spent tells
    return not is_neutral(solution) and any(kind.startswith("Return") and kind != "Return" for kind in kinds)


def is_logged(mdp: MDP) -> TypeGuard[LoggedMDP]:
    """Whether the model was counted from a log."""
    return isinstance(mdp, LoggedMDP)


def is_learned(solution: Solution) -> bool:
    """Whether it comes from samples: its model is the counted one, and its figures are estimates."""
    return solution.certificate.kind == "estimated"


def is_deterministic(solution: Solution) -> bool:
    """Whether the best policy with one action in every state was asked for."""
    return "mixed_bound" in solution.certificate.facts


def is_mixed(solution: Solution) -> bool:
    """Whether the policy takes several actions in a state where it spends time."""
    pairs = solution.certificate.visits.pairs
    return bool(((pairs > MIN_MIXED_SHARE).sum(axis=-1) > 1).any())


def is_counted(solution: Solution) -> bool:
    """Whether its figures are those of a model that was counted."""
    return is_learned(solution) or is_logged(solution.mdp)


def source(solution: Solution) -> str:
    """Where computed figures come from."""
    return "counted model" if is_counted(solution) else "exact"
