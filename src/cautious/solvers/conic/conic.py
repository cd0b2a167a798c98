"""Any sum of risks that can be said in cones: one cone program, exact, every term with its own witness."""

from collections.abc import Iterator

import numpy as np

from cautious.horizons.visits import over_time
from cautious.models.horizons import TOTAL
from cautious.occupancy import policy_occupancy
from cautious.problem import Problem
from cautious.risks.base import ConicRisk, Structure, terms_of
from cautious.risks.limits import Limit, LimitWitness
from cautious.solvers.base import Candidate, Solver, Target
from cautious.solvers.candidates import proposals, prove
from cautious.solvers.conic.cone_program import ConeProgram, ConicLimit
from cautious.solvers.shape import TRANSPORT_FACTOR, Shape

# rounds in which arcs are added to the program
MAX_ARC_ROUNDS = 20
# what the work is estimated by: iterations, operations per entry of the program, entries of an arc, how many operations
# of a factor take the time of one elsewhere, and how much longer exponential cones, and arcs that are added, take
ITERATIONS, ENTRY_WORK, ARC_ENTRIES, FACTOR_SPEED = 25, 160.0, 1.5, 25.0
EXPONENTIAL_FACTOR, GROWING_FACTOR = 4.0, 3.0
# undiscounted visits differ much in size, and many more iterations are needed: 5 s for 3,751 states in a long line
TOTAL_FACTOR = 50.0
# precisions, and whether Clarabel scales rows and columns: beside barriers its scaling can end in steps of length zero,
# while data of very different sizes need it
ATTEMPTS = ((1e-10, False), (1e-8, True))
# with limits it is a last resort, which may not take much longer than what came before: half a minute
MAX_WORK_WITH_LIMITS = 3e10
# bounds of limits are moved by these shares of their size, one after the other, which is at least this
BOUND_ROOMS, MIN_BOUND_SIZE = (1e-10, 1e-10, 1e-9, 1e-8), 1e-6
# of the first round where arcs will be added
FIRST_ROUND_PRECISION = 1e-5


