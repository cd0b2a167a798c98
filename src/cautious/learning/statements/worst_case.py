"""What counted transitions prove about every policy at once: its value in the worst model that agrees with them.

Rewards, a variance or CVaR at a number from a fixed grid, and the numbers of barriers and worst cases are values of a
policy. Other risks are no functions of such values: about those nothing is claimed here.

A log is no list of independent draws. Whoever made it may have chosen every action by what happened before, even have
learned from it. What is assumed is the Markov property: given everything before a row, its outcome is drawn from the
law of its pair. The confidence set holds at all times, so neither the number of rows of a pair nor the length of the
log has to be fixed beforehand. The states of the log are taken to be all there are. The same holds for the draws of a
simulator, whose numbers depend on earlier ones.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from cautious.arrays import Array, Indices, Mask
from cautious.learning.plug_in.transition_counts import Counts, triple_payments
from cautious.learning.scalar_risk_rewards import Payoff
from cautious.learning.statements.confidence_set import ConfidenceSet, Transitions, means_below
from cautious.learning.task import Task
from cautious.models.logged import LoggedMDP
from cautious.risks.features import PlannedFeatures

# of delta, for the laws of the next states; the rest is for the payments
TRANSITION_SHARE = 0.5
# steps between the values of the scalar of a variance or CVaR for which the payments are bounded
SCALAR_GRID_STEPS = 256

# pairs (m,), what they paid (m,) under a payoff, and how often (m,)
Payments = tuple[Indices, Array, Array]


@dataclass(frozen=True)
class WorstCase:
    """Bounds that hold together with probability at least 1 - ``delta``, for every policy.

    ``payments``: what was paid under a payoff.
    """

    task: Task
    counted: Transitions
    payments: Callable[[Payoff], Payments]
    delta: float

    @cached_property
    def models(self) -> ConfidenceSet:
        """The models that agree with the counts."""
        return ConfidenceSet(self.counted, TRANSITION_SHARE * self.delta)

    def on_grid(self, scalars: tuple[float, ...]) -> tuple[float, ...]:
        """The points of the grid next to the numbers of variances and CVaRs."""
        low, high = self.task.padded_range
        step = max(high - low, 1e-300) / SCALAR_GRID_STEPS
        firsts = [min(risk.number_of(low), risk.number_of(high)) for _, risk in self.task.scalars]
        return tuple(
            first + step * float(np.clip(np.round((t - first) / step), 0, SCALAR_GRID_STEPS))
            for first, t in zip(firsts, scalars, strict=True)
        )

    @cached_property
    def rewards(self) -> Array:
        """Lower bounds of the mean rewards, (S*A,)."""
        share = (1 - TRANSITION_SHARE) * self.delta
        return self._means(Payoff((), (), self.task.discount), share / 2 if self.task.scalars else share)

    def means(self, payoff: Payoff) -> Array:
        """Lower bounds of the mean payments, (S*A,); the numbers of the payoff must be ``on_grid``."""
        if not payoff.scalars:
            return self.rewards
        points = (SCALAR_GRID_STEPS + 1) ** len(payoff.scalars)
        return self._means(payoff, (1 - TRANSITION_SHARE) * self.delta / 2 / points)

    def _means(self, payoff: Payoff, delta: float) -> Array:
        ends = payoff.range(*self.task.padded_range)
        found = means_below(self.task.allowed.size, *self.payments(payoff), ends, delta)
        # known states are ends of episodes, which pay nothing
        return np.where(np.repeat(self.counted.known, self.task.shape[1]), float(payoff(np.zeros(1))[0]), found)

    def means_above(self, payoff: Payoff, delta: float) -> Array:
        """Numbers (S*A,) that the mean payments exceed with probability at most delta, for one payoff fixed before."""
        low, high = payoff.range(*self.task.padded_range)
        pairs, paid, count = self.payments(payoff)
        return -means_below(self.task.allowed.size, pairs, -paid, count, (-high, -low), delta)

    def values_below(self, policy: Array, paid: Array, least: float) -> Array:
        """What the policy (S, A) earns at least from each state (S,); ``least``: the smallest payment there is."""
        models = self.models.used_by(policy)
        v = models.evaluate(policy, paid)
        return np.maximum(v + models.excess(policy, paid, v), least / (1 - self.task.discount))

    def value_below(self, policy: Array, paid: Array, least: float) -> float:
        """The same from the start distribution."""
        return float(self.counted.start @ self.values_below(policy, paid, least))

    def return_below(self, policy: Array) -> float:
        """The true expected return of the policy is above this."""
        return self.value_below(policy, self.rewards, self.task.padded_range[0])

    def objective_below(self, policy: Array | None, scalars: tuple[float, ...]) -> float:
        """The true objective of the policy is above this; minus infinity where nothing is known about it.

        ``scalars``: the numbers of variances and CVaRs, on the grid. Without a policy: what holds for every policy.
        """
        payoff = Payoff(self.task.scalars, scalars, self.task.discount)
        least = payoff.range(*self.task.padded_range)[0]
        horizon = 1 / (1 - self.task.discount)
        bound = horizon * least if policy is None else self.value_below(policy, self.means(payoff), least)
        for weight, risk in self.task.known_terms:
            if not isinstance(risk, PlannedFeatures):
                return -np.inf
            # bounds from below: numbers with which the risk rises are given with their sign turned
            found = []
            for number in -risk.sign * risk.features.toarray():
                lowest = float(number.min())
                found.append(lowest if policy is None else self.value_below(policy, number, lowest) / horizon)
            bound -= weight * risk.outer(-risk.sign * np.array(found))
        return float(bound - payoff.offset)


def stress_facts(objective: float, expected_return: float) -> dict[str, Any]:
    """What the worst model makes of a policy, for a certificate; of its return where nothing is known of the rest."""
    if np.isfinite(objective):
        return {"stress": objective, "stress of": "objective"}
    return {"stress": expected_return, "stress of": "expected return"}


def worst_case_of_log(task: Task, logged: LoggedMDP, delta: float) -> WorstCase:
    """What the rows of a log prove."""
    layout, outcomes, log = logged.layout, logged.outcome_counts.tocoo(), logged.log
    real: Mask = np.ones(logged.n_states, dtype=np.bool_)
    if layout.untried_state is not None:
        # where untried pairs lead is an assumption of the counted model: no path of the true process is there
        real[layout.untried_state] = False
    counted = Transitions(
        shape=logged.shape,
        discount=logged.discount,
        start=logged.start,
        pairs=outcomes.row.astype(np.int64),
        targets=outcomes.col.astype(np.int64),
        count=outcomes.data.astype(np.float64),
        known=layout.ends,
        real=real,
    )

    def payments(payoff: Payoff) -> Payments:
        return log.pairs, payoff(log.rewards), np.ones(log.n_rows)

    return WorstCase(task, counted, payments, delta)


def worst_case_of_counts(task: Task, counts: Counts, start: Array, delta: float) -> WorstCase:
    """What the draws of a simulator prove; ``start`` (S,) is taken as it is."""
    counted = Transitions(
        shape=task.shape,
        discount=task.discount,
        start=start,
        pairs=counts.pairs,
        targets=counts.next_states,
        count=counts.count.astype(np.float64),
        known=np.zeros(task.shape[0], dtype=np.bool_),
        real=np.ones(task.shape[0], dtype=np.bool_),
    )

    def payments(payoff: Payoff) -> Payments:
        paid, n = triple_payments(counts, payoff)[0], counts.count.astype(np.float64)
        if counts.deterministic:
            return counts.pairs, paid, n
        # an average of unknown payments: the bound is lowest if each of them was at one of the ends
        low, high = payoff.range(*task.padded_range)
        share = np.clip((paid - low) / max(high - low, 1e-300), 0.0, 1.0)
        ends = np.repeat([high, low], n.size)
        return np.tile(counts.pairs, 2), ends, np.concatenate([n * share, n * (1 - share)])

    return WorstCase(task, counted, payments, delta)
