"""Checks of risks: at random occupancies of a model, and along the segments between them."""

import warnings
from typing import Any

import numpy as np

from cautious.arrays import Array, Mask
from cautious.errors import CautiousWarning, shown
from cautious.models.tabular import MDP
from cautious.occupancy import policy_occupancy
from cautious.problem import Problem
from cautious.risks.base import ConicRisk, Risk, ScalarRisk, Tangents, terms_of
from cautious.risks.epigraph import Epigraph
from cautious.solvers.solve import solve
from cautious.testing.parts import LOOSE_TOLERANCE, CheckFailure, call, close, random_policy, require

N_POINTS = 5
CONES = {"zero", "nonnegative", "exponential"}
SMALLEST_SHARE = 1e-6


def check_risk(risk: Risk, mdp: MDP, seed: int = 0) -> None:
    """Check a risk in a model, term by term.

    Value and gradient, their types and shapes; the gradient against finite differences when the risk is ``smooth``;
    convexity and lines below the risk when it is ``convex``; ``permitted``; and what the richer kinds promise. The
    points are occupancies of random policies, moved towards a feasible one where the risk is infinite.
    """
    rng = np.random.default_rng(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CautiousWarning)
        problem: Problem = call(f"binding {risk.label if isinstance(risk, Risk) else risk!r}", Problem, mdp, risk)
    require(problem.risk is not None, "check_risk needs a risk, found None")
    for _, term in terms_of(problem.risk) if problem.risk is not None else ():
        _Checker(problem, term, rng).run()


