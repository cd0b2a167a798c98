"""Sweeps: the saddle point of Algorithm 1 followed by its three conditions, with tables (S, A) only.

``_core/sampling.hpp`` has the mathematics. One sweep draws about as many samples as there are pairs (more in long
runs), half of them where the occupancy is and half evenly; the critic, the flow and the policy then take one step
each. Steps shrink like 1/sqrt(sweeps); the average that is delivered weighs late sweeps most. No transition is counted
or kept.
"""

from functools import cached_property
from typing import Any, TypeGuard

import numpy as np

from cautious._core import sampling
from cautious.arrays import Array, Indices, Mask
from cautious.checks import states_of
from cautious.learning.checkpoints import Resumable
from cautious.learning.draws import Draws
from cautious.learning.primal_dual.risk_subgradients import Subgradient, subgradient_of
from cautious.learning.scalar_risk_rewards import Payoff
from cautious.learning.statements.affine_lower_bounds import AffineLowerBound, affine_lower_bound
from cautious.learning.task import Task
from cautious.occupancy import occupancy_policy, uniform_policy
from cautious.risks.base import Risk
from cautious.risks.separable import EntropicRisk

DRAW_COUNTERS = 2**40

# one choice for all risks, sizes and discounts. Longer runs take larger sweeps, not more of them
MOST_SWEEPS = 2500
# share of the samples spread evenly over the pairs
EXPLORATION_SHARE = 0.5
# of the mirror ascent, in units of 1 / reward range, divided by 1 + DAMPING * deviation of the risk's subgradient
POLICY_STEP, DAMPING = 4.0, 5.0
# sweeps after which steps begin to shrink
SETTLING_SWEEPS = 100.0
# late sweeps weigh like t^(AVERAGE_POWER - 1) in the average
AVERAGE_POWER = 5


