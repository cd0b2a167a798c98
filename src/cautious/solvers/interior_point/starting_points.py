"""Where the interior point method starts: from the prior's behaviour, or from a neighbouring problem's path.

Without a neighbour the multipliers are those of a good plan, for slopes of the risks as they are at the prior, raised
until they overpay every pair. The occupancy is that of a policy which mixes the prior's own one with actions about as
likely as these multipliers make them cheap.

The answer of a neighbouring caution is a bad start: its products are nearly zero, and steps from there are short. So a
point is kept on the way, where the gap was still large and all products of about one size. At the next caution it is
moved, with no other aim than products of that size again; what comes out starts the run, and is kept for the caution
after. Where that does not succeed the run starts without a neighbour, and keeps an earlier point.
"""

from dataclasses import dataclass

import numpy as np

from cautious.arrays import Array
from cautious.checks import picked, spread_to, state_sums_of
from cautious.occupancy import occupancy_policy, policy_occupancy
from cautious.planning import plan
from cautious.problem import Problem
from cautious.solvers.interior_point.barrier_program import FeatureRows, Form
from cautious.solvers.interior_point.newton_directions import BarrierIterate, Newton, near_barriers, step_lengths
from cautious.solvers.interior_point.newton_matrix import System
from cautious.solvers.interior_point.sparse_cholesky import require_time

# the least entry and the least reduced cost, in units of the form
MIN_ENTRY, MIN_REDUCED_COST = 1e-3, 0.03
# of the first plan, in units of the form, and of a policy's occupancy in the 1-norm
PLAN_TOLERANCE, OCCUPANCY_ACCURACY = 0.3, 0.03
# of the first policy: the share of cheap actions, those of a reduced cost about this large, and of default rows
CHEAP_ACTION_SHARE, CHEAP_REDUCED_COST, DEFAULT_ROW_SHARE = 0.6, 0.1, 0.2
# relative gaps at which a point is kept: at first, and at most
FIRST_KEPT_GAP, MAX_KEPT_GAP = 0.1, 1.0
# a kept point is too far away when these many steps, none shorter than this, do not end with a full one that leaves
# every product above this share of their mean
MAX_CENTRING_STEPS, MIN_STEP_LENGTH, FULL_STEP_LENGTH, MIN_PRODUCT_SHARE = 3, 0.3, 0.9, 0.05


@dataclass
class KeptPoint:
    """A point of the last problem, kept when its relative gap passed ``level``, and that problem's form."""

    level: float = FIRST_KEPT_GAP
    form: Form | None = None
    point: BarrierIterate | None = None

    def wants(self, gap: float) -> bool:
        """Whether a point with this relative gap is to be kept."""
        return self.point is None and gap <= self.level

    def keep(self, form: Form, point: BarrierIterate) -> None:
        """Remember a point; nothing changes it later."""
        self.form, self.point = form, point

    def start(self, form: Form, system: System) -> BarrierIterate | None:
        """The kept point, moved to another problem; None without one, or when it is too far away."""
        if self.point is None or self.form is None or self.form.size != form.size:
            return None
        point = _translated(self.form, self.point, form, system.n_states)
        free = form.targets == 0
        for _ in range(MAX_CENTRING_STEPS):
            products, newton = point.primal * point.dual, Newton(form, system, point)
            mean = float(products[free].mean())
            step = newton.direction(np.where(free, mean, form.targets) - products, newton.blank("first"))
            lengths = step_lengths(form, step, FULL_STEP_LENGTH)
            if not min(lengths) >= MIN_STEP_LENGTH:
                break
            point = near_barriers(form, point.moved(step, *lengths))
            products = (point.primal * point.dual)[free]
            if min(lengths) >= FULL_STEP_LENGTH and float(products.min()) > MIN_PRODUCT_SHARE * float(products.mean()):
                self.keep(form, point)
                return point
        self.form, self.point, self.level = None, None, min(10 * self.level, MAX_KEPT_GAP)
        return None


def _translated(old: Form, point: BarrierIterate, form: Form, n_states: int) -> BarrierIterate:
    """A point in the units of another form; slopes of kinks, and potentials, keep their place between their ends."""
    ratio = old.scale / form.scale
    dual, v = point.dual * ratio, point.v * ratio
    for kink, before in zip(form.kinks, old.kinks, strict=True):
        for part in (kink.above, kink.below):
            dual[part] = point.dual[part] * (kink.weight / before.weight)
    if form.transport is not None and old.transport is not None:
        # steps rely on multipliers of flows being lengths less differences of potentials
        heavier = form.transport.weight / old.transport.weight
        for part in (form.transport.along, form.transport.against):
            dual[part] = point.dual[part] * heavier
        v[n_states:] = point.v[n_states:] * heavier
    return BarrierIterate(point.primal.copy(), dual, v, point.top.copy())