class _Checker:
    """One bound term, the points to look at, and the active pairs."""

    def __init__(self, problem: Problem, term: Risk, rng: np.random.Generator) -> None:
        self.problem, self.term, self.rng = problem, term, rng
        self.name = term.label
        self.mask = self._mask()
        self.active = problem.active
        self.points = self._occupancies()

    def run(self) -> None:
        """All checks that the term's flags and kind call for."""
        for d in self.points:
            self.value(d), self.gradient(d)
            close(f"{self.name}.value at the same point again", self.value(d), self.value(d), 0.0)
        self._permitted()
        if self.term.smooth:
            self._slopes()
        if self.term.convex:
            self._convexity()
        if isinstance(self.term, ScalarRisk):
            self._scalar(self.term)
        elif isinstance(self.term, ConicRisk):
            self._conic(self.term)
        elif self.term.convex:
            for tangents in (Tangents((self.points[0],)), Tangents(tuple(self.points[:2]), (1.0, 2.0))):
                self._below("the tangent's cut", tangents)

    def value(self, d: Array) -> float:
        """The value, after its type."""
        found = call(f"{self.name}.value", self.term.value, d)
        number = isinstance(found, int | float | np.number) and not isinstance(found, bool)
        require(number and not np.isnan(found), f"{self.name}.value must return a number, found {shown(found)}")
        return float(found)

    def gradient(self, d: Array) -> Array:
        """The gradient, after its shape."""
        found: Array = np.asarray(call(f"{self.name}.gradient", self.term.gradient, d), dtype=np.float64)
        expected = self.problem.mdp.shape
        require(found.shape == expected, f"{self.name}.gradient has shape {found.shape}; expected (S, A) = {expected}")
        require(
            bool(np.all(np.isfinite(found) | ~self.active)),
            f"{self.name}.gradient is not finite at an occupancy where the value is {self.value(d):.6g}",
        )
        return found

    def _occupancies(self) -> list[Array]:
        problem = self.problem
        usable = problem.kept.any(axis=1, keepdims=True)
        rows: Mask = np.where(usable, problem.kept, problem.mdp.allowed)
        drawn = [policy_occupancy(problem.mdp, random_policy(rows, self.rng)).occupancy for _ in range(N_POINTS)]
        if all(np.isfinite(self.value(d)) for d in drawn):
            return drawn
        base = solve(problem, tolerance=1e-2, time_limit_seconds=20).occupancy
        require(np.isfinite(self.value(base)), f"{self.name}: no occupancy of this model with a finite risk was found")
        return [self._pulled(base, d) for d in drawn]

    def _pulled(self, base: Array, d: Array) -> Array:
        share = 1.0
        while share > SMALLEST_SHARE and not np.isfinite(self.value(base + share * (d - base))):
            share /= 2
        # half of what is still finite: room for finite differences beyond the point itself
        return np.asarray(base + 0.5 * share * (d - base))

    def _mask(self) -> Mask | None:
        found = call(f"{self.name}.permitted", self.term.permitted)
        shape = self.problem.mdp.shape
        require(
            found is None or (np.shape(found) == shape and np.asarray(found).dtype == np.bool_),
            f"{self.name}.permitted() must be None or a mask (S, A) = {shape}, found shape {np.shape(found)}",
        )
        return None if found is None else np.asarray(found)

    def _permitted(self) -> None:
        if self.mask is None:
            return
        for state, action in np.argwhere(~self.mask & self.problem.mdp.allowed)[:N_POINTS]:
            d = 0.5 * self.points[0]
            d[state, action] += 0.5
            found = self.value(d)
            require(
                found == np.inf,
                f"{self.name}.permitted() forbids ({state}, {action}), but the value with mass there is {found:.6g}",
            )

    def _slopes(self) -> None:
        """Central differences at two steps: their difference says how much of the error is theirs."""
        for d, other in zip(self.points, self.points[1:], strict=False):
            direction, slope = other - d, self.gradient(d)
            promised = float(np.sum(slope * direction))
            moving = direction != 0
            room = float(np.min(d[moving] / np.abs(direction[moving]), initial=np.inf))
            step = min(1e-3, 0.1 * room)
            while step > 1e-9 and not np.isfinite(self.value(d - step * direction) + self.value(d + step * direction)):
                step /= 4
            coarse, fine = (
                (self.value(d + h * direction) - self.value(d - h * direction)) / (2 * h) for h in (step, step / 2)
            )
            size = float(np.sum(np.abs(slope * direction)))
            noise = 1e-14 * (abs(self.value(d)) + float(np.sum(np.abs(slope * d)))) / step
            off = abs(promised - fine)
            require(
                off <= 1e-6 * size + 2 * abs(coarse - fine) + noise,
                f"{self.name}.gradient: the slope along a feasible direction is {promised:.9g}, finite differences "
                f"give {fine:.9g}, off by {off:.3g}",
            )

    def _convexity(self) -> None:
        for a, b in zip(self.points, self.points[1:], strict=False):
            at_a, at_b, slope = self.value(a), self.value(b), self.gradient(a)
            allowed = LOOSE_TOLERANCE * (
                abs(at_a) + abs(at_b) + float(np.sum(np.abs(slope * a)) + np.sum(np.abs(slope * b)))
            )
            for share in (0.25, 0.5, 0.75):
                excess = self.value((1 - share) * a + share * b) - (1 - share) * at_a - share * at_b
                require(
                    excess <= allowed,
                    f"{self.name} is flagged convex, but lies above its chord by {excess:.3g} at share {share}",
                )
            excess = at_a + float(np.sum(slope * (b - a))) - at_b
            require(excess <= allowed, f"{self.name}: the tangent lies above the value by {excess:.3g}")

    def _below(self, what: str, witness: Any) -> None:
        """A cut stays below the risk at every distribution on the active pairs, occupancy or not."""
        line = call(f"{self.name}.cut", self.term.cut, witness, self.active)
        slope, shape = np.asarray(line.slope), self.problem.mdp.shape
        require(slope.shape == shape, f"{self.name}.cut has a slope of shape {slope.shape}; expected {shape}")
        weights = [np.where(self.active, self.rng.exponential(size=shape) ** power, 0.0) for power in (1, 4)]
        for d in [*self.points, *(w / w.sum() for w in weights)]:
            found, height = self.value(d), float(np.sum(slope * d)) + line.intercept
            size = abs(line.intercept) + float(np.sum(np.abs(slope * d))) + (abs(found) if np.isfinite(found) else 0.0)
            require(
                height <= found + LOOSE_TOLERANCE * size,
                f"{self.name}: {what} reaches {height:.9g} where the risk is {found:.9g}, above by "
                f"{height - found:.3g}",
            )

    def _scalar(self, term: ScalarRisk) -> None:
        low, high = call(f"{self.name}.interval", term.interval)
        require(np.isfinite(low) and low <= high < np.inf, f"{self.name}.interval is ({low}, {high})")
        for d in self.points:
            found, best = self.value(d), float(call(f"{self.name}.best", term.best, d))
            slack = LOOSE_TOLERANCE * max(abs(low), abs(high))
            require(low - slack <= best <= high + slack, f"{self.name}.best is {best}, outside [{low}, {high}]")
            for t in [best, *np.linspace(low, high, 21)]:
                table = np.asarray(term.table(t))
                other = float(np.sum(d * table)) + term.offset(t)
                size = LOOSE_TOLERANCE * (float(np.sum(np.abs(d * table))) + abs(term.offset(t)))
                require(
                    found <= other + size, f"{self.name}.value is {found:.9g}, but t = {t:.6g} gives less, {other:.9g}"
                )
                require(
                    t != best or abs(found - other) <= size, f"{self.name}.value is not that of its best t, {other}"
                )
            for _ in range(N_POINTS):
                self._line(term, d, best, *(abs(high - low) * self.rng.random(2)))

    def _line(self, term: ScalarRisk, d: Array, best: float, before: float, after: float) -> None:
        """The line of a range that holds the best number of d stays below the risk of d."""
        low, high, found = best - before, best + after, self.value(d)
        at = float(self.rng.choice([low, high, best, self.rng.uniform(low - before, high + after)]))
        table, offset = call(f"{self.name}.line", term.line, low, high, at)
        height, size = float(np.sum(d * table)) + offset, float(np.sum(np.abs(d * table))) + abs(offset)
        require(
            height <= found + LOOSE_TOLERANCE * size,
            f"{self.name}.line of ({low:.6g}, {high:.6g}] at {at:.6g} is above the risk by {height - found:.3g}",
        )
        where = call(f"{self.name}.cut_at", term.cut_at, low, high, best)
        require(where is None or low < where < high, f"{self.name}.cut_at({low}, {high}) is {where}, not inside")

    def _conic(self, term: ConicRisk) -> None:
        form: Epigraph = call(f"{self.name}.epigraph", term.epigraph, self.active)
        rows, own, pairs = np.size(form.rhs), np.size(form.cost), self.active.size
        shapes: list[tuple[str, Any, tuple[int, ...]]] = [
            ("on_pairs", form.on_pairs, (rows, pairs)),
            ("on_own", form.on_own, (rows, own)),
            ("quadratic", form.quadratic, (own,)),
            ("linear", form.linear, (pairs,)),
        ]
        for name, part, expected in shapes:
            found = expected if part is None else part.shape
            require(found == expected, f"{self.name}.epigraph: {name} has shape {found}; expected {expected}")
        strange = {kind for kind, _ in form.cones} - CONES
        require(not strange, f"{self.name}.epigraph: unknown cones {sorted(strange)}; known are {sorted(CONES)}")
        covered = sum(size for _, size in form.cones)
        require(covered == rows, f"{self.name}.epigraph: the cones cover {covered} rows of {rows}")
        if any(kind == "exponential" and size != 3 for kind, size in form.cones):
            raise CheckFailure(f"{self.name}.epigraph: an exponential cone has three rows")
        for scale in (0.1, 1.0, 10.0):
            z = scale * self.rng.standard_normal(rows)
            self._below("the cut of a random witness", call(f"{self.name}.epigraph witness", form.witness, z))
