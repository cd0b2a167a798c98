"""How a method is run on a problem, and what of it goes into its row."""

import pickle
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

import numpy as np

from cautious.certificate.policy_evaluation import evaluate_policy
from cautious.comparison.results import OURS, ComparisonRow
from cautious.errors import CautiousError
from cautious.learning.learn import learn
from cautious.learning.loop import LearningProgress
from cautious.models.formats.own import model_from_storage, model_to_storage
from cautious.models.tabular import MDP
from cautious.peers import roster
from cautious.peers.timing import repeated
from cautious.peers.workers import Worker
from cautious.problem import Problem
from cautious.solution import Solution
from cautious.solvers.base import Solver
from cautious.solvers.request import Request
from cautious.solvers.solve import answer
from cautious.status import Status

CHILD = ("-P", "-m", "cautious.peers.child")
# runs below this are repeated, and the fastest counts
LONG_SECONDS = 5.0


def solver_row(problem: Problem, solver: Solver, request: Request) -> ComparisonRow:
    """One of our exact methods."""

    def run() -> dict[str, Any]:
        # bound anew: what a risk remembers of an earlier run would help the next one
        fresh = Problem(problem.mdp, problem.unbound_risk, problem.caution)
        started = time.perf_counter()
        solution = answer(fresh, request, solvers=[solver])
        return {"seconds": time.perf_counter() - started, "solution": solution}

    def stopped(found: dict[str, Any]) -> bool:
        return bool(found["solution"].status is Status.STOPPED)

    found = run()
    if found["seconds"] < LONG_SECONDS and not stopped(found):
        found = min(found, repeated(run), key=lambda one: one["seconds"])
    solution: Solution = found["solution"]
    return ComparisonRow(
        method=solver.name,
        whose=OURS,
        status=solution.status.name,
        objective=finite(solution.objective),
        upper_bound=finite(solution.upper_bound),
        gap=finite(solution.gap) if np.isfinite(solution.objective) else None,
        seconds=found["seconds"],
    )


def learner_row(problem: Problem, method: str, samples: int, limit_seconds: float, seed: int) -> ComparisonRow:
    """One of our learners; it sees samples only, and the policy it delivers is evaluated in the model."""

    def run() -> tuple[Solution, bool, float]:
        late = False

        def watch(progress: LearningProgress) -> bool:
            nonlocal late
            late = progress.seconds > limit_seconds
            return late

        simulator, started = problem.mdp.simulator(), time.perf_counter()
        learned = learn(simulator, problem.unbound_risk, problem.caution, samples, method, seed, callback=watch)
        return learned, late, time.perf_counter() - started

    try:
        learned, late, seconds = run()
    except CautiousError as error:
        return ComparisonRow(method, OURS, "not applicable", note=str(error))
    objective = finite(evaluate_policy(problem, learned.policy).objective)
    # a learner does not know that who stopped it was the clock
    status = Status.TIME_LIMIT if late and learned.status is Status.STOPPED else learned.status
    return ComparisonRow(method, OURS, status.name, objective, seconds=seconds, note=f"at most {samples:,} samples")


class Peers:
    """Others' solvers, each package in a process of its own that is started when it is first needed."""

    def __init__(self, problem: Problem, tolerance: float, limit_seconds: float) -> None:
        self.problem, self.tolerance, self.limit = problem, tolerance, limit_seconds
        self.workers: dict[str, Worker] = {}

    def row(self, name: str) -> ComparisonRow:
        """One peer; a package that fails, hangs or is missing is a row that says so."""
        absent, owner = roster.missing(name), roster.owner(name)
        if absent is not None:
            return ComparisonRow(name, owner, "not installed", note=f"pip install {absent}")
        worker, payload = self.workers.get(owner), b""
        if worker is None or not worker.alive:
            worker = self.workers[owner] = Worker(CHILD, patient=False)
            payload = self._pickled()
        found = worker.ask({"solver": name, "limit_seconds": self.limit}, self.limit, payload)
        status, note = said(found["status"])
        if found.get("objective") is None:
            return ComparisonRow(name, owner, status, seconds=found.get("wall_seconds"), note=note)
        objective, bound, claimed = found["objective"], found["upper_bound"], found["claimed"]
        if claimed is not None and abs(claimed - objective) > self.tolerance * max(1.0, abs(objective)):
            note = f"claims {claimed:.8g}"
        gap = None if bound is None else bound - objective
        return ComparisonRow(name, owner, status, objective, bound, gap, found["wall_seconds"], note)

    def _pickled(self) -> bytes:
        """The problem for a child, where neither how the risk was written nor where the model is from plays a part."""
        mdp = self.problem.mdp
        if type(mdp) is not MDP:
            # the model of a log holds its log
            mdp = model_from_storage("model", *model_to_storage(mdp))
        # a risk that does not count, at caution 0 or weight 0, may hold functions that cannot be sent
        bare = self.problem.in_model(mdp, self.problem.reward, self.problem.terms)
        bare.unbound_risk = None
        return pickle.dumps(bare)

    def __enter__(self) -> "Peers":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self.workers.values():
            if worker.alive:
                worker.close()


def said(status: str) -> tuple[str, str]:
    """A worker's status as a word and a note."""
    if status.startswith("failed: "):
        return "failed", status.removeprefix("failed: ")
    if " over " in f" {status}":
        return "time limit", status.replace("over", "stopped after")
    return status, ""


def finite(value: float) -> float | None:
    """None for what is not."""
    return float(value) if np.isfinite(value) else None


Run = Callable[[], ComparisonRow]
