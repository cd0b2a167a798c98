"""What a problem asks of a policy besides its return: the risk, the requirements, the time in sets of states."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from cautious import PeakExposure, Problem, SafeSet
from cautious.arrays import Array, Mask
from cautious.certificate.bounds import requirements
from cautious.certificate.policy_evaluation import evaluate_policy
from cautious.report.requirements import Requirement
from cautious.report.words import number
from cautious.risks.base import terms_of


@dataclass(frozen=True)
class RiskFigures:
    """The exact risk of a policy, whatever the caution, and what its barriers demand."""

    label: str
    risk: float
    requirements: tuple[Requirement, ...]

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """Rows (figure, simulated, exact) of a table."""
        yield f"risk ({self.label})", "", number(self.risk)
        for one in self.requirements:
            # the risk is named in the row above
            name = one.name.partition(": ")[2]
            yield f"{name} (must exceed {number(one.limit)})", "", number(one.reached)

    def demanded(self) -> list[dict[str, Any]]:
        """The requirements for --json."""
        return [{"name": one.name, "must_exceed": one.limit, "reached": one.reached} for one in self.requirements]


def risk_figures(problem: Problem, policy: Array) -> RiskFigures | None:
    """Of a checked policy (S, A); None where the problem has no risk."""
    if problem.risk is None:
        return None
    # at caution 0 the risk plays no part, and would not be computed
    counted = problem if problem.caution > 0 else problem.with_caution(1.0)
    found = evaluate_policy(counted, policy)
    names, features, floors = requirements(counted)
    reached = np.asarray(features @ found.occupancy.occupancy.ravel())
    demands = (Requirement(*row) for row in zip(names, floors.tolist(), reached.tolist(), strict=True))
    return RiskFigures(problem.risk_label, found.risk, tuple(demands))


def watched_sets(problem: Problem) -> dict[str, Mask]:
    """The sets of states (S,) that the risk is about, by name."""
    terms = () if problem.unbound_risk is None else terms_of(problem.unbound_risk)
    safe = [risk.states for _, risk in terms if isinstance(risk, SafeSet)]
    outside = "states outside the safe set"
    names = [outside] if len(safe) == 1 else [f"{outside} {j}" for j in range(len(safe))]
    watched = {name: ~_mask(problem, states) for name, states in zip(names, safe, strict=True)}
    danger = [states for _, risk in terms if isinstance(risk, PeakExposure) for states in risk.sets]
    return watched | {f"danger set {j}": _mask(problem, states) for j, states in enumerate(danger)}


def _mask(problem: Problem, states: Any) -> Mask:
    inside = problem.mdp.state_indices("states", states)
    return np.isin(np.arange(problem.mdp.n_states), inside)
