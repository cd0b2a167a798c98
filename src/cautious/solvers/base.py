"""The one loop: a solver proposes, the certificate judges, this file decides when to stop.

A solver is a class with a ``name``, a ``refusal`` and ``steps``: a generator of ``Candidate`` (a policy, a witness, or
both). The loop keeps the best policy and the lowest upper bound, whichever step they came from, and ends on a
proof, a limit, a request, or when the solver has nothing more to propose.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

import numpy as np

from cautious.arrays import Array
from cautious.certificate.bounds import Conflict, Cover, Witness, conflict_bound, first_order_bound, upper_bound
from cautious.certificate.policy_evaluation import EvaluatedPolicy, evaluate_policy, evaluate_return
from cautious.problem import Problem
from cautious.risks.base import Structure
from cautious.runtime.clock import Clock
from cautious.solvers.advantage_form import AdvantageForm
from cautious.solvers.reachable import ReachablePart
from cautious.solvers.refinement import refined
from cautious.solvers.shape import Shape
from cautious.status import Status

Kept = TypeVar("Kept")
# tables (S, A) and vectors (S,) that a method without matrices of its own holds at its peak, certificate included
TABLES_HELD, VECTORS_HELD = 12, 24
# for each transition of a chain, as it is and as its linear systems scale it
CHAIN_BYTES = 20


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
    ``hints`` may save time when the risks of these terms are evaluated. Of a policy that remembers what was earned the
    solver gives what it is worth, ``evaluated``, and the ``bound`` of all such policies. ``known`` is what the
    certificate found for the policy in a problem with other terms.
    """

    policy: Array | None = None
    witness: Witness | Cover | None = None
    conflict: Conflict | None = None
    states: Array | None = None
    values: Array | None = None
    hints: Mapping[int, Any] = field(default_factory=dict)
    evaluated: EvaluatedPolicy | None = None
    bound: float = np.inf
    known: EvaluatedPolicy | None = None


class Workspace:
    """What solves of the same model and risk leave for each other (another caution, another inner problem).

    Every solver keeps its entries under its own name; nothing in it is needed for a proof.
    """

    def __init__(self) -> None:
        self._kept: dict[str, Any] = {}

    def of(self, name: str, make: Callable[[], Kept]) -> Kept:
        """The entry of a solver, made at first use."""
        if name not in self._kept:
            self._kept[name] = make()
        return cast(Kept, self._kept[name])


def shape_of(problem: Problem, workspace: Workspace) -> Shape:
    """The shape of a problem's model, found once a workspace."""
    return workspace.of("shape", lambda: Shape(problem))


@dataclass(frozen=True)
class Start:
    """A neighbouring problem's policy (S, A) and multipliers (S,): where a warm start begins."""

    policy: Array
    multipliers: Array


@dataclass(frozen=True)
class Target:
    """What a run is asked for: the relative tolerance, or an ``absolute`` one, and the clock it runs by.

    ``watched``: there is a callback, so that a solver also yields candidates that cannot end the run.
    """

    tolerance: float
    clock: Clock
    absolute: float | None = None
    start: Start | None = None
    workspace: Workspace = field(default_factory=Workspace)
    watched: bool = False

    def over(self) -> bool:
        """Whether a solver is to return at the next occasion."""
        return self.clock.over

    def allowance(self, objective: float) -> float:
        """The absolute gap that counts as solved."""
        if self.absolute is not None:
            return self.absolute
        return self.tolerance * max(1.0, abs(objective)) if np.isfinite(objective) else self.tolerance


# what solves a problem inside of another one: ``choose.dispatch``
Dispatch = Callable[[Problem, Target], "Outcome"]