def start(problem: Problem, form: Form, system: System) -> BarrierIterate:
    """Multipliers of a good plan for about the right slopes, and the behaviour that their reduced costs suggest."""
    policy = _prior_policy(problem)
    slope = np.zeros(form.reward.size)
    for term in form.smooth:
        u = term.slope(np.maximum(term.prior, MIN_ENTRY))
        slope += system.spread(form.states, u) if term.on_states else u
    for kink in form.kinks:
        slope += kink.weight / 2
    if form.features is not None:
        _, w, _ = _barriers(form.features, form, _occupancy(problem, form, policy))
        slope -= w @ form.features.rows
    v, z = _overpaying(problem, form, system, form.reward - slope)
    y = _occupancy(problem, form, (1 - CHEAP_ACTION_SHARE) * policy + CHEAP_ACTION_SHARE * _soft(problem, z))
    primal, dual, top = np.ones(form.size), np.ones(form.size), np.zeros(0)
    primal[: y.size], dual[: y.size] = y, z
    x, _ = system.backward(y)
    for kink in form.kinks:
        away = (x[form.states] if kink.on_states else y) - kink.prior
        primal[kink.above] = np.maximum(away, 0) + MIN_REDUCED_COST / kink.weight
        primal[kink.below] = primal[kink.above] - away
        dual[kink.above] = dual[kink.below] = kink.weight / 2
    if form.transport is not None:
        for part in (form.transport.along, form.transport.against):
            dual[part] = form.transport.weight * form.transport.edges.length
    if form.features is not None:
        part = form.features.slack
        primal[part], dual[part], top = _barriers(form.features, form, y)
    return BarrierIterate(primal, dual, v, top)


def _prior_policy(problem: Problem) -> Array:
    """What the first prior of pairs does; without one, everything alike."""
    for term in problem.parts.separable:
        if not term.risk.on_states:
            return occupancy_policy(np.where(problem.active, term.risk.prior, 0.0), problem.default_rows)
    return problem.default_rows


def _occupancy(problem: Problem, form: Form, policy: Array) -> Array:
    """About what a policy does, a little blurred, on the active pairs; nothing is too small."""
    blurred = (1 - DEFAULT_ROW_SHARE) * policy + DEFAULT_ROW_SHARE * problem.default_rows
    found = picked(
        policy_occupancy(problem.mdp, problem.completed(blurred), OCCUPANCY_ACCURACY).occupancy, problem.active
    )
    return np.asarray(np.maximum(form.amount * found, MIN_ENTRY))


def _overpaying(problem: Problem, form: Form, system: System, reward: Array) -> tuple[Array, Array]:
    """(v, z): the values of a good plan, raised until every active pair is overpaid, and by how much each one is."""
    paid = spread_to(problem.active, reward)
    values = plan(problem.mdp, paid, tolerance=PLAN_TOLERANCE, allowed=problem.kept, over=system.over).values
    # a start that is found too late is not used
    require_time(system.over)
    v = np.zeros(system.size)
    v[form.states] = values[form.states]
    z = -system.forward(reward, np.zeros(system.n_states), v)
    lift = MIN_REDUCED_COST - float(z.min())
    v[form.states] += lift * system.balance.unit_value[form.states]
    return v, z + lift


def _soft(problem: Problem, z: Array) -> Array:
    """Actions about as likely as they are cheap."""
    likely = spread_to(problem.active, 1 / (z + CHEAP_REDUCED_COST))
    return problem.completed(likely / np.maximum(state_sums_of(likely)[:, None], 1e-300))


def _barriers(features: FeatureRows, form: Form, y: Array) -> tuple[Array, Array, Array]:
    """(slacks, their multipliers, tops) of the features for an occupancy."""
    values = features.rows @ y - features.floors
    top = np.array([float(-values[group > 0].min()) + 0.1 * form.amount for group in features.tops.T])
    slack = np.maximum(values + features.tops @ top, 1e-3 * form.amount)
    even = features.tops @ (features.totals / features.tops.sum(axis=0)) if features.totals.size else 0.0
    return slack, np.where(features.fixed > 0, features.fixed / slack, even), top
