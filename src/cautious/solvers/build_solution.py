"""From the findings of the solvers to a ``Solution``: the certificate, its statement, a row for every constraint."""

from typing import Any

import numpy as np

from cautious.arrays import Array
from cautious.certificate.bounds import Certificate, Cover, conflict_bound, requirements
from cautious.models.horizons import TOTAL
from cautious.problem import Problem
from cautious.risks.base import Structure
from cautious.risks.limits import Limit
from cautious.solution import ConstraintValue, Solution
from cautious.solvers.base import Outcome, Target
from cautious.solvers.findings import Findings
from cautious.solvers.limits.conflicts import ALONE_TOLERANCE, MIN_RELATIVE_WEIGHT
from cautious.solvers.return_risk.return_limits import LimitedReturn
from cautious.status import Status

# relative differences of a bound and the best value that six digits do not show
MAX_HIDDEN_SHARE = 1e-5


def build_solution(problem: Problem, target: Target, found: Findings) -> Solution:
    """What a run found and what the certificate proved about it, as a Solution."""
    outcome, best = found.outcome, found.evaluated
    certificate = _certificate(problem, found)
    return Solution(
        status=outcome.status,
        objective=best.objective,
        expected_return=best.expected_return,
        risk=best.risk,
        upper_bound=certificate.upper_bound,
        gap=certificate.gap,
        policy=best.policy,
        multipliers=found.multipliers,
        adjusted_reward=found.adjusted_reward,
        certificate=certificate,
        mdp=problem.mdp,
        caution=problem.caution,
        risk_label="none" if problem.caution == 0 else problem.risk_label,
        tolerance=target.tolerance,
        seconds=target.clock.seconds,
        steps=outcome.steps,
        method=outcome.method,
        memory_bytes=target.clock.memory.most,
        risk_terms=() if problem.neutral else term_values(problem, best.occupancy.pairs, best.risk),
        constraints=_constraint_values(problem, found),
        memory_policy=best.memory_policy,
        problem=problem,
    )


def term_values(problem: Problem, d: Array, known: float = np.inf) -> tuple[dict[str, Any], ...]:
    """Label, weight and value of every term that counts, for a Solution; ``known`` is that of all risk, if finite."""
    rows = []
    for weight, risk in problem.terms:
        if risk.structure in (Structure.LIMIT, Structure.RETURN_LIMIT):
            continue
        if risk.structure is Structure.RETURN:
            # it stands alone, maybe with a weight
            value = known / (weight / problem.caution)
        else:
            value = known if risk is problem.risk and np.isfinite(known) else float(risk.value(d))
        rows.append({"risk": risk.label, "weight": weight / problem.caution, "value": value})
    return tuple(rows)


def _constraint_values(problem: Problem, found: Findings) -> tuple[ConstraintValue, ...]:
    """One row for every constraint, in the order given."""
    rows = []
    for term in problem.parts.limits:
        limit = term.risk
        value = float(limit.measure.value(found.evaluated.occupancy.pairs))
        if np.isfinite(found.evaluated.objective):
            # the limit is kept, and only the rounding of this number can exceed it
            value = limit.bound if limit.forbids else min(value, limit.bound)
        slack, bound = limit.bound - value, limit.sign * limit.bound
        rows.append(ConstraintValue(limit.name, limit.sign * value, bound, slack, found.prices[term.number]))
    if found.limited is not None:
        limited = found.limited.closest if found.limited.best is None else found.limited.best
        value = limited.risk + 0.0
        for row in problem.parts.return_limits:
            slack = row.risk.bound - value
            rows.append(ConstraintValue(row.risk.label, value, row.risk.bound, slack, found.prices[row.number]))
    return tuple(rows)


