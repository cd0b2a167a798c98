"""What a risk is, and the kinds of structure a solver can use.

A risk is a function of the occupancy d (S, A), a distribution over pairs. Write ``value`` and ``gradient`` and any
convex risk can be solved. The other kinds below say more about themselves, and are solved faster for it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

import numpy as np

from cautious.arrays import Array, Indices, Mask
from cautious.checks import as_number, picked
from cautious.errors import IncompatibleError, InputError, shown
from cautious.models.encodings import EPS
from cautious.models.tabular import MDP
from cautious.risks.epigraph import Epigraph


def never() -> bool:
    """For computations without a limit."""
    return False


@dataclass(frozen=True)
class Cut:
    """A straight line below a risk: risk(d) >= <slope, d> + intercept for every distribution d on the active pairs.

    Rounding is relative to what was added up: ``slope_size`` (S, A) where the slope is a sum of parts that may cancel,
    and ``intercept_size``. Without the latter, the intercept is taken to be as uncertain as the steepest slope.
    """

    slope: Array
    intercept: float
    slope_size: Array | None = None
    intercept_size: float | None = None


@dataclass(frozen=True)
class Tangents:
    """Points (S, A) where to take tangents of a risk, and weights to average them with."""

    points: tuple[Array, ...]
    weights: tuple[float, ...] = (1.0,)


class Structure(Enum):
    """What a bound risk says about itself, once; ``risks/parts.py`` sorts the terms of a problem by it."""

    FEATURES = "a function of a few numbers that are linear in the occupancy"
    ENTROPY = "a relative entropy"
    L1 = "an L1 distance"
    SQUARE = "a squared distance"
    TRANSPORT = "a transport distance"
    SCALAR = "a minimum over one number"
    CONIC = "a cone program"
    LIMIT = "a limit on a measure"
    RETURN = "a risk of the return of an episode"
    RETURN_LIMIT = "a limit on a risk of the return of an episode"
    GENERAL = "a value and a gradient"


class Risk(ABC):
    """A risk of the long-run behaviour. Subclass it with ``value`` and ``gradient``; everything else has a default.

    ``convex``: the risk is convex in d, so a gap can be proved. ``smooth``: the gradient is continuous. ``of_shares``:
    it is of shares of time, and has no meaning for expected visits. ``structure``: what solvers may use; only the
    classes of this package that have the methods for it say more than GENERAL.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import numpy as np, cautious as ca
    >>> @dataclass(frozen=True)
    ... class Spread(ca.Risk):
    ...     def value(self, d): return 0.5 * float(np.sum((d - 1 / d.size) ** 2))
    ...     def gradient(self, d): return d - 1 / d.size
    >>> ca.solve(ca.Problem(ca.worlds.river_swim(), Spread(), caution=5.0)).status.name
    'SOLVED'
    """

    convex: ClassVar[bool] = True
    smooth: ClassVar[bool] = True
    of_shares: ClassVar[bool] = False
    structure: ClassVar[Structure] = Structure.GENERAL

    @abstractmethod
    def value(self, d: Array) -> float:
        """The risk of an occupancy (S, A); ``inf`` outside its domain."""

    @abstractmethod
    def gradient(self, d: Array) -> Array:
        """A (sub)gradient at d; (S, A)."""

    def value_and_gradient(
        self, d: Array, hint: Any = None, over: Callable[[], bool] = never
    ) -> tuple[float, Array | None]:
        """Value and gradient, for kinds that find them together faster; no gradient where the risk is infinite.

        ``hint`` is what a solver knows that may save time, and proves nothing. When ``over`` says so, a long
        computation may end with a value that is too large.
        """
        value = float(self.value(d))
        return value, np.asarray(self.gradient(d)) if np.isfinite(value) else None

    def value_error(self, d: Array, value: float, slope: Array, distance: float) -> float:
        """How far the value at d can be off, if the exact occupancy is at most ``distance`` away in the 1-norm.

        ``slope`` is the gradient at d. Here the first-order effect is doubled, and sums may round.
        """
        # a gradient may be infinite where there is no mass
        used = d > 0
        size = np.abs(picked(slope, used))
        # 64 u: a few operations an entry, and a pairwise sum of n entries, about 20 + log2(n) of them; a risk of the
        # user's is taken to compute no worse
        rounding = 32 * EPS * (abs(value) + float(np.sum(picked(d, used) * size)))
        return 2 * float(size.max(initial=0.0)) * distance + rounding

    def bind(self, mdp: MDP) -> "Risk":
        """This risk with its data checked against a model; called once, by ``Problem``."""
        return self

    def permitted(self) -> Mask | None:
        """Pairs (S, A) with finite risk, or None when all are."""
        return None

    def restricted(self, mdp: MDP, states: Indices) -> "Risk | None":
        """The same risk in the model of these ``states``, if no others can be reached; None if it has no such form."""
        return None

    @property
    def typical_slope(self) -> float:
        """The size of its gradient, about: solvers scale the objective with it."""
        return 1.0

    def cut(self, witness: Any, active: Mask) -> Cut:
        """The line that a solver's witness proves; here the witness says where to take ``Tangents``."""
        weights = np.maximum(np.asarray(witness.weights, dtype=np.float64), 0.0)
        weights = weights / weights.sum() if weights.sum() > 0 else np.full(weights.size, 1 / weights.size)
        slope, intercept = np.zeros(active.shape), 0.0
        for weight, point in zip(weights, witness.points, strict=True):
            tangent = np.where(active, np.asarray(self.gradient(point), dtype=np.float64), 0.0)
            slope = slope + weight * tangent
            intercept += float(weight) * (self.value(point) - float(np.sum(tangent * point)))
        return Cut(slope, intercept)

    def witness_at(self, d: Array, active: Mask) -> Any:
        """A witness whose line touches the risk at an occupancy d (S, A), or nearly."""
        return Tangents((d,))

    def simple_witness(self, active: Mask) -> Any:
        """A witness that needs no occupancy: its line is below the risk, and not far below it somewhere."""
        return Tangents((np.asarray(active / max(1.0, float(np.count_nonzero(active)))),))

    def largest_change(self, n: int) -> float:
        """How much the risk can change when 1/n of the mass moves; infinite where no bound is known."""
        return np.inf

    @property
    def as_constraint(self) -> str | None:
        """The constraint that a barrier stands for, as code; None for risks that require nothing."""
        return None

    @property
    def label(self) -> str:
        """What reports call it."""
        return type(self).__name__

    def __add__(self, other: "Risk") -> "Sum":
        if not isinstance(other, Risk):
            return NotImplemented
        return Sum(terms_of(self) + terms_of(other))

    def __radd__(self, other: object) -> "Risk":
        """Makes ``sum`` of a list of risks work, which starts from 0."""
        return self if other == 0 else NotImplemented

    def __mul__(self, weight: float) -> "Sum":
        factor = as_number("the weight of a risk", weight, 0.0)
        return Sum(tuple((factor * w, risk) for w, risk in terms_of(self)))

    __rmul__ = __mul__

    def __le__(self, bound: float) -> "Constraint":
        return Constraint(self, "<=", as_number(f"the limit of {self.label}", bound))

    def __ge__(self, bound: float) -> "Constraint":
        raise IncompatibleError(
            f"{self.label} >= {shown(bound)}: only linear measures (ca.Exposure, ca.Return and sums of them) can be "
            "required to be large; of other risks only `risk <= bound` keeps the problem convex"
        )


