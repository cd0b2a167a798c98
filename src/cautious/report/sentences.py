"""What a page says about a solution in whole sentences: the problem, the answer, and what is proved."""

import math
import re

import numpy as np

from cautious.episodes.demonstrations import Demonstrations
from cautious.models.logged import LoggedMDP
from cautious.models.tabular import MDP
from cautious.report import trade_off
from cautious.report.accuracy import shown_objective, shown_return, shown_risk
from cautious.report.barriers import barrier_requirements, requirements_of
from cautious.report.limit_words import (
    impossible_words,
    measure_text,
    measure_words,
    sense_words,
    shown_constraints,
    value_text,
)
from cautious.report.requirements import violation_words
from cautious.report.text_tables import changed_states
from cautious.report.words import (
    action_name,
    amount,
    fits_grid,
    has_only_barriers,
    is_deterministic,
    is_learned,
    is_logged,
    is_neutral,
    number,
    return_words,
    risks_in,
    scene_of,
    state_name,
    time_steps,
    unit_after,
)
from cautious.risks.base import terms_of
from cautious.risks.public import PUBLIC_RISKS
from cautious.solution import Solution
from cautious.status import Status

MAX_LIMITS_NAMED = 3
KINDS = {
    "optimal": "The problem is convex, and the bound holds for every policy: nothing is better by more than the gap.",
    "global": "The problem is not convex, but all policies were bounded: nothing is better by more than the gap.",
    "stationary": "The problem is not convex, and only first-order conditions were checked: a policy far from this one "
    "may be better.",
    "estimated": "Figures come from the counted model or from simulation; what is sure is said with its confidence.",
    "infeasible": "It is proved that no policy meets all requirements.",
    "undecided": "No policy that meets all requirements was found, and it is not proved that there is none.",
}

VERDICTS = {
    Status.SOLVED: "proved best",
    Status.STATIONARY: "first-order only",
    Status.INFEASIBLE: "infeasible",
    Status.UNDECIDED: "undecided",
    Status.ESTIMATED: "learned from samples",
}


def problem_words(solution: Solution, price: str | None = None) -> list[str]:
    """The problem, a few sentences; ``price`` says what one unit of risk is worth when that varies."""
    mdp, scene = solution.mdp, scene_of(solution.mdp)
    sentences = [scene.story] if scene.story else []
    sentences.append(
        f"The model has {mdp.n_states:,} states and {mdp.n_actions:,} actions. {_horizon_words(mdp)}"
        + (f" One step is one {scene.step}." if scene.step != "step" else "")
        + (_start_words(mdp) if mdp.known_transitions else "")
    )
    if is_logged(mdp) and not is_learned(solution):
        sentences.append(_log_words(mdp))
    if is_neutral(solution):
        within = " within the limits" if solution.constraints else ""
        return [*sentences, f"The policy should earn the largest expected return{within}; risk plays no part."]
    sentences.append(
        f"The policy should earn a large expected return and keep the risk {solution.risk_label} small: one unit "
        f"of risk is worth {price or number(solution.caution)}{unit_after(mdp, ' ')} of return (the caution)."
    )
    given = None if solution.problem is None else solution.problem.unbound_risk
    data = [value for _, risk in ([] if given is None else terms_of(given)) for value in vars(risk).values()]
    priors = [f"The prior: {value.statement}" for value in data if isinstance(value, Demonstrations)]
    return [*sentences, *risk_words(solution.risk_label), *priors]


def _horizon_words(mdp: MDP) -> str:
    """What counts, and for how long."""
    match mdp.horizon:
        case None:
            ahead = time_steps(number(1 / (1 - mdp.discount), 3), mdp)
            return f"With the discount {mdp.discount:g}, what is earned in the next {ahead} or so counts most."
        case "average":
            return f"What counts is the reward per {scene_of(mdp).step or 'step'} in the long run."
        case "total":
            return "What counts is the sum of all rewards until an absorbing state ends the episode."
        case steps:
            discounted = f", discounted by {mdp.discount:g} a step" if mdp.discount < 1 else ""
            return f"What counts is what is earned in {time_steps(f'{steps:,}', mdp)}{discounted}; then it is over."


def risk_words(label: str) -> list[str]:
    """One sentence for every known risk in a label such as ``2*KL + Variance``."""
    sentences = []
    for _, name, kind in risks_in(label):
        level = re.fullmatch(r"CVaR\(([0-9.eE+-]+)\)", name)
        if level is not None:
            worst = number(100 * (1 - float(level.group(1))), 3)
            sentences.append(f"{name}: the mean loss per step over the worst {worst} % of the steps.")
        elif kind in PUBLIC_RISKS:
            sentences.append(f"{name}: {PUBLIC_RISKS[kind].summary}.")
    return sentences


