"""``ca.solve``: check the request, dispatch the problem to the solvers that take it, build the Solution."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache

from threadpoolctl import ThreadpoolController

from cautious.checks import as_count, as_flag, as_number, as_seed, check_callback
from cautious.errors import IncompatibleError
from cautious.problem import Problem
from cautious.runtime.clock import Clock
from cautious.runtime.interruption import Interruption
from cautious.runtime.memory import MemoryWatch
from cautious.runtime.threads import use_threads
from cautious.solution import Solution
from cautious.solvers.base import Callback, Outcome, Solver, Start, Target, Workspace
from cautious.solvers.build_solution import build_solution
from cautious.solvers.choose import dispatch
from cautious.solvers.deterministic.branch_and_bound import branch_and_bound
from cautious.solvers.findings import findings, findings_with_return_limit
from cautious.solvers.return_risk.markov_policies import MarkovPolicies
from cautious.solvers.return_risk.return_limits import largest_return
from cautious.status import DEFAULT_TOLERANCE


@dataclass(frozen=True)
class Request:
    """The parameters of ``ca.solve``; see there."""

    tolerance: float = DEFAULT_TOLERANCE
    time_limit_seconds: float | None = None
    seed: int = 0
    callback: Callback | None = None
    threads: int | None = None
    memory_limit: float | None = None
    deterministic: bool = False
    memory: bool = True

    def check(self) -> "Request":
        """This request, if every part of it makes sense."""
        as_number("tolerance", self.tolerance, 0.0, 1.0, open_ends="(")
        as_seed(self.seed)
        as_flag("deterministic", self.deterministic)
        as_flag("memory", self.memory)
        check_callback(self.callback)
        if self.time_limit_seconds is not None:
            as_number("time_limit_seconds", self.time_limit_seconds, 0.0, open_ends="(")
        if self.threads is not None:
            as_count("threads", self.threads)
        if self.memory_limit is not None:
            as_number("memory_limit", self.memory_limit, 0.0, open_ends="(")
        return self


def solve(
    problem: Problem,
    tolerance: float = DEFAULT_TOLERANCE,
    time_limit_seconds: float | None = None,
    seed: int = 0,
    callback: Callback | None = None,
    *,
    threads: int | None = None,
    memory_limit: float | None = None,
    deterministic: bool | None = None,
    memory: bool | None = None,
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
    deterministic
        Look for the best policy that takes one action in every state. The gap then bounds what another deterministic
        policy could gain; it closes where a search can do so, which is in small models, or with few limits. None: as
        the problem's file says, otherwise no.
    memory
        With a risk of the return the best policy remembers what was earned. ``False`` asks for one that does not,
        (S, A), or (T, S, A) with a finite horizon: the best one found, whose gap is to all policies, with memory or
        without, so that it rarely closes, and the status is STATIONARY. Of other problems the best policies remember
        nothing, but for ``ca.Reach``. None: as the problem's file says, otherwise yes.

    Examples
    --------
    >>> import cautious as ca
    >>> mdp = ca.worlds.maze()
    >>> solution = ca.solve(ca.Problem(mdp, ca.Variance(), caution=10.0))
    >>> solution.status.name, solution.certificate.kind
    ('SOLVED', 'global')
    """
    wanted = getattr(problem, "deterministic", False) if deterministic is None else deterministic
    remembering = getattr(problem, "memory", True) if memory is None else memory
    request = Request(tolerance, time_limit_seconds, seed, callback, threads, memory_limit, wanted, remembering)
    return answer(problem, request)


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
    problem.mdp.require_known("ca.solve")
    request.check()
    if problem.parts.return_limits and (request.deterministic or not request.memory):
        label = problem.parts.return_limits[0].risk.label
        raise IncompatibleError(
            f"the best policy with {label} remembers what was earned; leave out deterministic and memory"
        )
    if request.deterministic and not problem.neutral:
        problem.mdp.require_transitions("deterministic=True")
        if problem.parts.returns:
            raise IncompatibleError(
                f"the best policy for {problem.risk_label} remembers what was earned, and takes one action in every "
                "state and memory as it is; leave out deterministic"
            )
    if not request.memory and problem.mdp.memory is not None:
        raise IncompatibleError(
            "ca.Reach in this model needs a policy that remembers which states were entered; leave out memory=False"
        )
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
    with clock.memory, Interruption(clock):
        if problem.parts.return_limits:
            limited = largest_return(problem, target, request.callback)
            return build_solution(problem, target, findings_with_return_limit(problem, target, limited))
        if request.deterministic and not problem.neutral:
            outcome = branch_and_bound(problem, target, request.callback)
        elif not request.memory and problem.parts.returns:
            outcome = Outcome(without_memory=True)
            dispatch(problem, target, request.callback, [MarkovPolicies()], outcome)
        else:
            outcome = dispatch(problem, target, request.callback, solvers)
        return build_solution(problem, target, findings(problem, target, outcome))


@cache
def _blas() -> ThreadpoolController:
    """Looking for the libraries takes milliseconds; they are all loaded by the first solve."""
    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Small dense algebra is slower on many threads."""
    with _blas().limit(limits=1):
        yield
