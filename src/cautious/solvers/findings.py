"""What a solution says beyond its policy takes solves of its own: they are all made here.

Without a policy of finite objective the question is whether there is one: phase I finds it, or weights of requirements
that prove a conflict. A conflict is made as small as possible, and each limit in it is tried alone. Multipliers and
adjusted reward come from the witness, or from a plan where it has none; so do the prices of limits.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cautious._core.certificate import compensated_dot
from cautious.arrays import Array
from cautious.certificate.bounds import Cover, Witness
from cautious.certificate.policy_evaluation import EvaluatedPolicy, evaluate_policy
from cautious.horizons.plan import Plan
from cautious.models.horizons import TOTAL
from cautious.planning import plan
from cautious.problem import Problem
from cautious.risks.limits import Limit
from cautious.solvers.base import Outcome, Target, run
from cautious.solvers.column_generation.phase_one import PhaseOne
from cautious.solvers.limits.conflicts import best_alone, smallest_conflict
from cautious.solvers.limits.limit_prices import limit_prices
from cautious.solvers.return_risk.return_limits import LimitedReturn

# multipliers that no witness gives are planned to this share of the allowed gap
MULTIPLIER_GAP_SHARE = 1e-3


@dataclass(frozen=True)
class Conflicting:
    """The limits that cannot be kept, with the best value of each if it were the only requirement.

    ``permitted_share``: where forbidden pairs cannot be avoided, how much of the time can be spent on the others.
    """

    limits: tuple[Limit, ...] = ()
    best_alone: tuple[float, ...] = ()
    permitted_share: float = 0.0


@dataclass(frozen=True)
class Findings:
    """The outcome of the solvers, and what else a solution says; ``prices`` by the number of the limit's term.

    ``evaluated`` is the delivered policy; where nothing better is known, the default one. ``limited`` is what a search
    with a limit on a risk of the return found.
    """

    outcome: Outcome
    evaluated: EvaluatedPolicy
    multipliers: Array
    adjusted_reward: Array
    prices: dict[int, float]
    conflicting: Conflicting = Conflicting()
    limited: LimitedReturn | None = None


def findings(problem: Problem, target: Target, outcome: Outcome) -> Findings:
    """All that can be said after the solvers ended with this outcome."""
    if problem.trapped is not None:
        best, share = _longest_permitted(problem)
        conflicting = _alone(problem, target, [limit for limit in problem.limits if limit.permitted() is not None])
        return _without_value(problem, target, outcome, best, replace(conflicting, permitted_share=share))
    if outcome.open and not np.isfinite(outcome.objective) and outcome.relaxed is None:
        outcome = _phase_one(problem, target, outcome)
    best = evaluate_policy(problem, problem.default_rows) if outcome.evaluated is None else outcome.evaluated
    if outcome.conflict is not None and problem.limits:
        smallest = smallest_conflict(problem, outcome.conflict, target)
        outcome = replace(outcome, conflict=smallest.conflict)
        by_number = problem.parts.limit_by_number
        limits = {number: by_number[number] for number in smallest.numbers if number in by_number}
        known = smallest.alone
        values = [known[n] if n in known else best_alone(problem, limit, target) for n, limit in limits.items()]
        conflicting = Conflicting(tuple(limits.values()), tuple(values))
        return _without_value(problem, target, outcome, best, conflicting)
    if outcome.conflict is not None or not np.isfinite(outcome.objective):
        return _without_value(problem, target, outcome, best, Conflicting())
    # a search over deterministic policies has no witness: the multipliers are those of the policy that mixes actions
    proved = outcome if outcome.relaxed is None else outcome.relaxed
    assert proved.evaluated is not None
    multipliers, adjusted = _multipliers(problem, target, proved.witness, proved.evaluated)
    prices = limit_prices(problem, outcome, best.occupancy.pairs, target) if problem.limits else {}
    return Findings(outcome, best, multipliers, adjusted, prices)


def findings_with_return_limit(problem: Problem, target: Target, limited: LimitedReturn) -> Findings:
    """The same after a search with a limit on a risk of the return."""
    best = limited.closest if limited.best is None else limited.best
    known = limited.best is not None
    evaluated = EvaluatedPolicy(
        best.followed.averaged(problem.default_rows),
        best.followed.visits,
        best.expected_return,
        0.0 if known else np.inf,
        best.expected_return if known else -np.inf,
        best.error,
        memory_policy=best.policy,
    )
    outcome = Outcome(method="prices of the risk", evaluated=evaluated, upper=limited.upper, steps=limited.prices)
    outcome.excluded = limited.infeasible
    outcome.decide(problem, target)
    values = np.zeros(problem.mdp.occupancy_shape[:-1])
    if known:
        values = plan(problem.mdp, problem.reward, allowed=problem.kept, over=target.over).values
    price = np.inf if limited.infeasible else limited.price
    prices = {term.number: price for term in problem.parts.return_limits}
    return Findings(outcome, evaluated, values, problem.reward, prices, limited=limited)


def _without_value(
    problem: Problem, target: Target, outcome: Outcome, best: EvaluatedPolicy, conflicting: Conflicting
) -> Findings:
    """No policy with a finite objective is known: the multipliers are those of the conflict, if there is one."""
    zero = np.zeros(problem.mdp.occupancy_shape[:-1])
    multipliers = zero if outcome.conflict is None else outcome.conflict.multipliers
    prices = limit_prices(problem, outcome, best.occupancy.pairs, target) if problem.limits else {}
    best = EvaluatedPolicy(best.policy, best.occupancy, best.expected_return, np.inf, -np.inf, best.error)
    return Findings(outcome, best, multipliers, problem.reward, prices, conflicting)


def _phase_one(problem: Problem, target: Target, outcome: Outcome) -> Outcome:
    """A policy that meets all requirements, or a conflict of them; the outcome as it is if nothing is required."""
    if not problem.parts.requirements:
        return outcome
    found = run(PhaseOne(), problem, target)
    if np.isfinite(found.objective):
        found.witness, found.upper = outcome.witness, outcome.upper
        found.decide(problem, target)
    return found


def _alone(problem: Problem, target: Target, limits: Sequence[Limit]) -> Conflicting:
    return Conflicting(tuple(limits), tuple(best_alone(problem, limit, target) for limit in limits))


def _longest_permitted(problem: Problem) -> tuple[EvaluatedPolicy, float]:
    """The policy that spends most time on permitted pairs, and the share of it; until an end, any policy that ends."""
    mdp = problem.mdp
    if mdp.horizon == TOTAL:
        return evaluate_policy(problem, np.eye(mdp.n_actions)[mdp.ending(mdp.allowed).actions]), 0.0
    best = plan(mdp, problem.permitted.astype(np.float64))
    return evaluate_policy(problem, best.policy(mdp.n_actions)), min(1.0, mdp.normaliser * best.upper)


def _multipliers(
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
