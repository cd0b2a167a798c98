"""``ca.solve``: match the risk's declared structure with a solver, run it, certify, wrap."""

from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from cautious._checks import Array, as_count, as_number
from cautious.certificate import Certificate, Cover, Delivered, Witness, conflict_bound, deliver, requirements, upper_bound
from cautious.errors import IncompatibleError
from cautious.planning import plan
from cautious.problem import Problem
from cautious.risks.base import ConicRisk, Risk, ScalarRisk
from cautious.risks.features import FeatureRisk, LogBarrier
from cautious.risks.separable import EntropicRisk
from cautious.solution import Solution, Status
from cautious.solvers.base import Callback, Candidate, Clock, Interruption, Outcome, Solver, Target, run
from cautious.solvers.neutral import Planner


def solve(
    problem: Problem,
    tolerance: float = 1e-6,
    time_limit_seconds: float | None = None,
    seed: int = 0,
    callback: Callback | None = None,
) -> Solution:
    """The best policy of a problem with a known model, and a proof of how good it is.

    Parameters
    ----------
    problem
        Model, risk and caution.
    tolerance
        Relative gap: SOLVED means gap <= tolerance * max(1, |objective|).
    time_limit_seconds
        After this the best policy so far is returned with its gap; None is no limit.
    seed
        Same seed, same bytes. The exact solvers draw no random numbers.
    callback
        Called with a ``Progress`` after every step; returning True stops the run.

    Examples
    --------
    >>> import cautious as ca
    >>> mdp = ca.worlds.maze()
    >>> solution = ca.solve(ca.Problem(mdp, ca.Variance(), caution=10.0))
    >>> solution.status.name, solution.certificate.kind
    ('SOLVED', 'global')
    """
    if not isinstance(problem, Problem):
        raise IncompatibleError(f"ca.solve needs a ca.Problem, found {type(problem).__name__}")
    tolerance = as_number("tolerance", tolerance, 0.0, 1.0, open_ends="(")
    as_count("seed", seed, 0)
    if time_limit_seconds is not None:
        time_limit_seconds = as_number("time_limit_seconds", time_limit_seconds, 0.0, open_ends="(")
    clock = Clock(time_limit_seconds)
    target = Target(tolerance, clock)
    with threadpool_limits(limits=1), Interruption(clock):
        return _solve(problem, target, callback)
