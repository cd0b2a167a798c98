"""The occupancy program in cones, handed to Clarabel.

    minimise   -<d, r> / scale  +  sum_k weight_k (1-gamma) / scale * risk_k(d)
    such that  d >= 0 on the active pairs,   outflow - gamma inflow = (1-gamma) xi   at the active states.

What another horizon asks of the flow is in ``flow_rows``. With a finite horizon there is a d_t for every step, and
risks see their sum.

A limit on a sum of such risks is a row of its own: what their forms pay, at most the bound. A quadratic payment is a
second-order cone there,   1/2 |y|^2 <= t  as  |(t - 1/2, y)| <= t + 1/2.

Inside, d is multiplied by the number of active states, so that a typical entry is of size one. No bound of
Clarabel is used: policies are read off its answer, and every bound is recomputed by the certificate.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import clarabel
import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

from cautious.arrays import Array, Mask
from cautious.checks import states_of
from cautious.models.horizons import TOTAL
from cautious.models.tabular import MDP
from cautious.risks.epigraph import Epigraph
from cautious.runtime.clock import Clock
from cautious.solvers.balance import balance_of

# of the gap and of the constraints, relative
DEFAULT_PRECISION = 1e-10
CONES = {
    "zero": clarabel.ZeroConeT,
    "nonnegative": clarabel.NonnegativeConeT,
    "exponential": lambda _: clarabel.ExponentialConeT(),
    "second-order": clarabel.SecondOrderConeT,
}


@dataclass(frozen=True)
class ConicLimit:
    """Weighted conic forms whose sum is at most ``bound``; ``size`` is that of the bound."""

    bound: float
    size: float
    forms: tuple[tuple[float, Epigraph], ...]


@dataclass(frozen=True)
class ConeAnswer:
    """``occupancy`` (S, A) or (T, S, A), nearly balanced; ``witnesses``, one per term.

    For every limit its price, and the witnesses of its forms, which are None where the price is zero.
    """

    occupancy: Array
    witnesses: tuple[Any, ...]
    limits: tuple[tuple[float, tuple[Any, ...]], ...] = ()


@dataclass(frozen=True)
class _LimitedForm:
    """A form within a limit, with a column for its quadratic payment: ``pays`` are its entries of the limit's row."""

    form: Epigraph
    pays: tuple[Array, Array]


def _limited(form: Epigraph, weight: float, size: float) -> _LimitedForm:
    on_pairs = np.zeros(form.on_pairs.shape[1]) if form.linear is None else weight / size * form.linear
    on_own = weight / size * form.cost
    if form.quadratic is None:
        return _LimitedForm(form, (on_pairs, on_own))
    n = form.cost.size
    # rows of (t + 1/2, t - 1/2, y), negated
    roots = sp.diags_array(-np.sqrt(weight / size * form.quadratic))
    cone = sp.block_array([[None, sp.csr_array([[-1.0], [-1.0]])], [roots, None]], format="csr")
    own = sp.hstack([form.on_own, sp.csr_array((form.on_own.shape[0], 1))])
    longer = replace(
        form,
        cost=np.zeros(n + 1),
        quadratic=None,
        on_pairs=sp.csr_array(sp.vstack([form.on_pairs, sp.csr_array((n + 2, form.on_pairs.shape[1]))])),
        on_own=sp.csr_array(sp.vstack([own, cone])),
        rhs=np.concatenate([form.rhs, [0.5, -0.5], np.zeros(n)]),
        cones=(*form.cones, ("second-order", n + 2)),
    )
    return _LimitedForm(longer, (on_pairs, np.append(on_own, 1.0)))