class Sweeps(Resumable):
    """The tables of one run; rewards and values inside are in units of the payoff's range, starting at its low end."""

    stored_numbers = ("sweep", "used")
    stored_arrays = ("q", "q_bar", "big_q", "log_pi", "d", "d_bar", "x", "y_bar", "v", "v_bar", "paid", "drawn")

    def __init__(self, task: Task, draws: Draws, start: Array, payoff: Payoff, samples: int) -> None:
        self.task, self.draws, self.xi, self.payoff = task, draws, start, payoff
        self.samples = samples
        low, high = payoff.range(*task.reward_range)
        self.low, self.scale = low, (high - low) or 1.0
        (n_states, n_actions), size = task.shape, task.allowed.size
        self.usable: Mask = np.ascontiguousarray(task.problem.permitted.ravel())
        self.pairs = int(self.usable.sum())
        # a stage of a very short run may have no samples at all: then it makes no sweep
        self.sweeps = min(MOST_SWEEPS, max(1, samples // max(1, self.pairs)), samples)
        self.seed = draws.kernel_seed()
        self._take_terms()
        # a state whose pairs are all forbidden gets no row: ``update_occupancy`` gives it no mass
        policy = self.usable_table / np.maximum(self.usable_table.sum(axis=1, keepdims=True), 1)
        with np.errstate(divide="ignore"):
            self.log_pi = np.log(policy).ravel()
        self.x = 0.5 * start + 0.5 / n_states
        self.v, self.v_bar = np.zeros(n_states), np.zeros(n_states)
        self.q, self.q_bar, self.big_q = np.zeros(size), np.zeros(size), np.zeros(size)
        self.d = np.repeat(self.x, n_actions) * policy.ravel()
        self.d_bar = self.d.copy()
        self.paid, self.drawn = np.zeros(size), np.zeros(size, dtype=np.int64)
        self.y_bar = self.x.copy()
        self.sweep, self.used = 0, 0
        self._w, self._n, self._inflow = np.empty(size), np.empty(size, dtype=np.int64), np.empty(n_states)

    def _take_terms(self) -> None:
        """Divergences on pairs have their step in closed form; every other term enters by its subgradient."""
        scaled = [(w * (1 - self.task.discount) / self.scale, risk) for w, risk in self.task.problem.terms]
        closed: list[tuple[float, EntropicRisk]] = [(w, risk) for w, risk in scaled if _in_closed_form(risk)]
        self.tau = float(sum(w for w, _ in closed))
        self.log_mu = np.zeros(1)
        if self.tau > 0:
            log_priors = [w * np.log(np.maximum(risk.prior, 1e-300)) for w, risk in closed]
            self.log_mu = np.ravel(sum(log_priors, np.zeros(self.task.shape))) / self.tau
        self.subgradients: list[Subgradient] = [
            subgradient_of(w, risk, self.sweeps) for w, risk in scaled if not _in_closed_form(risk)
        ]

    @property
    def done(self) -> bool:
        """Whether all sweeps were made."""
        return self.sweep == self.sweeps

    def advance(self) -> None:
        """One sweep. Nothing changes before the samples have arrived."""
        rate = 1 / np.sqrt(1 + self.sweep / SETTLING_SWEEPS)
        count = self._plan()
        next_states, payoffs = self._draw()
        sampling.gather_samples(
            self._n, self._w, next_states, payoffs, self.d, self.v, self.task.discount, rate, self.q, self._inflow
        )
        sampling.add_rewards(self._n, payoffs, self.paid, self.drawn)
        weight = AVERAGE_POWER / (self.sweep + AVERAGE_POWER)
        sampling.move_marginal(self._inflow, self.xi, self.task.discount, rate, weight, self.x, self.y_bar)
        slope = self._slope(rate)
        step = POLICY_STEP * rate / (1 + DAMPING * sampling.weighted_deviation(slope, self._w))
        if self.sweep == 0:
            self.big_q = self.q - slope
        policy = (self.log_mu, self.big_q, self.log_pi, self.v)
        sampling.improve_policy(self.q, slope, self.usable, step, self.tau, *policy)
        horizon = 1 / (1 - self.task.discount)
        sampling.update_occupancy(self.usable, self.log_pi, self.x, weight, horizon, self.v, self.d, self.d_bar)
        # the critic of this sweep was computed from the multipliers of the one before
        self.q_bar += weight * (self.q - self.q_bar)
        self.v_bar += weight * (self.v - self.v_bar)
        self.sweep, self.used = self.sweep + 1, self.used + count

    def _plan(self) -> int:
        """How often to draw each pair; what is left is shared by the sweeps that are left."""
        batch = (self.samples - self.used) // (self.sweeps - self.sweep)
        offset = sampling.uniform(self.seed, self.sweep)
        count = sampling.plan_samples(self.d, self.usable, EXPLORATION_SHARE, batch, offset, self._w, self._n)
        if count > batch:
            # rounding gave one more than was asked for, and the budget must not be exceeded
            self._n[np.argmax(self._n)] -= 1
            count -= 1
        return count

    def _draw(self) -> tuple[Indices, Array]:
        if self.draws.table is not None:
            return self.draws.sample_pairs(self._n, (self.seed, DRAW_COUNTERS + self.used), self._table_payoffs)
        next_states, rewards = self.draws.sample_pairs(self._n)
        return next_states, self._scaled_payoff(rewards)

    def _scaled_payoff(self, rewards: Array) -> Array:
        return np.asarray((self.payoff(rewards) - self.low) / self.scale)

    @cached_property
    def _table_payoffs(self) -> Array:
        """The payoffs of a table simulator, per outcome or per pair."""
        assert self.draws.table is not None
        return self._scaled_payoff(self.draws.table.pay)

    def _slope(self, rate: float) -> Array:
        """What all terms but the divergences on pairs take off the advantages; (S*A,)."""
        least, total = 1e-6 / self.pairs, np.zeros(self.task.allowed.size)
        if self.subgradients:
            present = np.maximum(np.repeat(self.x, self.task.shape[1]) * np.exp(self.log_pi), least)
            present, average = present.reshape(self.task.shape), self.d_bar.reshape(self.task.shape)
            for term in self.subgradients:
                total += term.weight * term.at(present, average, POLICY_STEP * rate, self.sweep).ravel()
        if self.tau > 0:
            sampling.add_log_marginal(self.x, self.tau, least, total)
        return total

    def policy(self) -> Array:
        """The average's rows; uniform where it never was."""
        usable = np.where(states_of(self.usable_table)[:, None], self.usable_table, self.task.allowed)
        return occupancy_policy(self.occupancy(), uniform_policy(usable))

    @property
    def usable_table(self) -> Mask:
        """(S, A)."""
        return self.usable.reshape(self.task.shape)

    def occupancy(self) -> Array:
        """The weighted average of the occupancies (S, A)."""
        return np.asarray(self.d_bar.reshape(self.task.shape))

    def violation(self) -> float:
        """The 1-norm by which the average occupancy misses the balance of flows, as the samples show it."""
        return float(np.abs(self.y_bar - self.occupancy().sum(axis=1)).sum())

    def mean_payoff(self) -> Array:
        """What each pair (S, A) was paid on average, in the user's units; never drawn: the lowest payoff."""
        return np.asarray(self.low + self.scale * self.paid / np.maximum(self.drawn, 1)).reshape(self.task.shape)

    def multipliers(self) -> Array:
        """The multipliers (S,) in the user's units; the sweeps know them up to a constant, which the average gives."""
        d, discount = self.occupancy(), self.task.discount
        adjusted = self.mean_payoff()
        for weight, risk in self.task.problem.terms:
            slope = subgradient_of(weight, risk, 1).at(np.maximum(d, 1e-6 / self.pairs), d, 0.0, 0)
            adjusted = adjusted - (1 - discount) * weight * slope
        worth = float(np.sum(d * adjusted)) / (1 - discount)
        return self.scale * self.v_bar + worth - self.scale * float(self.xi @ self.v_bar)

    def critic(self, multipliers: Array) -> Array:
        """E[payoff + gamma * multipliers(s')] per pair (S*A,), as the sweeps have learned it."""
        shift = float(multipliers[0] - self.scale * self.v_bar[0])
        return self.low + self.scale * self.q_bar + self.task.discount * shift

    def risks_below(self) -> AffineLowerBound | None:
        """An affine function below the risks that touches them at the average occupancy, or nearly."""
        d, problem = np.maximum(self.occupancy(), 1e-6 / self.pairs), self.task.problem
        witnesses = {id(term.risk): term.witness(d, self.usable_table) for term in self.subgradients}
        return affine_lower_bound(
            self.task, problem.terms, [witnesses.get(id(risk)) for _, risk in problem.terms], self.usable_table
        )

    def storage(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Also what the subgradients keep."""
        header, arrays = super().storage()
        return header, arrays | {f"slope{k}": term.memory.copy() for k, term in enumerate(self.subgradients)}

    def restore(self, header: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Also what the subgradients keep."""
        super().restore(header, arrays)
        for k, term in enumerate(self.subgradients):
            term.memory = arrays[f"slope{k}"].copy()


def _in_closed_form(risk: Risk) -> TypeGuard[EntropicRisk]:
    """Divergences on pairs."""
    return isinstance(risk, EntropicRisk) and not risk.on_states