def _start_words(mdp: MDP) -> str:
    """Where episodes start, since returns are counted from there; with the letter of the state on its map."""
    first = np.flatnonzero(mdp.start > 0)
    if first.size > 1:
        evenly = "evenly " if np.ptp(mdp.start[first]) < 1e-12 else ""
        count = "all" if first.size == mdp.n_states else f"{first.size:,}"
        return f" The first state is drawn {evenly}from {count} states."
    state, mark = int(first[0]), ""
    if fits_grid(mdp):
        row, column = scene_of(mdp).cells[state]
        mark = scene_of(mdp).grid[row][column]
    return f" It starts in {state_name(mdp, state)}{f' ({mark})' if mark.isalnum() else ''}."


def _log_words(mdp: LoggedMDP) -> str:
    """The evidence behind the solution of a log, and what it says nothing about."""
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


def answer_sentence(solution: Solution, comparison: trade_off.NeutralComparison | None = None) -> str:
    """What came out, in one sentence; with what caution buys where the risk-neutral policy is known."""
    if solution.status is Status.INFEASIBLE:
        why = impossible_words(solution) or "No policy meets all requirements."
        return f"{why} The policy shown here comes closest."
    if math.isinf(solution.risk):
        return (
            "No policy with a finite risk was found, and none is excluded; the policy shown here is the last one tried."
        )
    text = earned_words(solution) + _limits_clause(solution)
    if not is_neutral(solution):
        text += _risk_clause(solution) + ("" if comparison is None else _neutral_clause(comparison))
    return f"{text}; {_proof_clause(solution)}."


def earned_words(solution: Solution) -> str:
    """What the policy earns, and per step where that can be said."""
    how = f"{scene_of(solution.mdp).reward_unit}, {return_words(solution.mdp)}"
    return f"The policy earns {number(shown_return(solution))} ({how}){_per_step(solution)}"


def _per_step(solution: Solution) -> str:
    """What that is per step, where the model says how long a step is and nothing is discounted."""
    mdp = solution.mdp
    if not isinstance(solution.horizon, int) or mdp.discount < 1 or scene_of(mdp).step in ("", "step"):
        return ""
    return f", {number(shown_return(solution) / solution.horizon, 4)} per {scene_of(mdp).step}"


def _limits_clause(solution: Solution) -> str:
    """What it has of everything that is limited."""
    rows = shown_constraints(solution)
    if not rows or not math.isfinite(solution.objective):
        return ""
    kept = [
        f"{measure_words(row)} is {value_text(row)} ({sense_words(row)} {measure_text(row, row.bound)})"
        for row in rows[:MAX_LIMITS_NAMED]
    ]
    more = len(rows) - len(kept)
    return "; " + ", ".join(kept + ([f"and {more:,} more limits are kept"] if more > 0 else []))


def _risk_clause(solution: Solution) -> str:
    """The risk; a single requirement says more than the barrier in front of it."""
    asked = barrier_requirements(solution) if has_only_barriers(solution) else []
    if len(asked) == 1 and not is_learned(solution):
        return f" and keeps the requirement ({asked[0].reached_text}, at least {asked[0].limit_text})"
    return f" at a risk of {number(shown_risk(solution))}"


def _neutral_clause(comparison: trade_off.NeutralComparison) -> str:
    here, start = trade_off.point(comparison.solution), comparison.neutral_point
    if here is not None and start is not None:
        step = trade_off.Step(start, here)
        if step.given_up == step.removed == 0:
            same_policy = not changed_states(comparison)
            same = "the same policy as without caution" if same_policy else "as much of both as the risk-neutral policy"
            return f", {same}"
    text = f", where the risk-neutral policy earns {number(comparison.neutral_return)}"
    problem = comparison.solution.problem
    if comparison.neutral_risk is None or problem is None:
        return text
    violated = violation_words(requirements_of(problem, comparison.neutral_occupancy))
    if violated:
        return f"{text} and {violated}"
    if math.isinf(comparison.neutral_risk):
        return f"{text} at an infinite risk"
    return f"{text} at a risk of {number(comparison.neutral_risk)}"


