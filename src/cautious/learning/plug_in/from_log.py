"""Plug-in learning from a log: its rows are the samples, and all of them both choose the policy and prove its value."""

import time
from dataclasses import dataclass, replace

import numpy as np

from cautious.arrays import Array
from cautious.errors import InputError
from cautious.history import History
from cautious.learning.learned_solution import counted_estimate, estimated_solution, proved_gap
from cautious.learning.loop import FinishedRun, columns
from cautious.learning.method import Point, Result
from cautious.learning.scalar_risk_rewards import Payoff, scalars_of
from cautious.learning.statements.affine_lower_bounds import sure_bound
from cautious.learning.statements.confidence import CONFIDENCE
from cautious.learning.statements.worst_case import WorstCase, stress_facts, worst_case_of_log
from cautious.learning.task import Task, checked_task
from cautious.models.logged import LoggedMDP
from cautious.models.tabular import MDP
from cautious.problem import Problem
from cautious.risks.base import Risk, Sum
from cautious.solution import Solution
from cautious.solvers.solve import solve
from cautious.status import Status

CLOSED = "no row was left out because of its outcome; there are no other states, and the start is as in the model"
ASSUMES = f"given what came before it, the outcome of a row follows the law of its state and action; {CLOSED}"
INDEPENDENT = f"the outcome of each row is an independent draw from the law of its state and action; {CLOSED}"
ANY_POLICY = " Any policy reaches that: the log is too small to say more."
# of the range of values: bounds that exceed what every policy reaches by less than this say nothing
MIN_PROVED_SHARE = 0.01


@dataclass(frozen=True)
class BoundedPolicy:
    """A policy (S, A), and what the log proves about it; minus infinity where that is nothing."""

    policy: Array
    at_least: float
    return_at_least: float
    name: str

    def score(self, problem: Problem) -> float:
        """The proved objective; if only the return is proved, that minus the estimated risk."""
        if np.isfinite(self.at_least):
            return self.at_least
        return self.return_at_least - problem.caution * float(counted_estimate(problem, self.policy)["risk"])


def learn_from_log(logged: LoggedMDP, risk: Risk | None, caution: float, seed: int, robust: bool) -> Solution:
    """The best policy of the counted model, or with ``robust`` a policy about which the rows prove more."""
    began = time.monotonic()
    task = _task(logged, risk, caution, seed)
    problem = Problem(logged, risk, task.caution)
    found = solve(problem)
    # Ctrl-C ended the solve: what it has is delivered without further solves
    stopped = found.status is Status.STOPPED
    worst = worst_case_of_log(task, logged, 1 - CONFIDENCE)
    chosen, sure = BoundedPolicy(_permitted(problem, found.policy), -np.inf, -np.inf, "counted model"), False
    if np.isfinite(found.objective):
        scalars = worst.on_grid(scalars_of(problem, found.occupancy))
        chosen = _proved(worst, scalars, chosen.policy, chosen.name)
        if robust and not stopped:
            careful = _robust_policy(problem, worst, scalars, found)
            other = _proved(worst, scalars, careful, "worst model in the confidence set")
            chosen = max(chosen, other, key=lambda one: one.score(problem))
        least = _least(worst, scalars, chosen)
        sure = least is not None
        chosen = chosen if least is None else least
    result = Result(
        policy=chosen.policy,
        occupancy=found.occupancy,
        multipliers=found.multipliers,
        payoff=problem.mdp.rewards,
        optimum_below=sure_bound(task),
    )
    estimate = counted_estimate(problem, chosen.policy)
    n_rows = logged.log.n_rows
    latest = Point(n_rows, estimate["objective"], estimate["risk"], proved_gap(result, chosen.at_least))
    facts = {
        "return_at_least": chosen.return_at_least,
        **stress_facts(chosen.at_least, chosen.return_at_least),
        "rows": n_rows,
        "pairs tried": int(np.count_nonzero(logged.counts)),
        "robust": robust,
        "policy from": chosen.name,
        "method": "plug-in, from a log",
        "assumes": INDEPENDENT if logged.evidence.independent_rows else ASSUMES,
    }
    statement = _statement(found, chosen) + (ANY_POLICY if sure else "")
    ending = FinishedRun(result, None, History(**columns([latest])), n_rows, time.monotonic() - began, stopped)
    return estimated_solution(task, ending, estimate, "plug-in", chosen.at_least, statement, facts)


