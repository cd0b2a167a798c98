"""``ca.verify``: are the claims of a solution true? By exact arithmetic, from model, problem, policy and witness."""

import os
from dataclasses import dataclass
from fractions import Fraction
from math import inf, isfinite
from typing import Any, Protocol, runtime_checkable

from cautious import storage
from cautious.errors import IncompatibleError
from cautious.verification.claim import Claim, read_claim
from cautious.verification.exact import Number, working_precision
from cautious.verification.proof import Proof


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
        Whether every claim of the solution is proved: its objective, its upper bound, its gap, that the gap is within
        the tolerance if the status is SOLVED, and that the policy keeps every limit; or that no policy meets the
        requirements if it is INFEASIBLE.
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


def verify_claim(claim: Claim) -> Verification:
    """Which of the claims are proved; ``verify`` sets the precision of logarithms first."""
    proof = Proof(claim)
    if claim.status == "INFEASIBLE":
        return _infeasible(proof)
    if proof.exact.trapped is not None:
        return _failed(f"From state {proof.exact.trapped} every policy has infinite risk.")
    objective, upper_bound = proof.objective(), proof.upper_bound()
    gap = _difference(upper_bound, objective)
    if not all(map(isfinite, (claim.objective, claim.upper_bound, claim.gap))):
        text = f"Not proved. The solution claims no finite bounds (status {claim.status})."
        return Verification(False, objective, upper_bound, gap, -inf, text)
    doubts = [f"The policy is not proved to keep {name}." for name in proof.missed()]
    doubts += [
        f"One more unit of room in {name} may be worth more than its claimed price." for name in proof.underpriced()
    ]
    doubts += _doubts(claim, objective, upper_bound, gap)
    margin = -_difference(gap, Fraction(claim.gap))
    text = (
        " ".join(["Not proved.", *doubts])
        if doubts
        else (
            f"Proved. In exact arithmetic the policy reaches at least {_shown(objective)} and no policy exceeds "
            f"{_shown(upper_bound)}, so that none is better by more than {_shown(gap)}; the claimed gap is larger by "
            f"{_shown(margin)}.{_limits_kept(claim)}"
        )
    )
    return Verification(not doubts, objective, upper_bound, gap, margin, text)


def _limits_kept(claim: Claim) -> str:
    if not claim.limits:
        return ""
    return " It keeps its limit." if len(claim.limits) == 1 else f" It keeps all {len(claim.limits)} limits."


def _difference(high: Number, low: Number) -> Number:
    """Fractions stay exact beside infinities, and beyond double precision."""
    return inf if inf in (high, -low) else high - low


def _doubts(claim: Claim, objective: Number, upper_bound: Number, gap: Number) -> list[str]:
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
    if gap > Fraction(claim.gap):
        doubts.append(f"The proved gap {_shown(gap)} is more than the claimed {claim.gap!r}.")
    if claim.status == "SOLVED" and not claim.gap <= claim.tolerance * max(1.0, abs(claim.objective)):
        doubts.append(f"The claimed gap {claim.gap!r} is not within the tolerance {claim.tolerance!r}.")
    return doubts


def _infeasible(proof: Proof) -> Verification:
    trapped = proof.exact.trapped
    if trapped is not None:
        text = (
            f"Proved infeasible. From state {trapped} every policy uses a pair that a prior of zero or a limit forbids."
        )
        return Verification(True, -inf, -inf, 0.0, inf, text)
    excess = proof.conflict()
    if excess is None:
        return _failed("The solution claims that the requirements cannot be met, and holds no witness of that.")
    # barriers must be exceeded; limits may be reached
    if excess > 0 or (excess == 0 and not proof.weighs_barriers()):
        return _failed(f"By its witness the weighted requirements could be exceeded by {_shown(excess)}.", -excess)
    text = f"Every policy misses the weighted requirements by {_shown(-excess)} or more."
    return Verification(True, -inf, -inf, 0.0, -excess, f"Proved infeasible. {text}")


def _failed(text: str, margin: Number = -inf) -> Verification:
    return Verification(False, -inf, inf, inf, margin, f"Not proved. {text}")


def _shown(number: Number) -> str:
    """A fraction as a decimal number of 12 digits."""
    try:
        return f"{float(number):.12g}"
    except OverflowError:
        return "a number beyond double precision"