class ConicProgram(Solver):
    """Clarabel on the occupancy program; arcs of large transport plans are added while they pay."""

    name = "cone program"
    every_horizon = True

    accepts = frozenset(Structure) - {Structure.SCALAR, Structure.GENERAL, Structure.RETURN, Structure.RETURN_LIMIT}

    def further_refusal(self, problem: Problem) -> str | None:
        """Limits must have conic forms, all arcs of a transport included."""
        for limit in problem.limits:
            for _, risk in terms_of(limit.measure):
                if not isinstance(risk, ConicRisk) or risk.partial:
                    return f"cannot take {limit.label}, which is not a cone program"
        return None

    def work(self, problem: Problem, shape: Shape) -> float:
        """A factorisation of the whole program in every iteration."""
        # arcs of a matrix of distances are added while they pay: about half of them in the end
        arcs = sum(
            term.risk.cost.size if term.risk.on_graph else problem.mdp.n_states**2 // 2
            for term in problem.parts.transports
        )
        entries = ENTRY_WORK * (shape.n_entries + shape.n_pairs + ARC_ENTRIES * arcs)
        factor = EXPONENTIAL_FACTOR if problem.parts.entropies else 1.0
        factor *= GROWING_FACTOR if any(term.risk.partial for term in problem.parts.transports) else 1.0
        factor *= TOTAL_FACTOR if problem.mdp.horizon == TOTAL else 1.0
        flops = (TRANSPORT_FACTOR if problem.parts.transports else 1.0) * shape.factor_flops
        work = factor * ITERATIONS * (flops / FACTOR_SPEED + entries)
        return np.inf if problem.parts.limits and work > MAX_WORK_WITH_LIMITS else work

    def memory(self, problem: Problem) -> int:
        """The whole program and its factors: about a kilobyte per transition was seen at 2,500 states."""
        return super().memory(problem) + 1000 * int(problem.mdp.transitions.nnz)

    def steps(self, problem: Problem, target: Target) -> Iterator[Candidate]:
        """A second attempt is made only when the first did not satisfy the certificate."""
        for precision, scaled in ATTEMPTS:
            if problem.limits:
                yield from self._within_limits(problem, target, precision, scaled)
            else:
                yield from self._rounds(problem, target, precision, scaled)

    def _within_limits(self, problem: Problem, target: Target, precision: float, scaled: bool) -> Iterator[Candidate]:
        """Bounds are moved by what the last policy missed them by, and by a small part of their size."""
        active, forms = problem.active_pairs, [(term.weight, term.risk) for term in problem.parts.conic]
        counted = [term for term in problem.parts.limits if not (term.risk.forbids or term.risk.always_holds)]
        moved = np.array([term.risk.bound for term in counted])
        sizes = np.maximum(np.abs(moved), MIN_BOUND_SIZE)
        for room in BOUND_ROOMS:
            moved = moved - room * sizes
            limits = [
                ConicLimit(bound, size, tuple((w, risk.epigraph(active)) for w, risk in conic_terms(term.risk)))
                for term, bound, size in zip(counted, moved.tolist(), sizes.tolist(), strict=True)
            ]
            terms = [(weight, risk.epigraph(active)) for weight, risk in forms]
            program = ConeProgram(problem.mdp, problem.active, problem.reward, terms, limits)
            answer = program.solve(target.clock, precision, scaled)
            if answer is None or target.clock.over:
                return
            found: dict[int, object] = {}
            for term, (price, lines) in zip(counted, answer.limits, strict=True):
                known = not any(line is None for line in lines)
                found[term.number] = LimitWitness(price, lines) if known else term.risk.simple_witness(active)
            given, witnesses = iter(answer.witnesses), []
            for number, (_, risk) in enumerate(problem.terms):
                limited = problem.parts.limit_by_number.get(number)
                own = found.get(number)
                witnesses.append(next(given) if limited is None else own or risk.simple_witness(active))
            allowance = target.allowance(problem.expected_return(answer.occupancy))
            witness, best = prove(problem, witnesses, 1e-3 * allowance, answer.occupancy)
            readings = list(proposals(problem, answer.occupancy, witness, best))
            yield from readings
            policy = readings[0].policy
            assert policy is not None
            d = over_time(policy_occupancy(problem.mdp, policy).occupancy)
            missed = np.array([term.risk.measure.value(d) - term.risk.bound for term in counted])
            moved = moved - np.maximum(missed, 0.0)

    def _rounds(self, problem: Problem, target: Target, precision: float, scaled: bool) -> Iterator[Candidate]:
        present: list[tuple[float, ConicRisk]] = [(term.weight, term.risk) for term in problem.parts.conic]
        growing = any(risk.partial for _, risk in present)
        for number in range(MAX_ARC_ROUNDS):
            forms = [(weight, risk.epigraph(problem.active_pairs)) for weight, risk in present]
            # a first look at a form that will grow anyway need not be precise
            wanted = FIRST_ROUND_PRECISION if growing and number == 0 else precision
            answer = ConeProgram(problem.mdp, problem.active, problem.reward, forms).solve(target.clock, wanted, scaled)
            if answer is None:
                return
            allowance = target.allowance(problem.expected_return(answer.occupancy))
            witness, best = prove(problem, answer.witnesses, 1e-3 * allowance, answer.occupancy)
            readings = proposals(problem, answer.occupancy, witness, best)
            yield next(readings)
            pairs = zip(present, answer.witnesses, strict=True)
            larger = [risk.refined(given, problem.active_pairs) for (_, risk), given in pairs]
            if all(more is None for more in larger):
                yield from readings
                return
            present = [
                (weight, risk if more is None else more) for (weight, risk), more in zip(present, larger, strict=True)
            ]


def conic_terms(limit: Limit) -> list[tuple[float, ConicRisk]]:
    """The weighted terms of a limit's measure, all of which have conic forms."""
    return [(weight, risk) for weight, risk in terms_of(limit.measure) if isinstance(risk, ConicRisk)]
