"""Linear measures of an occupancy: time in some states, the return of another reward table, a chance to be somewhere.

A measure can be a risk, or the left side of a constraint. Sums and multiples of linear measures, with weights of either
sign, are linear measures.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from cautious.arrays import Array, Indices, Mask
from cautious.checks import as_floats, as_number, check_shape, check_word, first_bad
from cautious.errors import IncompatibleError, InputError
from cautious.models.encodings import check_magnitude, reward_moments, row_of_entries
from cautious.models.horizons import TOTAL
from cautious.models.memory import is_entered_again, lifted_outcomes, lifted_pairs, with_memory
from cautious.models.tabular import MDP
from cautious.risks.base import Constraint, Risk, Sum, UnboundRisk, terms_of
from cautious.risks.features import PeakExposure, SafeSet, WorstOf, compressed, indicators
from cautious.risks.scalar import CVaR, Variance

# each set doubles the states, at most
MAX_REMEMBERED_SETS = 3


class LinearMeasure(UnboundRisk):
    """A number that is linear in the occupancy; write ``feature``.

    ``is_sum``: it is added up over the steps, as a return is, and is no share of time.
    """

    smooth = False
    is_sum: ClassVar[bool] = False

    @abstractmethod
    def feature(self, mdp: MDP) -> sp.csr_array:
        """(1, S*A): the measure is the product of this row and the occupancy."""

    def table(self, mdp: MDP) -> Array:
        """(S, A): the row, or what is counted per step where the measure is a return."""
        return np.asarray(self.row(mdp).toarray()).reshape(mdp.shape)

    def row(self, mdp: MDP) -> sp.csr_array:
        """The feature, also in a model with memory, where it is that of the model without."""
        if mdp.memory is None:
            return self.feature(mdp)
        lifted = sp.csr_array(self.feature(mdp.memory.base)[:, lifted_pairs(mdp.memory, mdp.n_actions)])
        # a pair is picked once for every memory, which leaves the entries out of order
        lifted.sort_indices()
        return lifted

    def by_outcome(self, mdp: MDP) -> Array | None:
        """What is counted for every stored transition (nnz,), where that depends on the next state."""
        return None

    def counted_at_start(self, mdp: MDP) -> Mask:
        """States (S,) whose share of the start is part of the measure."""
        return np.zeros(mdp.n_states, np.bool_)

    def to_remember(self, mdp: MDP) -> Indices | None:
        """The states (sorted) that a model must remember to have been entered, if any; refuses what has no meaning."""
        return None

    def bind(self, mdp: MDP) -> WorstOf:
        """The measure in this model: the largest of one number."""
        return WorstOf(self.row(mdp), (self.label,), mdp.shape, self.label)

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

    def row(self, mdp: MDP) -> sp.csr_array:
        """The weighted sum of the rows."""
        return self.feature(mdp)

    def feature(self, mdp: MDP) -> sp.csr_array:
        """The weighted sum of the rows."""
        rows = [weight * measure.row(mdp) for weight, measure in self.terms]
        total = sum(rows[1:], start=rows[0])
        check_magnitude(self.label, np.asarray(total.data))
        return sp.csr_array(total)


def parts_of(measure: LinearMeasure) -> tuple[tuple[float, LinearMeasure], ...]:
    """Weights and measures that are no sums themselves."""
    return measure.terms if isinstance(measure, Combination) else ((1.0, measure),)


class NamedMeasure(LinearMeasure):
    """A measure with a ``name``, which may be empty, and of ``states``, if it is one of states."""

    name: str
    states: Any = ()

    def __post_init__(self) -> None:
        check_word(f"{type(self).__name__}.name", self.name)

    @property
    def label(self) -> str:
        """With its name, or with the states where they are few and named."""
        kind = type(self).__name__
        if self.name:
            return f"{kind}({self.name})"
        names = [self.states] if isinstance(self.states, str) else self.states
        few = isinstance(names, Sequence) and len(names) <= 3 and all(isinstance(name, str) for name in names)
        return f"{kind}({', '.join(names)})" if few and names else kind


@dataclass(frozen=True, eq=False)
class Exposure(NamedMeasure):
    """The share of discounted time in ``states``: indices, a mask, or state names.

    ``name`` is what messages, tables and pages call the states.

    Examples
    --------
    >>> import cautious as ca
    >>> mdp = ca.worlds.machine_replacement()
    >>> solution = ca.solve(ca.Problem(mdp, constraints=[ca.Exposure("broken") <= 0.004]))
    >>> bool(solution.constraints[0].value <= 0.004)
    True
    """

    summary = "the share of time in the given states"
    fields_in_files: ClassVar = {"states": "states", "name": "name"}

    states: Any
    name: str = ""

    def feature(self, mdp: MDP) -> sp.csr_array:
        """One on all pairs of the states."""
        return indicators(mdp, [mdp.state_indices("Exposure.states", self.states)])


@dataclass(frozen=True, eq=False)
class Return(NamedMeasure):
    """The expected discounted return of another reward table: (S, A), or (S, A, S) by outcome.

    ``name`` is what messages, tables and pages call it, such as "orders served".

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
    fields_in_files: ClassVar = {"rewards": "rewards", "name": "name"}

    rewards: Any
    name: str = ""
    is_sum = True

    def table(self, mdp: MDP) -> Array:
        """The expected rewards."""
        if mdp.memory is not None:
            return self.table(mdp.memory.base)[mdp.memory.origin]
        table = self._moments(mdp)[0]
        check_magnitude("Return.rewards", table, 1 / mdp.normaliser)
        if mdp.horizon == TOTAL:
            _refuse_paid_ends(mdp, table)
        return np.asarray(np.where(mdp.allowed, table, 0.0))

    def by_outcome(self, mdp: MDP) -> Array | None:
        """The rewards, if they were given by outcome."""
        if mdp.memory is not None:
            outcomes = self.by_outcome(mdp.memory.base)
            return None if outcomes is None else lifted_outcomes(mdp, outcomes)
        return self._moments(mdp)[1]

    def _moments(self, mdp: MDP) -> tuple[Array, Array | None]:
        """Expected rewards (S, A), and those by outcome if they were given so."""
        if not mdp.written_down:
            table = as_floats("Return.rewards", self.rewards)
            check_shape("Return.rewards", table, mdp.shape, "(S, A), for a model of ca.from_kernel")
            return table, None
        return reward_moments(self.rewards, mdp.transitions, *mdp.shape, name="Return.rewards")

    def feature(self, mdp: MDP) -> sp.csr_array:
        """The table over the normaliser, 1 - discount where the problem is discounted."""
        return compressed(self.table(mdp).reshape(1, -1) / mdp.normaliser)


