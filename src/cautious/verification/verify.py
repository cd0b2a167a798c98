"""``ca.verify``: are the claims of a solution true? By exact arithmetic, from model, problem, policy and witness."""

import os
from dataclasses import dataclass
from fractions import Fraction
from math import inf, isfinite
from typing import Any, Protocol, runtime_checkable

import numpy as np

from cautious import storage
from cautious.errors import IncompatibleError
from cautious.verification.claim import SCALAR_KINDS, Box, Claim, Term, read_claim
from cautious.verification.exact import Integers, working_precision
from cautious.verification.flow import ExactModel, occupancy
from cautious.verification.lines import Line
from cautious.verification.risks import KINDS, Barrier, Kind
from cautious.verification.scalars import SCALARS, ScalarKind, covers, widened

Number = Fraction | float


@runtime_checkable
class Storable(Protocol):
    """A ``ca.Solution``, known here only by the form in which it is saved."""

    def to_storage(self, witness: bool) -> tuple[dict[str, Any], dict[str, Any]]:
        """Header and arrays of its file."""
        ...


@dataclass(frozen=True)
class Verification:
    """What exact arithmetic says of a solution.

    Attributes
    ----------
    proved
        Whether every claim of the solution is proved: its objective, its upper bound, its gap, and that the gap is
        within the tolerance if the status is SOLVED; or that no policy meets the requirements if it is INFEASIBLE.
    objective
        What the delivered policy is proved to reach: a fraction below its exact objective by no more than the
        refinement of its occupancy left open. Minus infinity if nothing is proved.
    upper_bound
        What the witness proves that no policy exceeds: a fraction; infinite if it proves nothing.
    gap
        ``upper_bound - objective``: no policy is better than the delivered one by more.
    margin
        By how much the claim is proved, or is missed if negative: claimed gap minus ``gap``. Of an infeasible problem:
        by how much the weighted requirements are missed by every policy.
    statement
        The same in sentences.

    Examples
    --------
    >>> import cautious as ca
    >>> found = ca.verify(ca.solve(ca.worlds.problem("queue")))
    >>> found.proved, type(found.objective).__name__, found.margin > 0
    (True, 'Fraction', True)
    """

    proved: bool
    objective: Number
    upper_bound: Number
    gap: Number
    margin: Number
    statement: str


def verify(solution: Storable | str | os.PathLike[str]) -> Verification:
    """Check the claims of a solution in exact arithmetic, by code that shares nothing with solvers or certificates.

    Parameters
    ----------
    solution
        A solution of ``ca.solve``, one loaded from a file, or the path of a file written by
        ``solution.save(path, witness=True)``. Learned solutions and risks of your own are refused.

    Examples
    --------
    >>> import cautious as ca
    >>> solution = ca.solve(ca.worlds.problem("machine_replacement"))
    >>> ca.verify(solution).proved
    True
    >>> solution.save("machine.npz", witness=True)
    >>> print(ca.verify("machine.npz").statement.split(".")[0])
    Proved
    """
    if isinstance(solution, str | os.PathLike):
        source: Any = solution
        header, arrays = storage.read(solution, "solution")
    elif isinstance(solution, Storable):
        source = "solution"
        header, arrays = solution.to_storage(witness=True)
    else:
        raise IncompatibleError(
            f"ca.verify needs a ca.Solution or the path of a saved one, found {type(solution).__name__}"
        )
    with working_precision():
        return verify_claim(read_claim(source, header, arrays))


class _Proof:
    """A claim with its risks and its model in exact arithmetic."""

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.convex: dict[int, Kind] = {
            number: KINDS[term.kind](term, claim.model) for number, term in self._counted() if term.kind in KINDS
        }
        permitted = claim.model.allowed.copy()
        for risk in self.convex.values():
            mask = risk.permitted()
            permitted &= True if mask is None else mask
        self.exact = ExactModel(claim.model, permitted)
        self.scalars: dict[int, ScalarKind] = {
            number: SCALARS[term.kind](term, self.exact)
            for number, term in self._counted()
            if term.kind in SCALAR_KINDS
        }

    def _counted(self) -> list[tuple[int, Term]]:
        return [(number, term) for number, term in enumerate(self.claim.terms) if self.price(number) > 0]

    def price(self, number: int) -> Fraction:
        """What one unit of a risk costs."""
        return Fraction(self.claim.caution) * Fraction(self.claim.terms[number].weight)

    def objective(self) -> Number:
        """What the policy reaches at least."""
        d = occupancy(self.claim.model, self.claim.policy)
        numerator, denominator = self.exact.reward(d.rows)
        reached = self.exact.horizon * d.mean(numerator, denominator, self.exact.reward_bits)[0]
        for number, risk in (self.convex | self.scalars).items():
            value = risk.value(d)
            if value is None:
                return -inf
            reached -= self.price(number) * value
        return reached

    def upper_bound(self) -> Number:
        """What no policy exceeds: the largest bound of a box, if the boxes cover everything."""
        boxes, scalars = self.claim.boxes, list(self.scalars.values())
        if not boxes:
            return inf
        ends = [risk.ends for risk in scalars]
        ranges = widened(boxes, ends)
        if not covers(ranges, ends):
            return inf
        return max(self._box_bound(box, sides) for box, sides in zip(boxes, ranges, strict=True))

    def _box_bound(self, box: Box, sides: list[tuple[Fraction, Fraction]]) -> Fraction:
        lines: dict[int, Line] = {}
        for number, convex in self.convex.items():
            lines[number] = convex.line(self.exact, box.lines[number])
        for (number, scalar), (low, high), at in zip(self.scalars.items(), sides, box.at, strict=True):
            lines[number] = scalar.line(low, high, float(at))
        reward, intercept = self.exact.reward_above, Fraction(0)
        for number, line in lines.items():
            reward = line.taken_from(reward, (1 - self.exact.gamma) * self.price(number))
            intercept += self.price(number) * line.intercept
        return self.exact.greatest_return(reward, box.multipliers, box.rest) - intercept

    def conflict(self) -> Fraction | None:
        """What no policy exceeds of the weighted sum of (number - floor) of the barriers; None without a proof."""
        barriers = [risk for risk in self.convex.values() if isinstance(risk, Barrier)]
        floors = [floor for risk in barriers for floor in risk.floors]
        if self.claim.conflict is None or not barriers:
            return None
        weights, multipliers = self.claim.conflict
        if weights.size != len(floors) or np.any(weights < 0) or not np.any(weights > 0):
            return None
        # a weighted sum of numbers is a reward, counted per step
        reward: Integers = np.zeros(self.exact.rows.pairs.size, dtype=object)
        used = 0
        for risk in barriers:
            count = len(risk.floors)
            slope, factor = risk.minus_sum(self.exact, weights[used : used + count])
            reward, used = Line(slope, Fraction(0), factor).taken_from(reward, Fraction(1)), used + count
        most = (1 - self.exact.gamma) * self.exact.greatest_return(reward, multipliers)
        return most - sum((Fraction(float(w)) * b for w, b in zip(weights, floors, strict=True)), Fraction(0))


