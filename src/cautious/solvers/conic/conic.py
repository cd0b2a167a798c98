"""Any sum of risks that can be said in cones: one cone program, exact, every term with its own witness."""

from collections.abc import Iterator

from cautious.problem import Problem
from cautious.risks.base import ConicRisk, Structure
from cautious.solvers.base import Candidate, Solver, Target
from cautious.solvers.candidates import proposals, prove
from cautious.solvers.conic.cone_program import ConeProgram
from cautious.solvers.shape import Shape

# rounds in which arcs are added to the program
MAX_ARC_ROUNDS = 20
# what the work is estimated by: iterations, operations per entry of the program, and entries of an arc
ITERATIONS, ENTRY_WORK, ARC_ENTRIES = 25, 400.0, 1.5
# of the program, one after the other; and of the first round where arcs will be added
PRECISIONS, FIRST_ROUND_PRECISION = (1e-10, 1e-8), 1e-5


class ConicProgram(Solver):
    """Clarabel on the occupancy program; arcs of large transport plans are added while they pay."""

    name = "cone program"

    accepts = frozenset(Structure) - {Structure.SCALAR, Structure.GENERAL}

    def work(self, problem: Problem, shape: Shape) -> float:
        """A factorisation of the whole program in every iteration."""
        # arcs of a matrix of distances are added while they pay: about half of them in the end
        arcs = sum(
            term.risk.cost.size if term.risk.on_graph else problem.mdp.n_states**2 // 2
            for term in problem.parts.transports
        )
        entries = ENTRY_WORK * (shape.n_entries + shape.n_pairs + ARC_ENTRIES * arcs)
        # many exponential cones take about four times as long
        return (4.0 if problem.parts.entropies else 1.0) * ITERATIONS * (shape.factor_flops / 3 + entries)

    def memory(self, problem: Problem) -> int:
        """The whole program and its factors: about a kilobyte per transition was seen at 2,500 states."""
        return super().memory(problem) + 1000 * int(problem.mdp.transitions.nnz)

    def steps(self, problem: Problem, target: Target) -> Iterator[Candidate]:
        """A second precision is tried only when the first did not satisfy the certificate."""
        for precision in PRECISIONS:
            yield from self._rounds(problem, target, precision)

    def _rounds(self, problem: Problem, target: Target, precision: float) -> Iterator[Candidate]:
        present: list[tuple[float, ConicRisk]] = [(term.weight, term.risk) for term in problem.parts.conic]
        growing = any(risk.partial for _, risk in present)
        for number in range(MAX_ARC_ROUNDS):
            forms = [(weight, risk.epigraph(problem.active)) for weight, risk in present]
            # a first look at a form that will grow anyway need not be precise
            wanted = FIRST_ROUND_PRECISION if growing and number == 0 else precision
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
