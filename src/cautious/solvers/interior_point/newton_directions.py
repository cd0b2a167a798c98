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

from cautious._core import interior_steps as kernels
from cautious.arrays import Array
from cautious.solvers.interior_point.barrier_program import Form, Kinks, TransportBlock
from cautious.solvers.interior_point.newton_matrix import EMPTY, System, small_solution

MAX_REFINEMENTS = 3
# shares, of what arrives and is missing, by which the flow of a direction may be off: always, and at most; in between
# it may be off by the mean product
MIN_IMBALANCE_SHARE, MAX_IMBALANCE_SHARE = 1e-6, 1e-2
# multipliers of barriers stay within this factor of what their slacks call for
MAX_MULTIPLIER_RATIO = 5.0


@dataclass
class BarrierIterate:
    """Where the method is, or a step; ``top`` are the free tops of worst cases.

    ``reach`` of a direction is how far it can be gone until a variable, and until a multiplier, is zero.
    """

    primal: Array
    dual: Array
    v: Array
    top: Array
    reach: tuple[float, float] = (0.0, 0.0)

    @property
    def finite(self) -> bool:
        """Whether the system could be solved."""
        return bool(np.isfinite(self.v.sum() + self.top.sum()))

    def moved(self, step: "BarrierIterate", along: float, along_dual: float) -> "BarrierIterate":
        """This point plus a step, of two lengths."""
        return BarrierIterate(
            moved(self.primal, step.primal, along),
            moved(self.dual, step.dual, along_dual),
            moved(self.v, step.v, along_dual),
            moved(self.top, step.top, along),
        )

    def draw(self, other: "BarrierIterate", share: float, share_dual: float) -> None:
        """Change another step to be these shares of the way from this one."""
        if share < 1:
            kernels.draw(self.primal, other.primal, share)
            kernels.draw(self.top, other.top, share)
        if share_dual < 1:
            kernels.draw(self.dual, other.dual, share_dual)
            kernels.draw(self.v, other.v, share_dual)


def moved(x: Array, change: Array, length: float) -> Array:
    """x + length * change."""
    out = np.empty(x.size)
    kernels.moved(x, change, length, out)
    return out


