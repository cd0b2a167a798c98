"""What is proved of a solution, in words: the badge on top of its page and the rows about its certificate."""

import math
from collections.abc import Mapping
from typing import Any

from cautious.report.accuracy import shown_objective
from cautious.report.words import is_learned, is_logged, number
from cautious.solution import Solution
from cautious.status import Status

KINDS = {
    "optimal": "The problem is convex, and the bound holds for every policy: nothing is better by more than the gap.",
    "global": "The problem is not convex, but all policies were bounded: nothing is better by more than the gap.",
    "stationary": "The problem is not convex, and only first-order conditions were checked: a policy far from this one "
    "may be better.",
    "estimated": "Figures come from the counted model or from simulation; what is sure is said with its confidence.",
    "infeasible": "It is proved that no policy meets all requirements.",
    "undecided": "Whether the requirements can be met is too close to call in double precision.",
}

VERDICTS = {
    Status.SOLVED: "proved best",
    Status.STATIONARY: "first-order only",
    Status.INFEASIBLE: "infeasible",
    Status.UNDECIDED: "undecided",
    Status.ESTIMATED: "learned from samples",
}


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
        ("Kind of proof", f"{proof.kind}. {KINDS.get(proof.kind, '')}{_of_log(solution)}".strip()),
        ("Objective of this policy", number(shown_objective(solution), 10)),
        (exceeded(solution), number(solution.upper_bound, 10)),
        ("Gap", f"{number(solution.gap, 3)} (asked for: {number(solution.tolerance, 3)} of the objective's size)"),
        ("Checked", proof.statement),
        ("Error of the occupancy", f"at most {number(proof.occupancy_error, 2)} in total"),
        ("Error of the objective", f"at most {number(proof.objective_error, 2)}, included in the gap"),
        ("Method", f"{solution.method}, {solution.steps} steps, {number(solution.seconds, 3)} s"),
    ]


def _of_log(solution: Solution) -> str:
    return " All this is about the model that was counted, as if it were the true one." * is_logged(solution.mdp)


def _estimate_words(solution: Solution) -> list[tuple[str, str]]:
    facts = solution.certificate.facts
    return [
        ("Status", solution.status.value),
        ("Kind of proof", f"estimated. {KINDS['estimated']}"),
        ("What is sure", solution.certificate.statement),
        ("Objective, estimated", number(shown_objective(solution), 6)),
        ("No policy exceeds", _best_at_most(solution)),
        ("Samples", _samples(facts)),
        ("Method", f"{facts.get('method', solution.method)}; {number(solution.seconds, 3)} s"),
    ]


def _samples(facts: Mapping[str, Any]) -> str:
    text = f"{facts.get('samples', 0):,}"
    if "rows as evidence" in facts:
        chose, evidence = facts["rows for the policy"], facts["rows as evidence"]
        return f"{text} rows of a log: {chose:,} chose the policy, {evidence:,} of the others are the evidence"
    return f"{text}, of which {facts.get('trial_samples', 0):,} tried the final policy"


def _best_at_most(solution: Solution) -> str:
    """What is sure about the best policy, which may be more than is sure about this one."""
    facts = solution.certificate.facts
    best = facts.get("optimum_below", math.inf)
    if not math.isfinite(best):
        return "not known"
    text = f"{number(best, 6)}, with {100 * facts.get('confidence', math.nan):g} % confidence"
    return text if math.isfinite(solution.gap) else f"{text}; how far below it this policy is, is not known"


def verdict(solution: Solution) -> str:
    """Two words for the badge on top of a page; of a log, what they are about."""
    proved = solution.status is Status.SOLVED and is_logged(solution.mdp)
    return VERDICTS.get(solution.status, "not proved best") + " for the counted model" * proved
