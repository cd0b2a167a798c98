"""``ca.frontier``: solutions along caution, or along the bound of a limit, each a warm start for the next."""

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cautious.checks import as_number, is_listable
from cautious.errors import InputError, shown
from cautious.horizons.visits import over_time
from cautious.models.horizons import Horizon
from cautious.models.tabular import MDP
from cautious.problem import Problem, listed_constraints
from cautious.returns.moments import return_variance
from cautious.risks.base import Constraint, Risk, terms_of
from cautious.runtime.clock import Clock
from cautious.runtime.executors import StopRequested, Workers, checked_executor
from cautious.runtime.interruption import Interruption
from cautious.solution import Solution
from cautious.solvers.base import Callback, Progress, Workspace
from cautious.solvers.solve import Request, answer, answer_ready, ready
from cautious.status import DEFAULT_TOLERANCE, Status
from cautious.tables.notebook import html_table

# default cautions of a frontier: how many, and how far on both sides of the middle one
DEFAULT_POINTS, DEFAULT_DECADES = 9, 1.5
# default limits need a measure that policies differ in by more than this share of its size
MIN_RELATIVE_ROOM = 1e-6


class Frontier(list[Solution]):
    """Solutions in the order of their caution or limit; a plain list with a table, a plot and a report.

    ``over_limit``: the points differ in the bound of their only constraint, not in their caution.

    Examples
    --------
    >>> import cautious as ca
    >>> points = ca.frontier(ca.worlds.queue(), ca.PeakExposure([[0]]), cautions=[0, 10])
    >>> points.cautions, [row["status"] for row in points.table()]
    ([0.0, 10.0], ['SOLVED', 'SOLVED'])
    """

    def __init__(self, solutions: Iterable[Solution] = (), over_limit: bool = False) -> None:
        super().__init__(solutions)
        self.over_limit = over_limit

    @property
    def cautions(self) -> list[float]:
        """The caution of each solution."""
        return [solution.caution for solution in self]

    @property
    def limits(self) -> list[float]:
        """The bound of the only constraint of each solution; empty along caution."""
        return [solution.constraints[0].bound for solution in self] if self.over_limit else []

    def _repr_html_(self) -> str:
        from cautious.report.text_tables import frontier_table

        table = frontier_table(self)
        return html_table(table.headers, table.rows, table.title)

    def table(self) -> list[dict[str, Any]]:
        """One row per solution: caution, expected return, risk, objective, gap, status.

        Over a limit the rows begin with the limit, the value of the measure and the price of one more unit of room.
        At caution 0 the risk of the policy is shown too, although it plays no part in the objective.
        """
        return [
            self._limit_columns(solution)
            | {
                "caution": solution.caution,
                "expected_return": solution.expected_return,
                "risk": solution.policy_risk,
                "objective": solution.objective,
                "gap": solution.gap,
                "status": solution.status.name,
            }
            for solution in self
        ]

    def _limit_columns(self, solution: Solution) -> dict[str, Any]:
        if not self.over_limit:
            return {}
        (row,) = solution.constraints
        return {"limit": row.bound, "value": row.value, "price": row.price}

    def plot(self) -> Any:
        """Expected return against risk, or against the limit, as a matplotlib figure (extra ``plot``)."""
        if self.over_limit:
            from cautious.report.limit_page import plot_limits

            return plot_limits(self)
        from cautious.report.plots import plot_frontier

        return plot_frontier(self)

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write one self-contained HTML page that compares the solutions (extra ``plot``)."""
        if self.over_limit:
            from cautious.report.limit_page import write_limit_page

            write_limit_page(self, path)
        else:
            from cautious.report.frontier_page import write_overview

            write_overview(self, path)


def frontier(
    mdp: MDP,
    risk: Risk | None = None,
    cautions: Iterable[float] | None = None,
    tolerance: float = DEFAULT_TOLERANCE,
    time_limit_seconds: float | None = None,
    seed: int = 0,
    callback: Callback | None = None,
    *,
    threads: int | None = None,
    memory_limit: float | None = None,
    constraints: Sequence[Constraint] = (),
    limits: Iterable[float] | None = None,
    caution: float = 1.0,
    horizon: Horizon = None,
    executor: Executor | None = None,
) -> Frontier:
    """Solve a problem for several cautions, from small to large; or for several bounds of one limit.

    Parameters
    ----------
    mdp, risk
        As in ``ca.Problem``; without a risk there must be one constraint, whose bound the frontier is along.
    cautions
        At least 0; by default eight values around the exchange rate between return and risk in this model, and 0
        where the risk-neutral policy has a finite risk.
    tolerance, time_limit_seconds, seed, callback, threads, memory_limit
        As in ``ca.solve``, for each point; a callback that returns True ends the frontier with that point.
    constraints
        As in ``ca.Problem``; every point keeps them.
    limits
        Bounds of the only constraint, which replace its own; the points then differ in these, at one ``caution``.
        Without a risk they are chosen by default: from near the best value that any policy reaches to where the limit
        does not matter any more.
    horizon
        As in ``ca.Problem``.
    executor
        Any ``concurrent.futures.Executor``: the points are solved side by side, each from the beginning and on one
        thread, so that any number of workers gives the same. The callback is then called once for each point.

    Examples
    --------
    >>> import cautious as ca
    >>> points = ca.frontier(ca.worlds.maze(), ca.Variance(), cautions=[0, 10])
    >>> points[0].expected_return > points[1].expected_return
    True
    >>> machine, broken = ca.worlds.machine_replacement(), ca.Exposure("broken")
    >>> points = ca.frontier(machine, constraints=[broken <= 0], limits=[0.002, 0.004])
    >>> points.limits, points[0].objective < points[1].objective
    ([0.002, 0.004], True)
    """
    checked_executor(executor)
    constraints = listed_constraints(constraints)
    if limits is not None or (risk is None and cautions is None and len(constraints) == 1):
        if cautions is not None:
            raise InputError("a frontier is along cautions or along limits; give one of them, and caution= with limits")
        request = Request(tolerance, time_limit_seconds, seed, callback, threads, memory_limit).check()
        return _over_limit(mdp, risk, caution, constraints, limits, horizon, request, executor)
    if not isinstance(risk, Risk):
        along = "; with exactly one constraint it can be left out" if risk is None else ""
        raise InputError(f"risk must be a ca.Risk, found {type(risk).__name__}{along}")
    request = Request(tolerance, time_limit_seconds, seed, callback, threads, memory_limit).check()
    problem = Problem(mdp, risk, constraints=constraints, horizon=horizon)
    chosen = None if cautions is None else _checked(cautions)
    asked_to_stop = False

    def listening(progress: Progress) -> bool:
        """The callback, and whether it asked to stop: a point that is proved at that moment has the status SOLVED."""
        nonlocal asked_to_stop
        asked_to_stop = (callback is not None and callback(progress) is True) or asked_to_stop
        return asked_to_stop

    request = replace(request, callback=None if callback is None else listening)
    points, before, workspace, clock = Frontier(), None, Workspace(), Clock(None)
    with Interruption(clock), ready(problem, request):
        wanted = _default_cautions(problem, request) if chosen is None else chosen
        if executor is not None:
            return _side_by_side(executor, problem.with_caution, wanted, request, points, clock)
        for caution in wanted:
            problem = problem.with_caution(caution)
            before = answer_ready(problem, request, before, workspace)
            points.append(before)
            if clock.stop_requested or asked_to_stop or before.status is Status.STOPPED:
                break
    return points


def _over_limit(
    mdp: MDP,
    risk: Risk | None,
    caution: float,
    constraints: Sequence[Constraint],
    limits: Iterable[float] | None,
    horizon: Horizon,
    request: Request,
    executor: Executor | None,
) -> Frontier:
    """Solutions along the bound of the only constraint, from small to large."""
    values = [] if limits is None else _checked(limits, "limits", -np.inf)
    if len(constraints) != 1 or not isinstance(constraints[0], Constraint):
        raise InputError(
            f"limits are bounds of one constraint, and constraints has {len(constraints)}; give one, such as "
            "constraints=[ca.Exposure(states) <= 0.02]"
        )
    points, before, clock = Frontier(over_limit=True), None, Clock(None)
    problem_at = _AtLimit(mdp, risk, caution, constraints[0], horizon)
    with Interruption(clock):
        if limits is None:
            values = _default_limits(problem_at(constraints[0].bound), request)
        if executor is not None:
            return _side_by_side(executor, problem_at, values, request, points, clock)
        for bound in values:
            before = answer(problem_at(bound), request, before)
            points.append(before)
            if clock.stop_requested or before.status is Status.STOPPED:
                break
    return points


@dataclass(frozen=True)
class _AtLimit:
    """The problem for each bound of its only constraint; a class, because it is sent to workers."""

    mdp: MDP
    risk: Risk | None
    caution: float
    constraint: Constraint
    horizon: Horizon

    def __call__(self, bound: float) -> Problem:
        return Problem(self.mdp, self.risk, self.caution, [replace(self.constraint, bound=bound)], self.horizon)


ProblemAt = Callable[[float], Problem]


def _side_by_side(
    executor: Executor, problem_at: ProblemAt, values: Sequence[float], request: Request, points: Frontier, clock: Clock
) -> Frontier:
    """The points of all values, in their order, up to the one at which the callback stops."""
    alone = replace(request, callback=None, threads=request.threads or 1)
    workers = Workers(executor, stopping=lambda: clock.stop_requested)
    with suppress(StopRequested):
        for number, found in workers.run(_solved, (problem_at, alone), values):
            problem = problem_at(values[number])
            points.append(replace(found, mdp=problem.mdp, problem=problem))
            figures = found.seconds, found.objective, found.upper_bound, found.gap, found.method
            if request.callback is not None and request.callback(Progress(1, *figures)) is True:
                break
    return points


def _solved(content: tuple[ProblemAt, Request], value: float) -> Any:
    """One point, in a worker; without what the caller has."""
    problem_at, request = content
    nothing: Any = None
    return replace(answer(problem_at(value), request), mdp=nothing, problem=None)


def _checked(numbers: Iterable[float], name: str = "cautions", least: float = 0.0) -> list[float]:
    if not is_listable(numbers):
        raise InputError(f"{name} must be a sequence of numbers, found {shown(numbers)}")
    values = [as_number(f"{name}[{i}]", value, least) for i, value in enumerate(numbers)]
    if not values:
        raise InputError(f"{name} is empty; give at least one")
    return sorted(set(values))


def _default_limits(problem: Problem, request: Request) -> list[float]:
    """Between the best value that any policy reaches and the one without the limit; and its own bound."""
    if problem.parts.return_limits:
        raise InputError(
            f"bounds of {problem.constraints[0].measure.label} are not chosen by default; give limits=[...]"
        )
    quietly, (limit,) = replace(request, callback=None), problem.limits
    free = answer(problem.part(problem.reward, []), quietly)
    safest = answer(problem.part(np.zeros(problem.mdp.shape), terms_of(limit.measure)), quietly)
    best, loosest = (float(limit.measure.value(over_time(one.occupancy))) for one in (safest, free))
    if not np.isfinite(loosest):
        loosest = limit.bound + max(limit.bound - best, 0.0)
    room = loosest - best
    if not np.isfinite(room) or room <= MIN_RELATIVE_ROOM * max(abs(best), abs(loosest)):
        return [limit.sign * limit.bound]
    digits = 2 - int(np.floor(np.log10(room)))
    bounds = {round(best + share * room, digits) for share in np.linspace(1 / DEFAULT_POINTS, 1, DEFAULT_POINTS)}
    return sorted(limit.sign * bound + 0.0 for bound in {*bounds, limit.bound})


def _default_cautions(problem: Problem, request: Request) -> Sequence[float]:
    """Cautions around the ratio of return to risk between a risk-neutral and a safest policy."""
    quietly = replace(request, callback=None)
    neutral = answer(problem.with_caution(0.0), quietly)
    if problem.parts.returns:
        spread = float(np.sqrt(return_variance(problem.mdp, neutral.policy)[1]))
        return _around(problem.parts.returns[0].risk.of.natural_caution(spread), True)
    safest = answer(problem.part(np.zeros(problem.mdp.shape), problem.terms), quietly)
    if problem.risk is None or not np.isfinite(safest.objective):
        return [1.0]
    top, risk = neutral.expected_return, float(problem.risk.value(over_time(neutral.occupancy)))

    def rate_of(found: Solution) -> float:
        lost, saved = top - problem.expected_return(found.occupancy), risk - found.risk
        return lost / saved if np.isfinite(saved) and saved > 0 and lost > 0 else 0.0

    rate = rate_of(safest) or max(1.0, abs(top))
    # of several safest policies the one with the largest return counts: it shows what safety costs
    minding = rate_of(answer(problem.with_caution(rate * 10.0**DEFAULT_DECADES), quietly))
    if 0 < minding < rate / 10:
        rate = minding
    return _around(rate, bool(np.isfinite(risk)))


def _around(rate: float, with_zero: bool) -> list[float]:
    steps = rate * 10.0 ** np.linspace(-DEFAULT_DECADES, DEFAULT_DECADES, DEFAULT_POINTS - 1)
    return [float(f"{value:.3g}") for value in ([0.0, *steps] if with_zero else steps)]