def _certificate(problem: Problem, found: Findings) -> Certificate:
    outcome, best = found.outcome, found.evaluated
    if not np.isfinite(best.objective):
        if problem.trapped is not None:
            statement, facts = _forbidden_pairs(problem, problem.trapped, found)
        elif found.limited is not None:
            statement, facts = _return_limit_missed(problem, found.limited)
        elif outcome.relaxed is not None:
            statement, facts = _no_deterministic_policy(problem, outcome, outcome.relaxed)
        elif outcome.status is Status.INFEASIBLE:
            statement, facts = _conflict(problem, found)
        else:
            statement, facts = _undecided(problem, outcome)
        impossible = outcome.status is Status.INFEASIBLE
        kind, bound, gap = ("infeasible", -np.inf, 0.0) if impossible else ("undecided", np.inf, np.inf)
        return Certificate(kind, statement, bound, gap, best.occupancy, 0.0, facts, witness=outcome.conflict)
    parts = problem.parts
    searched = outcome.relaxed is not None or parts.scalars or parts.returns or parts.return_limits
    kind = "global" if searched else "optimal"
    if problem.only_stationary or (kind == "global" and not np.isfinite(outcome.gap)):
        kind = "stationary"
    statement = _statement(kind, outcome, best.objective)
    facts, visits = _checked(outcome), best.occupancy
    if found.limited is not None:
        statement = f"No policy that keeps {parts.return_limits[0].risk.label} earns more than this one by more than "
        statement += f"{outcome.gap:.3g}."
        facts = {
            "checked": "upper bounds of planning problems on states and targets, for several prices of the risk",
            "prices": found.limited.prices,
            "least_risk": found.limited.least_risk,
        }
    return Certificate(kind, statement, outcome.bound, outcome.gap, visits, best.error, facts, witness=outcome.witness)


def _checked(outcome: Outcome) -> dict[str, Any]:
    """What proves the upper bound."""
    if outcome.relaxed is not None:
        return {
            "checked": "upper bounds of all nodes of a search over deterministic policies",
            "nodes": outcome.steps,
            "mixed_bound": outcome.relaxed.bound,
        }
    if outcome.without_memory:
        return {"checked": "upper bounds of a planning problem on states and targets", "memory": False}
    if outcome.evaluated is not None and outcome.evaluated.memory_policy is not None:
        remembered = outcome.evaluated.memory_policy
        return {
            "checked": "upper bounds of a planning problem on states and targets",
            "steps": remembered.n_steps,
            "memories": remembered.n_memories,
        }
    if isinstance(outcome.witness, Cover):
        return {"checked": "boxes that cover every value of the scalars", "boxes": len(outcome.witness.boxes)}
    return {"checked": "multipliers of the flow constraints and a line below every risk"}


def _statement(kind: str, outcome: Outcome, objective: float) -> str:
    gap = outcome.gap
    if not np.isfinite(gap):
        return "Nothing was proved about other policies before the run ended."
    if kind == "stationary":
        return f"First-order conditions hold up to {gap:.3g}; the problem is not convex, so better policies may exist."
    if outcome.relaxed is not None:
        return f"No deterministic policy is better than this one by more than {gap:.3g}; {_mixing(outcome.relaxed)}."
    if outcome.without_memory:
        return (
            f"No policy, with memory or without, is better than this one by more than {gap:.3g}; of policies without "
            "memory this is the best one found."
        )
    relative = f" ({gap / abs(objective):.1e} of the objective)" if objective else ""
    return f"No policy is better than this one by more than {gap:.3g}{relative}."


def _mixing(relaxed: Outcome) -> str:
    return f"policies that mix actions reach {relaxed.objective:.9g}"


def _no_deterministic_policy(problem: Problem, outcome: Outcome, relaxed: Outcome) -> tuple[str, dict[str, Any]]:
    if outcome.status is Status.INFEASIBLE:
        statement = "No deterministic policy meets all requirements"
    else:
        statement = "The search found no deterministic policy that meets all requirements, and excludes none"
    facts = {**_checked(outcome), "requirements": [limit.label for limit in problem.limits]}
    return f"{statement}; {_mixing(relaxed)}.", facts


def _return_limit_missed(problem: Problem, limited: LimitedReturn) -> tuple[str, dict[str, Any]]:
    limit, value = problem.parts.return_limits[0].risk, limited.closest.risk + 0.0
    words = "cannot be kept" if limited.infeasible else "is kept by no policy that was found"
    statement = (
        f"{limit.label} {words}: the least that was found is {value:.9g}, and no policy is below "
        f"{limited.least_risk:.9g}."
    )
    facts: dict[str, Any] = {
        "requirements": [limit.label],
        "required": [limit.bound],
        "reached": [value],
        "best_alone": [limited.least_risk],
        "best_reachable": limited.least_risk,
    }
    return statement, facts