@dataclass(frozen=True, eq=False)
class Constraint:
    """``measure <= bound`` or ``measure >= bound``, as the comparison of a measure with a number makes it.

    Examples
    --------
    >>> import cautious as ca
    >>> ca.Exposure([2]) <= 0.02
    Exposure <= 0.02
    """

    measure: Risk
    sense: str
    bound: float

    def __bool__(self) -> bool:
        raise InputError(
            f"{self!r} is a constraint, not a truth value; a range like low <= measure <= high is two constraints: "
            "constraints=[measure >= low, measure <= high]"
        )

    def __repr__(self) -> str:
        return f"{self.measure.label} {self.sense} {self.bound:g}"


class UnboundRisk(Risk):
    """A risk that needs its model first: ``bind`` returns the risk to compute with.

    ``summary``: what it measures, for reports. ``fields_in_files``: its fields in a problem file, each in one of the
    forms "array", "metric", "name" (which may be left out), "number", "prior", "rewards", "sets", "share" and
    "states".
    """

    summary: ClassVar[str] = ""
    fields_in_files: ClassVar[Mapping[str, str]] = {}

    @abstractmethod
    def bind(self, mdp: MDP) -> Risk:
        """The risk in this model."""

    def value(self, d: Array) -> float:
        """Not known before binding."""
        raise IncompatibleError(f"{self.label} has no value without a model; use ca.Problem(mdp, risk).risk.value(d)")

    def gradient(self, d: Array) -> Array:
        """Not known before binding."""
        raise IncompatibleError(f"{self.label} has no gradient without a model; use ca.Problem(mdp, risk).risk")


