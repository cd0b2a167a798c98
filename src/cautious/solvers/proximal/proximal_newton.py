"""The state of a proximal interior-point search, and its Newton step.

In units of ``unit`` reward, with n active pairs, w = normaliser caution weight / unit, and x the state marginal of d:

    max  <r, d> - h/2 |d|^2 - k sum d log d - H/2 |x|^2 - K sum x log x - kinks - transport - features
    over d >= 0 with  inflow + B'd = 0.

Prices z >= 0 of d >= 0 and multipliers v satisfy, at the optimum,  r + B v - slopes + z = 0  and  d z = 0. A step
solves the Newton equations of d z = mu, where every pair also pays |step|^2 / (2 sigma x) for moving away from where it
is. That proximal term does not move the solution; it keeps the largest answers to a price comparable, so that conjugate
gradients with a diagonal preconditioner stay fast when the complementary products become small. Given the step of v,
all else is eliminated pair by pair and state by state.
"""

import numpy as np

from cautious.arrays import Array
from cautious.problem import Problem
from cautious.risks.parts import Parts
from cautious.runtime.clock import Clock
from cautious.solvers.interior_point.sparse_cholesky import OutOfTime, require_time
from cautious.solvers.proximal.flow_system import EMPTY, NO_INDICES, ActivePart, Links, NewtonSystem
from cautious.solvers.proximal.layered_system import LayeredFactors, LayeredSystem
from cautious.solvers.proximal.proximal_terms import Arcs, Kink, Slacks, room, slacks_of
from cautious.solvers.proximal.response import Response, bend

# the reach of the proximal term is the sum of products to minus this power; linear solves end at this share of the
# products. With kinks the reach is shorter and solves are rougher, for there will be many steps anyway
KINKED_REACH_POWER, CURVED_REACH_POWER = 0.6, 0.8
KINKED_RESIDUAL_SHARE, CURVED_RESIDUAL_SHARE = 0.5, 0.1
# steps of a linear solve, at first: more would hardly help a transport; they double where unbalanced flow becomes dear
FIRST_CG_STEPS, FIRST_TRANSPORT_CG_STEPS, MAX_CG_STEPS = 1000, 400, 4000
# of the way to where a variable is zero, how much is gone at most
BOUNDARY_FRACTION = 0.99
# for every transition of all steps, what the analysis of factors holds at its peak
ANALYSIS_BYTES = 250
# of pairs, at the start from a neighbour's multipliers
MIN_WARM_PRICE = 0.01
# products aim at a share of their mean between these
MIN_CENTRING, MAX_CENTRING = 0.05, 0.8