@dataclass(frozen=True, eq=False)
class Reach(NamedMeasure):
    """The probability of ever entering ``states``: indices, a mask, or state names.

    Needs ``horizon="total"``, or a number of steps and discount 1. Every state from the first one on counts, with that
    after the last decision. If the states can be left and entered again, the problem is solved in a model that
    remembers whether they were, ``solution.mdp``. Its states are named "x" and "x (after Reach)", and the rows of
    policy and occupancy are those of its states. ``name`` is what messages, tables and pages call the states.

    Examples
    --------
    >>> import numpy as np, cautious as ca
    >>> forward, risky = [[0, 1, 0], [0, 0, 1], [0, 0, 1]], [[0, 0, 1], [0, 0, 1], [0, 0, 1]]
    >>> mdp = ca.MDP([np.array(forward), np.array(risky)], [[0, 3], [1, 1], [0, 0]], 1.0, start=[1, 0, 0])
    >>> solution = ca.solve(ca.Problem(mdp, constraints=[ca.Reach([1]) >= 0.25], horizon="total"))
    >>> round(solution.expected_return, 4), round(solution.constraints[0].price, 4)
    (2.5, 2.0)
    """

    summary = "the probability of ever entering the given states"
    fields_in_files: ClassVar = {"states": "states", "name": "name"}

    states: Any
    name: str = ""
    is_sum = True

    def row(self, mdp: MDP) -> sp.csr_array:
        """As in any model: a model with memory knows the states by another name."""
        return self.feature(mdp)

    def feature(self, mdp: MDP) -> sp.csr_array:
        """The chance to step into the states from outside, and the share of the start inside."""
        return _entering(mdp, self.counted_at_start(mdp))

    def counted_at_start(self, mdp: MDP) -> Mask:
        """The states; with memory of them, those after which they have been entered."""
        if mdp.memory is not None:
            own = mdp.memory.base.state_indices("Reach.states", self.states)
            for number, states in enumerate(mdp.memory.sets):
                if np.array_equal(own, states):
                    return np.asarray(mdp.memory.bits >> number & 1 == 1)
        return np.isin(np.arange(mdp.n_states), mdp.state_indices("Reach.states", self.states))

    def by_outcome(self, mdp: MDP) -> Array | None:
        """One for a transition into the states from outside."""
        inside, rows = self.counted_at_start(mdp), row_of_entries(mdp.transitions)
        entering = inside[mdp.transitions.indices] & ~inside[rows // mdp.n_actions]
        return np.asarray(entering, dtype=np.float64)

    def to_remember(self, mdp: MDP) -> Indices | None:
        """The states, if they can be left and entered again; refuses problems that have no such probability."""
        if not isinstance(mdp.horizon, int) and mdp.horizon != TOTAL:
            raise IncompatibleError(
                f'{self.label} is a probability until some time: give the problem horizon="total", or a number of steps'
            )
        if mdp.discount != 1:
            raise IncompatibleError(
                f"{self.label} does not discount, and the discount of the model is {mdp.discount:g}; make the model "
                "with discount=1"
            )
        states = mdp.state_indices("Reach.states", self.states)
        return states if is_entered_again(mdp, states) else None


def with_needed_memory(mdp: MDP, risks: Sequence[Risk]) -> MDP:
    """The model that these unbound risks and measures need: it remembers what ``Reach`` of some states asks for."""
    terms = [term for risk in risks for _, term in terms_of(risk)]
    measures = [measure for term in terms if isinstance(term, LinearMeasure) for _, measure in parts_of(term)]
    sets: list[tuple[str, Indices]] = []
    for measure in measures:
        states = measure.to_remember(mdp)
        if states is not None and not any(np.array_equal(states, known) for _, known in sets):
            same = sum(name.startswith(measure.label) for name, _ in sets)
            sets.append((f"{measure.label} {same + 1}" if same else measure.label, states))
    if not sets:
        return mdp
    if len(sets) > MAX_REMEMBERED_SETS:
        raise IncompatibleError(
            f"{len(sets)} different sets in ca.Reach can be left and entered again; the model has to remember each, "
            f"and at most {MAX_REMEMBERED_SETS} are supported"
        )
    known = LinearMeasure | SafeSet | PeakExposure | Variance | CVaR
    other = next((term for term in terms if not isinstance(term, known)), None)
    if other is not None:
        raise IncompatibleError(
            f"{sets[0][0]} needs a model that remembers whether its states were entered, and {other.label} is not "
            "available there; ca.Exposure, ca.Return, ca.SafeSet, ca.PeakExposure, ca.Variance and ca.CVaR are"
        )
    return with_memory(mdp, sets)


def _entering(mdp: MDP, inside: Mask) -> sp.csr_array:
    """(1, S*A): the probability to enter these states (S,), which are not entered twice."""
    chance = np.where(inside[:, None], 0.0, mdp.expect_next(inside.astype(np.float64))) / mdp.normaliser
    already = float(mdp.start[inside].sum())
    if already > 0 and mdp.horizon == TOTAL:
        # other paths step into an ended state exactly once: a constant is a multiple of that chance
        going = float(mdp.start[~mdp.ended].sum())
        if going == 0:
            raise InputError("every start state is an end already")
        ending = mdp.expect_next(mdp.ended.astype(np.float64))
        chance = chance + np.where(mdp.ended[:, None], 0.0, already / going * ending)
    elif already > 0:
        # occupancies sum to one
        chance = chance + already
    return sp.csr_array(np.where(mdp.allowed, chance, 0.0).reshape(1, -1))


def _refuse_paid_ends(mdp: MDP, table: Array) -> None:
    """Refuse rewards in ended states with "total": their sum has no limit."""
    paid = mdp.ended[:, None] & mdp.allowed & (table != 0)
    if paid.any():
        state, action = first_bad(paid)
        raise InputError(
            f"Return.rewards pays {table[state, action]:g} in {mdp.state_label(state)}, which is an end of the model, "
            "for ever; pay on the way there"
        )
