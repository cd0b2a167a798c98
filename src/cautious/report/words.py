"""Plain words for the facts of a Solution; every sentence a report prints is made here."""

import math
import re

import numpy as np

from cautious.episodes.demonstrations import Demonstrations
from cautious.models.scene import Scene
from cautious.models.tabular import MDP
from cautious.report.accuracy import shown_objective, shown_return, shown_risk
from cautious.risks.base import terms_of
from cautious.risks.separable import KL, Quadratic, TotalVariation
from cautious.risks.wasserstein import Wasserstein
from cautious.solution import Solution, Status

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

KINDS = {
    "optimal": "The problem is convex, and the bound holds for every policy: nothing is better by more than the gap.",
    "global": "The problem is not convex, but all policies were bounded: nothing is better by more than the gap.",
    "stationary": "The problem is not convex, and only first-order conditions were checked: a policy far from this one "
    "may be better.",
    "estimated": "Figures come from the counted model or from simulation; what is sure is said with its confidence.",
    "infeasible": "It is proved that no policy meets all requirements.",
    "undecided": "Whether the requirements can be met is too close to call in double precision.",
}

# from here on a power of ten is easier to read than all the digits
LONGEST_WHOLE = 1e8

VERDICTS = {
    Status.SOLVED: "proved best",
    Status.STATIONARY: "first-order only",
    Status.INFEASIBLE: "infeasible",
    Status.UNDECIDED: "undecided",
    Status.ESTIMATED: "learned from samples",
}


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
        f"what is earned in the next {number(horizon, 3)} steps or so counts most."
        + (f" One step is one {scene.step}." if scene.step != "step" else "")
        + (_start(mdp) if mdp.known_transitions else "")
    )
    if is_neutral(solution):
        sentences.append("The policy should earn the largest expected return; risk plays no part.")
    else:
        sentences.append(
            f"The policy should earn a large expected return and keep the risk {solution.risk_label} small: one unit "
            f"of risk is worth {price or number(solution.caution)} of return (the caution)."
        )
        sentences += risk_words(solution.risk_label) + _demonstrations(solution)
    return sentences


def _start(mdp: MDP) -> str:
    """Where it begins; returns are worth as much as where they are counted from."""
    first = np.flatnonzero(mdp.start > 0)
    if first.size == 1:
        return f" It starts in {state_name(mdp, int(first[0]))}."
    evenly = "evenly " if np.ptp(mdp.start[first]) < 1e-12 else ""
    return (
        f" The first state is drawn {evenly}from {'all' if first.size == mdp.n_states else f'{first.size:,}'} states."
    )


def _demonstrations(solution: Solution) -> list[str]:
    """What a prior of recorded episodes rests on."""
    recipe = None if solution.problem is None else solution.problem.recipe
    terms = () if recipe is None else terms_of(recipe)
    priors = [risk.prior for _, risk in terms if isinstance(risk, KL | TotalVariation | Quadratic | Wasserstein)]
    return [f"The prior: {prior.statement}" for prior in priors if isinstance(prior, Demonstrations)]


def answer_sentence(solution: Solution, neutral_return: float | None = None, neutral_risk: float | None = None) -> str:
    """What came out, in one sentence; with what caution buys when the risk-neutral figures are known."""
    unit = scene_of(solution.mdp).reward_unit
    if solution.status is Status.INFEASIBLE:
        return "No policy meets all requirements; the policy shown here comes closest."
    if math.isinf(solution.risk):
        return (
            "No policy with a finite risk was found, and none is excluded; the policy shown here is the last one tried."
        )
    text = f"The policy earns {number(shown_return(solution))} ({unit}, discounted)"
    if is_neutral(solution):
        return f"{text}; {_quality(solution)}."
    text += f" at a risk of {number(shown_risk(solution))}"
    if neutral_return is not None and neutral_risk is not None and math.isfinite(neutral_risk):
        text += f", where the risk-neutral policy earns {number(neutral_return)} at a risk of {number(neutral_risk)}"
    elif neutral_return is not None and neutral_risk is not None:
        text += f", where the risk-neutral policy earns {number(neutral_return)} at an infinite risk"
    elif neutral_return is not None:
        text += f", where the risk-neutral policy earns {number(neutral_return)}"
    return f"{text}; {_quality(solution)}."


def is_learned(solution: Solution) -> bool:
    """Whether it comes from samples: its model is the counted one, and its figures are estimates."""
    return solution.certificate.kind == "estimated"


def source(solution: Solution) -> str:
    """Where computed figures come from."""
    return "counted model" if is_learned(solution) else "exact"


def _quality(solution: Solution) -> str:
    if is_learned(solution):
        return f"{'this figure is an estimate' if is_neutral(solution) else 'both figures are estimates'} from samples"
    if solution.certificate.kind in ("optimal", "global") and math.isfinite(solution.gap):
        return f"no policy beats its objective by more than {number(solution.gap, 2)}"
    return "there is no proof that it is the best one"


def exceeded(solution: Solution) -> str:
    """What its upper bound is."""
    return "No policy close by exceeds" if solution.certificate.kind == "stationary" else "No policy exceeds"


def certificate_words(solution: Solution) -> list[tuple[str, str]]:
    """(what, in plain words) rows about the proof."""
    proof = solution.certificate
    if is_learned(solution):
        return _estimate_words(solution)
    if solution.status is Status.INFEASIBLE:
        return [
            ("Status", solution.status.value),
            ("Kind of proof", f"{proof.kind}. {KINDS['infeasible']}"),
            ("Checked", proof.statement),
            ("Method", f"{solution.method}, {solution.steps} steps, {number(solution.seconds, 3)} s"),
        ]
    return [
        ("Status", solution.status.value),
        ("Kind of proof", f"{proof.kind}. {KINDS.get(proof.kind, '')}".strip()),
        ("Objective of this policy", number(shown_objective(solution), 10)),
        (exceeded(solution), number(solution.upper_bound, 10)),
        ("Gap", f"{number(solution.gap, 3)} (asked for: {number(solution.tolerance, 3)} of the objective's size)"),
        ("Checked", proof.statement),
        ("Error of the occupancy", f"at most {number(proof.occupancy_error, 2)} in total"),
        ("Error of the objective", f"at most {number(proof.objective_error, 2)}, included in the gap"),
        ("Method", f"{solution.method}, {solution.steps} steps, {number(solution.seconds, 3)} s"),
    ]


def _estimate_words(solution: Solution) -> list[tuple[str, str]]:
    facts = solution.certificate.facts
    return [
        ("Status", solution.status.value),
        ("Kind of proof", f"estimated. {KINDS['estimated']}"),
        ("What is sure", solution.certificate.statement),
        ("Objective, estimated", number(shown_objective(solution), 6)),
        ("No policy exceeds", f"{number(facts.get('optimum_below', math.inf), 6)}, with the same confidence"),
        ("Samples", f"{facts.get('samples', 0):,}, of which {facts.get('trial_samples', 0):,} tried the final policy"),
        ("Method", f"{facts.get('method', solution.method)}; {number(solution.seconds, 3)} s"),
    ]


def verdict(solution: Solution) -> str:
    """Two words for the badge on top of a page."""
    return VERDICTS.get(solution.status, "not proved best")
