"""From the best of a run to a ``Solution``: the certificate, its statement, and what is said without an answer.

A problem is infeasible if a forbidden pair cannot be avoided (``infeasible_by_forbidden_pairs``), or if phase I finds
weights of the requirements that prove a conflict (``_infeasible_or_undecided``, ``conflict_bound``). Without a policy
of finite risk and without such a proof it is undecided.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from cautious._core.certificate import compensated_dot
from cautious.arrays import Array
from cautious.certificate.bounds import Certificate, Cover, Witness, conflict_bound, requirements
from cautious.certificate.policy_evaluation import EvaluatedPolicy, evaluate_policy
from cautious.horizons.plan import Plan
from cautious.models.horizons import TOTAL
from cautious.planning import plan
from cautious.problem import Problem
from cautious.risks.base import Structure
from cautious.risks.limits import Limit
from cautious.solution import ConstraintValue, Solution
from cautious.solvers.base import Outcome, Target, run
from cautious.solvers.choose import dispatch
from cautious.solvers.column_generation.phase_one import PhaseOne
from cautious.solvers.deterministic.branch_and_bound import Search
from cautious.solvers.limits.conflicts import ALONE_TOLERANCE, best_alone, equality, explained
from cautious.solvers.limits.constraint_values import constraint_values
from cautious.solvers.return_risk.return_limits import LimitedReturn
from cautious.status import Status

# multipliers that no witness gives are planned to this share of the allowed gap
MULTIPLIER_GAP_SHARE = 1e-3
# relative differences of a bound and the best value that six digits do not show
MAX_HIDDEN_SHARE = 1e-5


def build_solution(problem: Problem, target: Target, outcome: Outcome) -> Solution:
    """What a run found and what the certificate proved about it, as a Solution."""
    if not np.isfinite(outcome.objective):
        return _infeasible_or_undecided(problem, target, outcome)
    assert outcome.evaluated is not None
    best, gap = outcome.evaluated, outcome.gap
    kind = "global" if problem.parts.scalars or problem.parts.returns else "optimal"
    if problem.only_stationary or (kind == "global" and not np.isfinite(gap)):
        kind = "stationary"
    facts: dict[str, Any] = {"checked": "multipliers of the flow constraints and a line below every risk"}
    if isinstance(outcome.witness, Cover):
        boxes = len(outcome.witness.boxes)
        facts = {"checked": "boxes that cover every value of the scalars", "boxes": boxes}
    if best.memory_policy is not None:
        remembered = best.memory_policy
        facts = {
            "checked": "upper bounds of a planning problem on states and targets",
            "steps": remembered.n_steps,
            "memories": remembered.n_memories,
        }
    certificate = Certificate(
        kind=kind,
        statement=_statement(kind, gap, best.objective),
        upper_bound=outcome.bound,
        gap=gap,
        visits=best.occupancy,
        objective_error=best.error,
        facts=facts,
        witness=outcome.witness,
    )
    multipliers, adjusted = _prices(problem, target, outcome.witness, best)
    return _solution(problem, target, outcome, outcome.method, outcome.status, best, certificate, multipliers, adjusted)


def build_without_memory(problem: Problem, target: Target, outcome: Outcome) -> Solution:
    """The best policy found that remembers nothing, for a risk of the return; the bound is that of all policies."""
    if outcome.status is Status.STALLED:
        # the search for a policy ended by itself, and the gap may be what memory is worth
        outcome.status = Status.STATIONARY
    assert outcome.evaluated is not None
    best, gap = outcome.evaluated, outcome.gap
    statement = (
        f"No policy, with memory or without, is better than this one by more than {gap:.3g}; of policies without "
        "memory this is the best one found."
    )
    facts: dict[str, Any] = {"checked": "upper bounds of a planning problem on states and targets", "memory": False}
    certificate = Certificate("global", statement, outcome.bound, gap, best.occupancy, best.error, facts)
    multipliers, adjusted = _prices(problem, target, None, best)
    return _solution(problem, target, outcome, outcome.method, outcome.status, best, certificate, multipliers, adjusted)


def build_limited_return(problem: Problem, target: Target, found: LimitedReturn) -> Solution:
    """The largest return found with a limit on a risk of the return, and what no policy that keeps it exceeds."""
    limit, best = problem.parts.return_limits[0].risk, found.best
    delivered = found.closest if best is None else best
    value = delivered.risk + 0.0
    evaluated = EvaluatedPolicy(
        delivered.followed.averaged(problem.default_rows),
        delivered.followed.visits,
        delivered.expected_return,
        0.0,
        delivered.expected_return,
        delivered.error,
        memory_policy=delivered.policy,
    )
    ended = target.clock.ended if target.clock.over else Status.STALLED
    outcome = Outcome(ended, "prices of the risk", evaluated, upper=found.upper, steps=found.prices)
    price = found.price
    if best is None:
        status, kind, price = (
            (Status.INFEASIBLE, "infeasible", np.inf) if found.infeasible else (ended, "undecided", price)
        )
        if status is Status.STALLED:
            status = Status.UNDECIDED
        reached = f"the least that was found is {value:.9g}, and no policy is below {found.least_risk:.9g}"
        words = "cannot be kept" if found.infeasible else "is kept by no policy that was found"
        facts: dict[str, Any] = {
            "requirements": [limit.label],
            "required": [limit.bound],
            "reached": [value],
            "best_alone": [found.least_risk],
            "best_reachable": found.least_risk,
        }
        solution = _no_value(problem, target, outcome, status, kind, f"{limit.label} {words}: {reached}.", facts)
    else:
        if outcome.gap <= target.allowance(best.expected_return):
            outcome.status = Status.SOLVED
        facts = {
            "checked": "upper bounds of planning problems on states and targets, for several prices of the risk",
            "prices": found.prices,
            "least_risk": found.least_risk,
        }
        statement = f"No policy that keeps {limit.label} earns more than this one by more than {outcome.gap:.3g}."
        proved = (outcome.bound, outcome.gap, evaluated.occupancy, evaluated.error, facts)
        certificate = Certificate("global", statement, *proved)
        values = plan(problem.mdp, problem.reward, allowed=problem.kept, over=target.over).values
        status, method = outcome.status, outcome.method
        solution = _solution(problem, target, outcome, method, status, evaluated, certificate, values, problem.reward)
    row = ConstraintValue(limit.label, value, limit.bound, limit.bound - value, price)
    return replace(solution, constraints=(row,), memory_policy=delivered.policy)


def build_deterministic(problem: Problem, target: Target, search: Search) -> Solution:
    """What a search over deterministic policies found, and that none is better by more than the gap."""
    best, relaxed = search.best, search.relaxed
    if not np.isfinite(relaxed.objective):
        return build_solution(problem, target, relaxed)
    assert relaxed.evaluated is not None
    facts: dict[str, Any] = {
        "checked": "upper bounds of all nodes of a search over deterministic policies",
        "nodes": search.nodes,
        "mixed_bound": relaxed.bound,
    }
    outcome = Outcome(Status.SOLVED, "branch and bound", best, steps=search.nodes)
    if best is None:
        outcome.evaluated = relaxed.evaluated
        mixing = f"; policies that mix actions reach {relaxed.objective:.9g}"
        if search.ended:
            outcome.status, kind = Status.INFEASIBLE, "infeasible"
            statement = f"No deterministic policy meets all requirements{mixing}."
        else:
            outcome.status, kind = target.clock.ended if target.clock.over else Status.UNDECIDED, "undecided"
            statement = (
                f"The search found no deterministic policy that meets all requirements, and excludes none{mixing}."
            )
        facts["requirements"] = [limit.label for limit in problem.limits]
        return _no_value(problem, target, outcome, outcome.status, kind, statement, facts)
    upper = float(np.nextafter(max(search.upper, best.objective) + best.error, np.inf))
    gap = upper - best.objective
    if gap > target.allowance(best.objective):
        outcome.status = target.clock.ended if target.clock.over else Status.STEP_LIMIT
    statement = (
        f"No deterministic policy is better than this one by more than {gap:.3g}; policies that mix actions reach "
        f"{relaxed.objective:.9g}."
    )
    certificate = Certificate("global", statement, upper, gap, best.occupancy, best.error, facts)
    multipliers, adjusted = _prices(problem, target, relaxed.witness, relaxed.evaluated)
    return _solution(problem, target, outcome, outcome.method, outcome.status, best, certificate, multipliers, adjusted)


def _statement(kind: str, gap: float, objective: float) -> str:
    if not np.isfinite(gap):
        return "Nothing was proved about other policies before the run ended."
    if kind == "stationary":
        return f"First-order conditions hold up to {gap:.3g}; the problem is not convex, so better policies may exist."
    relative = f" ({gap / abs(objective):.1e} of the objective)" if objective else ""
    return f"No policy is better than this one by more than {gap:.3g}{relative}."


def _prices(
    problem: Problem, target: Target, witness: Witness | Cover | None, best: EvaluatedPolicy
) -> tuple[Array, Array]:
    """Multipliers (S,) and the adjusted reward (S, A) at the delivered policy.

    Risks with a kink take the slope of the witness, which is the one that explains the policy.
    """
    if problem.parts.returns:
        # the proof has no multipliers; these are what the risk-neutral policy is worth
        return plan(problem.mdp, problem.reward, allowed=problem.kept, over=target.over).values, problem.reward
    if problem.neutral and isinstance(witness, Witness):
        return _as_values(problem, witness, best.expected_return), problem.reward
    d, cuts = best.occupancy.pairs, witness.cuts if isinstance(witness, Witness) else ()
    adjusted = problem.reward
    for number, (weight, risk) in enumerate(problem.terms):
        given = cuts[number] if number < len(cuts) else None
        if risk.smooth or given is None:
            with np.errstate(all="ignore"):
                slope = best.slopes[number] if best.slopes else np.asarray(risk.gradient(d))
            if not np.isfinite(slope).all():
                # a user's gradient may be infinite where no mass is: nothing is claimed there
                line = 0.0 if given is None else risk.cut(given, problem.active_pairs).slope
                slope = np.where(np.isfinite(slope), slope, line)
        else:
            slope = risk.cut(given, problem.active_pairs).slope
        adjusted = adjusted - problem.mdp.normaliser * weight * slope
    if not isinstance(witness, Witness):
        precision = MULTIPLIER_GAP_SHARE * target.allowance(best.objective)
        warm = _smallest_box(witness, best) if isinstance(witness, Cover) else None
        best_plan = plan(
            problem.mdp,
            adjusted,
            tolerance=precision,
            allowed=problem.kept,
            warm=warm,
            over=target.over,
        )
        return best_plan.values, adjusted
    worth = compensated_dot(d.ravel(), adjusted.ravel())[0] / problem.mdp.normaliser
    return _as_values(problem, witness, worth), adjusted


def _as_values(problem: Problem, witness: Witness, worth: float) -> Array:
    """Multipliers as values: discounted for ever, a witness knows them up to a constant.

    From the start they are worth what the policy is paid.
    """
    v = np.ascontiguousarray(witness.multipliers, dtype=np.float64)
    if problem.mdp.horizon is not None:
        return v
    # summed by one thread, whatever a library would do
    return v + (worth - compensated_dot(problem.mdp.start, v)[0])


def _smallest_box(cover: Cover, best: EvaluatedPolicy) -> Plan:
    """The multipliers of the smallest box, which holds the policy's own numbers: nearly the policy's own."""
    box = min(cover.boxes, key=lambda box: box.volume)
    return Plan(np.argmax(best.policy, axis=-1), box.witness.multipliers, -np.inf, np.inf)


def _infeasible_or_undecided(problem: Problem, target: Target, outcome: Outcome) -> Solution:
    """No policy with a finite objective was found: prove that there is none, or say that this is undecided."""
    if outcome.conflict is not None:
        return _infeasible(problem, target, outcome)
    names, _, _ = requirements(problem)
    if not names:
        return _undecided(problem, target, outcome, [limit.label for limit in problem.limits])
    phase = run(PhaseOne(), problem, target)
    if np.isfinite(phase.objective):
        phase.witness, phase.upper = outcome.witness, outcome.upper
        phase.decide(problem, target)
        return build_solution(problem, target, phase)
    if phase.conflict is None:
        return _undecided(problem, target, phase, names)
    return _infeasible(problem, target, phase)


def _infeasible(problem: Problem, target: Target, phase: Outcome) -> Solution:
    assert phase.conflict is not None
    assert phase.evaluated is not None
    found = explained(problem, phase.conflict, target, dispatch) if problem.limits else None
    phase.conflict = phase.conflict if found is None else found.conflict
    d, weights = phase.evaluated.occupancy.pairs, np.asarray(phase.conflict.weights)
    names, features, floors = requirements(problem)
    reached = np.asarray(features @ d.ravel())
    excess = conflict_bound(problem, phase.conflict) / max(float(weights.sum()), 1e-300)
    limits = [] if found is None else [limit for number in found.numbers if (limit := problem.limit_of(number))]
    n_barrier_rows = sum(term.risk.floors.size for term in problem.parts.barriers)
    involved = [j for j in range(n_barrier_rows) if weights[j] > 1e-6 * weights.max()]
    rows = [f"{names[j]} reaches {reached[j]:.9g}, must exceed {floors[j]:.9g}" for j in involved]
    facts: dict[str, Any] = {
        "requirements": [names[j] for j in involved],
        "required": [float(floors[j]) for j in involved],
        "reached": [float(reached[j]) for j in involved],
        "weights": [float(weights[j]) for j in involved],
    }
    best = float(excess + floors[involved[0]]) if len(involved) == 1 and not limits else None
    alone = [best_alone(problem, limit, target, dispatch) for limit in limits]
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
    statement = f"These requirements {many}: {'; '.join(rows)}.{more}"
    return _no_value(problem, target, phase, Status.INFEASIBLE, "infeasible", statement, facts)


def _little_missing(limit: Limit, best: float) -> str:
    """By how much a bound is missed, where the printed digits do not show it."""
    missing, size = limit.sign * best - limit.bound, max(abs(best), abs(limit.bound))
    if not 0 <= abs(missing) < MAX_HIDDEN_SHARE * size:
        return ""
    if abs(missing) <= ALONE_TOLERANCE * size:
        return "; the bound misses that by less than 1e-9 of its size"
    return f"; the bound misses that by {missing:.2g}" if missing > 0 else ""


def infeasible_by_forbidden_pairs(problem: Problem, target: Target) -> Solution:
    """A zero of a prior cannot be avoided from some start state: the proof is the set of pairs that can be kept."""
    state = problem.trapped
    assert state is not None
    label = problem.mdp.state_label(state)
    closest, share = _longest_permitted(problem)
    outcome = Outcome(Status.INFEASIBLE, evaluated=closest, steps=1)
    forbidding = [term.risk for term in problem.parts.all if term.risk.permitted() is not None]
    names = [risk.label if isinstance(risk, Limit) else f"{risk.label}: prior" for risk in forbidding]
    words = [risk.label if isinstance(risk, Limit) else f"{risk.label} where its prior is 0" for risk in forbidding]
    statement = f"From {label} every policy uses a forbidden pair ({', '.join(words)})"
    if problem.mdp.horizon != TOTAL:
        statement += f"; at most {share:.9g} of the time can be spent on permitted pairs."
    else:
        statement += ", or may never end."
    limits = [risk for risk in forbidding if isinstance(risk, Limit)]
    alone = [best_alone(problem, limit, target, dispatch) for limit in limits]
    reachable = alone[0] if len(alone) == len(forbidding) == 1 else share
    facts = {"requirements": names, "state": state, "best_reachable": reachable, "best_alone": alone}
    return _no_value(problem, target, outcome, Status.INFEASIBLE, "infeasible", statement, facts)


def _longest_permitted(problem: Problem) -> tuple[EvaluatedPolicy, float]:
    """The policy that spends most time on permitted pairs, and the share of it; until an end, any policy that ends."""
    mdp = problem.mdp
    if mdp.horizon == TOTAL:
        return evaluate_policy(problem, np.eye(mdp.n_actions)[mdp.ending(mdp.allowed).actions]), 0.0
    best = plan(mdp, problem.permitted.astype(np.float64))
    return evaluate_policy(problem, best.policy(mdp.n_actions)), min(1.0, mdp.normaliser * best.upper)


def _undecided(problem: Problem, target: Target, outcome: Outcome, names: list[str]) -> Solution:
    if outcome.evaluated is None:
        outcome.evaluated = evaluate_policy(problem, problem.default_rows)
    interrupted = outcome.status in (Status.TIME_LIMIT, Status.MEMORY_LIMIT, Status.STOPPED)
    status = outcome.status if interrupted else Status.UNDECIDED
    about = ", ".join(names) if names else "the risk's domain"
    statement = f"No policy with a finite objective was found, and none is excluded, for: {about}."
    pair = equality(problem)
    if pair is not None:
        statement += (
            f" {pair[0].label} and {pair[1].label} together ask for one exact number, which no policy of floating-point"
            " numbers is sure to have: leave room between them, 1e-9 of their size is enough."
        )
    elif problem.limits and not interrupted:
        statement += " Limits that leave no more room than rounding errors need more: 1e-9 of their size is enough."
    return _no_value(problem, target, outcome, status, "undecided", statement, {"requirements": names})


def _no_value(
    problem: Problem, target: Target, outcome: Outcome, status: Status, kind: str, statement: str, facts: dict[str, Any]
) -> Solution:
    assert outcome.evaluated is not None
    impossible = status is Status.INFEASIBLE
    bound = -np.inf if impossible else np.inf
    gap = 0.0 if impossible else np.inf
    certificate = Certificate(
        kind, statement, bound, gap, outcome.evaluated.occupancy, 0.0, facts, witness=outcome.conflict
    )
    zero = np.zeros(problem.mdp.occupancy_shape[:-1])
    multipliers = zero if outcome.conflict is None else outcome.conflict.multipliers
    best = outcome.evaluated
    best = EvaluatedPolicy(best.policy, best.occupancy, best.expected_return, np.inf, -np.inf, best.error)
    return _solution(problem, target, outcome, "phase I", status, best, certificate, multipliers, problem.reward)


def _solution(
    problem: Problem,
    target: Target,
    outcome: Outcome,
    method: str,
    status: Status,
    best: EvaluatedPolicy,
    certificate: Certificate,
    multipliers: Array,
    adjusted: Array,
) -> Solution:
    return Solution(
        status=status,
        objective=best.objective,
        expected_return=best.expected_return,
        risk=best.risk,
        upper_bound=certificate.upper_bound,
        gap=certificate.gap,
        policy=best.policy,
        multipliers=multipliers,
        adjusted_reward=adjusted,
        certificate=certificate,
        mdp=problem.mdp,
        caution=problem.caution,
        risk_label="none" if problem.caution == 0 else problem.risk_label,
        tolerance=target.tolerance,
        seconds=target.clock.seconds,
        steps=outcome.steps,
        method=method,
        memory_bytes=target.clock.memory.most,
        risk_terms=() if problem.neutral else term_values(problem, best.occupancy.pairs, best.risk),
        constraints=constraint_values(problem, best.occupancy.pairs, outcome, target, dispatch)
        if problem.limits
        else (),
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
