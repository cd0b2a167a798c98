"""From what a run ends with to a ``Solution``: the estimates, and the statement with its confidence."""

from dataclasses import MISSING, fields, is_dataclass
from typing import Any

import numpy as np

from cautious.arrays import Array
from cautious.certificate.bounds import Certificate
from cautious.certificate.policy_evaluation import evaluate_policy
from cautious.horizons.visits import PolicyOccupancy
from cautious.learning.loop import FinishedRun
from cautious.learning.method import Method, Result
from cautious.learning.statements.confidence import CONFIDENCE, objective_at_least
from cautious.learning.statements.trial import Trial
from cautious.learning.task import Task
from cautious.problem import Problem
from cautious.risks.base import ConicRisk
from cautious.solution import Solution
from cautious.solvers.build_solution import term_values
from cautious.status import Status


def learned_solution(task: Task, method: Method, why: str, ending: FinishedRun) -> Solution:
    """The policy, the estimate of its objective, and what is known about it with confidence."""
    result, trial = ending.result, ending.trial
    at_least = -np.inf if trial is None else objective_at_least(task, result, trial)
    if result.problem is not None:
        estimate = counted_estimate(result.problem, result.policy)
    else:
        estimate = _tried(task, result, trial)
    facts = {
        "budget": task.samples,
        "trial_samples": 0 if trial is None else int(trial.visits.sum()),
        "method": f"{method.name}, {why}",
        "settings": repr(method) if _changed(method) else "",
        **result.facts,
    }
    return estimated_solution(task, ending, estimate, method.name, at_least, _statement(task, ending, at_least), facts)


def _changed(method: Method) -> bool:
    """Whether a setting differs from its default, or has none."""
    if not is_dataclass(method):
        return True
    return any(one.default is MISSING or getattr(method, one.name) != one.default for one in fields(method))


def estimated_solution(
    task: Task,
    ending: FinishedRun,
    estimate: dict[str, Any],
    method: str,
    at_least: float,
    statement: str,
    facts: dict[str, Any],
) -> Solution:
    """A ``Solution`` with the certificate that the true objective is at least ``at_least``, with confidence."""
    result, objective = ending.result, estimate["objective"]
    gap = proved_gap(result, at_least)
    # infinite and unknown estimates are left out
    known = bool(np.isfinite(objective))
    upper_bound = objective + gap if known else result.optimum_below
    certificate = Certificate(
        kind="estimated",
        statement=statement,
        upper_bound=upper_bound,
        gap=gap,
        visits=estimate.pop("visits"),
        objective_error=np.nan,
        facts={
            "confidence": CONFIDENCE,
            "objective_at_least": at_least,
            "optimum_below": result.optimum_below,
            "samples": ending.used,
            "seed": task.seed,
            **facts,
        },
    )
    completed = Status.ESTIMATED if known else Status.UNDECIDED
    return Solution(
        status=Status.STOPPED if ending.stopped else completed,
        upper_bound=upper_bound,
        gap=gap,
        policy=result.policy,
        multipliers=result.multipliers,
        certificate=certificate,
        caution=task.caution,
        risk_label=task.risk_label,
        tolerance=np.nan,
        seconds=ending.seconds,
        steps=ending.used,
        method=method,
        history=ending.history,
        **estimate,
    )


def proved_gap(result: Result, at_least: float) -> float:
    """How far below the best policy this one can be, with confidence."""
    return result.optimum_below - at_least if np.isfinite(at_least) else np.inf


def _statement(task: Task, ending: FinishedRun, at_least: float) -> str:
    share = f"{100 * CONFIDENCE:g} %"
    if ending.trial is None:
        why = "the run was stopped first" if ending.stopped else "there were too few samples for that"
        return f"The policy was not tried on fresh samples ({why}): nothing is claimed about it."
    if not np.isfinite(at_least):
        found = ending.result.facts.get("counted model")
        if found is not None:
            why = f"In the counted model: {str(found).rstrip('.')}"
        elif task.bound_by_user or not all(isinstance(risk, ConicRisk) for _, risk in task.known_terms):
            why = "No bound is known for this risk (one of your own, or a prior given as a policy)"
        else:
            why = "The fresh samples do not exclude an infinite risk"
        return f"{why}: nothing is claimed about the objective with {share} confidence."
    gap = proved_gap(ending.result, at_least)
    claim = f"With probability at least {share}, the true objective of this policy is at least {at_least:.6g}"
    return f"{claim}, and at most {gap:.3g} below that of the best policy." if np.isfinite(gap) else f"{claim}."


def counted_estimate(problem: Problem, policy: Array) -> dict[str, Any]:
    """Estimates from the counted model."""
    found = evaluate_policy(problem, policy)
    d = found.occupancy.occupancy
    return {
        "mdp": problem.mdp,
        "objective": found.objective,
        "expected_return": found.expected_return,
        "risk": found.risk,
        "visits": PolicyOccupancy(d, found.occupancy.reached, np.nan),
        "adjusted_reward": _adjusted(problem, problem.reward, d),
        "risk_terms": term_values(problem, d),
        "problem": problem,
    }


def _tried(task: Task, result: Result, trial: Trial | None) -> dict[str, Any]:
    """Estimates from the trial; without one, the learner's own."""
    problem = task.problem
    if trial is not None:
        # per step and not per path: how long the paths happened to be is then no source of error
        d = trial.visits / trial.visits.sum()
        expected = trial.total_reward / trial.visits.sum() / (1 - task.discount)
    else:
        d = result.occupancy
        # with Variance or CVaR the learner was paid something else than the reward
        expected = np.nan if task.scalars else float(np.sum(d * result.payoff)) / (1 - task.discount)
    terms = [(weight, risk.label, float(risk.value(d))) for weight, risk in problem.terms]
    for weight, scalar in task.scalars:
        found = np.nan if trial is None else trial.rewards.scalar_risk(scalar)
        terms.append((weight, scalar.label, found))
    penalty = sum(weight * value for weight, _, value in terms)
    return {
        "mdp": task.stand_in,
        "objective": expected - penalty,
        "expected_return": expected,
        "risk": penalty / task.caution if terms else 0.0,
        "visits": PolicyOccupancy(d, np.asarray(d.sum(axis=1) > 0), np.nan),
        "adjusted_reward": _adjusted(problem, result.payoff, d),
        "risk_terms": tuple({"risk": label, "weight": w / task.caution, "value": v} for w, label, v in terms),
    }


def _adjusted(problem: Problem, reward: Array, d: Array) -> Array:
    """r - (1 - gamma) sum of weight * gradient; nothing is claimed where a gradient is infinite."""
    adjusted = reward
    for weight, risk in problem.terms:
        with np.errstate(all="ignore"):
            slope = np.asarray(risk.gradient(d))
        adjusted = adjusted - (1 - problem.mdp.discount) * weight * np.where(np.isfinite(slope), slope, 0.0)
    return adjusted
