"""Any sum of risks that can be said in cones: one cone program, exact, every term with its own witness."""

from collections.abc import Iterator
from typing import cast

from cautious.problem import Problem
from cautious.risks.base import ConicRisk
from cautious.solvers.base import Candidate, Solver, Target
from cautious.solvers.conic.cone_program import ConeProgram
from cautious.solvers.rounding import proposals, prove

ROUNDS = 20
PRECISIONS = (1e-10, 1e-8)
ROUGH = 1e-5


class ConicProgram(Solver):
    """Clarabel on the occupancy program; arcs of large transport plans are added while they pay."""

    name = "cone program"

    def refusal(self, problem: Problem) -> str | None:
        """Needs every term in conic form."""
        stranger = [risk.label for _, risk in problem.terms if not isinstance(risk, ConicRisk)]
        return f"needs the conic form of {stranger[0]}" if stranger else None

    def memory(self, problem: Problem) -> int:
        """The whole program and its factors: about a kilobyte per transition was seen at 2,500 states."""
        return super().memory(problem) + 1000 * int(problem.mdp.transitions.nnz)

    def steps(self, problem: Problem, target: Target) -> Iterator[Candidate]:
        """A second precision is tried only when the first did not satisfy the certificate."""
        for precision in PRECISIONS:
            yield from self._rounds(problem, target, precision)

    def _rounds(self, problem: Problem, target: Target, precision: float) -> Iterator[Candidate]:
        present = [(weight, cast(ConicRisk, risk)) for weight, risk in problem.terms]
        growing = any(risk.partial for _, risk in present)
        for number in range(ROUNDS):
            forms = [(weight, risk.epigraph(problem.active)) for weight, risk in present]
            # a first look at a form that will grow anyway need not be precise
            wanted = ROUGH if growing and number == 0 else precision
            answer = ConeProgram(problem.mdp, problem.active, problem.reward, forms).solve(target.clock, wanted)
            if answer is None:
                return
            allowance = target.allowance(problem.expected_return(answer.occupancy))
            witness, best = prove(problem, answer.witnesses, 1e-3 * allowance)
            readings = proposals(problem, answer.occupancy, witness, best)
            yield next(readings)
            pairs = zip(present, answer.witnesses, strict=True)
            larger = [risk.refined(given, problem.active) for (_, risk), given in pairs]
            if all(more is None for more in larger):
                yield from readings
                return
            present = [
                (weight, risk if more is None else more) for (weight, risk), more in zip(present, larger, strict=True)
            ]