class ProximalNewton:
    """See the module's text; ``d`` (n,), ``z`` (n,), ``v`` (S,) and the blocks of ``proximal_terms``."""

    def __init__(self, problem: Problem, part: ActivePart, occupancy: Array, multipliers: Array | None) -> None:
        self.problem, self.part = problem, part
        pairs, share = part.pairs, part.normaliser
        reward = problem.reward.ravel()[pairs % problem.reward.size]
        steepest = max((share * weight * risk.typical_slope for weight, risk in problem.terms), default=0.0)
        self.middle = 0.5 * (float(reward.max()) + float(reward.min()))
        self.unit = max(float(np.ptp(reward)), steepest, 1e-300)
        self.r = (reward - self.middle) / self.unit
        d = np.ravel(occupancy)[pairs]
        self.d = np.maximum(d, 1e-3 * d.mean())
        self.z = np.full(d.size, 0.5)
        self.v = np.zeros(part.states.size)
        if multipliers is not None:
            self.v = (multipliers.ravel()[part.states] - self.middle * part.unit_value) / self.unit
        self.centring, self.cut_short = 0.5, False
        # (quadratic, entropic) curvature of pairs and of states
        self.on_pairs, self.on_states = np.zeros(2), np.zeros(2)
        self.pair_kinks: list[Kink] = []
        self.state_kinks: list[Kink] = []
        self.arcs: list[Arcs] = []
        self.slacks: list[Slacks] = []
        self.kinks: dict[int, Kink] = {}
        self._take(problem.parts, share / self.unit)
        self.limit = FIRST_TRANSPORT_CG_STEPS if self.arcs else FIRST_CG_STEPS
        self.factors: LayeredFactors | None = None
        if multipliers is not None:
            # a neighbour's multipliers say what each pair loses
            lost = self.z - self.dual_residual(part.on_states(self.d))
            self.z = np.maximum(lost, MIN_WARM_PRICE)

    def find_factors(self, clock: Clock) -> None:
        """Factors for the layers of a finite horizon, where they are small, and time and memory allow them."""
        if not self.part.layered or self.arcs or ANALYSIS_BYTES * self.part.n_entries > clock.memory.left:
            return
        bent = bool(self.on_pairs.any() or self.pair_kinks), bool(self.on_states.any() or self.state_kinks)
        try:
            factors = LayeredFactors(self.part, bent, lambda: clock.over)
            if factors.affordable and factors.system.pattern.bytes <= clock.memory.left:
                self.factors = factors
        except OutOfTime:
            return

    def _take(self, parts: Parts, unit: float) -> None:
        """Every term in the search's units: ``unit`` times its weight."""
        for kinked in parts.l1_distances:
            x, prior = self.part.entries_and_prior(self.d, kinked.risk)
            kink = self.kinks[kinked.number] = Kink(unit * kinked.weight, prior, x)
            (self.state_kinks if kinked.risk.on_states else self.pair_kinks).append(kink)
        for square in parts.squares:
            _, prior = self.part.entries_and_prior(self.d, square.risk)
            self._add_curvature(0, unit * square.weight, prior, square.risk.on_states)
        for entropy in parts.entropies:
            _, prior = self.part.entries_and_prior(self.d, entropy.risk)
            self._add_curvature(1, unit * entropy.weight, np.log(prior), entropy.risk.on_states)
        for term in parts.transports:
            self.arcs.append(
                Arcs(unit * term.weight, term.risk, self.part.risk_states, float((self.d * self.z).mean()))
            )
        if parts.features:
            places = self.part.pairs % self.problem.reward.size
            self.slacks.append(slacks_of(parts.features, unit, places, self.d))

    def _add_curvature(self, kind: int, weight: float, gain: Array, on_states: bool) -> None:
        """A quadratic (kind 0) or entropic (1) term: its linear part goes into the reward."""
        self.r = self.r + weight * (self.part.of_states(gain) if on_states else self.part.of_pairs(gain))
        (self.on_states if on_states else self.on_pairs)[kind] += weight

    @property
    def blocks(self) -> list[Kink | Arcs | Slacks]:
        """The terms with variables of their own."""
        return [*self.pair_kinks, *self.state_kinks, *self.arcs, *self.slacks]

    def complementarity(self) -> tuple[float, int]:
        """Sum of all products that should vanish, and how many."""
        products = [(float(self.d @ self.z), self.d.size), *(block.complementarity() for block in self.blocks)]
        return sum(total for total, _ in products), sum(count for _, count in products)

    def state_slopes(self, x: Array) -> Array:
        """The derivative of the risks by the mass of each state; (M,)."""
        slopes = self.on_states[0] * x
        if self.on_states[1] > 0:
            slopes = slopes + self.on_states[1] * (np.log(x) + 1)
        for kink in self.state_kinks:
            slopes = slopes + kink.slope
        for arcs in self.arcs:
            slopes = slopes + arcs.prices[arcs.at]
        return np.asarray(slopes)

    def imbalance(self) -> Array:
        """inflow + B'd; (S,)."""
        return self.part.inflow + self.part.flow(self.d)

    def dual_residual(self, x: Array) -> Array:
        """r + B v - slopes + z; (n,)."""
        left = self.r + self.part.price(self.v) + self.z - self.part.of_states(self.state_slopes(x))
        if self.on_pairs.any():
            pairs = self.part.on_pairs(self.d)
            slopes = self.on_pairs[0] * pairs
            if self.on_pairs[1] > 0:
                slopes += self.on_pairs[1] * (np.log(pairs) + 1)
            left -= self.part.of_pairs(slopes)
        for kink in self.pair_kinks:
            left -= self.part.of_pairs(kink.slope)
        for slacks in self.slacks:
            left += slacks.rows.T @ slacks.price
        return np.asarray(left)

    def gap(self) -> float:
        """About how far from optimal, as an objective: products, unbalanced flow, barriers off their own products."""
        cost = self.complementarity()[0] + self.unbalanced(self.imbalance())
        cost += sum(slacks.off() for slacks in self.slacks)
        return cost * self.unit / self.part.normaliser

    def unbalanced(self, imbalance: Array) -> float:
        """By how much an imbalance of flow may change the objective."""
        # what pays for the total mass only does not matter: a policy read off the occupancy normalises that
        unit, inflow = self.part.unit_value, self.part.inflow
        relative = self.v - float(inflow @ self.v) * self.part.normaliser * unit
        return abs(float(relative @ imbalance))

    def step(self, clock: Clock) -> None:
        """One Newton step; the target of the products follows from how far the last step could go.

        Raises ``OutOfTime`` where time is over before the linear system is solved: the point is then as it was.
        """
        part, total_products, over = self.part, self.complementarity(), lambda: clock.over
        mu = self.centring * total_products[0] / total_products[1]
        mass, x = part.gather(self.d), part.on_states(self.d)
        sigma = self._reach(total_products[0])
        miss = mu - self.d * self.z
        push = self.dual_residual(x) + miss / self.d
        stiffness = self.z / self.d + part.spread(1 / (sigma * np.maximum(mass, 1e-2 / mass.size)))
        pairs = part.on_pairs(self.d)
        require_time(over)
        states = Response(
            part,
            stiffness,
            bend(self.on_pairs, self.pair_kinks, pairs, mu),
            bend(self.on_states, self.state_kinks, x, mu),
        )
        missing = self.arcs[0].prepare(x, mu, sigma) if self.arcs else EMPTY
        links = self._links()
        require_time(over)
        system = (
            LayeredSystem(part, states, links, self.factors)
            if part.layered
            else NewtonSystem(part, states.free, states.damp, links)
        )
        share = KINKED_RESIDUAL_SHARE if self.kinked else CURVED_RESIDUAL_SHARE
        stop = max(share * mu * total_products[1] / max(float(np.ptp(self.v)), 1.0), 1e-15)
        imbalance = self.imbalance()
        # a system that was solved too roughly shows in flow that does not balance, or in steps that hardly move
        rough = self.unbalanced(imbalance) > total_products[0] or self.centring == MAX_CENTRING
        if rough:
            self.solve_further()
        price_step, node_step = self._solve(system, states, push, imbalance, missing, stop, clock)
        for slacks in self.slacks:
            effects, prices, nodes = self._feature_answers(system, states, slacks, stop, clock)
            change = self._answer(states, push, price_step, node_step)
            weights = slacks.step(self.d, change, effects, mu)
            push = push + slacks.rows.T @ weights
            price_step, node_step = price_step + weights @ prices, node_step + weights @ nodes
        change = self._answer(states, push, price_step, node_step)
        self.cut_short = system.steps >= self.limit
        self._move(miss, change, price_step, node_step)

    def solve_further(self) -> None:
        """Allow more steps of linear solves, if the last solve reached their limit."""
        if self.cut_short:
            self.limit = min(2 * self.limit, MAX_CG_STEPS)

    def _reach(self, products: float) -> float:
        """How far the proximal term lets pairs move, as a share of their state's mass per unit of price.

        Pairs that are curved themselves need none (over several steps only their sum is), nor do factors. Further as
        the search converges, but more slowly than it converges: that is what bounds the work of conjugate gradients.
        """
        power = KINKED_REACH_POWER if self.kinked else CURVED_REACH_POWER
        needless = self.factors is not None if self.part.layered else self.on_pairs.any()
        return np.inf if needless else float(max(products, 1e-300) ** -power)

    @property
    def kinked(self) -> bool:
        """Whether some term is not differentiable."""
        return bool(self.pair_kinks or self.state_kinks or self.arcs)

    def _links(self) -> Links:
        if not self.arcs:
            return Links(NO_INDICES, 0, NO_INDICES, NO_INDICES, EMPTY)
        arcs = self.arcs[0]
        return Links(arcs.at, arcs.n_nodes, arcs.tail, arcs.head, arcs.ease)

    def _solve(
        self,
        system: NewtonSystem | LayeredSystem,
        states: Response,
        push: Array,
        imbalance: Array,
        missing: Array,
        stop: float,
        clock: Clock,
    ) -> tuple[Array, Array]:
        """The steps of v and of the nodes' prices for a push on the pairs, an imbalance and what nodes miss."""
        alone = states.answer(push)
        right_nodes = missing.copy()
        if missing.size:
            right_nodes[self.arcs[0].at] += self.part.on_states(alone)
        return system.solve(-imbalance - self.part.flow(alone), right_nodes, stop, self.limit, clock)

    def _answer(self, states: Response, push: Array, prices: Array, nodes: Array) -> Array:
        """The step of d (n,) for a push on the pairs and steps of v and of the nodes' prices."""
        push = push + self.part.price(prices)
        if nodes.size:
            push -= self.part.of_states(nodes[self.arcs[0].at])
        return states.answer(push)

    def _feature_answers(
        self, system: NewtonSystem | LayeredSystem, states: Response, slacks: Slacks, stop: float, clock: Clock
    ) -> tuple[Array, Array, Array]:
        """What one unit of each feature's price does to all features (m, m), to v and to the nodes' prices."""
        m, n_nodes = slacks.floors.size, self.arcs[0].n_nodes if self.arcs else 0
        effects, prices, nodes = np.empty((m, m)), np.empty((m, self.v.size)), np.empty((m, n_nodes))
        plain = states.without_offsets()
        for j in range(m):
            row = np.asarray(slacks.rows[[j]].todense()).ravel()
            tight = stop / max(float(slacks.price[j]), 1e-300)
            prices[j], nodes[j] = self._solve(
                system, plain, row, np.zeros(self.v.size), np.zeros(n_nodes), tight, clock
            )
            effects[:, j] = slacks.rows @ self._answer(plain, row, prices[j], nodes[j])
        return effects, prices, nodes

    def _move(self, miss: Array, change: Array, price_step: Array, node_step: Array) -> None:
        z_step = (miss - self.z * change) / self.d
        rooms = [(room(self.d, change), room(self.z, z_step))]
        rooms += [kink.recover(self.part.on_pairs(change)) for kink in self.pair_kinks]
        rooms += [kink.recover(self.part.on_states(change)) for kink in self.state_kinks]
        rooms += [arcs.recover(node_step) for arcs in self.arcs]
        rooms += [slacks.recover(change) for slacks in self.slacks]
        primal, dual = (min(sides) for sides in zip(*rooms, strict=True))
        if self.on_pairs.any() or self.on_states.any() or self.slacks:
            primal = dual = min(primal, dual)
        primal, dual = (1.0 if length >= 1 else BOUNDARY_FRACTION * length for length in (primal, dual))
        self.d = self.d + primal * change
        self.z = self.z + dual * z_step
        self.v = self.v + dual * price_step
        for block in self.blocks:
            block.move(primal, dual)
        self.centring = float(np.clip((1 - min(primal, dual)) ** 1.5, MIN_CENTRING, MAX_CENTRING))