class Newton:
    """The Newton system at a point, factored with the first ``direction`` that is asked for; more may be."""

    def __init__(self, form: Form, system: System, point: BarrierIterate) -> None:
        self.form, self.system, self.point = form, system, point
        self.y, self.z = point.primal[: form.reward.size], point.dual[: form.reward.size]
        self.x, self.right = self._shortage()
        flow = kernels.furthest(self.right) + float(form.arrival.max())
        self.product = float(self.y @ self.z)
        mean_product = self.product / self.y.size
        self.enough = flow * min(max(mean_product / flow, MIN_IMBALANCE_SHARE), MAX_IMBALANCE_SHARE)
        self._bend()
        self._factored = False

    def _factor(self, missing: Array) -> Array:
        """Factor the system; what it answers to what is ``missing``."""
        form, point, conductance = self.form, self.point, None
        if form.transport is not None:
            along, against = form.transport.along, form.transport.against
            conductance = point.primal[along] / point.dual[along] + point.primal[against] / point.dual[against]
        found = self.system.refactor(self.hessian, conductance, missing)
        if form.features is not None:
            self._border()
        self._factored = True
        return found

    def entries(self, on_states: bool) -> Array:
        """The active entries a separable risk looks at."""
        return self.x[self.form.where] if on_states else self.y

    def _bend(self) -> None:
        """Curvatures of all separable terms; residual of the dual equation."""
        form, point, room = self.form, self.point, self.system.room
        push, lift = np.add(self.z, form.reward, out=room("push", self.z.size)), np.zeros(self.system.n_states)
        softness, coupling = room("softness", push.size), np.zeros(self.system.n_states)
        softness.fill(0.0)
        self.away: list[Array] = []
        self.kink_curvature: list[Array] = []
        bends = []
        for term in form.smooth:
            x = self.entries(term.on_states)
            bends.append((term.on_states, term.curvature(x), term.slope(x)))
        for k, kink in enumerate(form.kinks):
            self.away.append(self.entries(kink.on_states) - kink.prior)
            self.kink_curvature.append(room(f"curvature {k}", kink.prior.size))
            vectors = [*sides(kink, point.primal, point.dual), self.kink_curvature[k]]
            kernels.kink_curvature(*vectors)
            bends.append((kink.on_states, self.kink_curvature[k], point.dual[kink.below]))
        for on_states, curvature, slope in bends:
            if on_states:
                coupling[form.where] += curvature
                lift[form.where] -= slope
            else:
                softness += curvature
                push -= slope
        if form.features is not None:
            push += point.dual[form.features.slack] @ form.features.rows
        self.dual_residual = self.system.forward(push, lift, point.v)
        kernels.soften(self.y, self.z, softness)
        self.hessian = softness, coupling

    def _border(self) -> None:
        """What the rows of the features add: C = B' W G', Z = M^-1 C, and the dense matrix of (w, top)."""
        features = self.form.features
        assert features is not None
        right, lift, weighed = np.zeros(self.system.size), np.zeros(self.system.n_states), np.empty_like(features.rows)
        found = [
            self.system.respond(self.hessian, row, lift, EMPTY, right, into)[1].copy()
            for row, into in zip(features.rows, weighed, strict=True)
        ]
        self.crossing = -np.stack(found)
        self.crossing_solved = np.stack([self.system.factor.solve(row) for row in self.crossing])
        own = np.diag(self.point.primal[features.slack] / self.point.dual[features.slack])
        inner = features.rows @ weighed.T - self.crossing @ self.crossing_solved.T + own
        corner = np.zeros((features.tops.shape[1],) * 2)
        self.small = np.block([[0.5 * (inner + inner.T), features.tops], [features.tops.T, corner]])

    def _shortage(self) -> tuple[Array, Array]:
        """Mass of each state; what flow and transport still miss, -(arrival, demand) - B' y - (0, divergence)."""
        x, missing = self.system.backward(self.y)
        missing[: self.system.n_states] -= self.form.arrival
        transport = self.form.transport
        if transport is not None:
            net = self.point.primal[transport.along] - self.point.primal[transport.against]
            missing[self.system.n_states :] -= transport.demand + transport.edges.divergence(net, self.system.n_states)
        return x, missing

    def blank(self, name: str) -> BarrierIterate:
        """A step to be filled in, the same for the same name."""
        sizes = (self.form.size, self.form.size, self.system.size, self.point.top.size)
        primal, dual, v, top = (self.system.room(f"{name}, {k}", size) for k, size in enumerate(sizes))
        return BarrierIterate(primal, dual, v, top)

    def direction(
        self, wanted: Array, step: BarrierIterate, rounds: int = MAX_REFINEMENTS, like: BarrierIterate | None = None
    ) -> BarrierIterate:
        """Fill in the step for which primal * change of dual + dual * change of primal = ``wanted``, in some rounds.

        ``like`` is another step of this point: what differs is solved for, and rounding errors are those of that.
        """
        form, point, room, n_pairs = self.form, self.point, self.system.room, self.y.size
        push, lift = room("push", n_pairs), room("lift", self.system.n_states)
        kernels.pushed(self.dual_residual, wanted[:n_pairs], self.y, push)
        lift.fill(0.0)
        slopes = [room(f"slope {k}", kink.prior.size) for k, kink in enumerate(form.kinks)]
        for kink, away, curvature, slope in zip(form.kinks, self.away, self.kink_curvature, slopes, strict=True):
            everywhere = not kink.on_states or isinstance(form.where, slice)
            less = (lift if kink.on_states else push) if everywhere else EMPTY
            vectors = [*sides(kink, point.primal, point.dual, wanted), curvature, slope, less]
            kernels.kink_offset(away, *vectors)
            if not everywhere:
                lift[form.where] -= slope
        self._begin(step, like)
        shift = self._solve(push, lift, wanted, step, rounds, like is None)
        dy = step.primal[:n_pairs]
        reach = [kernels.changes(self.y, self.z, wanted[:n_pairs], dy, step.dual[:n_pairs])]
        for kink, curvature, slope in zip(form.kinks, self.kink_curvature, slopes, strict=True):
            dx = np.divide(shift, self.hessian[1], out=lift)[form.where] if kink.on_states else dy
            vectors = sides(kink, point.primal, point.dual, wanted, step.primal, step.dual)
            vectors += [slope, curvature, dx]
            reach.append(kernels.kink_changes(*vectors))
        for part in form.others:
            along = kernels.reach(point.primal[part], step.primal[part])
            reach.append((along, kernels.reach(point.dual[part], step.dual[part])))
        step.reach = min(along for along, _ in reach), min(along_dual for _, along_dual in reach)
        return step

    def _begin(self, step: BarrierIterate, like: BarrierIterate | None) -> None:
        """Where refinement of a step starts: from nothing, or from another step."""
        step.v[:] = 0.0 if like is None else like.v
        step.top[:] = 0.0 if like is None else like.top
        if self.form.features is not None:
            part = self.form.features.slack
            step.dual[part] = 0.0 if like is None else like.dual[part]

    def _solve(self, push: Array, lift: Array, wanted: Array, step: BarrierIterate, rounds: int, anew: bool) -> Array:
        """Fill in the changes of y, v, flows and features, refined until the flow balances; the shift of the slopes."""
        form, features = self.form, self.form.features
        slack_right, shift = self._feature_right(wanted), EMPTY
        for number in range(rounds + 1):
            pushed = push if features is None else push + step.dual[features.slack] @ features.rows
            v, right = EMPTY if anew and number == 0 else step.v, self.right if number < rounds else EMPTY
            shift, missing = self.system.respond(self.hessian, pushed, lift, v, right, step.primal[: self.y.size])
            if form.transport is not None:
                self._ship(form.transport, wanted, step, missing[self.system.n_states :])
            if number == rounds:
                break
            if number > 0 and kernels.furthest(missing) <= self.enough:
                break
            self._correct(missing, slack_right, step)
        if features is not None:
            part = features.slack
            step.primal[part] = (wanted[part] - self.point.primal[part] * step.dual[part]) / self.point.dual[part]
        return shift

    def _ship(self, transport: TransportBlock, wanted: Array, step: BarrierIterate, missing: Array) -> None:
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

    def _correct(self, missing: Array, slack_right: Array, step: BarrierIterate) -> None:
        """Solve for the part of (v, w, top) that is still missing, and add it to the step."""
        features = self.form.features
        dv = self.system.factor.solve(missing) if self._factored else self._factor(missing)
        if features is not None:
            dw_now, w = step.dual[features.slack], self.point.dual[features.slack]
            own = self.point.primal[features.slack] / w
            dy = step.primal[: self.y.size]
            lacking = slack_right - own * dw_now - features.rows @ dy - features.tops @ step.top
            total = features.totals - features.tops.T @ (w + dw_now)
            small = np.concatenate([lacking - self.crossing @ dv, total])
            found = small_solution(self.small, small)
            dw = found[: dw_now.size]
            dv = dv - dw @ self.crossing_solved
            step.dual[features.slack] += dw
            step.top += found[dw_now.size :]
        step.v += dv


