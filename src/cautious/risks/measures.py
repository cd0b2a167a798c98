"""Linear measures of an occupancy: the share of time in some states, and the return of another reward table.

A measure can be a risk, or the left side of a constraint. Sums and multiples of linear measures, with weights of either
sign, are linear measures.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from cautious.arrays import Array
from cautious.checks import as_number
from cautious.models.encodings import check_magnitude, reward_moments
from cautious.models.tabular import MDP
from cautious.risks.base import Constraint, Risk, Sum, UnboundRisk
from cautious.risks.features import WorstOf, indicators


class LinearMeasure(UnboundRisk):
    """A number that is linear in the occupancy; write ``feature``.

    ``is_return``: the row is the ``table`` over 1 - discount.
    """

    smooth = False
    is_return: ClassVar[bool] = False

    @abstractmethod
    def feature(self, mdp: MDP) -> sp.csr_array:
        """(1, S*A): the measure is the product of this row and the occupancy."""

    def table(self, mdp: MDP) -> Array:
        """(S, A): the row, or what is counted per step where the measure is a return."""
        return np.asarray(self.feature(mdp).toarray()).reshape(mdp.shape)

    def bind(self, mdp: MDP) -> WorstOf:
        """The measure in this model: the largest of one number."""
        return WorstOf(self.feature(mdp), (self.label,), mdp.shape, self.label)

    def __add__(self, other: Risk) -> "Sum | Combination":  # type: ignore[override]
        if isinstance(other, LinearMeasure):
            return Combination((*parts_of(self), *parts_of(other)))
        return super().__add__(other)

    def __sub__(self, other: "LinearMeasure") -> "Combination":
        if not isinstance(other, LinearMeasure):
            return NotImplemented
        return self + -1.0 * other  # type: ignore[return-value]

    def __neg__(self) -> "Combination":
        return -1.0 * self

    def __mul__(self, weight: float) -> "Combination":  # type: ignore[override]
        factor = as_number("the weight of a measure", weight)
        return Combination(tuple((factor * w, measure) for w, measure in parts_of(self)))

    __rmul__ = __mul__  # type: ignore[assignment]

    def __ge__(self, bound: float) -> Constraint:
        return Constraint(self, ">=", as_number(f"the limit of {self.label}", bound))


@dataclass(frozen=True, eq=False)
class Combination(LinearMeasure):
    """A weighted sum of linear measures; ``terms`` is a flat tuple of (weight, measure)."""

    terms: tuple[tuple[float, LinearMeasure], ...]

    @property
    def label(self) -> str:
        """The terms with their weights."""
        parts = [measure.label if weight == 1 else f"{weight:g}*{measure.label}" for weight, measure in self.terms]
        return " + ".join(parts)

    def feature(self, mdp: MDP) -> sp.csr_array:
        """The weighted sum of the rows."""
        rows = [weight * measure.feature(mdp) for weight, measure in self.terms]
        total = sum(rows[1:], start=rows[0])
        check_magnitude(self.label, np.asarray(total.data))
        return sp.csr_array(total)


def parts_of(measure: LinearMeasure) -> tuple[tuple[float, LinearMeasure], ...]:
    """Weights and measures that are no sums themselves."""
    return measure.terms if isinstance(measure, Combination) else ((1.0, measure),)


@dataclass(frozen=True, eq=False)
class Exposure(LinearMeasure):
    """The share of discounted time in ``states``: indices, a mask, or state names.

    Examples
    --------
    >>> import cautious as ca
    >>> mdp = ca.worlds.machine_replacement()
    >>> solution = ca.solve(ca.Problem(mdp, constraints=[ca.Exposure("broken") <= 0.004]))
    >>> bool(solution.constraints[0].value <= 0.004)
    True
    """

    summary = "the share of time in the given states"
    fields_in_files: ClassVar = {"states": "states"}

    states: Any

    @property
    def label(self) -> str:
        """With the states, where they are few and named."""
        names = [self.states] if isinstance(self.states, str) else self.states
        few = isinstance(names, Sequence) and len(names) <= 3 and all(isinstance(name, str) for name in names)
        return f"Exposure({', '.join(names)})" if few and names else "Exposure"

    def feature(self, mdp: MDP) -> sp.csr_array:
        """One on all pairs of the states."""
        return indicators(mdp, [mdp.state_indices("Exposure.states", self.states)])


@dataclass(frozen=True, eq=False)
class Return(LinearMeasure):
    """The expected discounted return of another reward table: (S, A), or (S, A, S) by outcome.

    Examples
    --------
    >>> import numpy as np, cautious as ca
    >>> mdp = ca.worlds.clinic()
    >>> urgent, routine = ca.worlds.clinic_tasks(mdp)
    >>> solution = ca.solve(ca.Problem(mdp, constraints=[ca.Return(routine) >= 8.0]))
    >>> bool(solution.constraints[0].value >= 8.0)
    True
    """

    summary = "the expected return of another reward table"
    fields_in_files: ClassVar = {"rewards": "array"}

    rewards: Any
    is_return = True

    def table(self, mdp: MDP) -> Array:
        """The expected rewards."""
        table, _ = reward_moments(self.rewards, mdp.transitions, mdp.n_states, mdp.n_actions, name="Return.rewards")
        check_magnitude("Return.rewards", table, 1 / mdp.normaliser)
        return np.asarray(np.where(mdp.allowed, table, 0.0))

    def feature(self, mdp: MDP) -> sp.csr_array:
        """The table over the normaliser, 1 - discount where the problem is discounted."""
        return sp.csr_array(self.table(mdp).reshape(1, -1) / mdp.normaliser)
