"""Exact solves inside a learning run: the same answer at every repetition, and given up on Ctrl-C."""

from collections.abc import Callable

from cautious.problem import Problem
from cautious.runtime.clock import Clock
from cautious.runtime.executors import StopRequested
from cautious.solvers.base import Candidate, Outcome, Start, Target
from cautious.solvers.choose import dispatch

# a run is limited in steps and not in time, which would end elsewhere on a resume
MOST_STEPS = 2000


def best_outcome(
    problem: Problem,
    tolerance: float,
    stopping: Callable[[], bool],
    start: Start | None = None,
    limit_seconds: float | None = None,
) -> tuple[Outcome, Target]:
    """The best of the solvers that take the problem, from an earlier answer where there is one; and what was asked.

    A time limit is for what is shown only: a repetition may end elsewhere.
    """
    target, outcome = Target(tolerance, Clock(limit_seconds), start=start), Outcome()
    if start is not None and problem.usable(start.policy):
        outcome.take(problem, Candidate(start.policy), target)
    dispatch(problem, target, lambda now: now.step >= MOST_STEPS or stopping(), outcome=outcome)
    if stopping():
        raise StopRequested
    return outcome, target
