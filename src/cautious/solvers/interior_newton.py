"""One point of the interior point method, and its Newton directions.

Non-negative variables and their multipliers are two long vectors, ``primal`` = (y, t, s, flows, slacks) and ``dual`` =
(z, weight - u, u, lengths -+ differences, w), whose products tend to zero together, those of log barriers to a
constant. With u the slopes of all risks and v = (multipliers of the flow, potentials of the graph):

    z + r - u + G' w + B v = 0,      B' y = -arrival,      primal * dual = target.

A direction for given changes of the products: everything but (v, w) is eliminated entry by entry and state by state, v
by one sparse factorisation, w by a dense system of its few rows. Directions are refined until the flow balances.
"""

from dataclasses import dataclass

import numpy as np

from cautious.arrays import Array
from cautious.kernels import interior_steps as kernels
from cautious.solvers.interior_system import System
from cautious.solvers.interior_terms import Form, Kinks, Transport

REFINEMENTS = 3
BALANCED = 1e-8
NEAR = 5.0


@dataclass
class Point:
    """Where the method is; ``top`` are the free tops of worst cases."""

    primal: Array
    dual: Array
    v: Array
    top: Array

    def moved(self, step: "Point", along: float, along_dual: float) -> "Point":
        """This point plus a step, of two lengths."""
        return Point(
            self.primal + along * step.primal,
            self.dual + along_dual * step.dual,
            self.v + along_dual * step.v,
            self.top + along * step.top,
        )

    def reach(self, step: "Point") -> tuple[float, float]:
        """How far each vector can go before it is negative."""
        return float(kernels.longest_step(self.primal, step.primal)), float(kernels.longest_step(self.dual, step.dual))


