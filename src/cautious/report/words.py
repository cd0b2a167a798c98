"""Plain words for the facts of a Solution: numbers, names, units, the problem and the proof."""

import math
import re
from typing import TypeGuard

import numpy as np

from cautious.episodes.demonstrations import Demonstrations
from cautious.models.logged import LoggedMDP
from cautious.models.scene import Scene
from cautious.models.tabular import MDP
from cautious.risks.base import terms_of
from cautious.risks.divergence import KL, Quadratic, TotalVariation
from cautious.risks.wasserstein import Wasserstein
from cautious.solution import Solution

RISKS = {
    "SafeSet": "how close the time spent outside the safe states comes to its limit (a logarithmic barrier)",
    "TaskFloors": "how close the return of each task comes to its floor (logarithmic barriers)",
    "PeakExposure": "the share of time spent in the worst of the danger sets",
    "WorstTask": "the loss of the worst task",
    "Variance": "the variance of the reward of one step, in squared units of reward",
    "CVaR": "the mean loss per step over the worst steps (expected shortfall)",
    "KL": "the relative entropy to the prior behaviour, in nats",
    "TotalVariation": "half the L1 distance to the prior behaviour",
    "Quadratic": "half the squared distance to the prior behaviour",
    "Wasserstein": "the cost of moving the visited states to the prior ones (Wasserstein distance)",
    "Entropy": "the concentration of the behaviour (negative entropy), in nats",
}

# from here on a power of ten is easier to read than all the digits
LONGEST_WHOLE = 1e8

BARRIERS = {"SafeSet", "TaskFloors"}


def number(value: float | None, digits: int = 5) -> str:
    """A number for people: few digits, few signs for what is missing or infinite."""
    if value is None or math.isnan(value):
        return "n/a"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    group = "," if abs(value) >= 1e4 else ""
    # half a unit below, a number is rounded up to more digits than asked for; and no zero is negative
    whole = 10**digits - 0.5 <= abs(value) < LONGEST_WHOLE
    return f"{value:{group}.0f}" if whole else f"{value + 0.0:{group}.{digits}g}"


def amount(value: float | None, mdp: MDP, digits: int = 5) -> str:
    """A number of units of reward, with the unit where the model names one."""
    text = number(value, digits)
    return text if value is None or not math.isfinite(value) else text + unit_after(mdp, " ")


def unit_after(mdp: MDP, before: str = ", ") -> str:
    """The unit of reward, for the end of a text; empty where the model names none."""
    unit = scene_of(mdp).reward_unit
    return "" if unit in ("reward", "") else before + unit


def time_steps(count: str, mdp: MDP) -> str:
    """So many steps, by the name of a step: 20 days, 3 slots of 20 minutes."""
    first, *rest = scene_of(mdp).step.split(" ")
    if not re.fullmatch(r"[A-Za-z]+", first):
        return f"{count} steps"
    if re.search(r"[^aeiou]y$", first):
        first = first[:-1] + "ie"
    elif re.search(r"(s|x|ch|sh)$", first):
        first += "e"
    return " ".join([count, f"{first}s", *rest])


def percent(share: float) -> str:
    """A share as a percentage."""
    return "< 0.01 %" if 0 < share < 1e-4 else f"{100 * share:.2f} %"


def short(name: str, longest: int = 28) -> str:
    """A name that fits a drawing."""
    return name if len(name) <= longest else name[: longest - 1] + "…"


def scene_of(mdp: MDP) -> Scene:
    """The model's scene, or a plain one."""
    return Scene(title=f"A model with {mdp.n_states:,} states") if mdp.scene is None else mdp.scene


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


def only_barriers(label: str) -> bool:
    """Whether a risk is made of requirements alone."""
    return all(part.split("*", 1)[-1] in BARRIERS for part in label.split(" + "))


def risk_words(label: str) -> list[str]:
    """One sentence for every known risk in a label such as ``2*KL + Variance``."""
    sentences = []
    for part in label.split(" + "):
        name = part.split("*", 1)[-1]
        known = RISKS.get(re.split(r"[ (]", name, maxsplit=1)[0])
        level = re.fullmatch(r"CVaR\(([0-9.eE+-]+)\)", name)
        if level is not None:
            known = (
                f"the mean loss per step over the worst {number(100 * (1 - float(level.group(1))), 3)} % of the steps"
            )
        if known is not None:
            sentences.append(f"{name}: {known}.")
    return sentences


