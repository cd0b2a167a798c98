"""The total until the end, undiscounted, in exact arithmetic: what is an end, what no policy earns, how often it goes.

A state is an end if nothing is paid there and it cannot be left, but for other such states. Only policies that come to
an end with certainty count. They use no pairs but those that lead to states from which the end can still be reached.
Their visits are finite, and what is left of multipliers v, which are zero at the end, vanishes: if

    r + E[v] - v <= 0    for all these pairs,

then no policy earns more than <start, v>. Nothing bounds the visits of all policies, so that a positive entry, however
small, proves nothing.
"""

from math import inf

import numpy as np

from cautious.arrays import Array, Mask
from cautious.verification.average import strong_components
from cautious.verification.claim import Model
from cautious.verification.exact import Integers, Number, bits_of, integers
from cautious.verification.flow import ExactModel, Rows, entries_of, reachable
from cautious.verification.occupancy import Occupancy
from cautious.verification.visits import MASS_BITS, PolicyChain


class Total(ExactModel):
    """The active pairs are those of policies that end with certainty, before the end."""

    def __init__(self, model: Model, permitted: Mask) -> None:
        super().__init__(model)
        self.ended = ended_states(model)
        kept = _ending(model, permitted & ~self.ended[:, None], self.ended)
        # a path that starts in an ended state needs no pairs
        self.first = kept | self.ended[:, None]
        self.active = kept & reachable(model, kept)[:, None]

    def greatest_return(self, reward: Integers, *multipliers: Array) -> Number:
        """See the module's text; infinite without a proof."""
        v = np.sum([integers(part, self.bits) for part in multipliers], axis=0)
        v[self.ended] = 0
        if np.any(reward + self.ahead(v) - v[self.rows.states] > 0):
            return inf
        return self.start_mean(v, self.bits)


def ended_states(model: Model) -> Mask:
    """The states (S,) that are an end: classes that no allowed pair leaves and no pair pays in."""
    rows = np.flatnonzero(model.allowed)
    label, states = strong_components(model, rows), rows // model.shape[1]
    entries, _, owner = entries_of(model, rows)
    pays = model.rewards.ravel()[rows] != 0
    if model.outcome_rewards is not None:
        pays = np.zeros(rows.size, dtype=np.bool_)
        pays[owner[model.outcome_rewards[entries] != 0]] = True
    goes_on = np.zeros(label.size, dtype=np.bool_)
    goes_on[label[states[pays]]] = True
    own = label[states[owner]]
    goes_on[own[label[model.indices[entries]] != own]] = True
    return np.asarray(~goes_on[label])


def _ending(model: Model, pairs: Mask, ended: Mask) -> Mask:
    """Those of the pairs (S, A) after which the end can always still be reached with such pairs."""
    kept = pairs
    while True:
        good = ended.copy()
        rows = np.flatnonzero(kept)
        entries, _, owner = entries_of(model, rows)
        # backwards from the end: states with a pair that may lead to a state found so far
        while True:
            leads = np.zeros(rows.size, dtype=np.bool_)
            leads[owner[good[model.indices[entries]]]] = True
            new = np.zeros_like(good)
            new[rows[leads] // model.shape[1]] = True
            if not np.any(new & ~good):
                break
            good |= new
        bad = np.zeros(rows.size, dtype=np.bool_)
        bad[owner[~good[model.indices[entries]]]] = True
        if not bad.any():
            return np.asarray(kept & good[:, None])
        kept = kept.copy()
        kept.ravel()[rows[bad]] = False


def visits_until_end(model: Model, policy: Array) -> Occupancy | None:
    """The expected visits of a policy (S, A) before the end; None if it is not proved to end with certainty."""
    used = policy > 0
    here = reachable(model, used) & ~ended_states(model)
    rows = Rows(model, used & here[:, None])
    chain = PolicyChain(rows, policy, here)
    if chain.steps is None:
        return None
    start = integers(model.start, bits_of(model.start))
    found = chain.visits(np.where(here, (start << MASS_BITS) // int(start.sum()), 0), chain.steps)
    return Occupancy(rows, chain.mass(found.states), MASS_BITS, found.distance)
