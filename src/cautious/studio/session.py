"""``Session``: answers the statements of one page, one at a time, and remembers what the next answer can start from."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

from cautious.frontiers import Frontier, frontier
from cautious.problem import Problem
from cautious.report.barriers import RiskFigure, figure_of, requirements_of
from cautious.solution import Solution
from cautious.solvers.base import Progress, Workspace
from cautious.solvers.solve import Request, answer
from cautious.status import Status
from cautious.studio.scenario import Scenario, Statement, barrier_limits, scenario_of

# a curve on a screen needs no more
CURVE_TOLERANCE = 1e-4
KEPT_PROBLEMS = 2

Stop = Callable[[], bool]


class _FrontierStoppedError(Exception):
    """Ends a frontier at once, also in the middle of a point: the page draws whole curves only."""


@dataclass
class _Prepared:
    """What statements that differ only in their caution share; ``key`` is any of them, with caution 0."""

    key: Statement
    scenario: Scenario
    problem: Problem
    workspace: Workspace = field(default_factory=Workspace)
    last: tuple[Statement, Solution] | None = None
    # of other limits in the same model, to start from
    neighbour: Solution | None = None

    @cached_property
    def at_caution_0(self) -> Problem:
        """Without caution: no risk, but where it is a barrier, the limit that the barrier stands for."""
        problem = self.problem
        limits = barrier_limits(problem.unbound_risk, self.scenario.mdp)
        if not limits:
            return problem.with_caution(0.0)
        return Problem(self.scenario.mdp, None, 0.0, [*problem.constraints, *limits], self.key.horizon)

    def solve(self, statement: Statement, request: Request) -> Solution:
        """The best policy at the caution of a statement."""
        before = self.neighbour if self.last is None else self.last[1]
        if statement.caution > 0:
            return answer(self.problem.with_caution(statement.caution), request, before, self.workspace)
        return answer(self.at_caution_0, request, before)


class Session:
    """One page's work. Not for two threads at once; ``stop`` is asked between steps and ends a run early."""

    def __init__(self, opened: Problem | None = None, time_limit_seconds: float = 5.0) -> None:
        self.opened = opened
        self.time_limit_seconds = time_limit_seconds
        # the latest first; side by side a page asks about two problems in turn
        self._kept: list[_Prepared] = []

    def scenario(self, statement: Statement) -> Scenario:
        """The model and the danger of a statement."""
        return self._prepared(statement).scenario

    def solve(self, statement: Statement, stop: Stop) -> Solution:
        """The best policy; from the neighbouring caution's where only the caution changed."""
        kept = self._prepared(statement)
        if kept.last is not None and _is_complete(kept.last, statement):
            # only the step that is looked at is another one
            return kept.last[1]
        request = Request(time_limit_seconds=self.time_limit_seconds, callback=lambda progress: stop())
        solution = kept.solve(statement, request)
        kept.last = (statement.question, solution)
        return solution

    def risk_shown(self, statement: Statement, solution: Solution) -> tuple[RiskFigure, float | None]:
        """What to show of the risk, also at caution 0: its value, or what a barrier is about."""
        problem = self._prepared(statement).problem
        if problem.risk is None:
            return RiskFigure("risk", "none"), None
        pairs = solution.certificate.visits.pairs
        asked = requirements_of(problem, pairs)
        figure = figure_of(problem.risk_label, asked, problem.mdp)
        return figure, figure.of(asked) if figure.is_barrier else float(problem.risk.value(pairs))

    def frontier(self, statement: Statement, stop: Stop) -> Frontier | None:
        """Solutions along caution, or along the only limit where there is no risk; None if stopped before the end."""
        kept = self._prepared(statement)
        risk, constraints = kept.problem.unbound_risk, kept.problem.constraints
        if risk is None and not statement.along_limit:
            return None

        def stop_frontier(progress: Progress) -> bool:
            if stop():
                raise _FrontierStoppedError
            return False

        try:
            return frontier(
                kept.scenario.mdp,
                risk,
                tolerance=CURVE_TOLERANCE,
                time_limit_seconds=self.time_limit_seconds,
                callback=stop_frontier,
                constraints=constraints,
                horizon=statement.horizon,
            )
        except _FrontierStoppedError:
            return None

    def _prepared(self, statement: Statement) -> _Prepared:
        key = replace(statement.question, caution=0.0)
        found = next((one for one in self._kept if one.key == key), None)
        if found is None:
            found = self._fresh(statement, key)
        self._kept = [found, *(one for one in self._kept if one is not found)][:KEPT_PROBLEMS]
        return found

    def _fresh(self, statement: Statement, key: Statement) -> _Prepared:
        near = next((one for one in self._kept if one.key.model_key == key.model_key), None)
        scenario = scenario_of(statement, self.opened) if near is None else near.scenario
        constraints = scenario.constraints(statement.limits)
        problem = Problem(scenario.mdp, scenario.risk(statement.risk), 1.0, constraints, statement.horizon)
        fresh = _Prepared(key, scenario, problem)
        if near is not None and near.last is not None and near.key.risk == key.risk:
            fresh.neighbour = near.last[1]
        return fresh


def _is_complete(last: tuple[Statement, Solution], statement: Statement) -> bool:
    """Whether the last answer was to the same question, and was not stopped."""
    return last[0] == statement.question and last[1].status is not Status.STOPPED
