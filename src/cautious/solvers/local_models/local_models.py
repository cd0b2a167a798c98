"""Convex risks known only by value and gradient, alone or beside risks in conic form.

The unknown part is replaced by a local model (``curvature_models``), every other term is kept as it is, and the cone
program is solved; a line search along the step keeps the objective rising. The gap is that of the tangent at the best
point, certified by a plan, as for every other solver. For a risk that is not convex the same steps lead to a
stationary point, and the certificate says no more than that.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from cautious.arrays import Array
from cautious.horizons.visits import over_time
from cautious.occupancy import occupancy_policy, policy_occupancy
from cautious.planning import plan
from cautious.problem import Problem
from cautious.risks.base import Structure, Tangents
from cautious.risks.epigraph import Epigraph
from cautious.solvers.base import Candidate, Solver, Target
from cautious.solvers.candidates import prove
from cautious.solvers.conic.cone_program import ConeAnswer, ConeProgram
from cautious.solvers.local_models.curvature_models import OracleTerms, bundle_model, diagonal_model, secant_model

MAX_STEPS = 300
# what a secant model and a bundle model are made from
MAX_SECANTS, MAX_TANGENTS = 40, 100
# mass that is added to an occupancy, in all, before a tangent is taken
ADDED_MASSES = (0.0, 1e-8, 1e-6)
# that a line search tries
STEP_LENGTHS = (1.0, 0.95, 0.8, 0.5, 0.25, 0.1, 0.03, 0.01, 1e-3, 1e-4)


class LocalModels(Solver):
    """See the module's text."""

    name = "local models"
    every_horizon = True

    accepts = frozenset(Structure) - {Structure.LIMIT, Structure.RETURN, Structure.RETURN_LIMIT}

    def further_refusal(self, problem: Problem) -> str | None:
        """Needs a term that is known by value and gradient only."""
        if not problem.parts.without_cones:
            return "has no unknown part"
        return "has a scalar to search" if problem.parts.scalars and not problem.only_stationary else None

    def steps(self, problem: Problem, target: Target) -> Iterator[Candidate]:
        """One candidate per local model."""
        iterate = _LocalModelsRun(problem, target)
        yield Candidate(iterate.policy)
        for _ in range(MAX_STEPS):
            answer = iterate.step()
            if answer is None:
                return
            yield from iterate.candidates(answer)