def _conflict(problem: Problem, found: Findings) -> tuple[str, dict[str, Any]]:
    conflict = found.outcome.conflict
    assert conflict is not None
    d, weights = found.evaluated.occupancy.pairs, np.asarray(conflict.weights)
    limits, alone = found.conflicting.limits, list(found.conflicting.best_alone)
    names, features, floors = requirements(problem)
    reached = np.asarray(features @ d.ravel())
    excess = conflict_bound(problem, conflict) / max(float(weights.sum()), 1e-300)
    n_barrier_rows = sum(term.risk.floors.size for term in problem.parts.barriers)
    involved = [j for j in range(n_barrier_rows) if weights[j] > MIN_RELATIVE_WEIGHT * weights.max()]
    rows = [f"{names[j]} reaches {reached[j]:.9g}, must exceed {floors[j]:.9g}" for j in involved]
    facts: dict[str, Any] = {
        "requirements": [names[j] for j in involved],
        "required": [float(floors[j]) for j in involved],
        "reached": [float(reached[j]) for j in involved],
        "weights": [float(weights[j]) for j in involved],
    }
    best = float(excess + floors[involved[0]]) if len(involved) == 1 and not limits else None
    for limit, value in zip(limits, alone, strict=True):
        here = limit.sign * float(limit.measure.value(d))
        rows.append(
            f"{limit.label} (reaches {here:.9g}, and {value:.9g} at best if it were the only requirement"
            f"{_little_missing(limit, value)})"
        )
        facts["requirements"].append(limit.label)
        facts["required"].append(limit.sign * limit.bound)
        facts["reached"].append(here)
    facts["best_alone"] = alone
    single = best if best is not None else (alone[0] if len(limits) == 1 and not involved else None)
    facts["best_reachable"] = single if single is not None else facts["reached"]
    many = "cannot all be met" if len(rows) > 1 else "cannot be met"
    more = f" No policy gets beyond {best:.9g}." if best is not None else ""
    return f"These requirements {many}: {'; '.join(rows)}.{more}", facts


def _little_missing(limit: Limit, best: float) -> str:
    """By how much a bound is missed, where the printed digits do not show it."""
    missing, size = limit.sign * best - limit.bound, max(abs(best), abs(limit.bound))
    if not 0 <= abs(missing) < MAX_HIDDEN_SHARE * size:
        return ""
    if abs(missing) <= ALONE_TOLERANCE * size:
        return "; the bound misses that by less than 1e-9 of its size"
    return f"; the bound misses that by {missing:.2g}" if missing > 0 else ""


def _forbidden_pairs(problem: Problem, state: int, found: Findings) -> tuple[str, dict[str, Any]]:
    """A zero of a prior cannot be avoided from some start state: the proof is the set of pairs that can be kept."""
    alone, share = list(found.conflicting.best_alone), found.conflicting.permitted_share
    forbidding = [term.risk for term in problem.parts.all if term.risk.permitted() is not None]
    of_priors = [risk.structure is not Structure.LIMIT for risk in forbidding]
    labels = [risk.label for risk in forbidding]
    names = [f"{label}: prior" if prior else label for label, prior in zip(labels, of_priors, strict=True)]
    words = [
        f"{label} where its prior is 0" if prior else label for label, prior in zip(labels, of_priors, strict=True)
    ]
    statement = f"From {problem.mdp.state_label(state)} every policy uses a forbidden pair ({', '.join(words)})"
    if problem.mdp.horizon != TOTAL:
        statement += f"; at most {share:.9g} of the time can be spent on permitted pairs."
    else:
        statement += ", or may never end."
    reachable = alone[0] if len(alone) == len(forbidding) == 1 else share
    return statement, {"requirements": names, "state": state, "best_reachable": reachable, "best_alone": alone}


def _undecided(problem: Problem, outcome: Outcome) -> tuple[str, dict[str, Any]]:
    names = requirements(problem)[0] or [limit.label for limit in problem.limits]
    about = ", ".join(names) if names else "the risk's domain"
    statement = f"No policy with a finite objective was found, and none is excluded, for: {about}."
    pair = _equality(problem)
    if pair is not None:
        statement += (
            f" {pair[0].label} and {pair[1].label} together ask for one exact number, which no policy of floating-point"
            " numbers is sure to have: leave room between them, 1e-9 of their size is enough."
        )
    elif problem.limits and outcome.status is Status.UNDECIDED:
        statement += " Limits that leave no more room than rounding errors need more: 1e-9 of their size is enough."
    return statement, {"requirements": names}


def _equality(problem: Problem) -> tuple[Limit, Limit] | None:
    """Two limits of one measure, from above and from below, whose bounds are the same number."""
    rows = [(limit, limit.rows.features) for limit in problem.limits if limit.rows is not None]
    for number, (limit, row) in enumerate(rows):
        for other, opposite in rows[:number]:
            if limit.bound == -other.bound and row.shape == opposite.shape and not abs(row + opposite).sum():
                return other, limit
    return None
