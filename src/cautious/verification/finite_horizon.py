"""A number of steps T in exact arithmetic: which pairs can be used when, what no policy earns, where a policy goes.

For any multipliers v (T, S), with v_T = 0, the discounted return of T steps is at most

    <start, v_0> + sum_t gamma^t max over the pairs that can be used at step t of ( r + gamma E[v_{t+1}] - v_t ).

The occupancy is followed step by step,  x_0 = start / length,  x_{t+1} = gamma P' x_t,  and rounded down everywhere.
Everything that is added up is positive, so no entry exceeds the exact one; the exact ones sum to one, and therefore
what is missing from one is the distance in the 1-norm.
"""

from fractions import Fraction

import numpy as np

from cautious.arrays import Array, Mask
from cautious.verification.claim import Model
from cautious.verification.exact import Integers, bits_of, fraction, integers
from cautious.verification.flow import ExactModel, Rows, entries_of
from cautious.verification.occupancy import Occupancy
from cautious.verification.visits import MASS_BITS


class FiniteHorizon(ExactModel):
    """``active_at`` (T, S, A): the pairs of each step; only the first step counts if the discount is 0."""

    def __init__(self, model: Model, permitted: Mask) -> None:
        super().__init__(model)
        kept = _kept_over_time(model, permitted, _n_steps(model))
        self.first = kept[0]
        self.active_at = _reached_over_time(model, kept)
        self.active = np.asarray(self.active_at.any(axis=0))

    def greatest_return(self, reward: Integers, *multipliers: Array) -> Fraction:
        """See the module's text."""
        rows, total = self.rows, Fraction(0)
        after = np.zeros(self.model.shape[0], dtype=object)
        steps = []
        for t in range(len(self.active_at) - 1, -1, -1):
            v = np.sum([integers(part[t], self.bits) for part in multipliers], axis=0)
            advantages = reward + self.ahead(after) - v[rows.states]
            steps.append(fraction(int(np.max(advantages[rows.pick(self.active_at[t])])), self.bits))
            after = v
        # powers of the discount from below and from above, in units of 2^-MASS_BITS
        low = high = 1 << MASS_BITS
        numerator, denominator = self.gamma.numerator, self.gamma.denominator
        for worst in reversed(steps):
            total += worst * fraction(high if worst > 0 else low, MASS_BITS)
            low, high = low * numerator // denominator, -(-high * numerator // denominator)
        return self.start_mean(after, self.bits) + total


def occupancy_over_time(model: Model, policy: Array) -> Occupancy:
    """The occupancy of a policy (T, S, A), summed over the steps."""
    steps, length, gamma = _n_steps(model), model.length, Fraction(model.discount)
    rows = Rows(model, np.asarray(_reached_over_time(model, policy[:steps] > 0).any(axis=0)))
    start, chance_bits = integers(model.start, bits_of(model.start)), bits_of(model.probabilities)
    x = (start << MASS_BITS) * length.denominator // (int(start.sum()) * length.numerator)
    mass = np.zeros(rows.pairs.size, dtype=object)
    for table in policy[:steps]:
        shares, totals = integers(rows.pick(table), bits_of(table)), np.zeros(x.size, dtype=object)
        np.add.at(totals, rows.states, shares)
        # states in which the policy uses none of these rows are not visited
        here = x[rows.states] * shares // np.maximum(totals, 1)[rows.states]
        mass += here
        flow = (gamma.numerator * here << chance_bits) // (gamma.denominator * rows.totals)
        x = np.zeros(x.size, dtype=object)
        np.add.at(x, rows.next_states, flow[rows.owner] * rows.chances)
        x >>= chance_bits
    return Occupancy(rows, mass, MASS_BITS, 1 - fraction(int(mass.sum()), MASS_BITS))


def _n_steps(model: Model) -> int:
    """The steps that count."""
    assert isinstance(model.horizon, int)
    return model.horizon if model.discount > 0 else 1


def _kept_over_time(model: Model, permitted: Mask, steps: int) -> Mask:
    """The permitted pairs with which one can go on until the end; (T, S, A)."""
    kept = np.empty((steps, *permitted.shape), dtype=np.bool_)
    kept[-1] = permitted
    for t in range(steps - 2, -1, -1):
        stuck = ~kept[t + 1].any(axis=1)
        hits = np.concatenate([[0], np.cumsum(stuck[model.indices])])[model.indptr]
        kept[t] = permitted & (np.diff(hits) == 0).reshape(permitted.shape)
    return kept


def _reached_over_time(model: Model, pairs: Mask) -> Mask:
    """Those of the pairs (T, S, A) whose states can be visited at their step."""
    reached, visited = np.empty_like(pairs), model.start > 0
    for t, table in enumerate(pairs):
        reached[t] = table & visited[:, None]
        visited = np.zeros_like(visited)
        visited[model.indices[entries_of(model, np.flatnonzero(reached[t]))[0]]] = True
    return reached