class ConicRisk(Risk):
    """A convex risk that can say itself in cones, so that sums of such risks are solved exactly."""

    structure = Structure.CONIC

    @abstractmethod
    def epigraph(self, active: Mask) -> Epigraph:
        """The conic form over the active pairs."""

    @abstractmethod
    def cut(self, witness: Any, active: Mask) -> Cut:
        """The line proved by the witness that ``epigraph(...).witness`` makes of conic multipliers."""

    @property
    def partial(self) -> bool:
        """Whether the conic form leaves out columns that ``refined`` may have to add."""
        return False

    def refined(self, witness: Any, active: Mask) -> "ConicRisk | None":
        """The same risk in a larger conic form, when the witness shows that the present form is too small."""
        return None


class ScalarRisk(Risk):
    """A risk that is the minimum over one number t of something linear in d:  min_t <d, table(t)> + offset(t).

    Write ``interval``, ``table``, ``offset``, ``best`` and ``line``; ranges are (low, high], without their start. The
    other methods only save time.
    """

    convex = False
    smooth = False
    of_shares = True
    structure = Structure.SCALAR

    @abstractmethod
    def interval(self) -> tuple[float, float]:
        """Where the best t of any occupancy lies."""

    @abstractmethod
    def table(self, t: float) -> Array:
        """(S, A)."""

    @abstractmethod
    def offset(self, t: float) -> float:
        """The part that does not depend on d."""

    @abstractmethod
    def best(self, d: Array) -> float:
        """A minimising t for an occupancy."""

    @abstractmethod
    def line(self, low: float, high: float, at: float) -> tuple[Array, float]:
        """(table (S, A), offset): <d, table> + offset <= risk(d) for every d whose best number is in the range."""

    def line_error(self, d: Array, t: float, distance: float) -> float:
        """How far <d', table(t)> + offset(t) can be above the risk of a d' at most ``distance`` away from d.

        ``t`` is the best number of d, so that this is of second order. Infinite where nothing is claimed.
        """
        return np.inf

    def touch(self, low: float, high: float, incumbent: float) -> float:
        """A good ``at`` for the range, when the best policy known has ``incumbent`` for its number."""
        return low + (high - low) / 2

    def around(self, d: Array, room: float) -> tuple[float, float]:
        """A range with the best number of d in it, where the line that touches there loses about ``room`` at d."""
        t = self.best(d)
        return float(np.nextafter(t, -np.inf)), t

    def cut_at(self, low: float, high: float, wanted: float) -> float | None:
        """Where to cut a range in two, near ``wanted``; None when its line is exact already, or has no inside."""
        return wanted if low < wanted < high else None

    def value(self, d: Array) -> float:
        """The minimum over t."""
        t = self.best(d)
        return float(np.sum(d * self.table(t))) + self.offset(t)

    def gradient(self, d: Array) -> Array:
        """The table of the best t."""
        return self.table(self.best(d))


@dataclass(frozen=True)
class Sum(Risk):
    """Weighted risks; ``terms`` is a flat tuple of (weight, risk)."""

    terms: tuple[tuple[float, Risk], ...]

    @property
    def label(self) -> str:
        """The terms with their weights."""
        return " + ".join(risk.label if weight == 1 else f"{weight:g}*{risk.label}" for weight, risk in self.terms)

    def bind(self, mdp: MDP) -> "Sum":
        """Every term bound; terms of weight zero are dropped."""
        return Sum(tuple((weight, risk.bind(mdp)) for weight, risk in self.terms if weight > 0))

    def value(self, d: Array) -> float:
        """The weighted sum."""
        return float(sum(weight * risk.value(d) for weight, risk in self.terms))

    def gradient(self, d: Array) -> Array:
        """The weighted sum."""
        return np.asarray(sum((weight * risk.gradient(d) for weight, risk in self.terms), np.zeros_like(d)))


def terms_of(risk: Risk) -> tuple[tuple[float, Risk], ...]:
    """A risk as weighted terms."""
    return risk.terms if isinstance(risk, Sum) else ((1.0, risk),)