class Solver(ABC):
    """Proposes policies and witnesses; see the module's text.

    ``accepts``: the structures that the terms of the risk may have. ``every_horizon``: takes other problems than those
    that are discounted for ever. ``every_model``: takes models whose transitions are not written down. ``margin``: a
    run ends when the gap is at most this share of the allowed one. Solvers with cheap steps go below it, so that two
    answers to the same question agree within the tolerance.
    """

    name: str
    accepts: frozenset[Structure] = frozenset()
    margin: float = 1.0
    every_horizon: bool = False
    every_model: bool = False
    # tables (S, A) and vectors (S,) at the peak, where no transitions are written down
    held_without_matrix: tuple[int, int] = (TABLES_HELD, VECTORS_HELD)

    def refusal(self, problem: Problem) -> str | None:
        """Why this solver cannot take the problem; None when it can."""
        if problem.neutral:
            return "needs a risk"
        if problem.mdp.horizon is not None and not self.every_horizon:
            return "needs a problem that is discounted for ever"
        if not problem.parts.structures <= self.accepts:
            other = next(term.risk for term in problem.parts.all if term.risk.structure not in self.accepts)
            return f"cannot take {other.label} ({other.structure.value})"
        if not (problem.mdp.written_down or self.every_model):
            return "needs the transitions written down"
        return self.further_refusal(problem)

    def further_refusal(self, problem: Problem) -> str | None:
        """Why it cannot take a problem whose structures it accepts; None when it can."""
        return None

    def work(self, problem: Problem, shape: Shape) -> float:
        """About how many operations a solve takes; ``choose`` takes the least, and none that is infinite.

        Infinite for a solver that is used only where no other one takes the problem.
        """
        return np.inf

    @abstractmethod
    def steps(self, problem: Problem, target: Target) -> Iterator[Candidate]:
        """Candidates, one after the other; the loop keeps the best."""

    def memory(self, problem: Problem) -> int:
        """About how many bytes it needs beyond the model, the solution included."""
        rows, n_actions = math.prod(problem.mdp.occupancy_shape[:-1]), problem.mdp.n_actions
        # the chain of one policy is small beside a model that is written down
        if problem.mdp.written_down:
            return 8 * rows * (TABLES_HELD * n_actions + VECTORS_HELD)
        tables, vectors = self.held_without_matrix
        return CHAIN_BYTES * problem.mdp.most_entries + 8 * rows * (tables * n_actions + vectors)


@dataclass
class Outcome:
    """The best of one or several runs, and how the last one ended; ``method`` is the name of its solver.

    ``excluded``: no policy meets all requirements, by a proof without weights. ``out_of_steps``: the search was not
    ended. ``relaxed``: of a search over deterministic policies, the outcome for all policies. ``without_memory``: the
    search is over policies that do not remember what was earned, and the bound is one of all policies.
    """

    status: Status = Status.STALLED
    method: str = ""
    evaluated: EvaluatedPolicy | None = None
    witness: Witness | Cover | None = None
    upper: float = np.inf
    conflict: Conflict | None = None
    steps: int = 0
    excluded: bool = False
    out_of_steps: bool = False
    relaxed: "Outcome | None" = None
    without_memory: bool = False

    @property
    def objective(self) -> float:
        """The objective of the best policy; minus infinity when there is none."""
        return -np.inf if self.evaluated is None else self.evaluated.objective

    @property
    def bound(self) -> float:
        """What no policy exceeds; the error of the objective is added, so that the gap is safe and never zero."""
        if self.evaluated is None or not np.isfinite(self.objective):
            return self.upper
        return float(np.nextafter(max(self.upper, self.objective) + self.evaluated.error, np.inf))

    @property
    def gap(self) -> float:
        """How much better than the best policy any policy can be."""
        return self.bound - self.objective if np.isfinite(self.objective) else np.inf

    def decide(self, problem: Problem, target: Target) -> None:
        """Set the status of an exact solve that has come to its end: the only place that does so."""
        if self.conflict is not None or self.excluded:
            self.status = Status.INFEASIBLE
        elif self.gap <= target.allowance(self.objective):
            self.status = Status.STATIONARY if problem.only_stationary else Status.SOLVED
        elif target.clock.over:
            self.status = target.clock.ended
        elif not np.isfinite(self.objective):
            self.status = Status.UNDECIDED
        elif self.out_of_steps:
            self.status = Status.STEP_LIMIT
        else:
            # the gap may be what memory is worth
            self.status = Status.STATIONARY if self.without_memory else Status.STALLED

    @property
    def open(self) -> bool:
        """Whether the solver had nothing more to propose, and another one may have."""
        return self.status in (Status.STALLED, Status.UNDECIDED)

    def take(self, problem: Problem, candidate: Candidate, target: Target) -> None:
        """Judge a candidate, and keep its policy, bound or conflict where it is better than the one kept so far."""
        self.steps += 1
        self.upper = min(self.upper, candidate.bound)
        found = candidate.evaluated
        if candidate.witness is not None:
            bound = judged(problem, candidate.witness)
            if bound < self.upper or (self.witness is None and not np.isnan(bound)):
                self.upper, self.witness = bound, candidate.witness
        if candidate.policy is not None:
            if problem.neutral and candidate.values is not None:
                found = evaluate_return(problem, candidate.policy, candidate.values, target.allowance)
            if found is None:
                found = evaluate_policy(
                    problem,
                    candidate.policy,
                    candidate.states,
                    target.allowance,
                    candidate.hints,
                    lambda: target.clock.limit_reached,
                    candidate.known,
                )
        if found is not None:
            # by what is known for certain: near a floor, the objective of one policy may be much less exact
            best = self.evaluated
            if best is None or found.objective - found.error > best.objective - best.error:
                self.evaluated = found
        self._take_conflict(problem, candidate)

    def refine(self, problem: Problem) -> None:
        """Bound anew with the best multipliers for the lines of the witness, in twice the working precision.

        Also with the tangents of barriers at the best policy, which a solver may know less exactly than the policy.
        """
        if self.witness is None or problem.mdp.horizon is not None:
            return
        with np.errstate(all="ignore"):
            for witness in (self.witness, self._with_tangents(problem, self.witness)):
                better = refined(problem, witness)
                bound = judged(problem, better)
                if bound < self.upper:
                    self.upper, self.witness = bound, better

    def _with_tangents(self, problem: Problem, witness: Witness | Cover) -> Witness | Cover:
        """The witness with the lines of barriers at the best policy."""
        best = self.evaluated
        if best is None or not isinstance(witness, Witness) or len(witness.cuts) != len(problem.terms):
            return witness
        cuts = list(witness.cuts)
        for term in problem.parts.barriers:
            slack = term.risk.slack(best.occupancy.occupancy)
            if np.all(slack > 0):
                cuts[term.number] = 1 / slack
        return replace(witness, cuts=tuple(cuts))

    def _take_conflict(self, problem: Problem, candidate: Candidate) -> None:
        if candidate.conflict is None:
            return
        excess = conflict_bound(problem, candidate.conflict)
        # limits may be reached, barriers must be exceeded
        strict = sum(term.risk.floors.size for term in problem.parts.barriers)
        if excess < 0 or (excess == 0 and np.any(np.asarray(candidate.conflict.weights)[:strict] > 0)):
            self.conflict = candidate.conflict
            if candidate.policy is not None:
                self.evaluated = evaluate_policy(problem, candidate.policy, candidate.states)