def problem_words(solution: Solution, price: str | None = None) -> list[str]:
    """The problem, a few sentences; ``price`` says what one unit of risk is worth when that varies."""
    mdp, scene = solution.mdp, scene_of(solution.mdp)
    horizon = 1 / (1 - mdp.discount)
    sentences = [scene.story] if scene.story else []
    sentences.append(
        f"The model has {mdp.n_states:,} states and {mdp.n_actions:,} actions. With the discount {mdp.discount:g}, "
        f"what is earned in the next {time_steps(number(horizon, 3), mdp)} or so counts most."
        + (f" One step is one {scene.step}." if scene.step != "step" else "")
        + (_start(mdp) if mdp.known_transitions else "")
    )
    if is_logged(mdp) and not is_learned(solution):
        sentences.append(_log_words(mdp))
    if is_neutral(solution):
        sentences.append("The policy should earn the largest expected return; risk plays no part.")
    else:
        sentences.append(
            f"The policy should earn a large expected return and keep the risk {solution.risk_label} small: one unit "
            f"of risk is worth {price or number(solution.caution)}{unit_after(mdp, ' ')} of return (the caution)."
        )
        sentences += risk_words(solution.risk_label) + _demonstrations(solution)
    return sentences


def _start(mdp: MDP) -> str:
    """Where it begins; returns are worth as much as where they are counted from."""
    first = np.flatnonzero(mdp.start > 0)
    if first.size == 1:
        return f" It starts in {state_name(mdp, int(first[0]))}{_mark(mdp, int(first[0]))}."
    evenly = "evenly " if np.ptp(mdp.start[first]) < 1e-12 else ""
    return (
        f" The first state is drawn {evenly}from {'all' if first.size == mdp.n_states else f'{first.size:,}'} states."
    )


def _mark(mdp: MDP, state: int) -> str:
    """The letter of a state on the map, in brackets, where it has one."""
    if not fits_grid(mdp):
        return ""
    row, column = scene_of(mdp).cells[state]
    mark = scene_of(mdp).grid[row][column]
    return f" ({mark})" if mark.isalnum() else ""


def is_logged(mdp: MDP) -> TypeGuard[LoggedMDP]:
    """Whether the model was counted from a log."""
    return isinstance(mdp, LoggedMDP)


def _log_words(mdp: LoggedMDP) -> str:
    """What a solved log rests on, and what it says nothing about."""
    counts = mdp.counts
    least = int(np.argmin(np.where(counts > 0, counts, np.iinfo(counts.dtype).max)))
    state, action = divmod(least, mdp.n_actions)
    times = int(counts[state, action])
    never = int(np.count_nonzero((counts == 0) & mdp.allowed & (counts > 0).any(axis=1, keepdims=True)))
    return (
        f"Counted from {counts.sum():,} logged rows; least tried pair: {action_name(mdp, action)} in "
        f"{state_name(mdp, state)}, {'once' if times == 1 else f'{times:,} times'}"
        + (f"; pairs never tried: {never:,}, by assumption" if never else "")
        + ". Nothing is said about the real system; cautious learn (ca.learn) does that."
    )


def _demonstrations(solution: Solution) -> list[str]:
    """What a prior of recorded episodes rests on."""
    recipe = None if solution.problem is None else solution.problem.unbound_risk
    terms = () if recipe is None else terms_of(recipe)
    priors = [risk.prior for _, risk in terms if isinstance(risk, KL | TotalVariation | Quadratic | Wasserstein)]
    return [f"The prior: {prior.statement}" for prior in priors if isinstance(prior, Demonstrations)]


def is_learned(solution: Solution) -> bool:
    """Whether it comes from samples: its model is the counted one, and its figures are estimates."""
    return solution.certificate.kind == "estimated"


def is_counted(solution: Solution) -> bool:
    """Whether its figures are those of a model that was counted."""
    return is_learned(solution) or is_logged(solution.mdp)


def source(solution: Solution) -> str:
    """Where computed figures come from."""
    return "counted model" if is_counted(solution) else "exact"
