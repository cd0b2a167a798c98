"""Which solvers take a problem, and in which order they are tried: the one with the least estimated work first.

The list is data: every solver says which structures of risk it ``accepts``, what else it refuses
(``further_refusal``), and how much ``work`` a model of a given ``Shape`` is.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cautious.errors import MemoryLimitError
from cautious.problem import Problem
from cautious.solvers.advantage_form import advantage_form
from cautious.solvers.base import Callback, Candidate, Outcome, Solver, Target, Workspace, run, shape_of
from cautious.solvers.column_generation.column_generation import ColumnGeneration
from cautious.solvers.conditional_gradient import ConditionalGradient
from cautious.solvers.conic.conic import ConicProgram
from cautious.solvers.dense_transport import DenseTransport
from cautious.solvers.dual_newton.dual_newton import DualNewton
from cautious.solvers.interior_point.interior_point import InteriorPoint
from cautious.solvers.limits.linear_limits import LinearLimits
from cautious.solvers.limits.price_search import PriceSearch
from cautious.solvers.local_models.local_models import LocalModels
from cautious.solvers.proximal.proximal import Proximal
from cautious.solvers.reachable import reachable_part
from cautious.solvers.return_risk.target_search import TargetSearch
from cautious.solvers.risk_neutral import RiskNeutral
from cautious.solvers.scalar_search.scalar_search import ScalarSearch

# advantages are clipped at minus so many times the slope of the risk; first the one number is tried, then the other
ADVANTAGE_SLOPES = 1e2, 1e5
# about how long it takes to evaluate a policy and to prove a bound, for every transition of the model
EVALUATION_SECONDS = 1e-7
# the same with a finite horizon, for every transition of every step: each is gone through a few times
STEP_EVALUATION_SECONDS = 1.5e-8


def choose(problem: Problem, memory_limit: float | None = None, workspace: Workspace | None = None) -> list[Solver]:
    """The solvers that take a problem, the one with the least work first; those that need too much memory are left out.

    Raises ``MemoryLimitError`` if none fits into ``memory_limit`` bytes. The shape of the model is kept in the
    ``workspace``, for neighbouring problems.
    """
    fitting = [solver for solver in SOLVERS if solver.refusal(problem) is None]
    if not fitting:
        problem.mdp.require_transitions(
            " with ".join(["ca.solve", *sorted({term.risk.label for term in problem.parts.all})])
        )
    if memory_limit is not None:
        least = min(fitting, key=lambda solver: solver.memory(problem))
        fitting = [solver for solver in fitting if solver.memory(problem) <= memory_limit]
        if not fitting:
            raise MemoryLimitError(
                f"{least.name} needs about {least.memory(problem) / 1e6:,.3g} MB beyond the model for "
                f"{problem.mdp.n_states:,} states, and memory_limit is {memory_limit / 1e6:,.3g} MB"
            )
    if len(fitting) < 2:
        return fitting
    shape = shape_of(problem, Workspace() if workspace is None else workspace)
    work = {solver.name: solver.work(problem, shape) for solver in fitting}
    affordable = [solver for solver in fitting if np.isfinite(work[solver.name])]
    return sorted(affordable, key=lambda solver: work[solver.name])


def dispatch(
    problem: Problem,
    target: Target,
    callback: Callback | None = None,
    solvers: Sequence[Solver] | None = None,
    outcome: Outcome | None = None,
) -> Outcome:
    """Run one solver after the other until one does not stall; the best policy and bound of all are kept.

    ``solvers`` are tried instead of those that ``choose`` gives. None is run where a forbidden pair cannot be avoided.
    All exact solves go through here: ``ca.solve``, the inner problems of a scalar search, and the counted models of a
    learner.
    """
    best = Outcome() if outcome is None else outcome
    if problem.trapped is not None:
        best.excluded = True
        best.decide(problem, target)
        return best
    horizon = problem.mdp.horizon
    seconds = horizon * STEP_EVALUATION_SECONDS if isinstance(horizon, int) else EVALUATION_SECONDS
    target.clock.reserve(seconds * problem.mdp.n_entries)
    part = reachable_part(problem)
    if solvers is None:
        solvers = choose(problem if part is None else part.problem, target.clock.memory.limit, target.workspace)
    for solver in solvers:
        run(solver, problem, target, callback, best, part)
        if best.open:
            best.refine(problem)
            best.decide(problem, target)
        if not best.open:
            break
    linearised = not problem.neutral and not problem.parts.scalars and not problem.parts.returns
    if best.open and linearised:
        _in_advantages(problem, target, callback, best)
    if best.evaluated is None:
        # time, memory or a request ended it before any proposal: the documented default policy is an answer too
        best.take(problem, Candidate(problem.default_rows), target)
        best.decide(problem, target)
    return best


def _in_advantages(problem: Problem, target: Target, callback: Callback | None, best: Outcome) -> None:
    """Try the solvers again with advantages as rewards: rewards much larger than the risk may prevent a proof."""
    own = replace(target, absolute=target.allowance(best.objective), start=None, workspace=Workspace())
    for slopes in ADVANTAGE_SLOPES:
        form = advantage_form(problem, slopes)
        for solver in choose(form.problem, target.clock.memory.limit):
            run(solver, problem, own, callback, best, form)
            best.decide(problem, target)
            if not best.open:
                return


SOLVERS: tuple[Solver, ...] = (
    RiskNeutral(),
    TargetSearch(),
    ScalarSearch(dispatch),
    LinearLimits(dispatch),
    PriceSearch(dispatch),
    ColumnGeneration(),
    DualNewton(),
    DenseTransport(),
    ConditionalGradient(),
    InteriorPoint(),
    Proximal(),
    ConicProgram(),
    LocalModels(),
)
