"""The one loop: a solver proposes, the certificate judges, this file decides when to stop.

A solver is a class with a ``name``, a ``refusal`` and ``steps``: a generator of ``Candidate`` (a policy, a witness, or
both). The loop keeps the best policy and the lowest upper bound, whichever step they came from, and ends on a
proof, a limit, a request, or when the solver has nothing more to propose.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import numpy as np

from cautious.arrays import Array
from cautious.certificate.bounds import Conflict, Cover, Witness, conflict_bound, first_order_bound, upper_bound
from cautious.certificate.policy_evaluation import EvaluatedPolicy, evaluate_policy, evaluate_return
from cautious.problem import Problem
from cautious.runtime.clock import Clock
from cautious.status import Status

Kept = TypeVar("Kept")
# tables (S, A) and vectors (S,) that a method without matrices of its own holds at its peak, certificate included
TABLES, VECTORS = 12, 24


@dataclass(frozen=True)
class Progress:
    """What a callback receives; returning True from the callback stops the run.

    Examples
    --------
    >>> import cautious as ca
    >>> seen = []
    >>> solution = ca.solve(ca.worlds.problem("queue"), callback=seen.append)
    >>> seen[-1].method, seen[-1].gap <= seen[0].gap
    ('column generation', True)
    """

    step: int
    seconds: float
    objective: float
    upper_bound: float
    gap: float
    method: str


Callback = Callable[[Progress], Any]


@dataclass(frozen=True)
class Candidate:
    """What a solver proposes: a policy, a witness for an upper bound, a proof of conflict, or several of these.

    ``states`` (S,) may say what the policy's state marginal is about: the certificate then starts from there. Without
    a risk, ``values`` (S,) may say what the policy is worth in each state: the certificate may need nothing else.
    """

    policy: Array | None = None
    witness: Witness | Cover | None = None
    conflict: Conflict | None = None
    states: Array | None = None
    values: Array | None = None


class Workspace:
    """What solves of the same model and risk leave for each other (another caution, another inner problem).

    Every solver keeps one entry under its own name; nothing in it is needed for a proof.
    """

    def __init__(self) -> None:
        self._kept: dict[str, Any] = {}

    def of(self, name: str, make: Callable[[], Kept]) -> Kept:
        """The entry of a solver, made at first use."""
        if name not in self._kept:
            self._kept[name] = make()
        return cast(Kept, self._kept[name])


@dataclass(frozen=True)
class Start:
    """A neighbouring problem's policy (S, A) and multipliers (S,): where a warm start begins."""

    policy: Array
    multipliers: Array


@dataclass(frozen=True)
class Target:
    """What a run is asked for: the relative tolerance, or an ``absolute`` one, and the clock it runs by.

    ``watched``: somebody wants to hear of candidates that cannot end the run.
    """

    tolerance: float
    clock: Clock
    absolute: float | None = None
    start: Start | None = None
    workspace: Workspace = field(default_factory=Workspace)
    watched: bool = False

    def allowance(self, objective: float) -> float:
        """The absolute gap that counts as solved."""
        if self.absolute is not None:
            return self.absolute
        return self.tolerance * max(1.0, abs(objective)) if np.isfinite(objective) else self.tolerance


class Solver(ABC):
    """Proposes policies and witnesses; see the module's text.

    ``margin``: a solver with cheap steps goes on until this share of the allowed gap, so that two answers to the same
    question agree within the tolerance.
    """

    name: str
    margin: float = 1.0

    @abstractmethod
    def refusal(self, problem: Problem) -> str | None:
        """Why this solver cannot take the problem; None when it can."""

    @abstractmethod
    def steps(self, problem: Problem, target: Target) -> Iterator[Candidate]:
        """Better and better candidates."""

    def memory(self, problem: Problem) -> int:
        """About how many bytes it needs beyond the model, the solution included."""
        n_states, n_actions = problem.mdp.shape
        return 8 * n_states * (TABLES * n_actions + VECTORS)


@dataclass
class Outcome:
    """The best of a run."""

    status: Status
    delivered: EvaluatedPolicy | None = None
    witness: Witness | Cover | None = None
    upper: float = np.inf
    conflict: Conflict | None = None
    steps: int = 0

    @property
    def gap(self) -> float:
        """Upper bound, with the error of the objective, minus the objective."""
        if self.delivered is None or not np.isfinite(self.delivered.objective):
            return np.inf
        # an upper bound below the objective can only be rounding, which ``error`` covers
        return max(self.upper - self.delivered.objective, 0.0) + self.delivered.error

    def take(self, problem: Problem, candidate: Candidate, target: Target) -> None:
        """Keep what is better."""
        self.steps += 1
        if candidate.witness is not None:
            bound = judged(problem, candidate.witness)
            if bound < self.upper or (self.witness is None and not np.isnan(bound)):
                self.upper, self.witness = bound, candidate.witness
        if candidate.policy is not None:
            found = None
            if problem.neutral and candidate.values is not None:
                found = evaluate_return(problem, candidate.policy, candidate.values, target.allowance)
            if found is None:
                found = evaluate_policy(problem, candidate.policy, candidate.states, target.allowance)
            if self.delivered is None or found.objective > self.delivered.objective:
                self.delivered = found
        if candidate.conflict is not None and conflict_bound(problem, candidate.conflict) <= 0:
            self.conflict = candidate.conflict
            if candidate.policy is not None:
                self.delivered = evaluate_policy(problem, candidate.policy, candidate.states)


def judged(problem: Problem, witness: Witness | Cover) -> float:
    """The bound that ends a run: of all policies, or first order only where no more can be had."""
    if problem.only_stationary and isinstance(witness, Witness):
        return first_order_bound(problem, witness)
    return upper_bound(problem, witness)


def _quietly(candidates: Iterator[Candidate]) -> Iterator[Candidate]:
    """The same without NumPy's warnings: a solver may overflow on its way, and its proposals are judged anyway."""
    while True:
        with np.errstate(all="ignore"):
            candidate = next(candidates, None)
        if candidate is None:
            return
        yield candidate


def run(
    solver: Solver, problem: Problem, target: Target, callback: Callback | None, outcome: Outcome | None = None
) -> Outcome:
    """Run a solver to a proof, a limit, a request or its end; ``outcome`` carries on from an earlier solver."""
    best = Outcome(Status.STALLED) if outcome is None else outcome
    best.status = Status.STALLED
    clock = target.clock
    for candidate in _quietly(solver.steps(problem, target)):
        best.take(problem, candidate, target)
        if best.conflict is not None:
            best.status = Status.INFEASIBLE
            break
        objective = -np.inf if best.delivered is None else best.delivered.objective
        wants_stop = False
        if callback is not None:
            wants_stop = (
                callback(Progress(best.steps, clock.seconds, objective, best.upper, best.gap, solver.name)) is True
            )
        if best.gap <= solver.margin * target.allowance(objective):
            best.status = Status.SOLVED
            break
        if wants_stop:
            clock.stop_requested = True
        if clock.over:
            break
    solved = best.delivered is not None and best.gap <= target.allowance(best.delivered.objective)
    if solved and best.conflict is None:
        best.status = Status.SOLVED
    elif best.status is Status.STALLED and clock.over:
        best.status = clock.ended
    return best
