"""``ca.solve``: match the risk's declared structure with a solver, run it, certify, wrap."""

import numpy as np
from threadpoolctl import threadpool_limits

from cautious._checks import as_count, as_number
from cautious.errors import IncompatibleError
from cautious.problem import Problem
from cautious.solution import Solution, Status
from cautious.solvers.base import Callback, Candidate, Clock, Interruption, Outcome, Solver, Start, Target, run
from cautious.solvers.black_box import BlackBox
from cautious.solvers.conic import Conic
from cautious.solvers.entropic import Entropic
from cautious.solvers.features import Features
from cautious.solvers.neutral import Planner
from cautious.solvers.scalar_search import ScalarSearch
from cautious.solvers.wrap import finished, forbidden, without_objective


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
        Same seed, same bytes. The exact solvers draw nothing that depends on it.
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
    return solve_from(None, problem, tolerance, time_limit_seconds, seed, callback)


def solve_from(
    warm: Solution | None,
    problem: Problem,
    tolerance: float = 1e-6,
    time_limit_seconds: float | None = None,
    seed: int = 0,
    callback: Callback | None = None,
) -> Solution:
    """As ``solve``, starting from the solution of a neighbouring problem of the same model."""
    if not isinstance(problem, Problem):
        raise IncompatibleError(f"ca.solve needs a ca.Problem, found {type(problem).__name__}")
    problem.mdp.require_transitions("ca.solve")
    tolerance = as_number("tolerance", tolerance, 0.0, 1.0, open_ends="(")
    as_count("seed", seed, 0)
    if callback is not None and not callable(callback):
        raise IncompatibleError(f"callback must be callable or None, found {type(callback).__name__}")
    if time_limit_seconds is not None:
        time_limit_seconds = as_number("time_limit_seconds", time_limit_seconds, 0.0, open_ends="(")
    clock = Clock(time_limit_seconds)
    start = None if warm is None else Start(warm.policy, warm.multipliers)
    with threadpool_limits(limits=1), Interruption(clock):
        return _solve(problem, Target(tolerance, clock, start=start), callback)


def choose(problem: Problem) -> list[Solver]:
    """The solvers to try, in order, by what the terms of the risk declare."""
    if problem.neutral:
        return [Planner()]
    solvers: list[Solver] = [ScalarSearch(choose), Features(), Entropic(), Conic(), BlackBox()]
    return [solver for solver in solvers if solver.refusal(problem) is None]


def _solve(problem: Problem, target: Target, callback: Callback | None) -> Solution:
    if problem.trapped is not None:
        return forbidden(problem, target)
    outcome, method = Outcome(Status.STALLED), ""
    if target.start is not None and problem.usable(target.start.policy):
        outcome.take(problem, Candidate(target.start.policy))
    for solver in choose(problem):
        method = solver.name
        outcome = run(solver, problem, target, callback, outcome)
        if outcome.status is not Status.STALLED:
            break
    if outcome.delivered is None or not np.isfinite(outcome.delivered.objective):
        return without_objective(problem, target, outcome, method)
    return finished(problem, target, outcome, method)
