"""Risks in the form that the interior point method takes: entries, curvatures, and variables paired with multipliers.

Everything is in the method's units: y = n d with n active states, so that a typical entry is of size one, and the
objective times normaliser n / scale. ``weight`` of a term is caution * normaliser / scale.

    Smooth    Entropy, KL:  u = weight (1 + log(x / n p)),   Quadratic:  u = weight/n (x - n p)
    Kinks     TotalVariation:  weight sum t  with  t - s = x - n p,  t, s >= 0;  multipliers weight - u of t and u of s
    Transport on a graph:  length . flow in both directions, multipliers length -+ (f_tail - f_head)
    FeatureRows  barriers: slack = G y - floor,  slack * w = weight n;  worst: slack = top - G y,  sum w = weight
"""

from dataclasses import dataclass
from typing import cast

import numpy as np

from cautious.arrays import Array, Indices
from cautious.checks import picked
from cautious.problem import Problem
from cautious.risks.base import Structure
from cautious.risks.transport import GraphTransport
from cautious.solvers.balance import Balance
from cautious.solvers.interior_point.newton_matrix import Edges, edges_of


@dataclass(frozen=True)
class Smooth:
    """A separable risk with a slope: ``prior`` is n p on the active entries; ``entropic`` or quadratic."""

    term: int
    on_states: bool
    entropic: bool
    weight: float
    prior: Array

    def slope(self, x: Array) -> Array:
        """u."""
        if self.entropic:
            return np.asarray(self.weight * (1 + np.log(x / self.prior)))
        return np.asarray(self.weight * (x - self.prior))

    def curvature(self, x: Array) -> Array:
        """du / dx."""
        return np.asarray(self.weight / x) if self.entropic else np.full(x.size, self.weight)


@dataclass(frozen=True)
class Kinks:
    """A total variation; its t and s live at ``above`` and ``below`` of the vectors of non-negative variables."""

    term: int
    on_states: bool
    weight: float
    prior: Array
    above: slice
    below: slice


@dataclass(frozen=True)
class TransportBlock:
    """A transport distance; flows along and against the edges at ``along`` and ``against``; ``demand`` is n q (S,)."""

    term: int
    weight: float
    demand: Array
    edges: Edges
    along: slice
    against: slice


@dataclass(frozen=True)
class FeatureRows:
    """Rows G (m, active pairs): slack = G y - floors + tops @ top, kept at ``slack``; ``fixed``: targets of barriers.

    ``tops`` (m, worst terms) says which rows share a free top; ``totals`` is what their multipliers sum to; ``terms``
    are (term, rows, factor from multiplier to witness).
    """

    rows: Array
    floors: Array
    fixed: Array
    tops: Array
    totals: Array
    slack: slice
    terms: tuple[tuple[int, slice, Array], ...]


@dataclass(frozen=True)
class Form:
    """A problem in the method's units; ``states`` are the active ones.

    ``targets`` is what the products of the non-negative variables and their multipliers tend to: zero but for barriers.
    """

    reward: Array
    arrival: Array
    amount: float
    scale: float
    states: Indices
    smooth: tuple[Smooth, ...]
    kinks: tuple[Kinks, ...]
    transport: TransportBlock | None
    features: FeatureRows | None
    targets: Array

    @property
    def size(self) -> int:
        """How many non-negative variables there are."""
        return self.targets.size

    @property
    def where(self) -> Indices | slice:
        """The active states again, as a slice when all are: that is faster."""
        return slice(None) if self.states.size == self.arrival.size else self.states

    @property
    def bends(self) -> bool:
        """Whether slopes depend on the occupancy smoothly: then both sides of a step have one length."""
        return bool(self.smooth) or (self.features is not None and bool(self.features.fixed.any()))

    @property
    def others(self) -> tuple[slice, ...]:
        """Where variables are that belong neither to pairs nor to kinks: flows and slacks."""
        flows = () if self.transport is None else (slice(self.transport.along.start, self.transport.against.stop),)
        return flows if self.features is None else (*flows, self.features.slack)

    @property
    def n_free(self) -> int:
        """How many of them come before the slacks of features."""
        return self.size if self.features is None else self.features.slack.start


