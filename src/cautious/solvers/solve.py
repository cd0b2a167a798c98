"""``ca.solve``: match the risk's declared structure with a solver, run it, certify, wrap."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache

import numpy as np
from threadpoolctl import ThreadpoolController

from cautious.errors import IncompatibleError, MemoryLimitError
from cautious.problem import Problem
from cautious.runtime.clock import Clock
from cautious.runtime.deadline import until
from cautious.runtime.interruption import Interruption
from cautious.runtime.memory import MemoryWatch
from cautious.runtime.threads import use_threads
from cautious.solution import Solution
from cautious.solvers.base import Callback, Outcome, Solver, Start, Target, Workspace, run
from cautious.solvers.build_solution import finished, forbidden, without_objective
from cautious.solvers.column_generation.column_generation import ColumnGeneration
from cautious.solvers.conditional_gradient import ConditionalGradient
from cautious.solvers.conic.conic import ConicProgram
from cautious.solvers.dense_transport import DenseTransport
from cautious.solvers.dual_newton.dual_newton import DualNewton
from cautious.solvers.interior_point.interior_point import InteriorPoint
from cautious.solvers.local_models.black_box import BlackBox
from cautious.solvers.proximal.proximal import Proximal
from cautious.solvers.request import Request
from cautious.solvers.risk_neutral import RiskNeutral
from cautious.solvers.scalar_search.scalar_search import ScalarSearch
from cautious.status import Status


def solve(
    problem: Problem,
    tolerance: float = 1e-6,
    time_limit_seconds: float | None = None,
    seed: int = 0,
    callback: Callback | None = None,
    *,
    threads: int | None = None,
    memory_limit: float | None = None,
) -> Solution:
    """The best policy of a problem with a known model, and a proof of how good it is.

    Parameters
    ----------
    problem
        Model, risk and caution.
    tolerance
        Relative gap: SOLVED means ``gap <= tolerance * max(1, |objective|)``.
    time_limit_seconds
        After this the best policy so far is returned with its gap; None is no limit.
    seed
        Same seed, same bytes. The exact solvers draw nothing that depends on it.
    callback
        Called with a ``Progress`` after every step; returning True stops the run.
    threads
        How many to use at most; None is all cores where the model is large enough for that to pay. Same bytes for any.
    memory_limit
        Bytes that may be added to what the process holds. Methods that need more are not tried; if none is left, a
        ``MemoryLimitError`` says so before any work; a run that grows beyond it ends with its best policy so far.

    Examples
    --------
    >>> import cautious as ca
    >>> mdp = ca.worlds.maze()
    >>> solution = ca.solve(ca.Problem(mdp, ca.Variance(), caution=10.0))
    >>> solution.status.name, solution.certificate.kind
    ('SOLVED', 'global')
    """
    return answer(problem, Request(tolerance, time_limit_seconds, seed, callback, threads, memory_limit))


def answer(
    problem: Problem,
    request: Request,
    warm: Solution | None = None,
    workspace: Workspace | None = None,
    solvers: Sequence[Solver] | None = None,
) -> Solution:
    """As ``solve``; from the ``warm`` solution and the ``workspace`` of a neighbouring problem of the same model.

    ``solvers`` are tried instead of those that ``choose`` gives.
    """
    if not isinstance(problem, Problem):
        raise IncompatibleError(f"ca.solve needs a ca.Problem, found {type(problem).__name__}")
    with ready(problem, request):
        return answer_ready(problem, request, warm, workspace, solvers)


@contextmanager
def ready(problem: Problem, request: Request) -> Iterator[None]:
    """While inside, solves of this model, with this risk or less, need not look it over again, nor set the threads."""
    problem.mdp.require_transitions("ca.solve")
    request.check()
    # planning does no dense algebra
    with nullcontext() if problem.neutral else one_blas_thread(), use_threads(request.threads):
        yield


def answer_ready(
    problem: Problem,
    request: Request,
    warm: Solution | None = None,
    workspace: Workspace | None = None,
    solvers: Sequence[Solver] | None = None,
) -> Solution:
    """As ``answer``, inside ``ready``: for many solves of one model."""
    clock = Clock(request.time_limit_seconds, MemoryWatch(request.memory_limit))
    target = Target(
        request.tolerance,
        clock,
        start=None if warm is None else Start(warm.policy, warm.multipliers),
        workspace=Workspace() if workspace is None else workspace,
        watched=request.callback is not None,
    )
    with until(lambda: clock.over), clock.memory, Interruption(clock):
        return _solve(problem, target, request.callback, solvers)


@cache
def _blas() -> ThreadpoolController:
    """Looking for the libraries takes milliseconds; they are all loaded by the first solve."""
    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Small dense algebra is slower on many threads."""
    with _blas().limit(limits=1):
        yield


def choose(problem: Problem) -> list[Solver]:
    """The solvers to try, in order, by what the terms of the risk declare."""
    return list(_fitting(problem))


def _fitting(problem: Problem) -> Iterator[Solver]:
    """The same, one at a time: mostly the first one answers."""
    yield from (
        [RiskNeutral()] if problem.neutral else (each for each in risk_solvers() if each.refusal(problem) is None)
    )


def risk_solvers() -> list[Solver]:
    """Every solver of problems with a risk, the most special first."""
    return [
        ScalarSearch(choose),
        ColumnGeneration(),
        DualNewton(),
        DenseTransport(),
        ConditionalGradient(),
        InteriorPoint(),
        Proximal(),
        ConicProgram(),
        BlackBox(),
    ]


def _within(limit: float | None, problem: Problem, solvers: Iterable[Solver]) -> Iterable[Solver]:
    """The solvers whose memory fits."""
    if limit is None:
        return solvers
    solvers = list(solvers)
    fitting = [solver for solver in solvers if solver.memory(problem) <= limit]
    if not fitting:
        least = min(solvers, key=lambda solver: solver.memory(problem))
        raise MemoryLimitError(
            f"{least.name} needs about {least.memory(problem) / 1e6:,.3g} MB beyond the model for "
            f"{problem.mdp.n_states:,} states, and memory_limit is {limit / 1e6:,.3g} MB"
        )
    return fitting


def _solve(problem: Problem, target: Target, callback: Callback | None, solvers: Sequence[Solver] | None) -> Solution:
    if problem.trapped is not None:
        return forbidden(problem, target)
    outcome, method = Outcome(Status.STALLED), ""
    tried = _fitting(problem) if solvers is None else solvers
    for solver in _within(target.clock.memory.limit, problem, tried):
        method = solver.name
        outcome = run(solver, problem, target, callback, outcome)
        if outcome.status is not Status.STALLED:
            break
    if outcome.delivered is None or not np.isfinite(outcome.delivered.objective):
        return without_objective(problem, target, outcome, method)
    return finished(problem, target, outcome, method)
