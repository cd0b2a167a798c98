"""Exact solves inside a learning run: the same answer at every repetition, and given up on Ctrl-C."""

from collections.abc import Callable

from cautious.learning.draws import StopRequested
from cautious.problem import Problem
from cautious.runtime.clock import Clock
from cautious.solvers.base import Candidate, Outcome, Start, Target, run
from cautious.solvers.solve import choose
from cautious.status import Status

# steps are limited and not time: a time limit would end elsewhere on a resume
MOST_STEPS = 2000


def best_outcome(
    problem: Problem, tolerance: float, stopping: Callable[[], bool], start: Start | None = None
) -> tuple[Outcome, Target, str]:
    """The best of the solvers that take the problem, from an earlier answer where there is one; what was asked, who."""
    target = Target(tolerance, Clock(None), start=start)
    outcome, name = Outcome(Status.STALLED), ""
    if start is not None and problem.usable(start.policy):
        outcome.take(problem, Candidate(start.policy), target)
    for solver in choose(problem):
        name = solver.name
        outcome = run(solver, problem, target, lambda now: now.step >= MOST_STEPS or stopping(), outcome)
        if stopping():
            raise StopRequested
        if outcome.status is not Status.STALLED:
            break
    return outcome, target, name
