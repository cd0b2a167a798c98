"""The occupancy program in cones, handed to Clarabel.

    minimise   -<d, r> / scale  +  sum_k weight_k (1-gamma) / scale * risk_k(d)
    such that  d >= 0 on the active pairs,   outflow - gamma inflow = (1-gamma) xi   at the active states.

What another horizon asks of the flow is in ``flow_rows``. With a finite horizon there is a d_t for every step, and
risks see their sum.

Inside, d is multiplied by the number of active states, so that a typical entry is of size one. No bound of
Clarabel is used: policies are read off its answer, and every bound is recomputed by the certificate.
"""

from collections.abc import Sequence
from dataclasses import dataclass
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
from cautious.solvers.conic.flow_rows import flow_rows

# of the gap and of the constraints, relative
DEFAULT_PRECISION = 1e-10
CONES = {
    "zero": clarabel.ZeroConeT,
    "nonnegative": clarabel.NonnegativeConeT,
    "exponential": lambda _: clarabel.ExponentialConeT(),
}


@dataclass(frozen=True)
class ConeAnswer:
    """``occupancy`` (S, A) or (T, S, A), nearly balanced; ``witnesses``, one per term."""

    occupancy: Array
    witnesses: tuple[Any, ...]


@dataclass(frozen=True)
class ConeProgram:
    """Model, active pairs, reward table, and weighted conic terms."""

    mdp: MDP
    active: Mask
    reward: Array
    terms: Sequence[tuple[float, Epigraph]]

    def solve(self, clock: Clock, precision: float = DEFAULT_PRECISION, scaled: bool = True) -> ConeAnswer | None:
        """The answer, or None when nothing usable came back; ``scaled``: rows and columns are scaled by Clarabel."""
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
        return ConeAnswer(occupancy.reshape(self.active.shape), tuple(witnesses))

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
        cost = np.concatenate([on_pairs / size, *own_cost])
        return np.concatenate([np.zeros(pairs.size), *own_square]), cost

    def _constraints(
        self, pairs: Any, size: float, flow: sp.csr_array, inflow: Array
    ) -> tuple[sp.csr_array, Array, list[Any]]:
        n_pairs = pairs.size
        n_own = [form.cost.size for _, form in self.terms]
        blocks: list[list[Any]] = [[flow, *(None for _ in n_own)], [-sp.eye_array(n_pairs), *(None for _ in n_own)]]
        rhs = [size * inflow, np.zeros(n_pairs)]
        cones = [CONES["zero"](inflow.size), CONES["nonnegative"](n_pairs)]
        for k, (_, form) in enumerate(self.terms):
            row: list[Any] = [form.on_pairs[:, pairs] / size, *(None for _ in n_own)]
            row[k + 1] = form.on_own
            blocks.append(row)
            rhs.append(form.rhs)
            cones += [CONES[kind](rows) for kind, rows in form.cones]
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
    """Whether no order of the states keeps successors close by: the bandwidth after reordering is most of the model."""
    if mdp.n_states < 200:
        return False
    everywhere = np.full(mdp.shape, 1 / mdp.n_actions)
    chain = mdp.under(everywhere)
    order = reverse_cuthill_mckee(sp.csr_array(chain + chain.T), symmetric_mode=True)
    place = np.empty(mdp.n_states, dtype=np.int64)
    place[order] = np.arange(mdp.n_states)
    entries = sp.coo_array(chain)
    return bool(np.mean(np.abs(place[entries.row] - place[entries.col])) > 0.1 * mdp.n_states)
