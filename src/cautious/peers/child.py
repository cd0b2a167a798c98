"""The work of one process of ``ca.compare``: a problem once, then the names of solvers; see ``workers``.

The problem comes pickled through the pipe from the process that started this one; nothing is unpickled from anywhere
else.
"""

import pickle
import signal
import sys
from collections.abc import Callable
from functools import partial
from math import ceil
from typing import Any

from cautious.peers import convex, planners, roster, storm_limits
from cautious.peers.timing import Attempt, repeated
from cautious.peers.workers import Row, Say, serve, stage_limits
from cautious.problem import Problem


class Kept:
    """The problem of the first request, for the following ones."""

    problem: Problem | None = None


def measure(request: Row, payload: bytes, say: Say) -> Row:
    """The row of one solver."""
    if payload:
        Kept.problem = pickle.loads(payload)
    assert Kept.problem is not None
    if sys.platform != "win32":
        # if the parent ends first, this alarm ends a solver that does not end by itself
        signal.alarm(ceil(sum(stage_limits(request["limit_seconds"], True).values())))
    return row(attempt_of(Kept.problem, request["solver"]), say, request["limit_seconds"])


def attempt_of(problem: Problem, solver: str) -> Callable[[], Attempt]:
    """What is to be timed; packages are imported and warm afterwards."""
    if roster.owner(solver) == roster.CVXPY:
        convex.warm_up(solver)
        return partial(convex.attempt, problem, solver)
    if problem.limits:
        return partial(storm_limits.attempt, problem, storm_limits.LimitedModel(problem))
    return partial(planners.attempt, problem, planners.prepare(problem.mdp, solver))


def row(attempt: Callable[[], Attempt], say: Say, limit_seconds: float) -> Row:
    """The fastest of a few attempts, and the judgement of its answer."""

    def run() -> dict[str, Any]:
        stats, judgement = attempt()
        return {**stats, "judgement": judgement}

    say("ready")
    found = repeated(run, limit_seconds=limit_seconds)
    say("answered")
    judgement: dict[str, Any] = found.pop("judgement")()
    return found | judgement


if __name__ == "__main__":
    serve(measure)