def _task(logged: LoggedMDP, risk: Risk | None, caution: float, seed: int) -> Task:
    if not logged.evidence.reward_range_given:
        low, high = logged.reward_range
        raise InputError(
            "a statement about the policy needs to know which rewards are possible, not only which ones were seen: "
            "ca.from_transitions(..., reward_range=(low, high)), or reward_range = [low, high] in [model] of a problem "
            f"file; the log has {low:g} to {high:g}"
        )
    return checked_task(logged.simulator(), risk, caution, logged.log.n_rows, seed)


def _proved(worst: WorstCase, scalars: tuple[float, ...], policy: Array, name: str) -> BoundedPolicy:
    """The policy with its bounds; the return is asked for only where nothing is known about the objective."""
    at_least = worst.objective_below(policy, scalars)
    return BoundedPolicy(policy, at_least, -np.inf if np.isfinite(at_least) else worst.return_below(policy), name)


def _least(worst: WorstCase, scalars: tuple[float, ...], chosen: BoundedPolicy) -> BoundedPolicy | None:
    """The policy with the bound that every policy has, if its own bound is hardly larger; otherwise None."""
    task = worst.task
    low, high = Payoff(task.scalars, scalars, task.discount).range(*task.padded_range)
    room = MIN_PROVED_SHARE * (high - low) / (1 - task.discount)
    if np.isfinite(chosen.at_least):
        least = worst.objective_below(None, scalars)
        return replace(chosen, at_least=least) if chosen.at_least <= least + room else None
    least = task.padded_range[0] / (1 - task.discount)
    return replace(chosen, return_at_least=least) if chosen.return_at_least <= least + room else None


def _robust_policy(problem: Problem, worst: WorstCase, scalars: tuple[float, ...], found: Solution) -> Array:
    """The best policy of a pessimistic model: lower bounds of payments, and the worst laws within the confidence set.

    Worst is meant for the best policy in the sense of ``ConfidenceSet.plan``, with risks replaced by their gradients at
    the counted model's solution. Without risks that policy is the one with the largest proved value.
    """
    task, logged = worst.task, problem.mdp
    paid = worst.means(Payoff(task.scalars, scalars, task.discount))
    slope = np.zeros(logged.shape)
    for term in problem.parts.without_scalars:
        with np.errstate(all="ignore"):
            gradient = np.asarray(term.risk.gradient(found.occupancy))
        slope += (1 - task.discount) * term.weight * np.where(np.isfinite(gradient), gradient, 0.0)
    v = worst.models.plan(paid - slope.ravel(), problem.permitted | ~problem.permitted.any(axis=1, keepdims=True))
    pessimistic = MDP(
        worst.models.worst_matrix(v),
        paid.reshape(logged.shape),
        logged.discount,
        logged.start,
        allowed=logged.allowed,
        state_names=logged.state_names,
        action_names=logged.action_names,
    )
    careful = solve(Problem(pessimistic, Sum(task.others) if task.others else None, 1.0))
    return _permitted(problem, careful.policy)


def _permitted(problem: Problem, policy: Array) -> Array:
    """The policy without pairs that a risk forbids, also in states that the counted model never visits."""
    permitted = np.where(problem.permitted.any(axis=1, keepdims=True), problem.permitted, problem.mdp.allowed)
    strays = np.any((policy > 0) & ~permitted, axis=1, keepdims=True)
    return np.where(strays, permitted / permitted.sum(axis=1, keepdims=True), policy)


def _statement(found: Solution, chosen: BoundedPolicy) -> str:
    share = f"{100 * CONFIDENCE:g} %"
    if np.isfinite(chosen.at_least):
        # the gap is to the largest reward paid for ever, which holds for every policy: it is not mentioned
        return (
            f"With probability at least {share}, the true objective of this policy is at least {chosen.at_least:.6g}."
        )
    if np.isfinite(chosen.return_at_least):
        return (
            f"With probability at least {share}, the true expected return of this policy is at least "
            f"{chosen.return_at_least:.6g}; nothing is claimed about its risk."
        )
    return f"In the counted model: {found.certificate.statement.rstrip('.')}: nothing is claimed about the objective."