class _LocalModelsRun:
    """The present occupancy, and what is known of the unknown part around it."""

    def __init__(self, problem: Problem, target: Target) -> None:
        self.problem, self.target = problem, target
        self.unknown = OracleTerms(problem, [(term.weight, term.risk) for term in problem.parts.without_cones])
        self.rng = np.random.default_rng(0)
        self.policy = problem.default_rows
        # the occupancy, which is a table a step where the horizon is finite, and what risks see of it
        self.flow = policy_occupancy(problem.mdp, self.policy).occupancy
        self.d = over_time(self.flow)
        self._start_elsewhere_if_needed()
        self.extra = 1e-4 * max(1e-12, float(np.abs(self.unknown.gradient(self.d)).max())) * problem.active_pairs.sum()
        self.moves: list[Array] = []
        self.changes: list[Array] = []
        self.points, self.values = [self.d], [self.unknown.value(self.d)]
        self.slopes = [self.unknown.gradient(self.d)]

    def _start_elsewhere_if_needed(self) -> None:
        """The uniform policy may lie outside the risk's domain; the risk-neutral one is tried next."""
        if np.isfinite(self.problem.objective(self.d)) and self.unknown.usable(self.d):
            return
        best = plan(self.problem.mdp, self.problem.reward, allowed=self.problem.kept)
        policy = 0.9 * best.policy(self.problem.mdp.n_actions) + 0.1 * self.policy
        policy = self.problem.completed(policy)
        flow = policy_occupancy(self.problem.mdp, policy).occupancy
        if self.unknown.usable(over_time(flow)):
            self.policy, self.flow, self.d = policy, flow, over_time(flow)

    def step(self) -> ConeAnswer | None:
        """Solve the cone program of the local model, search along the step, and add what was found to the model."""
        self.bundle = self.points[-MAX_TANGENTS:]
        form = self._model()
        others = [(term.weight, term.risk.epigraph(self.problem.active_pairs)) for term in self.problem.parts.conic]
        program = ConeProgram(self.problem.mdp, self.problem.active, self.problem.reward, [(1.0, form), *others])
        answer = program.solve(self.target.clock)
        if answer is None:
            return None
        policy = occupancy_policy(answer.occupancy, self.problem.default_rows)
        there = policy_occupancy(self.problem.mdp, policy).occupancy
        length = self._search(over_time(there))
        if length > 0:
            self._learn(self.flow + length * (there - self.flow))
        elif not self.unknown.smooth:
            self._add_tangent(over_time(there))
        if self.unknown.smooth:
            self.extra *= 0.25 if length == 1.0 else (1.0 if length > 0.5 else 8.0)
        else:
            # a step that fails adds a tangent, which is progress too
            self.extra *= 0.5 if length == 1.0 else 1.0
        return answer

    def candidates(self, answer: ConeAnswer) -> Iterator[Candidate]:
        """The policy, with tangents at its occupancy and at points with a little more mass everywhere.

        Where hardly any mass is, gradients such as a logarithm's are mostly noise; a tangent may be taken anywhere.
        """
        for extra in ADDED_MASSES if self.unknown.smooth else (0.0,):
            active = self.problem.active_pairs
            point = self.d + np.where(active, extra / active.sum(), 0.0)
            if self.unknown.usable(point):
                witnesses = self._witnesses(answer.witnesses, point)
                witness, _ = prove(self.problem, witnesses, 1e-3 * self._allowance())
                yield Candidate(self.policy if extra == 0 else None, witness)

    def _allowance(self) -> float:
        return self.target.allowance(self.problem.objective(self.d))

    def _model(self) -> Epigraph:
        if not self.unknown.smooth:
            return bundle_model(
                self.points[-MAX_TANGENTS:], self.values[-MAX_TANGENTS:], self.slopes[-MAX_TANGENTS:], self.extra
            )
        curvature = self.unknown.diagonal(self.d, self.rng)
        if curvature is not None:
            return diagonal_model(self.unknown, self.d, curvature, 1e-9 * (1e-300 + float(curvature.max())))
        return secant_model(self.unknown, self.d, self.moves[-MAX_SECANTS:], self.changes[-MAX_SECANTS:], self.extra)

    def _search(self, there: Array) -> float:
        """The longest of the step lengths that raises the objective enough; 0 when none does."""
        start, best, best_length = self.problem.objective(self.d), -np.inf, 0.0
        for length in STEP_LENGTHS:
            d = self.d + length * (there - self.d)
            value = self.problem.objective(d) if self.unknown.usable(d) else -np.inf
            if value > best:
                best, best_length = value, length
            elif np.isfinite(best) and best > start:
                break
        return best_length if best > start else 0.0

    def _learn(self, flow: Array) -> None:
        d = over_time(flow)
        slope = self.unknown.gradient(d)
        self.moves.append(d - self.d)
        self.changes.append(slope - self.unknown.gradient(self.d))
        self.flow, self.d = flow, d
        self.policy = occupancy_policy(flow, self.problem.default_rows)
        self._add_tangent(d)

    def _add_tangent(self, d: Array) -> None:
        """Add a tangent; that of the present point remains the last one."""
        value, slope = self.unknown.value(d), self.unknown.gradient(d)
        place = len(self.points) if d is self.d else len(self.points) - 1
        self.points.insert(place, d)
        self.values.insert(place, value)
        self.slopes.insert(place, slope)

    def _witnesses(self, conic: tuple[Any, ...], point: Array) -> list[Any]:
        """Tangents for the unknown terms, the cone program's witnesses for the others.

        At a kink the tangent of one point proves little; the bundle's weights say how to average several.
        """
        tangents = Tangents((point,))
        if not self.unknown.smooth:
            weights = np.maximum(conic[0], 0.0)
            kept = np.flatnonzero(weights > 1e-12 * weights.max(initial=0.0))
            if kept.size:
                tangents = Tangents(tuple(self.bundle[i] for i in kept), tuple(float(weights[i]) for i in kept))
        witnesses: list[Any] = [tangents] * len(self.problem.terms)
        for term, known in zip(self.problem.parts.conic, conic[1:], strict=True):
            witnesses[term.number] = known
        return witnesses
