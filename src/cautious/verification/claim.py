"""What a solution claims, and all that may be used to check it: model, problem, policy and witness, as plain arrays.

A claim is read from the header and the arrays of a file written by ``solution.save(path, witness=True)``, and from
nothing else; a solution in memory is given in the same form. Everything is checked here, so that the files beside this
one may rely on shapes and ranges.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cautious.arrays import Array, Indices, Mask
from cautious.checks import as_allowed, as_count, as_floats, as_mask, as_number, check_nonnegative, check_shape
from cautious.errors import IncompatibleError, InputError
from cautious.storage import errors_of_file, take, unplain

# distributions are stored as doubles; the file is damaged if their sum misses one by more than this
SUM_TOLERANCE = 1e-9
AVERAGE, TOTAL = "average", "total"
SCALAR_KINDS = ("Variance", "CVaR")
# exact powers of a discount grow with the steps; beyond this many bits they would take minutes
MAX_POWER_BITS = 1 << 18
# those that expected visits do not have
KINDS_OF_SHARES = ("SafeSet", "Wasserstein", *SCALAR_KINDS)
# the data of each kind of risk: its arrays, and the ranges of its numbers
ARRAYS: dict[str, tuple[str, ...]] = {
    "SafeSet": ("states",),
    "TaskFloors": ("task_rewards", "floors"),
    "PeakExposure": ("sets",),
    "WorstTask": ("task_rewards",),
    "KL": ("prior",),
    "Entropy": (),
    "TotalVariation": ("prior",),
    "Quadratic": ("prior",),
    "Wasserstein": ("prior", "tree"),
    "Variance": (),
    "CVaR": (),
    "Linear": ("weights", "tables", "paid", "starting"),
}
NUMBERS = {
    "SafeSet": {"slack": (0.0, 1.0)},
    "CVaR": {"level": (0.0, float(np.nextafter(1.0, 0.0)))},
}


@dataclass(frozen=True)
class Model:
    """Rows ``s*A + a`` of probabilities by ``indptr``, ``indices`` and ``probabilities``; tables (S, A).

    ``outcome_rewards`` has a reward for every probability, if rewards depend on the next state; ``reward_square`` is
    there if rewards (S, A) are averages with a second moment of their own. ``horizon`` is a number of steps, "average",
    "total", or None for the discounted problem without an end.
    """

    shape: tuple[int, int]
    discount: float
    horizon: int | str | None
    indptr: Indices
    indices: Indices
    probabilities: Array
    start: Array
    allowed: Mask
    rewards: Array
    reward_square: Array | None
    outcome_rewards: Array | None

    @cached_property
    def length(self) -> Fraction:
        """What all steps weigh together: the returns of an occupancy are so many times its means.

        An occupancy sums to one, but for that of "total", which counts visits.
        """
        gamma = Fraction(self.discount)
        if isinstance(self.horizon, str):
            return Fraction(1)
        if self.horizon is None:
            return 1 / (1 - gamma)
        return Fraction(self.horizon) if gamma == 1 else (1 - gamma**self.horizon) / (1 - gamma)

    @property
    def policy_shape(self) -> tuple[int, ...]:
        """(S, A), or (T, S, A) for T steps."""
        return (self.horizon, *self.shape) if isinstance(self.horizon, int) else self.shape

    @property
    def counts_visits(self) -> bool:
        """Whether occupancies are expected visits, without a fixed sum."""
        return self.horizon == TOTAL

    @property
    def multiplier_shape(self) -> tuple[int, ...]:
        """(S,), or (T, S) for T steps."""
        return self.policy_shape[:-1]


@dataclass(frozen=True)
class Term:
    """A risk by its name, its weight in the sum, and its data."""

    kind: str
    weight: float
    data: Mapping[str, Any]


@dataclass(frozen=True)
class Limit:
    """The weighted sum of the terms must be at most ``bound``; ``price`` is what the solution says of it."""

    name: str
    bound: float
    terms: tuple[Term, ...]
    price: float


@dataclass(frozen=True)
class PricedLimit:
    """What one unit of a limit costs, and for every term of it what describes an affine function below."""

    price: float
    lines: tuple[Array, ...]


@dataclass(frozen=True)
class Box:
    """A witness for the policies whose best scalars lie between ``lows`` and ``highs`` (m,); without scalars, for all.

    The multipliers are the exact sum of ``multipliers`` and ``rest``, both (S,) or (T, S); ``lines`` has, by the number
    of each term that is not scalar, what describes an affine function below it; ``limits`` the same of the limits.
    """

    lows: Array
    highs: Array
    at: Array
    multipliers: Array
    rest: Array
    lines: Mapping[int, Array]
    limits: tuple[PricedLimit, ...]


@dataclass(frozen=True)
class Conflict:
    """``weights`` of the barriers' requirements, and the limits with their prices.

    The multipliers are the exact sum of ``multipliers`` and ``rest``, both (S,) or (T, S).
    """

    weights: Array
    multipliers: Array
    rest: Array
    limits: tuple[PricedLimit, ...]


@dataclass(frozen=True)
class Claim:
    """The claimed numbers, and what is said to prove them."""

    model: Model
    caution: float
    terms: tuple[Term, ...]
    limits: tuple[Limit, ...]
    policy: Array
    boxes: tuple[Box, ...]
    conflict: Conflict | None
    status: str
    objective: float
    upper_bound: float
    gap: float
    objective_error: float
    tolerance: float


def read_claim(source: Any, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Claim:
    """The claim in the header and the arrays of a solution; ``source`` names it in errors."""
    damage = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError)
    with errors_of_file(source, *damage):
        estimated, sampled = (
            header["certificate"]["kind"] == "estimated",
            not header["model"].get("known_transitions", True),
        )
        steps, discount = header.get("horizon"), header["model"]["discount"]
        power_bits = steps * Fraction(discount).denominator.bit_length() if isinstance(steps, int) else 0
    if isinstance(steps, str) and steps not in (AVERAGE, TOTAL):
        raise IncompatibleError(f"{source}: solutions with horizon={steps!r} cannot be verified")
    if power_bits > MAX_POWER_BITS:
        raise IncompatibleError(
            f"{source}: exact powers of the discount {discount!r} over {steps} steps are too large to verify"
        )
    if estimated or sampled:
        raise IncompatibleError(
            f"{source}: it was learned from samples; its statement holds with some probability, and cannot be verified "
            "in exact arithmetic"
        )
    with errors_of_file(source, *damage):
        if "proof" not in header:
            raise InputError(
                "it was saved without its witness; save it with solution.save(path, witness=True), or on the command "
                "line with --out FILE --witness"
            )
        return _Reader(source, arrays).claim(header, header["proof"])


class _Reader:
    """The arrays of a file, each checked when it is taken."""

    def __init__(self, source: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.source, self.arrays = source, arrays

    def take(self, name: str) -> NDArray[Any]:
        return take(self.source, self.arrays, name)

    def floats(self, name: str, shape: tuple[int, ...]) -> Array:
        array = as_floats(name, self.take(name))
        check_shape(name, array, shape, "what model and problem ask for")
        return array

    def whole(self, name: str, size: int, least: int, end: int) -> Indices:
        """Whole numbers (size,) from ``least`` up to, not including, ``end``."""
        array = self.take(name)
        check_shape(name, array, (size,), "what model and problem ask for")
        if array.dtype.kind not in "iu" or np.any((array < least) | (array >= end)):
            raise InputError(f"{name} must hold whole numbers from {least} to {end - 1}")
        return array.astype(np.int64)

    def distributions(self, name: str, shape: tuple[int, ...], axis: int | None = -1) -> Array:
        """Numbers that are not negative and sum to one along the last axis, or all together."""
        array = self.floats(name, shape)
        check_nonnegative(name, array)
        _check_sums(name, array.sum(axis=axis))
        return array

    def claim(self, header: Mapping[str, Any], proof: Mapping[str, Any]) -> Claim:
        model = self.model(header["model"], header.get("horizon"))
        terms = tuple(self.term(f"proof.term{number}.", model, term) for number, term in enumerate(proof["terms"]))
        limits = self.limits(model, proof.get("limits", []), unplain(header.get("constraints", [])))
        policy = self.distributions("policy", model.policy_shape)
        if np.any((policy > 0) & ~model.allowed):
            raise InputError("the policy uses a pair that is not allowed")
        conflict = None
        if proof["conflict"]:
            weights = self.floats("proof.conflict.weights", (self.take("proof.conflict.weights").size,))
            priced = [self.priced(f"proof.conflict.limit{j}.", limit, model, 1) for j, limit in enumerate(limits)]
            multipliers, rest = (
                self.floats(f"proof.conflict.{name}", model.multiplier_shape) for name in ("multipliers", "rest")
            )
            conflict = Conflict(weights, multipliers, rest, tuple(one[0] for one in priced))
        names = ("objective", "upper_bound", "gap", "tolerance")
        return Claim(
            model,
            # a risk that costs nothing is not part of the problem
            as_number("caution", proof["caution"], 0.0, open_ends="(" if terms else ""),
            terms,
            limits,
            policy,
            self.boxes(model, terms, limits, as_count("boxes", proof["boxes"], 0)),
            conflict,
            str(header["status"]),
            objective_error=as_number("objective_error", unplain(header["certificate"]["objective_error"]), 0.0),
            **{name: float(unplain(header[name])) for name in names},
        )

    def model(self, header: Mapping[str, Any], horizon: Any) -> Model:
        shape = as_count("n_states", header["n_states"]), as_count("n_actions", header["n_actions"])
        n_pairs, n_entries = shape[0] * shape[1], self.take("model.probabilities").size
        indptr = self.whole("model.indptr", n_pairs + 1, 0, n_entries + 1)
        allowed = as_allowed(self.take("model.allowed"), shape)
        lengths = np.diff(indptr)
        if indptr[0] != 0 or indptr[-1] != n_entries or np.any((lengths > 0) != allowed.ravel()) or lengths.min() < 0:
            raise InputError("the rows of transitions are not those of the allowed pairs")
        probabilities = self.floats("model.probabilities", (n_entries,))
        if probabilities.min() <= 0:
            raise InputError(f"model.probabilities holds {probabilities.min()}; what is stored must be positive")
        _check_sums("model.probabilities", np.add.reduceat(probabilities, indptr[:-1][allowed.ravel()]))
        rewards, by_outcome = self.floats("model.rewards", shape), "model.outcome_rewards" in self.arrays
        with np.errstate(over="ignore"):
            has_square = not by_outcome and not np.array_equal(self.take("model.reward_square"), rewards**2)
        lowest = 1.0 if isinstance(horizon, str) else 0.0
        discount = as_number("discount", header["discount"], lowest, 1.0, open_ends=")" if horizon is None else "")
        return Model(
            shape,
            discount,
            as_count("horizon", horizon) if isinstance(horizon, int) else horizon,
            indptr,
            self.whole("model.indices", n_entries, 0, shape[0]),
            probabilities,
            self.distributions("model.start", shape[:1]),
            allowed,
            rewards,
            self.floats("model.reward_square", shape) if has_square else None,
            self.floats("model.outcome_rewards", (n_entries,)) if by_outcome else None,
        )

    def term(self, prefix: str, model: Model, given: Mapping[str, Any]) -> Term:
        kind = given["kind"]
        if kind not in ARRAYS:
            raise InputError(f"risks of the kind {kind!r} cannot be verified")
        if model.counts_visits and kind in KINDS_OF_SHARES:
            raise InputError(f"{kind} is of shares of time, and visits until the end have no fixed sum")
        data = {name: as_number(name, given[name], *ends) for name, ends in NUMBERS.get(kind, {}).items()}
        arrays: dict[str, Any] = {name: self.array(prefix, name, model) for name in ARRAYS[kind]}
        if kind == "Wasserstein" and f"{prefix}distance" in self.arrays:
            arrays["distance"] = self.floats(f"{prefix}distance", (model.shape[0], model.shape[0]))
        elif kind == "Wasserstein":
            arrays |= {name: self.array(prefix, name, model) for name in ("tails", "heads", "lengths")}
            check_shape(f"{prefix}heads", arrays["heads"], arrays["tails"].shape, "as many as tails")
            check_shape(f"{prefix}lengths", arrays["lengths"], arrays["tails"].shape, "as many as tails")
        for name in ("distance", "lengths"):
            check_nonnegative(name, arrays.get(name, np.zeros(0)))
        if "floors" in arrays:
            check_shape(f"{prefix}floors", arrays["floors"], arrays["task_rewards"].shape[:1], "one for every task")
        for name in ("weights", "paid", "starting"):
            if name in arrays and len(arrays[name]) != len(arrays["tables"]):
                raise InputError(f"{prefix}{name} must have one entry for every table")
        if kind == "Wasserstein":
            check_shape(f"{prefix}prior", arrays["prior"], model.shape[:1], "(S,)")
        return Term(kind, as_number("weight", given["weight"], 0.0, open_ends="("), data | arrays)

    def limits(self, model: Model, given: Any, rows: Any) -> tuple[Limit, ...]:
        """The limits of the problem; ``rows`` are what the solution says of them."""
        if len(rows) != len(given):
            raise InputError(f"the solution has {len(rows)} constraints, and its proof {len(given)} limits")
        return tuple(
            self.limit(f"proof.limit{number}.", model, limit, row)
            for number, (limit, row) in enumerate(zip(given, rows, strict=True))
        )

    def limit(self, prefix: str, model: Model, given: Mapping[str, Any], row: Mapping[str, Any]) -> Limit:
        terms = tuple(self.term(f"{prefix}term{number}.", model, term) for number, term in enumerate(given["terms"]))
        scalar = next((term.kind for term in terms if term.kind in SCALAR_KINDS), None)
        if scalar is not None or not terms:
            raise InputError(f"{prefix}terms: a limit needs convex risks, found {scalar or 'none'}")
        name, bound = str(given["name"]), as_number("bound", given["bound"])
        # a limit from below is stored as one from above of minus its measure
        if row["name"] != name or float(row["bound"]) not in (bound, -bound):
            raise InputError(f"the constraint {row['name']!r} is not the limit {name!r} of the proof")
        return Limit(name, bound, terms, float(row["price"]))

    def array(self, prefix: str, name: str, model: Model) -> Any:
        """Data of a risk, by its role."""
        (n, _), given, place = model.shape, self.take(prefix + name), prefix + name
        if given.size == 0 and name in ("sets", "task_rewards", "tables"):
            raise InputError(f"{place} is empty; a worst case, floors and a measure need at least one number")
        match name:
            case "states" | "tails" | "heads":
                return self.whole(place, given.size, 0, n)
            case "tree":
                return self.whole(place, given.size, -1, given.size)
            case "sets" | "starting":
                return as_mask(place, given, (len(given), n), "(m, S)")
            case "paid":
                return as_mask(place, given, (given.size,), "(k,)")
            case "tables" if given.ndim == 2:
                return self.floats(place, (len(given), model.indices.size))
            case "task_rewards" | "tables":
                return self.floats(place, (len(given), *model.shape))
            case "floors" | "lengths" | "weights":
                return self.floats(place, (given.size,))
            case _ if model.counts_visits:
                # a prior of visits has no fixed sum
                prior = self.floats(place, (n,) if given.ndim == 1 else model.shape)
                check_nonnegative(place, prior)
                return prior
            case _:
                return self.distributions(place, (n,) if given.ndim == 1 else model.shape, axis=None)

    def priced(self, prefix: str, limit: Limit, model: Model, count: int) -> list[PricedLimit]:
        """A limit in each of ``count`` witnesses."""
        prices = self.floats(f"{prefix}price", (count,))
        check_nonnegative(f"{prefix}price", prices)
        lines = [
            self.floats(f"{prefix}line{number}", (count, *_line_shape(term, model)))
            for number, term in enumerate(limit.terms)
        ]
        return [PricedLimit(float(prices[k]), tuple(line[k] for line in lines)) for k in range(count)]

    def boxes(self, model: Model, terms: tuple[Term, ...], limits: tuple[Limit, ...], count: int) -> tuple[Box, ...]:
        if count == 0:
            return ()
        scalars = sum(term.kind in SCALAR_KINDS for term in terms)
        lows, highs, at = (self.floats(f"proof.boxes.{name}", (count, scalars)) for name in ("lows", "highs", "at"))
        multipliers, rest = (
            self.floats(f"proof.boxes.{name}", (count, *model.multiplier_shape)) for name in ("multipliers", "rest")
        )
        lines = {
            number: self.floats(f"proof.boxes.line{number}", (count, *_line_shape(term, model)))
            for number, term in enumerate(terms)
            if term.kind not in SCALAR_KINDS
        }
        priced = [self.priced(f"proof.boxes.limit{j}.", limit, model, count) for j, limit in enumerate(limits)]
        return tuple(
            Box(
                lows[k],
                highs[k],
                at[k],
                multipliers[k],
                rest[k],
                {number: line[k] for number, line in lines.items()},
                tuple(one[k] for one in priced),
            )
            for k in range(count)
        )


def _check_sums(name: str, sums: Any) -> None:
    off = np.abs(np.atleast_1d(sums) - 1)
    if not off.max() <= SUM_TOLERANCE:
        raise InputError(f"{name} has a sum that misses 1 by {off.max():g}; allowed is {SUM_TOLERANCE:g}")


def _line_shape(term: Term, model: Model) -> tuple[int, ...]:
    """Of what describes an affine function below a risk: weights (m,), or slopes and potentials like the prior."""
    if "prior" in term.data:
        return tuple(term.data["prior"].shape)
    if term.kind == "Entropy":
        return model.shape
    numbers = term.data.get("task_rewards", term.data.get("sets"))
    return (1,) if numbers is None else (len(numbers),)
