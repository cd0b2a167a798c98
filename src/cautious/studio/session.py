"""``Session``: answers the statements of one page, one at a time, and remembers what the next answer can start from."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from cautious.frontiers import Frontier, frontier
from cautious.problem import Problem
from cautious.solution import Solution
from cautious.solvers.base import Progress, Workspace
from cautious.solvers.solve import Request, answer
from cautious.status import Status
from cautious.studio.scenario import Scenario, Statement, least_caution, scenario_of

# a curve on a screen needs no more
CURVE_TOLERANCE = 1e-4

Stop = Callable[[], bool]


class _FrontierStoppedError(Exception):
    """Ends a frontier at once, also in the middle of a point: the page draws whole curves only."""


@dataclass
class _Prepared:
    """What statements that differ only in their caution share; ``key`` is any of them, with caution 0."""

    key: Statement
    scenario: Scenario
    problem: Problem
    workspace: Workspace
    last: tuple[Statement, Solution] | None = None


class Session:
    """One page's work. Not for two threads at once; ``stop`` is asked between steps and ends a run early."""

    def __init__(self, opened: Problem | None = None, time_limit_seconds: float = 5.0) -> None:
        self.opened = opened
        self.time_limit_seconds = time_limit_seconds
        self._kept: _Prepared | None = None

    def scenario(self, statement: Statement) -> Scenario:
        """The model and the danger of a statement."""
        return self._prepared(statement).scenario

    def solve(self, statement: Statement, stop: Stop) -> Solution:
        """The best policy; from the neighbouring caution's where only the caution changed."""
        kept = self._prepared(statement)
        before = None if kept.last is None else kept.last[1]
        request = Request(time_limit_seconds=self.time_limit_seconds, callback=lambda progress: stop())
        problem = kept.problem.with_caution(max(statement.caution, least_caution(kept.problem)))
        solution = answer(problem, request, before, kept.workspace)
        kept.last = (statement, solution)
        return solution

    def answered(self, statement: Statement, stop: Stop) -> Solution:
        """As ``solve``, or the last answer where it was to the same statement and complete."""
        kept = self._prepared(statement)
        if kept.last is not None and kept.last[0] == statement and kept.last[1].status is not Status.STOPPED:
            return kept.last[1]
        return self.solve(statement, stop)

    def frontier(self, statement: Statement, stop: Stop) -> Frontier | None:
        """Solutions along caution; None where there is no risk to trade, or when stopped before the end."""
        kept = self._prepared(statement)
        if kept.problem.unbound_risk is None:
            return None

        def stop_frontier(progress: Progress) -> bool:
            if stop():
                raise _FrontierStoppedError
            return False

        try:
            return frontier(
                kept.scenario.mdp,
                kept.problem.unbound_risk,
                tolerance=CURVE_TOLERANCE,
                time_limit_seconds=self.time_limit_seconds,
                callback=stop_frontier,
            )
        except _FrontierStoppedError:
            return None

    def _prepared(self, statement: Statement) -> _Prepared:
        key, kept = replace(statement, caution=0.0), self._kept
        if kept is None or kept.key != key:
            same_model = kept is not None and (kept.key.grid, kept.key.danger) == (key.grid, key.danger)
            scenario = kept.scenario if kept is not None and same_model else scenario_of(statement, self.opened)
            problem = Problem(scenario.mdp, scenario.risk(statement.risk))
            kept = self._kept = _Prepared(key, scenario, problem, Workspace())
        return kept