def formulate(problem: Problem, balance: Balance) -> Form:
    """The problem in the method's units."""
    normaliser, active, states = problem.mdp.normaliser, problem.active, np.flatnonzero(problem.active_states)
    reward, amount = picked(problem.reward, active), float(states.size)
    barriers = {term.number for term in problem.parts.barriers}
    slopes = [
        normaliser * term.weight * term.risk.typical_slope for term in problem.parts.all if term.number not in barriers
    ]
    scale = max(float(np.ptp(reward)), *slopes, 1e-300)
    size, smooth, kinks, transport = reward.size, [], [], None
    for term in problem.parts.separable:
        k, risk, weight = term.number, term.risk, term.weight * normaliser / scale
        prior = amount * picked(risk.prior, risk.active_entries(active))
        if risk.structure is Structure.L1:
            above, below = _two_slices(size, prior.size)
            kinks.append(Kinks(k, risk.on_states, weight, prior, above, below))
            size = below.stop
        else:
            entropic = risk.structure is Structure.ENTROPY
            smooth.append(Smooth(k, risk.on_states, entropic, weight if entropic else weight / amount, prior))
    for carried in problem.parts.transports:
        edges = edges_of(cast(GraphTransport, carried.risk).graph)
        along, against = _two_slices(size, edges.tail.size)
        weight = carried.weight * normaliser / scale
        transport = TransportBlock(carried.number, weight, amount * carried.risk.prior, edges, along, against)
        size = against.stop
    features = _features(problem, amount, normaliser / scale, size)
    targets = np.zeros(size) if features is None else np.concatenate([np.zeros(size), features.fixed])
    # a constant added to every reward changes nothing but the digits lost
    centred = (reward - reward.mean()) / scale
    arrival = amount * balance.inflow
    return Form(centred, arrival, amount, scale, states, tuple(smooth), tuple(kinks), transport, features, targets)


def _two_slices(begin: int, size: int) -> tuple[slice, slice]:
    return slice(begin, begin + size), slice(begin + size, begin + 2 * size)


def _features(problem: Problem, amount: float, unit: float, begin: int) -> FeatureRows | None:
    if not problem.parts.features:
        return None
    active = problem.active.ravel()
    rows, floors, fixed, groups, terms, filled = [], [], [], [], [], 0
    totals: list[float] = []
    for term in problem.parts.features:
        k, caution, risk = term.number, term.weight, term.risk
        table = risk.features.toarray()[:, active]
        part = slice(filled, filled + table.shape[0])
        filled = part.stop
        size = np.maximum(np.abs(table).max(axis=1, initial=0.0), 1e-300)
        if risk.is_barrier:
            rows.append(table / size[:, None])
            floors.append(amount * risk.floors / size)
            fixed.append(np.full(size.size, caution * unit * amount))
            groups.append(np.full(size.size, -1))
            terms.append((k, part, 1 / (size * caution * unit)))
        else:
            largest = float(size.max())
            rows.append(-table / largest)
            floors.append(np.zeros(size.size))
            fixed.append(np.zeros(size.size))
            groups.append(np.full(size.size, len(totals)))
            totals.append(caution * unit * largest)
            terms.append((k, part, np.ones(size.size)))
    group = np.concatenate(groups)
    tops = (group[:, None] == np.arange(len(totals))[None, :]).astype(np.float64)
    return FeatureRows(
        # kernels take whole rows
        np.ascontiguousarray(np.concatenate(rows)),
        np.concatenate(floors),
        np.concatenate(fixed),
        tops,
        np.array(totals),
        slice(begin, begin + filled),
        tuple(terms),
    )