def judged(problem: Problem, witness: Witness | Cover) -> float:
    """The upper bound that a witness proves: of all policies, or of first order where a risk is not convex."""
    # a witness that overflows proves nothing
    with np.errstate(all="ignore"):
        if problem.only_stationary and isinstance(witness, Witness):
            return first_order_bound(problem, witness, problem.reward, problem.terms)
        return upper_bound(problem, witness)


def _quietly(candidates: Iterator[Candidate]) -> Iterator[Candidate]:
    """The same without NumPy's warnings: a solver may overflow on its way, and its proposals are judged anyway."""
    while True:
        try:
            with np.errstate(all="ignore"):
                candidate = next(candidates, None)
        except (np.linalg.LinAlgError, ArithmeticError):
            # numbers too large or too small for its linear algebra: it has nothing more to propose
            return
        if candidate is None:
            return
        yield candidate


def run(
    solver: Solver,
    problem: Problem,
    target: Target,
    callback: Callback | None = None,
    outcome: Outcome | None = None,
    part: ReachablePart | AdvantageForm | None = None,
) -> Outcome:
    """Run a solver to a proof, a limit, a request or its end; ``outcome`` carries on from an earlier solver.

    The solver is given the ``part`` of the problem that can be reached, or its advantage form, where there is one; what
    it proposes is judged in the whole problem.
    """
    best = Outcome() if outcome is None else outcome
    best.method, clock = solver.name, target.clock
    candidates = solver.steps(problem, target) if part is None else _lifted(solver, part, target)
    for candidate in _quietly(candidates):
        best.take(problem, candidate, target)
        if callback is not None:
            told = Progress(best.steps, clock.seconds, best.objective, best.upper, best.gap, solver.name)
            clock.stop_requested |= callback(told) is True
        proved = best.gap <= solver.margin * target.allowance(best.objective)
        if proved or best.conflict is not None or clock.over:
            break
    best.decide(problem, target)
    return best


def _lifted(solver: Solver, part: ReachablePart | AdvantageForm, target: Target) -> Iterator[Candidate]:
    """The proposals of a solver for another form of the problem, as proposals for the whole problem."""
    start = target.start
    if start is not None and isinstance(part, ReachablePart):
        start = Start(start.policy[part.states], start.multipliers[part.states])
    for found in solver.steps(part.problem, replace(target, start=start)):
        yield Candidate(
            policy=None if found.policy is None else part.lift_policy(found.policy),
            witness=None if found.witness is None else part.lift_witness(found.witness),
            conflict=None
            if found.conflict is None
            else replace(
                found.conflict,
                multipliers=part.lift(found.conflict.multipliers),
                rest=None if found.conflict.rest is None else part.lift(found.conflict.rest),
            ),
            states=None if found.states is None else part.lift(found.states),
            values=None if found.values is None else part.lift(found.values),
        )
