"""The parts of a risk that bring variables of their own, each with a positive price, as an interior point holds them.

Kink    t/2 |x - p|             x - p = a - c;  a (t/2 - y) = mu,  c (t/2 + y) = mu;  y the slope of the risk
Arcs    transport over arcs     flows g >= 0 carry marginal - demand;  g (cost - f_tail + f_head) = mu;  f node prices
Slacks  barriers, worst cases   s = +-F d + top - floor >= 0;  s price = w (barrier), = mu (worst case, prices sum to w)

``prepare`` linearises at a target mu, ``recover`` reads a block's step off the step of what it hangs on and says how
far primal and dual can go, ``move`` goes there.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from cautious.arrays import Array, Indices
from cautious.risks.features import LogBarrier, WorstOf
from cautious.risks.parts import Term
from cautious.risks.transport import TransportRisk
from cautious.solvers.proximal.flow_system import net_flow

# a lighter kink starts as if its weight were the inverse of this
MAX_INVERSE_WEIGHT = 1e100


def room(x: Array, step: Array) -> float:
    """The largest step length, at most 1, that keeps x positive."""
    steepest = float((step / x).min(initial=0.0))
    return 1.0 if steepest >= -1 else -1 / steepest


class Kink:
    """Total variation of pairs or of states."""

    def __init__(self, weight: float, prior: Array, x: Array) -> None:
        self.weight, self.prior = weight, prior
        apart = x - prior
        # a light weight needs large parts, so that all products begin alike
        typical = float(x.mean()) * min(max(1.0, 1 / weight), MAX_INVERSE_WEIGHT)
        longer = 0.5 * (np.abs(apart) + np.hypot(apart, typical))
        shorter = 0.5 * typical * (0.5 * typical / longer)
        self.above, self.below = np.where(apart > 0, longer, shorter), np.where(apart > 0, shorter, longer)
        self.slope = np.zeros_like(x)

    def complementarity(self) -> tuple[float, int]:
        """Sum of products, and how many."""
        half = self.weight / 2
        total = float(self.above @ (half - self.slope) + self.below @ (half + self.slope))
        return total, 2 * self.slope.size

    def prepare(self, x: Array, mu: float) -> tuple[Array, Array]:
        """Slope of the risk after a step: y + curvature * step - offset; returns both."""
        self.high, self.low = self.weight / 2 - self.slope, self.weight / 2 + self.slope
        self.miss_above, self.miss_below = mu - self.above * self.high, mu - self.below * self.low
        self.curvature = 1 / (self.above / self.high + self.below / self.low)
        apart = self.above - self.below - x + self.prior
        self.offset = self.curvature * (apart + self.miss_above / self.high - self.miss_below / self.low)
        return self.curvature, self.offset

    def recover(self, step: Array) -> tuple[float, float]:
        """The step of this block and how far it can go."""
        self.slope_step = self.curvature * step - self.offset
        self.above_step = (self.miss_above + self.above * self.slope_step) / self.high
        self.below_step = (self.miss_below - self.below * self.slope_step) / self.low
        primal = min(room(self.above, self.above_step), room(self.below, self.below_step))
        return primal, min(room(self.high, -self.slope_step), room(self.low, self.slope_step))

    def move(self, primal: float, dual: float) -> None:
        """Add the step to the variables."""
        self.above += primal * self.above_step
        self.below += primal * self.below_step
        self.slope += dual * self.slope_step


class Arcs:
    """Transport of the marginal to the prior; ``at`` (S,) are the nodes of the active states."""

    def __init__(self, weight: float, risk: TransportRisk, at: Indices, product: float) -> None:
        self.weight, self.risk, self.at = weight, risk, at
        self.tail, self.head, self.cost = risk.tail, risk.head, weight * risk.cost
        self.n_nodes = risk.demand.size
        self.prices = np.zeros(self.n_nodes)
        self.margin = np.maximum(self.cost, 1e-3 * float(self.cost.mean()) if self.cost.any() else 1.0)
        # cheap arcs begin with large flows, so that all products begin alike
        self.flow = np.maximum(1 / max(self.cost.size, 1), product / self.margin)

    def complementarity(self) -> tuple[float, int]:
        """Sum of products, and how many."""
        return float(self.flow @ self.margin), self.flow.size

    def net(self, flow: Array) -> Array:
        """What leaves each node minus what arrives."""
        return net_flow(self.tail, self.head, flow, self.n_nodes)

    def prepare(self, states: Array, mu: float, sigma: float) -> Array:
        """The right-hand side (nodes,), but for what the pairs send; fills ``ease``."""
        dual = self.prices[self.tail] - self.prices[self.head] - self.cost + self.margin
        self.miss = mu - self.flow * self.margin
        held = 1 / (sigma * np.maximum(self.flow, 1e-2 / self.flow.size))
        self.ease = 1 / (self.margin / self.flow + held)
        self.push = dual + self.miss / self.flow
        missing = -self.risk.demand - self.net(self.flow + self.ease * self.push)
        missing[self.at] += states
        return missing

    def recover(self, step: Array) -> tuple[float, float]:
        """The step of the flows for a step of the prices (nodes,), and how far both can go."""
        self.price_step = step
        self.flow_step = self.ease * (step[self.tail] - step[self.head] + self.push)
        self.margin_step = (self.miss - self.margin * self.flow_step) / self.flow
        return room(self.flow, self.flow_step), room(self.margin, self.margin_step)

    def move(self, primal: float, dual: float) -> None:
        """Add the step to the variables."""
        self.flow += primal * self.flow_step
        self.margin += dual * self.margin_step
        self.prices += dual * self.price_step


@dataclass
class Slacks:
    """Slacks (m,) of all barriers and worst cases; ``belongs`` (m, worst cases) says whose top counts."""

    rows: sp.csr_array
    floors: Array
    weights: Array
    belongs: Array
    totals: Array
    slack: Array
    price: Array
    tops: Array

    def complementarity(self) -> tuple[float, int]:
        """Sum of products of the worst cases, and how many; barriers have none to lose."""
        worst = self.weights == 0
        return float(self.slack[worst] @ self.price[worst]), int(np.count_nonzero(worst))

    def off(self) -> float:
        """How far barriers are from their own products, in their own units."""
        barriers = self.weights > 0
        return float(np.abs(self.weights - self.slack * self.price)[barriers].sum())

    def step(self, d: Array, base: Array, effects: Array, mu: float) -> Array:
        """Steps of the prices (m,): ``base`` (n,) is the step without them, ``effects`` (m, m) what each price adds."""
        m, n_tops = self.belongs.shape
        wanted = np.where(self.weights > 0, self.weights, mu)
        self.apart = self.rows @ d + self.belongs @ self.tops - self.floors - self.slack
        matrix = np.zeros((m + n_tops, m + n_tops))
        matrix[:m, :m] = effects + np.diag(self.slack / self.price)
        matrix[:m, m:], matrix[m:, :m] = self.belongs, self.belongs.T
        right = np.empty(m + n_tops)
        right[:m] = wanted / self.price - self.slack - self.rows @ base - self.apart
        right[m:] = self.totals - self.belongs.T @ self.price
        if not np.isfinite(matrix).all():
            raise np.linalg.LinAlgError("the system of the prices is beyond double precision")
        found = np.linalg.lstsq(matrix, right)[0]
        self.price_step, self.top_step = found[:m], found[m:]
        return self.price_step

    def recover(self, step: Array) -> tuple[float, float]:
        """The step of the slacks for the whole step of the pairs, and how far slacks and prices can go."""
        self.slack_step = self.rows @ step + self.belongs @ self.top_step + self.apart
        return room(self.slack, self.slack_step), room(self.price, self.price_step)

    def move(self, primal: float, dual: float) -> None:
        """Add the step to the variables."""
        self.slack += primal * self.slack_step
        self.tops += primal * self.top_step
        self.price += dual * self.price_step


def slacks_of(terms: list[Term[LogBarrier | WorstOf]], unit: float, pairs: Indices, d: Array) -> Slacks:
    """Slacks of barriers and worst cases, weighted by ``unit`` times their own weight, in the order of the terms."""
    rows, floors, weights, prices, slacks, owner = [], [], [], [], [], []
    tops: list[float] = []
    totals: list[float] = []
    for term in terms:
        weight, risk = unit * term.weight, term.risk
        features = sp.csr_array(risk.features[:, pairs])
        m, numbers = features.shape[0], features @ d
        scale = np.maximum(np.abs(features).max(axis=1).toarray().ravel(), 1e-300)
        if risk.is_barrier:
            rows.append(features)
            floors.append(risk.floors)
            slack = np.maximum(numbers - risk.floors, 0.1 * scale)
            weights.append(np.full(m, weight))
            prices.append(weight / slack)
            owner.append(np.full(m, -1))
        else:
            rows.append(-features)
            floors.append(np.zeros(m))
            tops.append(float(numbers.max()) + 0.1 * float(scale.max()))
            slack = tops[-1] - numbers
            weights.append(np.zeros(m))
            prices.append(np.full(m, weight / m))
            owner.append(np.full(m, len(totals)))
            totals.append(weight)
        slacks.append(slack)
    belongs = (np.concatenate(owner)[:, None] == np.arange(len(totals))[None, :]).astype(np.float64)
    return Slacks(
        sp.csr_array(sp.vstack(rows)),
        np.concatenate(floors),
        np.concatenate(weights),
        belongs,
        np.array(totals),
        np.concatenate(slacks),
        np.concatenate(prices),
        np.array(tops),
    )