def sides(part: Kinks | TransportBlock, *vectors: Array) -> list[Array]:
    """Both sides of a kink, or of all edges, in some vectors, one after the other."""
    ends = (part.above, part.below) if isinstance(part, Kinks) else (part.along, part.against)
    return [vector[end] for vector in vectors for end in ends]


def near_barriers(form: Form, point: BarrierIterate) -> BarrierIterate:
    """Multipliers of barriers brought near what their slacks call for; the next step mends the dual equation."""
    if form.features is not None:
        part, fixed = form.features.slack, form.features.fixed
        called = fixed / point.primal[part]
        near = np.clip(point.dual[part], called / MAX_MULTIPLIER_RATIO, called * MAX_MULTIPLIER_RATIO)
        point.dual[part] = np.where(fixed > 0, near, point.dual[part])
    return point


def step_lengths(form: Form, step: BarrierIterate, share: float) -> tuple[float, float]:
    """Step lengths: one for both sides where slopes depend on the occupancy; zero for a step that is no number."""
    if not step.finite:
        return 0.0, 0.0
    along, along_dual = (min(1.0, share * length) for length in step.reach)
    return (min(along, along_dual),) * 2 if form.bends else (along, along_dual)


def mix(
    form: Form, point: BarrierIterate, step: BarrierIterate, other: BarrierIterate, share: float
) -> tuple[float, float]:
    """Change ``other`` to what can be taken furthest on the way to it from a step; its lengths as in ``step_lengths``.

    Where slopes do not bend, both sides of it may be mixed differently.
    """
    if not other.finite:
        return 0.0, 0.0
    primal, dual = (
        np.minimum(1.0, share * np.array(kernels.reaches(*vectors)))
        for vectors in ((point.primal, step.primal, other.primal), (point.dual, step.dual, other.dual))
    )
    if form.bends:
        primal = dual = np.minimum(primal, dual)
    # the last of the longest: a correction is good for more than this step
    k, k_dual = (3 - int(np.argmax(lengths[::-1])) for lengths in (primal, dual))
    step.draw(other, (k + 1) / 4, (k_dual + 1) / 4)
    return float(primal[k]), float(dual[k_dual])