def verify_claim(claim: Claim) -> Verification:
    """Which of the claims are proved; ``verify`` sets the precision of logarithms first."""
    proof = _Proof(claim)
    if claim.status == "INFEASIBLE":
        return _infeasible(proof)
    if proof.exact.trapped is not None:
        return _failed(f"From state {proof.exact.trapped} every policy has infinite risk.")
    objective, upper_bound = proof.objective(), proof.upper_bound()
    gap = upper_bound - objective
    if not all(map(isfinite, (claim.objective, claim.upper_bound, claim.gap))):
        text = f"Not proved. The solution claims no finite bounds (status {claim.status})."
        return Verification(False, objective, upper_bound, gap, -inf, text)
    doubts, margin = _doubts(claim, objective, upper_bound), Fraction(claim.gap) - gap
    return Verification(
        not doubts, objective, upper_bound, gap, margin, _statement(doubts, objective, upper_bound, margin)
    )


def _doubts(claim: Claim, objective: Number, upper_bound: Number) -> list[str]:
    """The claims that are not proved, each in a sentence."""
    doubts = []
    if claim.gap != claim.upper_bound - claim.objective:
        doubts.append(f"The claimed gap {claim.gap!r} is not the difference of the claimed bound and objective.")
    if not claim.objective_error <= claim.gap:
        doubts.append(f"The claimed error of the objective, {claim.objective_error!r}, exceeds the claimed gap.")
    if objective < Fraction(claim.objective) - Fraction(claim.objective_error):
        doubts.append(
            f"The policy is proved to reach {_shown(objective)}, which is less than the claimed {claim.objective!r}."
        )
    if upper_bound > Fraction(claim.upper_bound):
        doubts.append(
            f"The witness proves the upper bound {_shown(upper_bound)}, more than the claimed {claim.upper_bound!r}."
        )
    if upper_bound - objective > Fraction(claim.gap):
        doubts.append(f"The proved gap {_shown(upper_bound - objective)} is more than the claimed {claim.gap!r}.")
    if claim.status == "SOLVED" and not claim.gap <= claim.tolerance * max(1.0, abs(claim.objective)):
        doubts.append(f"The claimed gap {claim.gap!r} is not within the tolerance {claim.tolerance!r}.")
    return doubts


def _statement(doubts: list[str], objective: Number, upper_bound: Number, margin: Number) -> str:
    if doubts:
        return " ".join(["Not proved.", *doubts])
    return (
        f"Proved. In exact arithmetic the policy reaches at least {_shown(objective)} and no policy exceeds "
        f"{_shown(upper_bound)}, so that none is better by more than {_shown(upper_bound - objective)}; the claimed "
        f"gap is larger by {_shown(margin)}."
    )


def _infeasible(proof: _Proof) -> Verification:
    trapped = proof.exact.trapped
    if trapped is not None:
        text = f"Proved infeasible. From state {trapped} every policy uses a pair that a prior of zero forbids."
        return Verification(True, -inf, -inf, 0.0, inf, text)
    excess = proof.conflict()
    if excess is None:
        return _failed("The solution claims that the requirements cannot be met, and holds no witness of that.")
    if excess > 0:
        return _failed(f"By its witness the weighted requirements could be exceeded by {_shown(excess)}.", -excess)
    text = f"Every policy misses the weighted requirements by {_shown(-excess)} or more; they must be exceeded."
    return Verification(True, -inf, -inf, 0.0, -excess, f"Proved infeasible. {text}")


def _failed(text: str, margin: Number = -inf) -> Verification:
    return Verification(False, -inf, inf, inf, margin, f"Not proved. {text}")


def _shown(number: Number) -> str:
    """A fraction as a decimal number of 12 digits."""
    try:
        return f"{float(number):.12g}"
    except OverflowError:
        return "a number beyond double precision"