class Newton:
    """The Newton system at a point, factored; ``direction`` may then be asked several times."""

    def __init__(self, form: Form, system: System, point: Point) -> None:
        self.form, self.system, self.point = form, system, point
        self.y, self.z = point.primal[: form.reward.size], point.dual[: form.reward.size]
        self.x = system.sums(self.y)
        self.stiffness, self.coupling = self.z / self.y, np.zeros(system.n_states)
        self._bend()
        self.softness = 1 / self.stiffness
        self.right = self._shortage()
        conductance = None
        if form.transport is not None:
            along, against = form.transport.along, form.transport.against
            conductance = point.primal[along] / point.dual[along] + point.primal[against] / point.dual[against]
        system.refactor(self.softness, self.coupling, conductance)
        if form.features is not None:
            self._border()

    def entries(self, on_states: bool) -> Array:
        """The active entries a separable risk looks at."""
        return self.x[self.form.states] if on_states else self.y

    def _bend(self) -> None:
        """Curvatures of all separable terms; residual of the dual equation without multipliers of features."""
        form, point = self.form, self.point
        self.dual_residual = self.z + form.reward + self.system.forward(point.v)
        self.kink_curvature: list[Array] = []
        for term in form.smooth:
            x = self.entries(term.on_states)
            self._add(term.on_states, term.curvature(x), term.slope(x))
        for kink in form.kinks:
            t, s = point.primal[kink.above], point.primal[kink.below]
            curvature = 1 / (t / point.dual[kink.above] + s / point.dual[kink.below])
            self.kink_curvature.append(curvature)
            self._add(kink.on_states, curvature, point.dual[kink.below])
        if form.features is not None:
            self.dual_residual = self.dual_residual + point.dual[form.features.slack] @ form.features.rows

    def _add(self, on_states: bool, curvature: Array, slope: Array) -> None:
        if on_states:
            self.coupling[self.form.states] += curvature
            self.dual_residual = self.dual_residual - self.spread(slope)
        else:
            self.stiffness = self.stiffness + curvature
            self.dual_residual = self.dual_residual - slope

    def spread(self, per_state: Array) -> Array:
        """Values of the active states, on their pairs."""
        return self.system.spread(self.form.states, per_state)

    def _border(self) -> None:
        """What the rows of the features add: C = B' W G', Z = M^-1 C, and the dense matrix of (w, top)."""
        features = self.form.features
        assert features is not None
        nothing = np.zeros(self.system.size)
        weighed = np.empty_like(features.rows)
        found = [
            self.system.respond(self.softness, self.coupling, row, nothing, nothing, into)
            for row, into in zip(features.rows, weighed, strict=True)
        ]
        self.crossing = -np.stack([missing for _, missing in found])
        self.crossing_solved = np.stack([self.system.factor.solve(row) for row in self.crossing])
        own = np.diag(self.point.primal[features.slack] / self.point.dual[features.slack])
        inner = features.rows @ weighed.T - self.crossing @ self.crossing_solved.T + own
        corner = np.zeros((features.tops.shape[1],) * 2)
        self.small = np.block([[0.5 * (inner + inner.T), features.tops], [features.tops.T, corner]])

    def _shortage(self) -> Array:
        """What the flow, and the transport, still miss: -(arrival, demand) - B' y - (0, divergence)."""
        missing = -self.system.backward(self.y)
        missing[: self.system.n_states] -= self.form.arrival
        transport = self.form.transport
        if transport is not None:
            net = self.point.primal[transport.along] - self.point.primal[transport.against]
            missing[self.system.n_states :] -= transport.demand + transport.edges.divergence(net, self.system.n_states)
        return missing

    def direction(self, wanted: Array, rounds: int = REFINEMENTS) -> Point:
        """The step for which primal * change of dual + dual * change of primal = ``wanted``, solved in some rounds."""
        form, point = self.form, self.point
        push = kernels.pushed(self.dual_residual, wanted[: self.y.size], self.y)
        offsets = [self._kink_offset(kink, c, wanted) for kink, c in zip(form.kinks, self.kink_curvature, strict=True)]
        for kink, offset in zip(form.kinks, offsets, strict=True):
            push -= self.spread(offset) if kink.on_states else offset
        step = Point(np.empty(form.size), np.empty(form.size), np.zeros(self.system.size), np.zeros_like(point.top))
        if form.features is not None:
            step.dual[form.features.slack] = 0.0
        shift = self._solve(push, wanted, step, rounds)
        n_pairs = self.y.size
        dy = step.primal[:n_pairs]
        kernels.changes(self.y, self.z, wanted[:n_pairs], dy, step.dual[:n_pairs])
        for kink, curvature, offset in zip(form.kinks, self.kink_curvature, offsets, strict=True):
            share = (shift / self.coupling)[form.states] if kink.on_states else dy
            du = offset + curvature * share
            for part, sign in ((kink.above, -1.0), (kink.below, 1.0)):
                sides = point.primal[part], point.dual[part], wanted[part]
                kernels.kink_changes(du, *sides, sign, step.primal[part], step.dual[part])
        return step

    def _kink_offset(self, kink: Kinks, curvature: Array, wanted: Array) -> Array:
        """The change of u when x does not change."""
        vectors = self.point.primal, wanted, self.point.dual
        sides = [vector[part] for vector in vectors for part in (kink.above, kink.below)]
        return np.asarray(kernels.kink_offset(self.entries(kink.on_states), kink.prior, *sides, curvature))

    def _solve(self, push: Array, wanted: Array, step: Point, rounds: int) -> Array:
        """Fill in the changes of y, v, flows and features, refined until the flow balances; the shift of the slopes."""
        form, features = self.form, self.form.features
        enough = BALANCED * (float(np.abs(self.right).max()) + float(form.arrival.max()))
        slack_right, shift = self._feature_right(wanted), np.zeros(0)
        for number in range(rounds + 1):
            pushed = push if features is None else push + step.dual[features.slack] @ features.rows
            if number == 0 and features is None:
                missing = self.system.collect(self.softness, self.coupling, pushed, self.right)
            else:
                dy = step.primal[: self.y.size]
                shift, missing = self.system.respond(self.softness, self.coupling, pushed, step.v, self.right, dy)
            if form.transport is not None:
                self._ship(form.transport, wanted, step, missing[self.system.n_states :])
            if number == rounds or (number > 0 and float(np.abs(missing).max()) <= enough):
                break
            self._correct(missing, slack_right, step)
        if features is not None:
            part = features.slack
            step.primal[part] = (wanted[part] - self.point.primal[part] * step.dual[part]) / self.point.dual[part]
        return shift

    def _ship(self, transport: Transport, wanted: Array, step: Point, missing: Array) -> None:
        """Changes of the flows and of their multipliers for the present change of the potentials."""
        part, edges = slice(transport.along.start, transport.against.stop), transport.edges
        sides = self.point.primal[part], self.point.dual[part], wanted[part], step.primal[part], step.dual[part]
        kernels.flow_changes(edges.tail, edges.head, step.v[self.system.n_states :], *sides, missing)

    def _feature_right(self, wanted: Array) -> Array:
        """Right-hand side of the slacks: what (slack/w) dw + G dy + dtop has to be."""
        features = self.form.features
        if features is None:
            return np.zeros(0)
        slack, w = self.point.primal[features.slack], self.point.dual[features.slack]
        residual = features.rows @ self.y - features.floors + features.tops @ self.point.top - slack
        return np.asarray(wanted[features.slack] / w - residual)

    def _correct(self, missing: Array, slack_right: Array, step: Point) -> None:
        """Solve for the part of (v, w, top) that is still missing, and add it to the step."""
        features = self.form.features
        dv = self.system.factor.solve(missing)
        if features is not None:
            dw_now, w = step.dual[features.slack], self.point.dual[features.slack]
            own = self.point.primal[features.slack] / w
            dy = step.primal[: self.y.size]
            lacking = slack_right - own * dw_now - features.rows @ dy - features.tops @ step.top
            total = features.totals - features.tops.T @ (w + dw_now)
            small = np.concatenate([lacking - self.crossing @ dv, total])
            found = _solve(self.small, small)
            dw = found[: dw_now.size]
            dv = dv - dw @ self.crossing_solved
            step.dual[features.slack] += dw
            step.top += found[dw_now.size :]
        step.v += dv


def near_barriers(form: Form, point: Point) -> Point:
    """Multipliers of barriers brought near what their slacks call for; the next step mends the dual equation."""
    if form.features is not None:
        part, fixed = form.features.slack, form.features.fixed
        called = fixed / point.primal[part]
        near = np.clip(point.dual[part], called / NEAR, called * NEAR)
        point.dual[part] = np.where(fixed > 0, near, point.dual[part])
    return point


def step_lengths(form: Form, point: Point, step: Point, share: float) -> tuple[float, float]:
    """Step lengths: one for both sides where slopes depend on the occupancy."""
    along, along_dual = (min(1.0, share * reach) for reach in point.reach(step))
    if form.smooth or (form.features is not None and form.features.fixed.any()):
        along = along_dual = min(along, along_dual)
    return along, along_dual


def _solve(matrix: Array, right: Array) -> Array:
    """A small symmetric system, scaled: its rows may differ by many orders of magnitude."""
    if not (np.isfinite(matrix).all() and np.isfinite(right).all()):
        return np.full(right.size, np.nan)
    scale = 1 / np.sqrt(np.maximum(np.abs(matrix).max(axis=1), 1e-300))
    return np.asarray(scale * np.linalg.lstsq(matrix * scale * scale[:, None], right * scale, rcond=1e-15)[0])