@dataclass(frozen=True)
class ConeProgram:
    """Model, active pairs, reward table, and weighted conic terms."""

    mdp: MDP
    active: Mask
    reward: Array
    terms: Sequence[tuple[float, Epigraph]]
    limits: Sequence[ConicLimit] = ()

    def solve(self, clock: Clock, precision: float = DEFAULT_PRECISION, scaled: bool = True) -> ConeAnswer | None:
        """The answer, or None if Clarabel has none; ``scaled``: it scales rows and columns."""
        # the pair of every variable
        pairs = np.flatnonzero(self.active) % self.reward.size
        scale, size = self._objective_scale(pairs), float(states_of(self.active).sum())
        weights = [self.mdp.normaliser * weight / scale for weight, _ in self.terms]
        quadratic, cost = self._costs(pairs, scale, size, weights)
        flow, inflow = flow_rows(self.mdp, self.active)
        rows, rhs, cones = self._constraints(pairs, size, flow, inflow)
        solver = clarabel.DefaultSolver(
            sp.csc_array(sp.diags_array(quadratic)),
            cost,
            sp.csc_array(rows),
            rhs,
            cones,
            self._settings(precision, scaled),
        )
        solver.set_termination_callback(lambda _: clock.over)
        found = solver.solve()
        x, z = np.asarray(found.x), np.asarray(found.z)
        if not (np.isfinite(x).all() and np.isfinite(z).all()):
            return None
        occupancy = np.zeros(self.active.size)
        occupancy[np.flatnonzero(self.active)] = np.maximum(x[: pairs.size], 0.0) / size
        place, witnesses = inflow.size + pairs.size, []
        for (_, form), weight in zip(self.terms, weights, strict=True):
            witnesses.append(form.witness(z[place : place + form.rhs.size] / weight))
            place += form.rhs.size
        return ConeAnswer(occupancy.reshape(self.active.shape), tuple(witnesses), self._limit_answers(z[place:], scale))

    def _limit_answers(self, z: Array, scale: float) -> tuple[tuple[float, tuple[Any, ...]], ...]:
        """Price and witnesses of every limit, from the multipliers of its rows."""
        place, found = 0, []
        for limit, forms in zip(self.limits, self._limited, strict=True):
            blocks = []
            for (weight, form), given in zip(limit.forms, forms, strict=True):
                blocks.append((weight, form, z[place : place + form.rhs.size]))
                place += given.form.rhs.size
            price = max(float(z[place]), 0.0) / limit.size
            place += 1
            lines = tuple(form.witness(part / (price * weight)) if price > 0 else None for weight, form, part in blocks)
            found.append((price * scale / self.mdp.normaliser, lines))
        return tuple(found)

    @cached_property
    def _limited(self) -> list[list[_LimitedForm]]:
        return [[_limited(form, weight, limit.size) for weight, form in limit.forms] for limit in self.limits]

    def _objective_scale(self, pairs: Any) -> float:
        reward = self.reward.ravel()[pairs]
        spread = float(np.abs(reward).max() if self.mdp.horizon == TOTAL else reward.max() - reward.min())
        heaviest = max((weight for weight, _ in self.terms), default=0.0)
        return max(spread, self.mdp.normaliser * heaviest, 1e-300)

    def _costs(self, pairs: Any, scale: float, size: float, weights: Sequence[float]) -> tuple[Array, Array]:
        reward = self.reward.ravel()[pairs]
        # where occupancies have a fixed sum, a constant added to every reward changes nothing but the digits lost
        middle = 0.0 if self.mdp.horizon == TOTAL else float(reward.mean())
        on_pairs = -(reward - middle) / scale
        own_cost, own_square = [], []
        for (_, form), weight in zip(self.terms, weights, strict=True):
            if form.linear is not None:
                on_pairs = on_pairs + weight * form.linear[pairs]
            own_cost.append(weight * form.cost)
            own_square.append(np.zeros(form.cost.size) if form.quadratic is None else weight * form.quadratic)
        within = [np.zeros(given.pays[1].size) for forms in self._limited for given in forms]
        cost = np.concatenate([on_pairs / size, *own_cost, *within])
        return np.concatenate([np.zeros(pairs.size), *own_square, *within]), cost

    def _constraints(
        self, pairs: Any, size: float, flow: sp.csr_array, inflow: Array
    ) -> tuple[sp.csr_array, Array, list[Any]]:
        n_pairs = pairs.size
        every = [form for _, form in self.terms] + [given.form for forms in self._limited for given in forms]
        n_own = len(every)
        blocks: list[list[Any]] = [[flow, *[None] * n_own], [-sp.eye_array(n_pairs), *[None] * n_own]]
        rhs = [size * inflow, np.zeros(n_pairs)]
        cones = [CONES["zero"](inflow.size), CONES["nonnegative"](n_pairs)]
        ends = np.cumsum([len(self.terms), *(len(forms) for forms in self._limited)])
        for k, form in enumerate(every):
            row: list[Any] = [form.on_pairs[:, pairs] / size, *[None] * n_own]
            row[k + 1] = form.on_own
            blocks.append(row)
            rhs.append(form.rhs)
            cones += [CONES[kind](rows) for kind, rows in form.cones]
            for limit, forms, end in zip(self.limits, self._limited, ends[1:], strict=True):
                if k + 1 == end:
                    pays = np.sum([given.pays[0] for given in forms], axis=0)
                    row = [sp.csr_array(pays[None, pairs] / size), *[None] * n_own]
                    for given, place in zip(forms, range(end - len(forms), end), strict=True):
                        row[place + 1] = sp.csr_array(given.pays[1][None, :])
                    blocks.append(row)
                    rhs.append(np.array([limit.bound / limit.size]))
                    cones.append(CONES["nonnegative"](1))
        return sp.block_array(blocks, format="csr"), np.concatenate(rhs), cones

    def _settings(self, precision: float, scaled: bool) -> Any:
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.max_threads = 1
        settings.equilibrate_enable = scaled
        # measured: supernodes pay where the factors fill in (random models), and cost where they do not (grids)
        settings.direct_solve_method = "faer" if _is_entangled(self.mdp) else "qdldl"
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = precision
        settings.max_iter = 300
        # the defaults give up on short steps that barriers recover from
        settings.min_switch_step_length = 1e-2
        settings.min_terminate_step_length = 1e-7
        return settings


def _is_entangled(mdp: MDP) -> bool:
    """Whether the bandwidth of the transitions remains most of the model, however states are ordered."""
    if mdp.n_states < 200:
        return False
    everywhere = np.full(mdp.shape, 1 / mdp.n_actions)
    chain = mdp.under(everywhere)
    order = reverse_cuthill_mckee(sp.csr_array(chain + chain.T), symmetric_mode=True)
    place = np.empty(mdp.n_states, dtype=np.int64)
    place[order] = np.arange(mdp.n_states)
    entries = sp.coo_array(chain)
    return bool(np.mean(np.abs(place[entries.row] - place[entries.col])) > 0.1 * mdp.n_states)


def flow_rows(mdp: MDP, active: Mask) -> tuple[sp.csr_array, Array]:
    """Equations  rows d = right  for d at the active pairs, in the order of the mask (S, A) or (T, S, A)."""
    balance, pairs = balance_of(mdp, active), np.flatnonzero(active)
    states, n = np.flatnonzero(states_of(active)), pairs.size
    leaving = sp.csr_array((np.ones(n), (pairs // mdp.n_actions, np.arange(n))), (balance.inflow.size, n))
    flow = sp.csr_array(leaving - balance.discount * balance.rows[pairs].T)
    return sp.csr_array(flow[states]), balance.inflow.ravel()[states]
