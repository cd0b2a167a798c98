"""Plug-in learning from a log: two folds of its rows instead of draws."""

import time
from dataclasses import replace

import numpy as np

from cautious.arrays import Array, Indices
from cautious.errors import InputError
from cautious.history import History
from cautious.learning.learned_solution import counted_estimate, estimated_solution, proved_gap
from cautious.learning.loop import Ending, columns
from cautious.learning.method import Point, Result
from cautious.learning.scalar_risk_rewards import scalars_of
from cautious.learning.statements.affine_lower_bounds import sure_bound
from cautious.learning.statements.confidence import CONFIDENCE
from cautious.learning.statements.log_bounds import Evidence, objective_or_return_below
from cautious.learning.statements.log_folds import split
from cautious.learning.task import Task, checked_task
from cautious.models.log_counts import counted_arrays
from cautious.models.logged import LoggedMDP
from cautious.models.tabular import MDP
from cautious.problem import Problem
from cautious.risks.base import Risk
from cautious.solution import Solution
from cautious.solvers.solve import solve

CLOSED = "there are no other states, the start is as in the model, and the risk was not made from this log"
ASSUMES = (
    "given what came before it, the outcome of a row follows the law of its state and action; no outcome decided how "
    f"long the log is; {CLOSED}"
)
INDEPENDENT = f"the outcome of each row is an independent draw from the law of its state and action; {CLOSED}"
ANY_POLICY = " Any policy reaches that: the log is too small to say more."


def learn_from_log(logged: LoggedMDP, risk: Risk | None, caution: float, seed: int) -> Solution:
    """The best policy of the first fold's model; the second fold says what it is worth at least."""
    began = time.monotonic()
    task = _task(logged, risk, caution, seed)
    folds = split(logged, task.seed)
    # a prior given as a policy belongs to the whole log's model, and may know what the second fold holds
    apart = all(term is not None for _, term in task.known_terms)
    problem = Problem(_first_model(logged, folds.first.rows, apart), risk, task.caution)
    found = solve(problem)
    policy = _everywhere(logged, problem, found.policy)
    at_least = return_at_least = -np.inf
    sure = False
    if np.isfinite(found.objective) and apart:
        scalars = scalars_of(problem, found.occupancy)
        evidence = Evidence(folds, policy)
        at_least, return_at_least = objective_or_return_below(task, evidence, scalars, 1 - CONFIDENCE)
        sure = (at_least, return_at_least) == objective_or_return_below(task, evidence, scalars, 0.0)
    result = Result(
        policy=policy,
        occupancy=found.occupancy,
        multipliers=found.multipliers,
        payoff=problem.mdp.rewards,
        optimum_below=sure_bound(task),
    )
    estimate = counted_estimate(Problem(logged, risk, task.caution), policy)
    n_rows = logged.log.n_rows
    latest = Point(n_rows, estimate["objective"], estimate["risk"], proved_gap(result, at_least))
    facts = {
        "return_at_least": return_at_least,
        "rows for the policy": int(folds.first.rows.size),
        "rows as evidence": int(folds.second.rows.size),
        "method": "plug-in, from a log",
        "assumes": INDEPENDENT if logged.evidence.independent_rows else ASSUMES,
    }
    statement = _statement(found, at_least, return_at_least, apart) + (ANY_POLICY if sure else "")
    ending = Ending(result, None, History(**columns([latest])), n_rows, time.monotonic() - began, stopped=False)
    return estimated_solution(task, ending, estimate, "plug-in", at_least, statement, facts)


def _task(logged: LoggedMDP, risk: Risk | None, caution: float, seed: int) -> Task:
    if not logged.evidence.reward_range_given:
        low, high = logged.reward_range
        raise InputError(
            "a statement about the policy needs to know which rewards are possible, not only which ones were seen: "
            "ca.from_transitions(..., reward_range=(low, high)), or reward_range = [low, high] in [model] of a problem "
            f"file; the log has {low:g} to {high:g}"
        )
    if logged.log.n_rows < 3:
        raise InputError(f"the log has {logged.log.n_rows} rows; a statement about a policy needs at least 3")
    return checked_task(logged.simulator(), risk, caution, logged.log.n_rows, seed)


def _first_model(logged: LoggedMDP, rows: Indices, apart: bool) -> MDP:
    """The model of the first fold, which forbids what that fold never tried unless such pairs have a state to lead to.

    Where it need not be kept apart from the second fold, it has the pairs of the whole log: those that the first fold
    never tried stay where they are at the lowest reward.
    """
    layout = logged.layout
    if layout.untried_state is None:
        layout = replace(layout, untried="forbid" if apart else None)
    found = counted_arrays(logged.log.part(rows), layout)
    return MDP(
        found.transitions,
        found.rewards,
        logged.discount,
        logged.start,
        allowed=found.allowed if apart else logged.allowed,
        reward_square=found.reward_square,
        state_names=logged.state_names,
        action_names=logged.action_names,
    )


def _everywhere(logged: LoggedMDP, problem: Problem, policy: Array) -> Array:
    """The policy, with the actions of the whole log where the first fold knows none."""
    permitted = logged.allowed & np.where(problem.permitted.any(axis=1, keepdims=True), problem.permitted, True)
    usable = np.where(permitted.any(axis=1, keepdims=True), permitted, logged.allowed)
    strays = np.any((policy > 0) & ~usable, axis=1, keepdims=True)
    return np.where(strays, usable / usable.sum(axis=1, keepdims=True), policy)


def _statement(found: Solution, at_least: float, return_at_least: float, apart: bool) -> str:
    share = f"{100 * CONFIDENCE:g} %"
    if not apart:
        return (
            "A risk of your own, or a prior given as a policy, may know the rows that serve as evidence: nothing is "
            f"claimed about this policy with {share} confidence."
        )
    if np.isfinite(at_least):
        # the gap is to the largest reward paid for ever, which holds for every policy: it is not mentioned
        return f"With probability at least {share}, the true objective of this policy is at least {at_least:.6g}."
    if np.isfinite(return_at_least):
        return (
            f"With probability at least {share}, the true expected return of this policy is at least "
            f"{return_at_least:.6g}; nothing is claimed about its risk."
        )
    return f"In the counted model: {found.certificate.statement.rstrip('.')}: nothing is claimed about the objective."
