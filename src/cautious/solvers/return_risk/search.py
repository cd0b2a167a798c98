"""The search for the best policy that remembers what is still to be earned: plan, follow, refine.

Planning on a grid of targets bounds the objective of all policies, and names the best action for every state and
target; that policy is followed from the best target, which gives its return exactly. The difference is the gap. Where
it is too large, targets are cut off that cannot be best, and the grid is refined.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from cautious.arrays import Array
from cautious.models.encodings import EPS
from cautious.models.horizons import TOTAL
from cautious.planning import plan
from cautious.returns.backward import Grid, Planned, plan_targets
from cautious.returns.earnings import Earnings
from cautious.returns.forward import Followed, TimeOverError, follow
from cautious.returns.grids import SAME_SUM, exact_grids, nodes_in_all, possible_sums, range_of_return, target_grids
from cautious.returns.memory_policy import ActionTable, MemoryPolicy
from cautious.returns.refinement import chord_parts, refined
from cautious.solvers.return_risk.objectives import Bounds, ReturnObjective

# nodes of the first grid, over the range of the return; finer ones have so many times more, at most
FIRST_NODES, LARGEST_REFINEMENT = 200, 8.0
# products of a value and a probability that one plan may take; a last one is worth it if it refines by this factor
MOST_PRODUCTS, LEAST_REFINEMENT = 8e9, 1.5
# bytes of the actions of a policy, and of what is followed at one step
MOST_ACTION_BYTES, MOST_CELL_BYTES, BYTES_OF_CELL = 1e9, 1.5e9, 96
# what a state and a target cost beside their transitions, as such products
PRODUCTS_OF_STATE = 32
# of these products, what targets that are listed one by one may take
SHARE_OF_EXACT = 0.1
# of the gap that is allowed, what may be left open after the last step that is remembered
SHARE_AFTERWARDS = 0.05
MOST_STEPS = 20_000
# first targets that are tried between the nodes of an exact grid
MOST_OFFSETS = 60
# of the gap that is allowed, what chords may leave open; and of what they leave open, what one refinement may leave
SHARE_OF_CHORDS, LEAST_SHARE_OF_CHORDS = 0.25, 30.0
# grids that are refined where it matters: nodes that are uneven cost more, and every value keeps the error of its chord
PRODUCTS_OF_NODE, BYTES_OF_ERROR = 6.0, 4
# refinements that leave more than this share of the gap, one after the other, until the last; steps are added so often,
# and so many times more
LEAST_PROGRESS, MOST_IDLE, MOST_LONGER, LONGER = 0.97, 3, 3, 1.25
# of a sharp loss, the first grid is so many times finer than the others
FINER_AT_FIRST = 8
# so many standard deviations stand for the range of a return that is not bounded
DEVIATIONS = 12.0


@dataclass(frozen=True)
class Best:
    """The best policy found, what it does, its risk and its objective, and how wrong the latter two can be."""

    policy: MemoryPolicy
    followed: Followed
    expected_return: float
    risk: float
    objective: float
    error: float


class Search:
    """One objective in one model; ``rounds`` refines until the gap is allowed, or nothing more can be done.

    With ``even`` the targets of a step are always equally far apart.
    """

    def __init__(
        self,
        earnings: Earnings,
        objective: ReturnObjective,
        over: Callable[[], bool] = lambda: False,
        most_products: float = MOST_PRODUCTS,
        even: bool = False,
    ) -> None:
        self.earnings, self.objective, self.over, self.most_products = earnings, objective, over, most_products
        self.even = even
        self.mean = float(earnings.mdp.start @ earnings.at(earnings.mean_most, 0))
        self.upper = objective.least_loss(self.mean) + 8 * EPS * objective.constant_size(self.mean)
        self.best: Best | None = None
        self.snap, self.products, self.beyond, self._longer = 0.0, 0.0, -np.inf, 0
        self._consider(_mean_policy(earnings))

    @property
    def known(self) -> float:
        """The objective of the best policy, without what rounding may have added."""
        return -np.inf if self.best is None else self.best.objective - self.best.error

    @property
    def gap(self) -> float:
        """Between the bound and the best policy."""
        return np.inf if self.best is None else self.upper - self.known

    def rounds(self, allowance: Callable[[float], float]) -> Iterator[None]:
        """After each, ``upper`` and ``best`` are better or the same; ends with the gap, the time, or the work."""
        assert self.best is not None
        low, high = range_of_return(self.earnings)
        first, last = self.objective.targets(self.mean, self.known, low, high)
        sums = possible_sums(self.earnings) if isinstance(self.earnings.mdp.horizon, int) else None
        width = self._width(low, high)
        nodes, open_gap, last_step = float(FIRST_NODES), width * (1 + self.objective.caution), math.inf
        whole, grids, idle = (first, last), list[Grid](), 0
        while not self.over() and self.gap > (allowed := allowance(self.best.objective)):
            if sums is not None and (exact := self._exact_targets(sums, first, last)) is not None:
                yield from self._exactly(sums, exact, allowance)
                return
            if not grids:
                self._remember_long_enough(SHARE_AFTERWARDS * max(allowed, 0.1 * open_gap), width)
            if not np.isfinite(whole).all():
                # until a policy with a finite objective is known, so many targets as may be likely
                whole = self.objective.targets(self.mean, self.known, low, high)
                first = whole[0] if np.isfinite(whole[0]) else self.mean - width
                last = whole[1] if np.isfinite(whole[1]) else max(first, self.mean + width)
                certain = bool(np.isfinite(whole).all())
                self.beyond = -np.inf if certain else self.objective.beyond(first, last, self.mean)
                grids = []
            if not grids:
                grids, step = self._affordable_grids(first, last, width / nodes, width, last_step)
                if not grids:
                    return
                last_step = step
            found = self._round(grids)
            if found is None:
                return
            yield
            planned, bounds = found
            kept = np.flatnonzero(bounds.upper >= self.known)
            if kept.size:
                own = grids[0].nodes
                first = max(first, float(own[kept[0]]))
                last = max(first, min(last, float(own[min(kept[-1] + 1, own.size - 1)])))
            idle = idle + 1 if self.gap > LEAST_PROGRESS * open_gap else 0
            open_gap = self.gap
            if self._adaptive:
                grids = [] if idle > MOST_IDLE else self._refined(planned, first, last, allowed, width)
                if not grids:
                    return
                continue
            grids = []
            order = 1 if self.objective.sharp else 2
            wanted = 1.2 * (self.gap / allowed) ** (1 / order) if allowed > 0 else LARGEST_REFINEMENT
            nodes = width / last_step * min(max(wanted, 2.0), LARGEST_REFINEMENT)

    @property
    def _adaptive(self) -> bool:
        """Whether grids are refined where it matters; everywhere takes fewer rounds to a rough answer."""
        return not self.even and not self.objective.sharp and self.beyond == -np.inf

    def _refined(self, planned: Planned, first: float, last: float, allowed: float, width: float) -> list[Grid]:
        """Finer grids, for as many steps as are worth it; none if they cannot be afforded or are not finer."""
        weight, before = self.objective.value_weight, self.earnings.n_steps
        parts = chord_parts(self.earnings, planned, self._promising(planned))
        total = weight * sum(float(part.sum()) for part in parts)
        wanted = max(SHARE_OF_CHORDS * allowed, total / LEAST_SHARE_OF_CHORDS)
        self._remember_long_enough(SHARE_AFTERWARDS * max(allowed, 0.1 * self.gap), width)
        if total <= wanted:
            # what is left open is not that of the chords alone
            wanted = total / LEAST_SHARE_OF_CHORDS
            if self.earnings.n_steps == before:
                self._remember_longer()
        while not self.over():
            grids = refined(self.earnings, planned, parts, first, last, wanted / weight)
            # what matters after more steps is about what matters after the last one
            grids += [grids[-1]] * (self.earnings.n_steps - before)
            if self._affordable(grids):
                return grids
            wanted *= 2
            if wanted > total:
                break
        return []

    def _remember_longer(self) -> None:
        """More steps, where the chords are not what is left open."""
        steps = self.earnings.n_steps
        if not isinstance(self.earnings.mdp.horizon, int) and steps < MOST_STEPS and self._longer < MOST_LONGER:
            self._longer += 1
            self.earnings = self.earnings.with_steps(min(MOST_STEPS, math.ceil(LONGER * steps)))

    def _width(self, low: float, high: float) -> float:
        """Of the return; of what is not bounded, that of most of it."""
        if np.isfinite(high - low):
            return max(high - low, 1e-300)
        assert self.best is not None
        returns = self.best.followed.returns
        size = DEVIATIONS * math.sqrt(returns.variance) + abs(returns.expectation)
        return max(size, float(np.abs(self.earnings.paid).max()), 1e-300)

    def _affordable_grids(
        self, first: float, last: float, step: float, width: float, last_step: float
    ) -> tuple[list[Grid], float]:
        """Grids of this step, or of the smallest that can be afforded; none if they are hardly finer than the last."""
        while last_step / step >= LEAST_REFINEMENT and not self.over():
            grids = target_grids(self.earnings, self.objective.sharp, first, last, step, self._reach(width))
            if self.objective.sharp and last > first:
                # of the first targets no value is added up, and more of them cost little
                grids[0] = Grid.even(first, step / FINER_AT_FIRST, FINER_AT_FIRST * (grids[0].count - 1) + 1)
            if self._affordable(grids):
                return grids, step
            step *= 1.25
        return [], step

    def _reach(self, width: float) -> float:
        return width if self.earnings.mdp.horizon == TOTAL else math.inf

    def _round(self, grids: list[Grid]) -> tuple[Planned, Bounds] | None:
        """Plan for the bound, and for a policy; follow the policy from the target that promises most."""
        self.snap = 0.0
        self.products += nodes_in_all(grids) * self.earnings.mdp.transitions.nnz
        planned = plan_targets(self.earnings, self.objective.utility(), grids, self.over, with_errors=self._adaptive)
        if planned is None:
            return None
        bounds = self._bounded(planned, exact=False)
        better: Planned | None = planned
        if self.objective.sharp:
            # a reward of zero leaves a target at its node, but for rounding
            self.snap = SAME_SUM * self.earnings.size
            utility = self.objective.utility(pessimistic=True)
            better = plan_targets(self.earnings, utility, grids, self.over, self.snap)
        if better is not None:
            self._consider(self._policy(better, self._promising(better)))
        return planned, bounds

    def _exact_targets(self, sums: list[Array], first: float, last: float) -> Array | None:
        """Where all targets can be listed, the first ones to list them for: quantiles, or one at a time."""
        unsure = SAME_SUM * self.earnings.size
        if first == last:
            targets = np.array([first])
        elif self.objective.sharp:
            targets = sums[-1][(sums[-1] >= first - unsure) & (sums[-1] <= last + unsure)]
        else:
            targets = np.array([first, last])
        work = targets.size * sum(before.size for before in sums)
        affordable = work * self.earnings.mdp.transitions.nnz <= SHARE_OF_EXACT * MOST_PRODUCTS
        return targets if affordable and targets.size else None

    def _exactly(self, sums: list[Array], targets: Array, allowance: Callable[[float], float]) -> Iterator[None]:
        """Values at these targets are exact; between them, new first targets are tried where the loss is smooth."""
        assert self.best is not None
        self.snap = SAME_SUM * self.earnings.size
        planned = self._planned_exactly(sums, targets)
        if planned is None:
            return
        nodes, values = planned.grids[0].nodes, self._from_start(planned)
        bounds = self._bounded(planned, exact=self.objective.sharp)
        self._consider(self._policy(planned, self._promising(planned)))
        yield
        for _ in range(0 if self.objective.sharp else MOST_OFFSETS):
            x = bounds.best_target
            if self.gap <= allowance(self.best.objective) or self.over() or x in nodes:
                return
            planned = self._planned_exactly(sums, np.array([x]))
            if planned is None:
                return
            at = int(np.searchsorted(nodes, x))
            nodes, values = np.insert(nodes, at, x), np.insert(values, at, self._from_start(planned)[0])
            bounds = self.objective.bounds(nodes, values)
            self._lower(bounds, nodes)
            self._consider(self._policy(planned, 0))
            yield

    def _planned_exactly(self, sums: list[Array], targets: Array) -> Planned | None:
        grids = exact_grids(self.earnings, sums, targets)
        self.products += nodes_in_all(grids) * self.earnings.mdp.transitions.nnz
        return plan_targets(self.earnings, self.objective.utility(), grids, self.over, self.snap)

    def _affordable(self, grids: list[Grid]) -> bool:
        nodes, mdp = nodes_in_all(grids), self.earnings.mdp
        itemsize = np.min_scalar_type(mdp.n_actions).itemsize + (BYTES_OF_ERROR if self._adaptive else 0)
        work = nodes * (PRODUCTS_OF_NODE if self._adaptive else 1.0)
        return (
            work * (mdp.transitions.nnz + PRODUCTS_OF_STATE * mdp.n_states) <= self.most_products
            and nodes * mdp.n_states * itemsize <= MOST_ACTION_BYTES
            and max(grid.count for grid in grids) * mdp.n_states * BYTES_OF_CELL <= MOST_CELL_BYTES
        )

    def _remember_long_enough(self, left_open: float, width: float) -> None:
        """So many steps that what is earned afterwards leaves no more open than this."""
        mdp = self.earnings.mdp
        if isinstance(mdp.horizon, int):
            return
        steps = self.earnings.n_steps
        if mdp.horizon is None:
            assert self.best is not None
            deviation = math.sqrt(self.best.followed.returns.variance)
            means = float(self.earnings.mean_most.max() - self.earnings.mean_least.min())
            while steps < MOST_STEPS:
                scale = mdp.discount**steps
                if self.objective.left_open(scale * width, scale * means, deviation) <= left_open:
                    break
                steps += 1
        else:
            steps = self._steps_to_end(left_open)
        if steps > self.earnings.n_steps:
            self.earnings = self.earnings.with_steps(steps)

    def _steps_to_end(self, left_open: float) -> int:
        """Until an end: as long as the policy of the largest mean takes, with nearly all of its mass."""
        mdp = self.earnings.mdp
        chain, mass, steps = mdp.under(self.earnings.policy_after).T.tocsr(), np.array(mdp.start), 0
        _, variances = self.earnings.moments_after
        going_on = ~mdp.ended
        while steps < MOST_STEPS and not self.over():
            alive = np.where(going_on, mass, 0.0)
            if self.objective.left_open(2 * math.sqrt(float(alive @ variances))) <= left_open:
                break
            mass, steps = chain @ mass, steps + 1
        return max(1, steps)

    def _from_start(self, planned: Planned) -> Array:
        """Upper bounds (n,) of the values at the nodes of the first grid, from the start distribution."""
        return np.asarray(self.earnings.mdp.start @ (planned.values + planned.error))

    def _bounded(self, planned: Planned, exact: bool) -> Bounds:
        nodes, values = planned.grids[0].nodes, self._from_start(planned)
        # where exact, every policy's objective is linear between two targets: the best target is a node
        bounds = self.objective.at_nodes(nodes, values) if exact else self.objective.bounds(nodes, values)
        self._lower(bounds, nodes)
        return bounds

    def _lower(self, bounds: Bounds, nodes: Array) -> None:
        size = self.objective.constant_size(float(np.abs(nodes).max())) + abs(bounds.largest)
        self.upper = min(self.upper, max(bounds.largest, self.beyond) + 16 * EPS * size)

    def _promising(self, planned: Planned) -> int:
        """The node of the first grid whose target promises most."""
        values = np.asarray(self.earnings.mdp.start @ planned.values)
        return int(np.argmax(self.objective.at_nodes(planned.grids[0].nodes, values).upper))

    def _policy(self, planned: Planned, node: int) -> MemoryPolicy:
        earnings = self.earnings
        return MemoryPolicy(
            target=float(planned.grids[0].nodes[node]),
            grids=tuple(planned.grids),
            tables=tuple(ActionTable.of(table) for table in planned.actions),
            scales=earnings.scales,
            middle=earnings.middle,
            to_upper=self.objective.utility().kind == "threshold",
            snap=self.snap,
            policy_after=None if isinstance(earnings.mdp.horizon, int) else earnings.policy_after,
        )

    def _consider(self, policy: MemoryPolicy) -> None:
        """Keep a policy that is better than the best one."""
        # the first policy is delivered whatever the time
        over = self.over if self.best is not None else lambda: False
        try:
            followed = follow(self.earnings.with_steps(policy.n_steps), policy, self.objective.rate, over=over)
        except TimeOverError:
            return
        self._keep(evaluated(self.objective, policy, followed))

    def _keep(self, found: Best) -> None:
        if self.best is None or found.objective - found.error > self.known:
            self.best = found


def evaluated(objective: ReturnObjective, policy: MemoryPolicy, followed: Followed) -> Best:
    """What a policy is worth; of a risk that is known to lie in an interval the upper end counts."""
    _, risk = objective.risk_of(followed.returns)
    mean = followed.returns.expectation
    return Best(policy, followed, mean, risk, mean - objective.caution * risk, objective.rounding_of(followed.returns))


def _mean_policy(earnings: Earnings) -> MemoryPolicy:
    """The policy of the largest mean, as one that remembers nothing."""
    mdp = earnings.mdp
    if isinstance(mdp.horizon, int):
        actions = plan(mdp, earnings.rewards, allowed=earnings.allowed).actions
    else:
        actions = np.argmax(earnings.policy_after, axis=1)[None, :].repeat(earnings.n_steps, axis=0)
    nowhere = Grid.even(0.0, 1.0, 1)
    return MemoryPolicy(
        target=0.0,
        grids=(nowhere,) * (earnings.n_steps + 1),
        tables=tuple(ActionTable.of(table[:, None]) for table in actions),
        scales=earnings.scales,
        middle=earnings.middle,
        to_upper=False,
        snap=0.0,
        policy_after=None if isinstance(mdp.horizon, int) else earnings.policy_after,
    )