def _proof_clause(solution: Solution) -> str:
    if is_learned(solution):
        return f"{'this figure is an estimate' if is_neutral(solution) else 'both figures are estimates'} from samples"
    if solution.certificate.kind in ("optimal", "global") and math.isfinite(solution.gap):
        where = "in the counted model " if is_logged(solution.mdp) else ""
        kind = "deterministic " if is_deterministic(solution) else ""
        within = " that keeps the limits" if solution.constraints else ""
        return f"{where}no {kind}policy{within} beats its objective by more than {number(solution.gap, 2)}"
    return "there is no proof that it is the best one"


def cost_of_one_action(solution: Solution) -> str:
    """Of a deterministic policy: what policies that mix actions reach, and so what it costs not to mix."""
    mixed = solution.certificate.facts.get("mixed_bound", math.nan)
    if not is_deterministic(solution) or not math.isfinite(solution.objective) or not math.isfinite(mixed):
        return ""
    cost, where = mixed - solution.objective, " at every step" if isinstance(solution.horizon, int) else ""
    if cost <= solution.tolerance * max(1.0, abs(solution.objective)):
        return f"It takes one action in every state{where}, and mixing actions would add nothing."
    return (
        f"It takes one action in every state{where}. Policies that mix actions reach {amount(mixed, solution.mdp, 6)}: "
        f"not to mix costs at most {amount(cost, solution.mdp, 3)}."
    )


def verdict(solution: Solution) -> str:
    """A few words for the badge at the top of a page; for a log, they say that they are about the counted model."""
    proved = solution.status is Status.SOLVED and is_logged(solution.mdp)
    return VERDICTS.get(solution.status, "not proved best") + " for the counted model" * proved


def certificate_words(solution: Solution) -> list[tuple[str, str]]:
    """Rows (what, in plain words) about the proof."""
    if is_learned(solution):
        return _estimate_words(solution)
    proof = solution.certificate
    about = " All this is about the model that was counted, as if it were the true one." * is_logged(solution.mdp)
    steps = "1 step" if solution.steps == 1 else f"{solution.steps} steps"
    bound = "No policy close by exceeds" if proof.kind == "stationary" else "No policy exceeds"
    rows = [
        ("Status", solution.status.value),
        ("Kind of proof", f"{proof.kind}. {KINDS.get(proof.kind, '')}{about}".strip()),
        ("Objective of this policy", number(shown_objective(solution), 10)),
        (bound, number(solution.upper_bound, 10)),
        ("Gap", f"{number(solution.gap, 3)} (asked for: {number(solution.tolerance, 3)} of the objective's size)"),
        ("Checked", proof.statement),
        ("Error of the occupancy", f"at most {number(proof.occupancy_error, 2)} in total"),
        ("Error of the objective", f"at most {number(proof.objective_error, 2)}, included in the gap"),
        ("Method", f"{solution.method}, {steps}, {number(solution.seconds, 3)} s"),
    ]
    if solution.memory_policy is not None:
        kept = f"what is still to be earned, with {solution.memory_policy.n_memories:,} pairs of a step and an amount"
        rows.append(("The policy remembers", f"{kept}; the chances of actions on this page are averages over these"))
    if solution.status is Status.INFEASIBLE:
        return [row for row in rows if row[0] in ("Status", "Kind of proof", "Checked", "Method")]
    return rows


def _estimate_words(solution: Solution) -> list[tuple[str, str]]:
    facts = solution.certificate.facts
    samples = f"{facts.get('samples', 0):,}"
    if "pairs tried" in facts:
        samples += f" rows of a log, with {facts['pairs tried']:,} different pairs of state and action"
    else:
        samples += f", of which {facts.get('trial_samples', 0):,} tried the final policy"
    # more may be known about the best policy than about this one
    best = facts.get("optimum_below", math.inf)
    bound = "not known"
    if math.isfinite(best):
        bound = f"{number(best, 6)}, with {100 * facts.get('confidence', math.nan):g} % confidence"
        bound += "" if math.isfinite(solution.gap) else "; how far below it this policy is, is not known"
    stress = []
    if math.isfinite(facts.get("stress", -math.inf)):
        within = f"the worst model within the {100 * facts['confidence']:g} % confidence set of the counts"
        stress = [
            ("Stress", f"{within} pays this policy an {facts['stress of']} of at least {number(facts['stress'], 6)}")
        ]
    return [
        ("Status", solution.status.value),
        ("Kind of proof", f"estimated. {KINDS['estimated']}"),
        ("What is sure", solution.certificate.statement),
        ("Objective, estimated", number(shown_objective(solution), 6)),
        *stress,
        ("No policy exceeds", bound),
        ("Samples", samples),
        ("Method", f"{facts.get('method', solution.method)}; {number(solution.seconds, 3)} s"),
    ]
