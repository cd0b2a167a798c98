"""Certificates: how much better than the delivered policy any policy could be, from the unscaled data alone.

Nothing here relies on a solver. A solver sends a policy and a *witness*; this file and ``policy_evaluation`` recompute
everything else with NumPy, SciPy and loops of their own (``_core/certificate.hpp``). The occupancy of the policy comes
from ``occupancy.py``, which solvers use too; its error is bounded by a residual that is measured here.

Upper bound of a convex problem. For any lines  risk_k(d) >= <u_k, d> + b_k  and any multipliers v (S,),

    objective(d)  <=  <xi, v> + max over active pairs of ( r~ + gamma E[v] - v ) / (1-gamma)  -  sum_k c_k b_k,
    r~ = r - (1-gamma) sum_k c_k u_k.

Upper bound with risks that are a minimum over a number t (variance, CVaR). Every occupancy has a best number for each
of them; boxes cover all that these can be. For the occupancies of a box each such risk stays above a line in d, which
leaves a convex problem, bounded as above.

Infeasible barriers. Weights w >= 0 and multipliers v that bound sum_j w_j (number_j - floor_j) by zero or less prove
that no policy meets all requirements.

Rounding. One operation is wrong by at most u = EPS / 2 relative to its result; a sum of k products by at most k u times
the sum of their sizes, up to terms in u^2. Rows of the model sum to one within EPS (2 + k), those of a policy of A
actions within EPS (1 + A / 2), the start within 2 EPS. A factor of EPS below counts the operations that it stands for,
and leaves room for what it does not count.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from cautious._core import certificate as kernels
from cautious.arrays import Array
from cautious.certificate.exact_limits import exact_multipliers
from cautious.certificate.finite_horizon import finite_bound
from cautious.certificate.total import total_bound
from cautious.errors import IncompatibleError
from cautious.models.encodings import EPS, SMALLEST_NORMAL, read_only_view
from cautious.models.horizons import AVERAGE, TOTAL
from cautious.occupancy import Visits
from cautious.problem import Problem
from cautious.risks.base import Cut, Risk
from cautious.risks.limits import LIMIT_TITLE, LimitWitness

# an entry of a table is a reward less a product for every term: 3 u for a product and one for every sum that it is part
# of; in units of EPS, and of the sizes of reward and products
TABLE_ROUNDING = 16
MAX_COUNTED_TERMS = 16
# sums inside a risk round by so many times what one entry of the table does
SUM_ROUNDING = 4


@dataclass(frozen=True)
class Witness:
    """``multipliers`` (S,), and for every convex term of the problem what its ``cut`` needs.

    With ``rest`` (S,), the multipliers are the exact sums of both, and the bound is computed in twice the working
    precision: near a discount of one, and beside rewards much larger than the objective, doubles alone do not suffice.
    """

    multipliers: Array
    cuts: tuple[Any, ...] = ()
    rest: Array | None = None


@dataclass(frozen=True)
class Box:
    """A range (low, high] for the best number of each scalar risk, the line to use there (``at``), and its witness."""

    lows: tuple[float, ...]
    highs: tuple[float, ...]
    at: tuple[float, ...]
    witness: Witness

    @property
    def volume(self) -> float:
        """The product of its sides."""
        return float(np.prod(np.subtract(self.highs, self.lows)))


@dataclass(frozen=True)
class Cover:
    """Boxes that together cover every value the scalars can take."""

    boxes: tuple[Box, ...]


@dataclass(frozen=True)
class Conflict:
    """Proof that requirements cannot be met together: ``weights`` per requirement, ``multipliers`` (S,).

    ``limits`` are the witnesses of limits that are not linear, by the number of their term. With ``rest`` (S,) the
    multipliers are the exact sums of both, and fractions decide about the one limit that has a weight.
    """

    weights: Array
    multipliers: Array
    limits: Mapping[int, LimitWitness] = field(default_factory=dict)
    rest: Array | None = None

    def in_whole(self, problem: Problem, numbers: Sequence[int]) -> "Conflict":
        """A conflict of the terms with these numbers as one of the whole problem."""
        weights, given = [np.zeros(0)], 0
        for number, rows in requirement_rows(problem).items():
            size = rows.stop - rows.start if number in numbers else 0
            own = np.asarray(self.weights)[given : given + size]
            weights.append(own if number in numbers else np.zeros(rows.stop - rows.start))
            given += size
        limits = {numbers[inner]: witness for inner, witness in self.limits.items()}
        return Conflict(np.concatenate(weights), self.multipliers, limits)


@dataclass(frozen=True)
class Certificate:
    """What was checked, and by how much.

    Attributes
    ----------
    kind
        "optimal" (convex, the gap bounds the lost value), "global" (not convex, bounded over all policies),
        "stationary" (not convex, first order only), "infeasible" (proved), "undecided" or "estimated".
    statement
        The same in a sentence.
    upper_bound, gap
        What no policy exceeds, and how far the delivered one is below it, rounding included.
    visits
        The occupancy, and ``occupancy_error``: what rounding can have done to it in the 1-norm.
    objective_error
        What rounding can have done to the objective.
    facts
        What a kind adds: the requirements that fail and the best reachable values, samples and confidence.
    witness
        What the proof rests on; in memory only, and saved by ``solution.save(path, witness=True)``.

    Examples
    --------
    >>> import cautious as ca
    >>> certificate = ca.solve(ca.worlds.problem("queue")).certificate
    >>> certificate.kind, certificate.gap < 1e-3
    ('optimal', True)
    """

    kind: str
    statement: str
    upper_bound: float
    gap: float
    visits: Visits = field(repr=False, compare=False)
    objective_error: float
    facts: dict[str, Any] = field(default_factory=dict)
    witness: Witness | Cover | Conflict | None = field(default=None, repr=False, compare=False)

    @property
    def occupancy_error(self) -> float:
        """What rounding can have done to the occupancy, in the 1-norm."""
        return self.visits.error


def upper_bound(problem: Problem, witness: Witness | Cover) -> float:
    """An upper bound for all policies; infinite if the witness proves none, as if a risk is not convex."""
    if isinstance(witness, Cover):
        return _cover_bound(problem, witness)
    if not all(risk.convex for _, risk in problem.terms):
        return np.inf
    return first_order_bound(problem, witness, problem.reward, problem.terms)


def first_order_bound(
    problem: Problem,
    witness: Witness,
    reward: Array,
    terms: Sequence[tuple[float, Risk]],
    size: Array | None = None,
) -> float:
    """What no policy exceeds if every risk stayed above the line of its witness; for convex risks that is a proof.

    ``reward`` and ``terms`` are those of the problem, or what the line of a box leaves of them; ``size`` as in
    ``LinearProblem``.
    """
    if len(witness.cuts) != len(terms):
        return np.inf
    linear = linear_problem(problem, reward, terms, witness.cuts, size)
    bound = _plan_bound(problem, linear, witness) + linear.constant
    # every comparison with nan is false: a witness that proves nothing has an infinite bound
    return np.inf if np.isnan(bound) else bound


@dataclass(frozen=True)
class LinearProblem:
    """What lines below the risks leave: no objective is above what the table ``reward`` (S, A) earns plus ``constant``.

    ``size`` (S, A) is what the rounding of the table is relative to, None if it did not round at all.
    """

    reward: Array
    constant: float
    size: Array | None


def linear_problem(
    problem: Problem, reward: Array, terms: Sequence[tuple[float, Risk]], cuts: Sequence[Any], size: Array | None = None
) -> LinearProblem:
    """A reward table (S, A) after the lines of convex terms; ``size`` as above, of the table that is given."""
    if not terms:
        return LinearProblem(reward, 0.0, size)
    active, constant = problem.active_pairs, 0.0
    adjusted, size = reward.copy(), np.abs(reward) if size is None else size.copy()
    for (weight, risk), given in zip(terms, cuts, strict=True):
        line: Cut = risk.cut(given, active)
        slope, price = read_only_view(np.asarray(line.slope, dtype=np.float64)), problem.mdp.normaliser * weight
        if slope.shape != active.shape:
            raise IncompatibleError(
                f"{risk.label}.cut gave a slope of shape {slope.shape}; expected {active.shape} = (S, A)"
            )
        steepest = kernels.subtract_slope(slope.ravel(), price, active.ravel(), adjusted.reshape(-1), size.reshape(-1))
        if line.slope_size is not None:
            size += SUM_ROUNDING * price * line.slope_size
        # 128 u: some operations an entry, and a pairwise sum of n entries, about 20 + log2(n) of them
        uncertain = abs(line.intercept) + steepest if line.intercept_size is None else line.intercept_size
        constant += weight * (64 * EPS * uncertain - line.intercept)
    if len(terms) > MAX_COUNTED_TERMS:
        size *= len(terms) / MAX_COUNTED_TERMS
    return LinearProblem(adjusted, constant, size)


def _plan_bound(problem: Problem, linear: LinearProblem, witness: Witness) -> float:
    """What no policy earns from the table of a linear problem, by the multipliers of the witness."""
    mdp = problem.mdp
    v = np.asarray(witness.multipliers, dtype=np.float64)
    if isinstance(mdp.horizon, int):
        # multipliers of pairs that cannot be reached do no harm, and the pairs that are kept are known sooner
        return finite_bound(mdp, problem.kept, linear.reward, linear.reward if linear.size is None else linear.size, v)
    active = problem.active
    if v.shape != (mdp.n_states,):
        return np.inf
    v = np.where(problem.active_states, v, 0.0)
    if mdp.horizon == TOTAL:
        return total_bound(mdp, active, linear.reward, linear.reward if linear.size is None else linear.size, v)
    reward = read_only_view(linear.reward).ravel()
    size = reward if linear.size is None else read_only_view(linear.size).ravel()
    if witness.rest is None:
        # 4 u for each of k + 8 operations in a row of k successors: k for the mean, 2 k + 4 for chances that do not sum
        # to one, 4 for discount, reward, multiplier and the allowance itself, the remaining k + 24 for the table
        given: Any = (reward, size, active.ravel(), mdp.discount, v, 2 * EPS)
        worst = _largest(kernels.largest_advantage(*block.rows, *given) for block in mdp.row_blocks())
        rest = 0.0
    else:
        worst, _ = exact_advantages(problem, linear, v, witness.rest)
        rest = kernels.compensated_dot(mdp.start, witness.rest)[0]
    # a reward or a multiplier that is not a number proves nothing
    if np.isnan(worst):
        return np.inf
    if mdp.horizon == AVERAGE:
        # what leaves a state enters one: the mean of  E[v] - v  is zero, and that of the reward at most the largest
        return float(worst + 8 * EPS * abs(worst) + SMALLEST_NORMAL)
    worst /= 1 - mdp.discount
    mean, magnitude = kernels.compensated_dot(mdp.start, v)
    # 16 u: 2 for the dot product, 2 for 1 / (1 - gamma), 3 for these sums, 4 for a start that does not sum to one
    # and whatever products below the smallest normal number lose
    return float(mean + rest + worst + 8 * EPS * (magnitude + abs(worst)) + SMALLEST_NORMAL)


def exact_advantages(problem: Problem, linear: LinearProblem, v: Array, rest: Array) -> tuple[float, Array]:
    """Advantages (S, A) of a table under multipliers v + rest, minus infinity where not active; and the largest.

    They are computed in twice the working precision, and the largest is raised by what is not known.
    """
    mdp, table = problem.mdp, np.empty(problem.mdp.shape)
    reward, exact = read_only_view(linear.reward).ravel(), linear.size is None
    size = reward if linear.size is None else read_only_view(linear.size).ravel()
    share = 0.0 if exact else TABLE_ROUNDING * EPS
    given: Any = (
        reward,
        size,
        share,
        problem.active.ravel(),
        mdp.discount,
        v,
        rest,
        2 * EPS,
        table.reshape(-1),
    )
    return _largest(kernels.exact_advantages(*block.rows, *given) for block in mdp.row_blocks()), table


def _largest(numbers: Iterable[float]) -> float:
    """The largest of the numbers; NaN if one of them is."""
    return float(np.fromiter(numbers, np.float64).max())


def _cover_bound(problem: Problem, cover: Cover) -> float:
    convex = [(term.weight, term.risk) for term in problem.parts.without_scalars]
    if not all(risk.convex for _, risk in convex):
        return np.inf
    if not _covers([term.risk.interval() for term in problem.parts.scalars], cover.boxes):
        return np.inf
    worst = -np.inf
    for box in cover.boxes:
        line = box_line(problem, box)
        bound = first_order_bound(problem, box.witness, line.reward, convex, line.size) + line.constant
        # a bound that is not a number proves nothing
        worst = np.inf if np.isnan(bound) else max(worst, bound)
    return worst


def box_line(problem: Problem, box: Box) -> LinearProblem:
    """The rewards that the lines of a box leave for its convex terms."""
    sides = zip(problem.parts.scalars, box.lows, box.highs, box.at, strict=True)
    return scalar_lines(problem, [term.risk.line(low, high, at) for term, low, high, at in sides])


def scalar_lines(problem: Problem, lines: Sequence[tuple[Array, float]]) -> LinearProblem:
    """The rewards after a table (S, A) for every scalar risk, and their offsets."""
    reward, size, constant = problem.reward, np.abs(problem.reward), 0.0
    for term, (table, offset) in zip(problem.parts.scalars, lines, strict=True):
        part = problem.mdp.normaliser * term.weight * table
        reward = reward - part
        size += SUM_ROUNDING * np.abs(part)
        # as for the intercepts of convex risks
        constant += term.weight * (64 * EPS * abs(offset) - offset)
    return LinearProblem(reward, constant, size)


def _covers(intervals: Sequence[tuple[float, float]], boxes: Sequence[Box]) -> bool:
    """Whether the boxes cover everything: every cell of the grid that all their edges make lies in some box."""
    edges = []
    for k, (low, high) in enumerate(intervals):
        every = np.array([low, high, *(edge for box in boxes for edge in (box.lows[k], box.highs[k]))])
        edges.append(np.unique(every[(low <= every) & (every <= high)]))
    covered = np.zeros([max(line.size - 1, 1) for line in edges], dtype=np.bool_)
    for box in boxes:
        cells = []
        for line, low, high in zip(edges, box.lows, box.highs, strict=True):
            # cell i lies between edge i and the next one; an interval that is a point is a cell too
            starts, ends = (line[:-1], line[1:]) if line.size > 1 else (line, line)
            cells.append((low <= starts) & (ends <= high))
        covered[np.ix_(*cells)] = True
    return bool(covered.all())


def requirements(problem: Problem) -> tuple[list[str], sp.csr_array, Array]:
    """Every barrier and linear limit, in the order of the terms: names, features (m, S*A), floors (m,)."""
    barriers = problem.parts.requirements
    names = [name if risk.title == LIMIT_TITLE else f"{risk.label}: {name}" for risk in barriers for name in risk.names]
    nothing = sp.csr_array((0, problem.reward.size))
    features = sp.csr_array(sp.vstack([nothing, *(risk.features for risk in barriers)]))
    return names, features, np.concatenate([np.zeros(0), *(risk.floors for risk in barriers)])


def requirement_rows(problem: Problem) -> dict[int, slice]:
    """The rows of ``requirements`` that belong to each term that has some, by the number of the term."""
    sizes = [(term.number, term.risk.floors.size) for term in problem.parts.barriers]
    rows = [(term.number, term.risk.barrier) for term in problem.parts.limits]
    sizes += [(number, barrier.floors.size) for number, barrier in rows if barrier is not None]
    ends = accumulate((size for _, size in sizes), initial=0)
    return {number: slice(first, last) for (number, _), (first, last) in zip(sizes, pairwise(ends), strict=True)}


def weights_of_term(problem: Problem, number: int, weight: float = 1.0) -> Array:
    """Weights of the rows of ``requirements``: this one for those of the term with this number, zero for the others."""
    rows = requirement_rows(problem)
    weights = np.zeros(max(own.stop for own in rows.values()))
    weights[rows[number]] = weight
    return weights


def conflict_bound(problem: Problem, conflict: Conflict) -> float:
    """Upper bound of sum_j w_j (number_j - floor_j) over all policies, plus -price * (measure - bound) of every limit
    that is not linear.

    Zero or less proves infeasibility, less than zero if there are limits, which may be reached.
    """
    mdp = problem.mdp
    _, features, floors = requirements(problem)
    weights = np.asarray(conflict.weights, dtype=np.float64)
    prices = [witness.price for witness in conflict.limits.values()]
    if weights.shape != floors.shape or np.any(weights < 0) or not weights.sum() + sum(prices) > 0:
        return np.inf
    counted = features[np.flatnonzero(weights)][:, np.flatnonzero(problem.active_pairs)]
    if not sum(prices) and not counted.count_nonzero() and not floors[weights > 0].any():
        # nothing is reached and nothing required, exactly: rounding on the safe side would not show it
        return 0.0
    table = np.asarray(features.T @ weights).reshape(mdp.shape)
    v = np.asarray(conflict.multipliers, dtype=np.float64)
    # an entry of the table is a sum over the requirements
    rounding = max(SUM_ROUNDING, weights.size / MAX_COUNTED_TERMS)
    size = rounding * np.asarray(abs(features).T @ weights).reshape(mdp.shape)
    # the lines of limits that are not linear, in units in which a unit of the table is paid 1 / normaliser times
    limits = [(1 / mdp.normaliser, problem.terms[number][1]) for number in conflict.limits]
    linear = linear_problem(problem, table, limits, tuple(conflict.limits.values()), size)
    reach = mdp.normaliser * (_plan_bound(problem, linear, Witness(v)) + linear.constant)
    # one operation for every requirement, 2 for the normaliser and 2 for these sums
    operations, asked = max(16, weights.size + 4), float(weights @ np.abs(floors))
    excess = reach - float(weights @ floors) + operations * EPS / 2 * (asked + abs(reach))
    if excess >= 0 and conflict.rest is not None and _missed_alone(problem, weights, table, v):
        return -SMALLEST_NORMAL
    return excess


def _missed_alone(problem: Problem, weights: Array, table: Array, v: Array) -> bool:
    """Whether a conflict is with one linear limit of which fractions prove that no policy keeps it."""
    mdp, rows, used = problem.mdp, requirement_rows(problem), np.flatnonzero(weights)
    for term in problem.parts.limits:
        own = rows.get(term.number)
        if own is not None and own.stop - own.start == 1 and np.array_equal(used, [own.start]):
            actions = np.zeros(mdp.n_states, np.int64)
            if not isinstance(mdp.horizon, int):
                ahead = table + mdp.discount * mdp.expect_next(np.where(problem.active_states, v, 0.0))
                actions = np.argmax(np.where(problem.active, ahead, -np.inf), axis=1)
            return exact_multipliers(mdp, problem.active, term.risk, actions) is not None
    return False
